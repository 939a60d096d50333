//! A page of what was recorded: both logs of a tenant, the newest first.
//!
//! Each log is walked down by its numbers, and the two are merged by time. Where a page ends is a
//! number for each log, so that a list goes on exactly there, whatever is recorded or pruned
//! meanwhile. There is no index but the number: records are written with every request, and are
//! seldom looked for; so a walk that finds little is bounded, and goes on at the next page.

use std::collections::VecDeque;

use crate::{
    Error, Timestamp, Vault,
    audit::{Log, LogRecord, RecordFilter, WalkRecords, Walked},
    operations::give_way,
    policy::{Caller, Permission},
};

/// Records that are looked at for one page.
const ROWS_MAX: usize = 50_000;
/// And at once, before others get their turn.
const ROWS_AT_ONCE_MAX: usize = 1000;

/// How far below a record the other log must have been looked at before it is known to be next.
/// The order of a page must not depend on where a step ended, and times are not quite in order.
const MERGE_MS: i64 = 10_000;

/// Where each log goes on: below this number, in the order of [`Log::ALL`].
pub(crate) type Positions = [i64; 2];

pub(crate) const FROM_THE_TOP: Positions = [i64::MAX; 2];

/// Records that were found, and where to go on.
pub(crate) struct Filled {
    pub(crate) records: Vec<(Log, LogRecord)>,
    /// Nothing when there are no more.
    pub(crate) rest: Option<Positions>,
}

/// Some records that meet the filter, after so many that are passed over.
pub(crate) struct Wanted<'a> {
    pub(crate) filter: &'a RecordFilter,
    pub(crate) from: Positions,
    pub(crate) pass_over: usize,
    pub(crate) size: usize,
}

/// # Errors
/// The store did not answer.
pub(crate) async fn fill(
    vault: &Vault,
    caller: &Caller,
    wanted: Wanted<'_>,
) -> Result<Filled, Error> {
    let [audit, access] = wanted.from;
    let mut merge = Merge { sides: [Side::new(Log::Audit, audit), Side::new(Log::Access, access)] };
    let (mut records, mut passed, mut left) = (Vec::new(), 0, ROWS_MAX);
    let mut at_once = wanted.size.saturating_add(1);
    loop {
        while let Some(side) = merge.next() {
            // One more than the page has: whether there is a next one is part of the answer.
            if records.len() >= wanted.size {
                return Ok(Filled { records, rest: Some(merge.positions()) });
            }
            let Some(record) = side.found.pop_front() else { break };
            if passed < wanted.pass_over {
                passed = passed.saturating_add(1);
            } else {
                records.push((side.log, record));
            }
        }
        let Some(side) = merge.behind() else { return Ok(Filled { records, rest: None }) };
        if left == 0 {
            return Ok(Filled { records, rest: Some(merge.positions()) });
        }
        let rows_max = at_once.min(left);
        let filter = wanted.filter.clone();
        let walk = WalkRecords { log: side.log, before: side.before, filter, rows_max };
        let inquiry = caller.inquire(Permission::LogRead)?;
        let walked = vault.store.walk_records(inquiry, walk).await?;
        // Where nothing is left, to have looked still took its time.
        left = left.saturating_sub(walked.looked.max(1));
        side.take(walked);
        give_way().await;
        at_once = at_once.saturating_mul(2).min(ROWS_AT_ONCE_MAX);
    }
}

/// One log on its way down.
struct Side {
    log: Log,
    found: VecDeque<LogRecord>,
    /// Where to look next, and when the record was made that was looked at last.
    before: i64,
    seen: Option<Timestamp>,
    is_done: bool,
}

impl Side {
    fn new(log: Log, before: i64) -> Self {
        Self { log, found: VecDeque::new(), before, seen: None, is_done: before <= 1 }
    }

    fn take(&mut self, walked: Walked) {
        self.found.extend(walked.found);
        match walked.rest {
            Some((n, at)) => (self.before, self.seen) = (n, Some(at)),
            None => (self.before, self.is_done) = (1, true),
        }
    }

    /// Whether nothing of it can come before a record of this time.
    fn is_below(&self, at: Timestamp) -> bool {
        let below = |it: Timestamp| it.unix_ms.saturating_add(MERGE_MS) < at.unix_ms;
        self.is_done || self.seen.is_some_and(below)
    }

    fn position(&self) -> i64 {
        self.found.front().map_or(self.before, |it| it.n.saturating_add(1))
    }
}

struct Merge {
    sides: [Side; 2],
}

impl Merge {
    /// The log that has the next record, when it is known which that is.
    fn next(&mut self) -> Option<&mut Side> {
        let [audit, access] = &mut self.sides;
        match (audit.found.front(), access.found.front()) {
            (Some(first), Some(second)) if first.at >= second.at => Some(audit),
            (Some(_), Some(_)) => Some(access),
            (Some(first), None) => access.is_below(first.at).then_some(audit),
            (None, Some(second)) => audit.is_below(second.at).then_some(access),
            (None, None) => None,
        }
    }

    /// The log to look further in: of those of which nothing is at hand, the one that was not
    /// looked at as far back.
    fn behind(&mut self) -> Option<&mut Side> {
        let open = self.sides.iter_mut().filter(|it| !it.is_done && it.found.is_empty());
        open.max_by_key(|it| it.seen.map_or(i64::MAX, |it| it.unix_ms))
    }

    fn positions(&self) -> Positions {
        let [audit, access] = &self.sides;
        [audit.position(), access.position()]
    }
}
