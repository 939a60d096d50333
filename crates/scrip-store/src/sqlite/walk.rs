//! A chain walked down from its end, for lists. Times nearly grow with numbers, so those that a
//! filter is about are found by halving; what lies near its ends is looked at one by one.

use std::ops::Range;

use rusqlite::{Connection, OptionalExtension};
use scrip_core::{
    audit::walk::{DISORDER_MS, WalkRecords, Walked},
    id::TenantId,
    store::StoreError,
};

use crate::sqlite::{
    audit::{log_row, record_columns},
    fault,
};

const WALK_RECORDS: &str = concat!(
    "-- walk_records\nSELECT ",
    record_columns!(),
    " WHERE tenant = ?1 AND n >= ?2 AND n < ?3 ORDER BY n DESC LIMIT ?4"
);

pub(super) fn walk_records(
    connection: &Connection,
    tenant: TenantId,
    walk: &WalkRecords,
) -> Result<Walked, StoreError> {
    // Ends when dropped: there is nothing to commit.
    let _snapshot = connection.unchecked_transaction().map_err(fault)?;
    let Some(numbers) = numbers(connection, tenant, walk)? else { return Ok(Walked::default()) };
    let mut statement = connection.prepare_cached(WALK_RECORDS).map_err(fault)?;
    let at_most = i64::try_from(walk.rows_max).unwrap_or(i64::MAX);
    let parameters = (tenant.0.as_bytes(), numbers.start, numbers.end, at_most);
    let mut rows = statement.query(parameters).map_err(fault)?;
    let mut walked = Walked::default();
    while let Some(row) = rows.next().map_err(fault)? {
        let row = log_row(row).map_err(fault)?;
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

const FIND_LAST: &str = "
-- find_last
SELECT n FROM audit WHERE tenant = ?1 ORDER BY n DESC LIMIT 1";
const FIND_FIRST: &str = "
-- find_first
SELECT n FROM audit WHERE tenant = ?1 ORDER BY n LIMIT 1";

/// The numbers of the records that can meet the filter; nothing for an empty chain.
fn numbers(
    connection: &Connection,
    tenant: TenantId,
    walk: &WalkRecords,
) -> Result<Option<Range<i64>>, StoreError> {
    let find = |sql| {
        let mut statement = connection.prepare_cached(sql).map_err(fault)?;
        statement
            .query_row([tenant.0.as_bytes()], |row| row.get::<_, i64>(0))
            .optional()
            .map_err(fault)
    };
    let (Some(first), Some(last)) = (find(FIND_FIRST)?, find(FIND_LAST)?) else {
        return Ok(None);
    };
    let (mut start, mut end) = (first, last.saturating_add(1).min(walk.before));
    if let Some(to) = walk.filter.to {
        // Above a record that is later by more than their disorder all are too late.
        let late = to.unix_ms.saturating_add(DISORDER_MS);
        end = halve(start..end, |n| Ok(times(connection, tenant, n)?.0 >= late))?;
    }
    if let Some(from) = walk.filter.from {
        // And below one that is so much earlier all are too early.
        let early = from.unix_ms.saturating_sub(DISORDER_MS);
        start = halve(start..end, |n| Ok(times(connection, tenant, n)?.1 >= early))?;
    }
    Ok(Some(start..end))
}

/// Where what is asked becomes true: true at the number that comes back, unless that is the end,
/// and false at the one before, unless it is the start.
fn halve(
    mut numbers: Range<i64>,
    is_true: impl Fn(i64) -> Result<bool, StoreError>,
) -> Result<i64, StoreError> {
    while numbers.start < numbers.end {
        let half = numbers.end.saturating_sub(numbers.start) / 2;
        let middle = numbers.start.saturating_add(half);
        if is_true(middle)? {
            numbers.end = middle;
        } else {
            numbers.start = middle.saturating_add(1);
        }
    }
    Ok(numbers.start)
}

const FIND_TIMES: &str = "
-- find_times
SELECT min(at), max(at) FROM (SELECT at FROM audit WHERE tenant = ?1 AND n >= ?2 ORDER BY n LIMIT ?3)";

/// An operator's command brings the clock of its own, so one record alone is not believed.
const NEIGHBOURS: i64 = 8;

/// The earliest and the latest of the records from this number on.
fn times(connection: &Connection, tenant: TenantId, n: i64) -> Result<(i64, i64), StoreError> {
    let mut statement = connection.prepare_cached(FIND_TIMES).map_err(fault)?;
    let parameters = (tenant.0.as_bytes(), n, NEIGHBOURS);
    let times = statement.query_row(parameters, |row| Ok((row.get(0)?, row.get(1)?)));
    times.map_err(fault)
}
