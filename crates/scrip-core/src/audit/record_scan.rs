//! The scan of a chain's records: filter, start and result.

use crate::{
    Timestamp,
    audit::{LogKind, LogRecord, LogRow},
    types::{
        EntityType, Operation,
        id::{ApiKeyId, ApplicationId},
    },
};

/// A filter of records. All given attributes must match.
#[derive(Debug, Clone, Default)]
pub struct RecordFilter {
    pub entity_type: Option<EntityType>,
    pub entity: Option<String>,
    pub operation: Option<Operation>,
    pub outcome: Option<&'static str>,
    pub actor: Option<ApplicationId>,
    pub api_key: Option<ApiKeyId>,
    /// Inclusive.
    pub from: Option<Timestamp>,
    /// Exclusive.
    pub to: Option<Timestamp>,
    /// Excludes the records of List Logs.
    pub without_log_reads: bool,
}

impl RecordFilter {
    pub fn matches(&self, row: &LogRow<'_>) -> bool {
        let has_type = |it| Operation::parse(row.operation).and_then(Operation::entity_type) == it;
        self.from.is_none_or(|it| row.at >= it)
            && self.to.is_none_or(|it| row.at < it)
            && self.entity.as_ref().is_none_or(|it| row.entity == it)
            && self.entity_type.is_none_or(|it| has_type(Some(it)))
            && self.operation.is_none_or(|it| row.operation == it.as_str())
            && self.outcome.is_none_or(|it| row.outcome == it)
            && self.actor.is_none_or(|it| row.actor == Some(it))
            && self.api_key.is_none_or(|it| row.api_key == Some(it))
            && !(self.without_log_reads
                && row.operation == Operation::ListLogs.as_str()
                && row.outcome == "read")
    }
}

/// The maximum disorder of the times in a chain. A record has the time of its request, but gets its
/// sequence number when it is written, after all records that waited before it.
pub const TIME_DISORDER_MAX_MS: i64 = 5 * 60 * 1000;

/// One scan of a chain, downwards.
#[derive(Debug, Clone)]
pub struct ScanRecords {
    pub log: LogKind,
    /// The scan starts below this sequence number.
    pub before: i64,
    pub filter: RecordFilter,
    pub rows_max: usize,
}

/// The result of [`ScanRecords`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ScannedRecords {
    /// The records that match the filter, newest first.
    pub records: Vec<LogRecord>,
    /// The number of scanned records.
    pub scanned: usize,
    /// Sequence number and time of the last scanned record; `None` at the end of the chain.
    pub last_scanned: Option<(i64, Timestamp)>,
}
