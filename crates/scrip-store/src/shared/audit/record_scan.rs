//! A chain walked down from its end, for lists. Times nearly grow with numbers, so those that a
//! filter is about are found by halving; what lies near its ends is looked at one by one.

use std::ops::Range;

use scrip_core::{
    audit::{ScanRecords, ScannedRecords, record_scan::TIME_DISORDER_MAX_MS},
    id::TenantId,
    store::StoreError,
};

use crate::{
    shared::audit::log::{ChainStatements, decode_log_row},
    sql::{ColumnReader, Statements, optional, parameters, required},
};

/// Whose chain is walked, and by which statements.
#[derive(Clone, Copy)]
struct Chain<'a> {
    statements: &'a ChainStatements,
    tenant: TenantId,
}

/// In a transaction that sees one instant.
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
    let record = |row: &dyn ColumnReader| {
        let row = decode_log_row(row)?;
        Ok(((row.sequence, row.at), scan.filter.matches(&row).then(|| row.to_record())))
    };
    let parameters = parameters![tenant, numbers.start, numbers.end, scan.rows_max];
    let rows = client.query(statements.scan_records, &parameters, record).await?;
    let looked = rows.len();
    let rest = rows.last().map(|(place, _)| *place).filter(|_| looked >= scan.rows_max);
    let found = rows.into_iter().filter_map(|(_, record)| record).collect();
    Ok(ScannedRecords { records: found, scanned: looked, last_scanned: rest })
}

/// The numbers of the records that can meet the filter; nothing for an empty chain.
async fn find_number_range(
    client: &impl Statements,
    chain: Chain<'_>,
    scan: &ScanRecords,
) -> Result<Option<Range<i64>>, StoreError> {
    let ends = |row: &dyn ColumnReader| Ok((optional(row, 0)?, optional(row, 1)?));
    let ends =
        client.find(chain.statements.find_first_and_last, &parameters![chain.tenant], ends).await?;
    let Some((Some(first), Some(last))) = ends else { return Ok(None) };
    let last: i64 = last;
    let (mut start, mut end) = (first, last.saturating_add(1).min(scan.before));
    if let Some(to) = scan.filter.to {
        // Above a record that is later by more than their disorder all are too late.
        let late = to.unix_ms.saturating_add(TIME_DISORDER_MAX_MS);
        end = binary_search(client, chain, start..end, |it| it.earliest >= late).await?;
    }
    if let Some(from) = scan.filter.from {
        // And below one that is so much earlier all are too early.
        let early = from.unix_ms.saturating_sub(TIME_DISORDER_MAX_MS);
        start = binary_search(client, chain, start..end, |it| it.latest >= early).await?;
    }
    Ok(Some(start..end))
}

/// Where what is asked becomes true: true at the number that comes back, unless that is the end,
/// and false at the one before, unless it is the start.
async fn binary_search(
    client: &impl Statements,
    chain: Chain<'_>,
    mut numbers: Range<i64>,
    is_true: impl Fn(TimeRange) -> bool,
) -> Result<i64, StoreError> {
    while numbers.start < numbers.end {
        let half = numbers.end.saturating_sub(numbers.start) / 2;
        let middle = numbers.start.saturating_add(half);
        if is_true(find_time_range(client, chain, middle).await?) {
            numbers.end = middle;
        } else {
            numbers.start = middle.saturating_add(1);
        }
    }
    Ok(numbers.start)
}

/// Of some records that follow each other.
struct TimeRange {
    earliest: i64,
    latest: i64,
}

/// An operator's command brings the clock of its own, so one record alone is not believed.
const SAMPLED_RECORDS: i64 = 8;

async fn find_time_range(
    client: &impl Statements,
    chain: Chain<'_>,
    n: i64,
) -> Result<TimeRange, StoreError> {
    let times = |row: &dyn ColumnReader| {
        Ok(TimeRange { earliest: required(row, 0)?, latest: required(row, 1)? })
    };
    let parameters = parameters![chain.tenant, n, SAMPLED_RECORDS];
    let found = client.find(chain.statements.find_time_range, &parameters, times).await?;
    found.ok_or(StoreError::Corrupt("a chain has no record where it had one"))
}
