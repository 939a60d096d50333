//! A page of both logs of a tenant, newest first.
//!
//! Each log is scanned downwards by sequence number, and the two are merged by time. The end of a
//! page is a sequence number for each log. The next page continues exactly there, even if records
//! were written or pruned in the meantime. The sequence number is the only index, because records
//! are written with every request and rarely searched. A scan with few matches is therefore bounded
//! and continues on the next page.

use std::collections::VecDeque;

use crate::{
    Error, Timestamp, Vault,
    audit::{LogKind, LogRecord, RecordFilter, ScanRecords, ScannedRecords},
    policy::Caller,
    types::Permission,
    work_meter::yield_now,
};

/// The maximum number of records scanned for one page.
const ROWS_MAX: usize = 50_000;
/// The maximum number of records per scan, before other requests run.
const ROWS_PER_SCAN_MAX: usize = 1000;

/// How far below a record the other log must be scanned before the record is known to be the next.
/// The order of a page must not depend on the end of a scan, and times are not strictly in order.
const MERGE_WINDOW_MS: i64 = 10_000;

/// One sequence number for each log, in the order of [`LogKind::ALL`]. A page starts below it.
pub(crate) type LogPositions = [i64; 2];

pub(crate) const NEWEST_POSITIONS: LogPositions = [i64::MAX; 2];

/// The records of a page, and the next positions.
pub(crate) struct FilledLogPage {
    pub(crate) records: Vec<(LogKind, LogRecord)>,
    /// `None` when there are no more records.
    pub(crate) next_positions: Option<LogPositions>,
}

/// A filter, the positions to start at, and the number of matches to skip.
pub(crate) struct LogPageRequest<'a> {
    pub(crate) filter: &'a RecordFilter,
    pub(crate) start: LogPositions,
    pub(crate) skip: usize,
    pub(crate) size: usize,
}

/// Scans both logs until the page is full or [`ROWS_MAX`] records were scanned.
pub(crate) async fn fill_log_page(
    vault: &Vault,
    caller: &Caller,
    request: LogPageRequest<'_>,
) -> Result<FilledLogPage, Error> {
    let [audit_start, read_start] = request.start;
    let mut merge = LogMerge {
        cursors: [
            LogCursor::new(LogKind::Audit, audit_start),
            LogCursor::new(LogKind::Read, read_start),
        ],
    };
    let (mut records, mut skipped, mut rows_remaining) = (Vec::new(), 0, ROWS_MAX);
    let mut scan_rows = request.size.saturating_add(1);
    loop {
        while let Some(cursor) = merge.next() {
            // Read one record more than the page size, to know whether there is a next page.
            if records.len() >= request.size {
                return Ok(FilledLogPage { records, next_positions: Some(merge.positions()) });
            }
            let Some(record) = cursor.buffered.pop_front() else { break };
            if skipped < request.skip {
                skipped = skipped.saturating_add(1);
            } else {
                records.push((cursor.log, record));
            }
        }
        let Some(cursor) = merge.next_to_scan() else {
            return Ok(FilledLogPage { records, next_positions: None });
        };
        if rows_remaining == 0 {
            return Ok(FilledLogPage { records, next_positions: Some(merge.positions()) });
        }
        let rows_max = scan_rows.min(rows_remaining);
        let filter = request.filter.clone();
        let scan = ScanRecords { log: cursor.log, before: cursor.before, filter, rows_max };
        let lookup = caller.permit_lookup(Permission::LogRead)?;
        let scanned = vault.store.scan_records(lookup, scan).await?;
        // An empty scan counts as one row, so that the loop ends.
        rows_remaining = rows_remaining.saturating_sub(scanned.scanned.max(1));
        cursor.add_scanned(scanned);
        yield_now().await;
        scan_rows = scan_rows.saturating_mul(2).min(ROWS_PER_SCAN_MAX);
    }
}

/// The state of the scan of one log.
struct LogCursor {
    log: LogKind,
    buffered: VecDeque<LogRecord>,
    /// The next scan starts below this sequence number.
    before: i64,
    last_scanned_at: Option<Timestamp>,
    is_done: bool,
}

impl LogCursor {
    fn new(log: LogKind, before: i64) -> Self {
        Self { log, buffered: VecDeque::new(), before, last_scanned_at: None, is_done: before <= 1 }
    }

    fn add_scanned(&mut self, scanned: ScannedRecords) {
        self.buffered.extend(scanned.records);
        match scanned.last_scanned {
            Some((sequence, at)) => (self.before, self.last_scanned_at) = (sequence, Some(at)),
            None => (self.before, self.is_done) = (1, true),
        }
    }

    /// Whether all remaining records of this log are older than this time.
    fn has_passed(&self, at: Timestamp) -> bool {
        let is_older = |it: Timestamp| it.unix_ms.saturating_add(MERGE_WINDOW_MS) < at.unix_ms;
        self.is_done || self.last_scanned_at.is_some_and(is_older)
    }

    fn position(&self) -> i64 {
        self.buffered.front().map_or(self.before, |it| it.sequence.saturating_add(1))
    }
}

/// Merges the records of both logs by time, newest first.
struct LogMerge {
    cursors: [LogCursor; 2],
}

impl LogMerge {
    /// The log with the next record; `None` if a log must be scanned further to decide.
    fn next(&mut self) -> Option<&mut LogCursor> {
        let [audit, read] = &mut self.cursors;
        match (audit.buffered.front(), read.buffered.front()) {
            (Some(first), Some(second)) if first.at >= second.at => Some(audit),
            (Some(_), Some(_)) => Some(read),
            (Some(first), None) => read.has_passed(first.at).then_some(audit),
            (None, Some(second)) => audit.has_passed(second.at).then_some(read),
            (None, None) => None,
        }
    }

    /// The log to scan next: of the logs without buffered records, the one that was scanned less
    /// far back.
    fn next_to_scan(&mut self) -> Option<&mut LogCursor> {
        let unfinished = self.cursors.iter_mut().filter(|it| !it.is_done && it.buffered.is_empty());
        unfinished.max_by_key(|it| it.last_scanned_at.map_or(i64::MAX, |it| it.unix_ms))
    }

    fn positions(&self) -> LogPositions {
        let [audit, read] = &self.cursors;
        [audit.position(), read.position()]
    }
}
