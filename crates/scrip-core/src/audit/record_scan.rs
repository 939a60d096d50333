//! What a list of records asks of a store: which of a chain's records, and from where on.

use crate::{
    audit::{EntityType, LogKind, LogRecord, LogRow, Operation},
    id::ApplicationId,
    time::Timestamp,
};

/// Which records. All that is said must hold.
#[derive(Debug, Clone, Default)]
pub struct RecordFilter {
    pub entity_type: Option<EntityType>,
    pub entity: Option<String>,
    pub operation: Option<Operation>,
    pub outcome: Option<&'static str>,
    pub actor: Option<ApplicationId>,
    /// Not before this.
    pub from: Option<Timestamp>,
    /// Before this.
    pub to: Option<Timestamp>,
    /// Leaves out records of pages of the log that were read.
    pub without_log_reads: bool,
}

impl RecordFilter {
    #[must_use]
    pub fn matches(&self, row: &LogRow<'_>) -> bool {
        let of_type = |it| Operation::parse(row.operation).and_then(Operation::entity_type) == it;
        self.from.is_none_or(|it| row.at >= it)
            && self.to.is_none_or(|it| row.at < it)
            && self.entity.as_ref().is_none_or(|it| row.entity == it)
            && self.entity_type.is_none_or(|it| of_type(Some(it)))
            && self.operation.is_none_or(|it| row.operation == it.as_str())
            && self.outcome.is_none_or(|it| row.outcome == it)
            && self.actor.is_none_or(|it| row.actor == Some(it))
            && !(self.without_log_reads
                && row.operation == Operation::ListLogs.as_str()
                && row.outcome == "read")
    }
}

/// How far the times of a chain's records are out of order at most. A record has the time of its
/// request, and its number only when it is written, behind whatever waited before it.
pub const TIME_DISORDER_MAX_MS: i64 = 5 * 60 * 1000;

/// One step down a chain.
#[derive(Debug, Clone)]
pub struct ScanRecords {
    pub log: LogKind,
    /// Below this number.
    pub before: i64,
    pub filter: RecordFilter,
    pub rows_max: usize,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct ScannedRecords {
    /// Those that meet the filter, the newest first.
    pub records: Vec<LogRecord>,
    /// How many were looked at.
    pub scanned: usize,
    /// The last that was looked at, and when it was made; nothing at the end of the chain.
    pub last_scanned: Option<(i64, Timestamp)>,
}
