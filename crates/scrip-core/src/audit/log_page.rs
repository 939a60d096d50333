//! A page of what was recorded: both logs of a tenant, the newest first.
//!
//! Each log is walked down by its numbers, and the two are merged by time. Where a page ends is a
//! number for each log, so that a list goes on exactly there, whatever is recorded or pruned
//! meanwhile. There is no index but the number: records are written with every request, and are
//! seldom looked for; so a walk that finds little is bounded, and goes on at the next page.

use std::collections::VecDeque;

use crate::{
    Error, Timestamp, Vault,
    audit::{LogKind, LogRecord, RecordFilter, ScanRecords, ScannedRecords},
    operations::yield_now,
    policy::{Caller, Permission},
};

/// Records that are looked at for one page.
const ROWS_MAX: usize = 50_000;
/// And at once, before others get their turn.
const ROWS_PER_SCAN_MAX: usize = 1000;

/// How far below a record the other log must have been looked at before it is known to be next.
/// The order of a page must not depend on where a step ended, and times are not quite in order.
const MERGE_WINDOW_MS: i64 = 10_000;

/// Where each log goes on: below this number, in the order of [`Log::ALL`].
pub(crate) type LogPositions = [i64; 2];

pub(crate) const NEWEST_POSITIONS: LogPositions = [i64::MAX; 2];

/// Records that were found, and where to go on.
pub(crate) struct FilledLogPage {
    pub(crate) records: Vec<(LogKind, LogRecord)>,
    /// Nothing when there are no more.
    pub(crate) next_positions: Option<LogPositions>,
}

/// Some records that meet the filter, after so many that are passed over.
pub(crate) struct LogPageRequest<'a> {
    pub(crate) filter: &'a RecordFilter,
    pub(crate) start: LogPositions,
    pub(crate) skip: usize,
    pub(crate) size: usize,
}

/// # Errors
/// The store did not answer.
pub(crate) async fn fill_log_page(
    vault: &Vault,
    caller: &Caller,
    request: LogPageRequest<'_>,
) -> Result<FilledLogPage, Error> {
    let [audit, access] = request.start;
    let mut merge = LogMerge {
        cursors: [LogCursor::new(LogKind::Audit, audit), LogCursor::new(LogKind::Read, access)],
    };
    let (mut records, mut passed, mut left) = (Vec::new(), 0, ROWS_MAX);
    let mut at_once = request.size.saturating_add(1);
    loop {
        while let Some(side) = merge.next() {
            // One more than the page has: whether there is a next one is part of the answer.
            if records.len() >= request.size {
                return Ok(FilledLogPage { records, next_positions: Some(merge.positions()) });
            }
            let Some(record) = side.found.pop_front() else { break };
            if passed < request.skip {
                passed = passed.saturating_add(1);
            } else {
                records.push((side.log, record));
            }
        }
        let Some(side) = merge.next_to_scan() else {
            return Ok(FilledLogPage { records, next_positions: None });
        };
        if left == 0 {
            return Ok(FilledLogPage { records, next_positions: Some(merge.positions()) });
        }
        let rows_max = at_once.min(left);
        let filter = request.filter.clone();
        let walk = ScanRecords { log: side.log, before: side.before, filter, rows_max };
        let lookup = caller.permit_lookup(Permission::LogRead)?;
        let walked = vault.store.scan_records(lookup, walk).await?;
        // Where nothing is left, to have looked still took its time.
        left = left.saturating_sub(walked.scanned.max(1));
        side.add_scanned(walked);
        yield_now().await;
        at_once = at_once.saturating_mul(2).min(ROWS_PER_SCAN_MAX);
    }
}

/// One log on its way down.
struct LogCursor {
    log: LogKind,
    found: VecDeque<LogRecord>,
    /// Where to look next, and when the record was made that was looked at last.
    before: i64,
    last_scanned_at: Option<Timestamp>,
    is_done: bool,
}

impl LogCursor {
    fn new(log: LogKind, before: i64) -> Self {
        Self { log, found: VecDeque::new(), before, last_scanned_at: None, is_done: before <= 1 }
    }

    fn add_scanned(&mut self, walked: ScannedRecords) {
        self.found.extend(walked.records);
        match walked.last_scanned {
            Some((n, at)) => (self.before, self.last_scanned_at) = (n, Some(at)),
            None => (self.before, self.is_done) = (1, true),
        }
    }

    /// Whether nothing of it can come before a record of this time.
    fn has_passed(&self, at: Timestamp) -> bool {
        let below = |it: Timestamp| it.unix_ms.saturating_add(MERGE_WINDOW_MS) < at.unix_ms;
        self.is_done || self.last_scanned_at.is_some_and(below)
    }

    fn position(&self) -> i64 {
        self.found.front().map_or(self.before, |it| it.sequence.saturating_add(1))
    }
}

struct LogMerge {
    cursors: [LogCursor; 2],
}

impl LogMerge {
    /// The log that has the next record, when it is known which that is.
    fn next(&mut self) -> Option<&mut LogCursor> {
        let [audit, access] = &mut self.cursors;
        match (audit.found.front(), access.found.front()) {
            (Some(first), Some(second)) if first.at >= second.at => Some(audit),
            (Some(_), Some(_)) => Some(access),
            (Some(first), None) => access.has_passed(first.at).then_some(audit),
            (None, Some(second)) => audit.has_passed(second.at).then_some(access),
            (None, None) => None,
        }
    }

    /// The log to look further in: of those of which nothing is at hand, the one that was not
    /// looked at as far back.
    fn next_to_scan(&mut self) -> Option<&mut LogCursor> {
        let open = self.cursors.iter_mut().filter(|it| !it.is_done && it.found.is_empty());
        open.max_by_key(|it| it.last_scanned_at.map_or(i64::MAX, |it| it.unix_ms))
    }

    fn positions(&self) -> LogPositions {
        let [audit, access] = &self.cursors;
        [audit.position(), access.position()]
    }
}
