//! A chain walked down from its end, for lists. Times nearly grow with numbers, so those that a
//! filter is about are found by halving; what lies near its ends is looked at one by one.

use std::ops::Range;

use scrip_core::{
    audit::{WalkRecords, Walked, walk::DISORDER_MS},
    id::TenantId,
    store::StoreError,
};

use crate::{
    rules::audit::log::{ChainStatements, log_row},
    sql::{ColumnReader, Statements, optional, parameters, required},
};

/// Whose chain is walked, and by which statements.
#[derive(Clone, Copy)]
struct Chain<'a> {
    statements: &'a ChainStatements,
    tenant: TenantId,
}

/// In a transaction that sees one instant.
pub(crate) async fn walk_records(
    client: &impl Statements,
    statements: &ChainStatements,
    tenant: TenantId,
    walk: &WalkRecords,
) -> Result<Walked, StoreError> {
    let chain = Chain { statements, tenant };
    let Some(numbers) = find_numbers(client, chain, walk).await? else {
        return Ok(Walked::default());
    };
    let record = |row: &dyn ColumnReader| {
        let row = log_row(row)?;
        Ok(((row.n, row.at), walk.filter.is_met(&row).then(|| row.to_record())))
    };
    let parameters = parameters![tenant, numbers.start, numbers.end, walk.rows_max];
    let rows = client.query(statements.walk_records, &parameters, record).await?;
    let looked = rows.len();
    let rest = rows.last().map(|(place, _)| *place).filter(|_| looked >= walk.rows_max);
    let found = rows.into_iter().filter_map(|(_, record)| record).collect();
    Ok(Walked { found, looked, rest })
}

/// The numbers of the records that can meet the filter; nothing for an empty chain.
async fn find_numbers(
    client: &impl Statements,
    chain: Chain<'_>,
    walk: &WalkRecords,
) -> Result<Option<Range<i64>>, StoreError> {
    let ends = |row: &dyn ColumnReader| Ok((optional(row, 0)?, optional(row, 1)?));
    let ends = client.find(chain.statements.find_ends, &parameters![chain.tenant], ends).await?;
    let Some((Some(first), Some(last))) = ends else { return Ok(None) };
    let last: i64 = last;
    let (mut start, mut end) = (first, last.saturating_add(1).min(walk.before));
    if let Some(to) = walk.filter.to {
        // Above a record that is later by more than their disorder all are too late.
        let late = to.unix_ms.saturating_add(DISORDER_MS);
        end = halve(client, chain, start..end, |it| it.earliest >= late).await?;
    }
    if let Some(from) = walk.filter.from {
        // And below one that is so much earlier all are too early.
        let early = from.unix_ms.saturating_sub(DISORDER_MS);
        start = halve(client, chain, start..end, |it| it.latest >= early).await?;
    }
    Ok(Some(start..end))
}

/// Where what is asked becomes true: true at the number that comes back, unless that is the end,
/// and false at the one before, unless it is the start.
async fn halve(
    client: &impl Statements,
    chain: Chain<'_>,
    mut numbers: Range<i64>,
    is_true: impl Fn(Times) -> bool,
) -> Result<i64, StoreError> {
    while numbers.start < numbers.end {
        let half = numbers.end.saturating_sub(numbers.start) / 2;
        let middle = numbers.start.saturating_add(half);
        if is_true(find_times(client, chain, middle).await?) {
            numbers.end = middle;
        } else {
            numbers.start = middle.saturating_add(1);
        }
    }
    Ok(numbers.start)
}

/// Of some records that follow each other.
struct Times {
    earliest: i64,
    latest: i64,
}

/// An operator's command brings the clock of its own, so one record alone is not believed.
const NEIGHBOURS: i64 = 8;

async fn find_times(
    client: &impl Statements,
    chain: Chain<'_>,
    n: i64,
) -> Result<Times, StoreError> {
    let times = |row: &dyn ColumnReader| {
        Ok(Times { earliest: required(row, 0)?, latest: required(row, 1)? })
    };
    let parameters = parameters![chain.tenant, n, NEIGHBOURS];
    let found = client.find(chain.statements.find_times, &parameters, times).await?;
    found.ok_or(StoreError::Corrupt("a chain has no record where it had one"))
}
