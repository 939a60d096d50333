//! A chain walked down from its end, for lists. Times nearly grow with numbers, so those that a
//! filter is about are found by halving; what lies near its ends is looked at one by one.

use std::ops::Range;

use scrip_core::{
    audit::walk::{DISORDER_MS, WalkRecords, Walked},
    id::TenantId,
    store::StoreError,
};

use crate::postgres::{
    records::{log_row, record_columns},
    row::column,
    statement::{Parameters, PostgresClient, query},
};

const WALK_RECORDS: &str = concat!(
    "-- walk_records\nSELECT ",
    record_columns!(),
    " AND n >= $3 AND n < $4 ORDER BY n DESC LIMIT $5"
);

/// In a transaction that sees one instant.
pub(super) async fn walk_records(
    client: &impl PostgresClient,
    tenant: TenantId,
    walk: &WalkRecords,
) -> Result<Walked, StoreError> {
    let Some(numbers) = numbers(client, tenant, walk).await? else { return Ok(Walked::default()) };
    let most = i64::try_from(walk.rows_max).unwrap_or(i64::MAX);
    let log = walk.log.as_str();
    let parameters: Parameters<'_, 5> = [&tenant.0, &log, &numbers.start, &numbers.end, &most];
    let rows = query(client, WALK_RECORDS, &parameters).await?;
    let mut walked = Walked::default();
    for row in &rows {
        let row = log_row(row)?;
        walked.looked = walked.looked.saturating_add(1);
        walked.rest = Some((row.n, row.at));
        if walk.filter.is_met(&row) {
            walked.found.push(row.to_record());
        }
    }
    if walked.looked < walk.rows_max {
        walked.rest = None;
    }
    Ok(walked)
}

const FIND_ENDS: &str = "
-- find_ends
SELECT min(n), max(n) FROM records WHERE tenant = $1 AND log = $2";

/// The numbers of the records that can meet the filter; nothing for an empty chain.
async fn numbers(
    client: &impl PostgresClient,
    tenant: TenantId,
    walk: &WalkRecords,
) -> Result<Option<Range<i64>>, StoreError> {
    let rows = query(client, FIND_ENDS, &[&tenant.0, &walk.log.as_str()]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (Some(first), Some(last)) = (column(row, 0)?, column::<Option<i64>>(row, 1)?) else {
        return Ok(None);
    };
    let (mut start, mut end) = (first, last.saturating_add(1).min(walk.before));
    if let Some(to) = walk.filter.to {
        // Above a record that is later by more than their disorder all are too late.
        let late = to.unix_ms.saturating_add(DISORDER_MS);
        end = halve(client, (tenant, walk), start..end, |(earliest, _)| earliest >= late).await?;
    }
    if let Some(from) = walk.filter.from {
        // And below one that is so much earlier all are too early.
        let early = from.unix_ms.saturating_sub(DISORDER_MS);
        start = halve(client, (tenant, walk), start..end, |(_, latest)| latest >= early).await?;
    }
    Ok(Some(start..end))
}

/// Where what is asked becomes true: true at the number that comes back, unless that is the end,
/// and false at the one before, unless it is the start.
async fn halve(
    client: &impl PostgresClient,
    (tenant, walk): (TenantId, &WalkRecords),
    mut numbers: Range<i64>,
    is_true: impl Fn((i64, i64)) -> bool + Send,
) -> Result<i64, StoreError> {
    while numbers.start < numbers.end {
        let half = numbers.end.saturating_sub(numbers.start) / 2;
        let middle = numbers.start.saturating_add(half);
        if is_true(times(client, (tenant, walk), middle).await?) {
            numbers.end = middle;
        } else {
            numbers.start = middle.saturating_add(1);
        }
    }
    Ok(numbers.start)
}

const FIND_TIMES: &str = "
-- find_times
SELECT min(at), max(at) FROM (
    SELECT at FROM records WHERE tenant = $1 AND log = $2 AND n >= $3 ORDER BY n LIMIT $4
) AS it";

/// An operator's command brings the clock of its own, so one record alone is not believed.
const NEIGHBOURS: i64 = 8;

/// The earliest and the latest of the records from this number on.
async fn times(
    client: &impl PostgresClient,
    (tenant, walk): (TenantId, &WalkRecords),
    n: i64,
) -> Result<(i64, i64), StoreError> {
    let log = walk.log.as_str();
    let rows = query(client, FIND_TIMES, &[&tenant.0, &log, &n, &NEIGHBOURS]).await?;
    let row = rows.first().ok_or(StoreError::Corrupt("a chain has no record where it had one"))?;
    Ok((column(row, 0)?, column(row, 1)?))
}
