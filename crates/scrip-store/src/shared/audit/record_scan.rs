//! Scans a chain from its end, for lists. Times almost grow with sequence numbers, so a binary
//! search finds the records of a time filter. Records near the limits are checked one by one.

use std::ops::Range;

use scrip_core::{
    audit::{ScanRecords, ScannedRecords, record_scan::TIME_DISORDER_MAX_MS},
    types::{StoreError, id::TenantId},
};

use crate::{
    shared::audit::log::{ChainStatements, decode_log_row},
    sql::{ColumnReader, Statements, parameters, read_optional, read_required},
};

/// The tenant and the statements of a scanned chain.
#[derive(Clone, Copy)]
struct Chain<'a> {
    statements: &'a ChainStatements,
    tenant: TenantId,
}

/// Lists the records that match a filter. The caller provides one read snapshot.
pub(crate) async fn scan_records(
    client: &impl Statements,
    statements: &ChainStatements,
    tenant: TenantId,
    scan: &ScanRecords,
) -> Result<ScannedRecords, StoreError> {
    let chain = Chain { statements, tenant };
    let Some(numbers) = find_number_range(client, chain, scan).await? else {
        return Ok(ScannedRecords::default());
    };
    let decode_record = |row: &dyn ColumnReader| {
        let row = decode_log_row(row)?;
        Ok(((row.sequence, row.at), scan.filter.matches(&row).then(|| row.to_record())))
    };
    let parameters = parameters![tenant, numbers.start, numbers.end, scan.rows_max];
    let rows = client.query(&statements.scan_records, &parameters, decode_record).await?;
    let scanned = rows.len();
    let last_scanned =
        rows.last().map(|(position, _)| *position).filter(|_| scanned >= scan.rows_max);
    let records = rows.into_iter().filter_map(|(_, record)| record).collect();
    Ok(ScannedRecords { records, scanned, last_scanned })
}

/// Sequence numbers of the records that can match the filter; `None` for an empty chain.
async fn find_number_range(
    client: &impl Statements,
    chain: Chain<'_>,
    scan: &ScanRecords,
) -> Result<Option<Range<i64>>, StoreError> {
    let decode_numbers =
        |row: &dyn ColumnReader| Ok((read_optional(row, 0)?, read_optional(row, 1)?));
    let first_and_last = client
        .find(&chain.statements.find_first_and_last, &parameters![chain.tenant], decode_numbers)
        .await?;
    let Some((Some(first), Some(last))) = first_and_last else { return Ok(None) };
    let last: i64 = last;
    let (mut start, mut end) = (first, last.saturating_add(1).min(scan.before));
    if let Some(to) = scan.filter.to {
        // If a record is later than the filter by more than the maximum disorder, all records
        // after it are too late.
        let too_late = to.unix_ms.saturating_add(TIME_DISORDER_MAX_MS);
        end = binary_search(client, chain, start..end, |it| it.earliest >= too_late).await?;
    }
    if let Some(from) = scan.filter.from {
        // If a record is earlier than the filter by more than the maximum disorder, all records
        // before it are too early.
        let not_too_early = from.unix_ms.saturating_sub(TIME_DISORDER_MAX_MS);
        start = binary_search(client, chain, start..end, |it| it.latest >= not_too_early).await?;
    }
    Ok(Some(start..end))
}

/// Finds the first number for which the condition is true. The result is the end if the condition
/// is never true, and the start if it is always true.
async fn binary_search(
    client: &impl Statements,
    chain: Chain<'_>,
    mut numbers: Range<i64>,
    is_true: impl Fn(TimeRange) -> bool,
) -> Result<i64, StoreError> {
    while numbers.start < numbers.end {
        let half_length = numbers.end.saturating_sub(numbers.start) / 2;
        let middle = numbers.start.saturating_add(half_length);
        if is_true(find_time_range(client, chain, middle).await?) {
            numbers.end = middle;
        } else {
            numbers.start = middle.saturating_add(1);
        }
    }
    Ok(numbers.start)
}

/// Earliest and latest time of consecutive records.
struct TimeRange {
    earliest: i64,
    latest: i64,
}

/// Number of records per time range. Operator commands use their own clock, so the time of a single
/// record is not reliable.
const SAMPLED_RECORDS: i64 = 8;

async fn find_time_range(
    client: &impl Statements,
    chain: Chain<'_>,
    first_number: i64,
) -> Result<TimeRange, StoreError> {
    let decode_times = |row: &dyn ColumnReader| {
        Ok(TimeRange { earliest: read_required(row, 0)?, latest: read_required(row, 1)? })
    };
    let parameters = parameters![chain.tenant, first_number, SAMPLED_RECORDS];
    let time_range =
        client.find(&chain.statements.find_time_range, &parameters, decode_times).await?;
    time_range.ok_or(StoreError::Corrupt("a record of the chain disappeared during the scan"))
}
