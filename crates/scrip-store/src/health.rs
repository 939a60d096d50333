//! The condition of the storage: the writers report failed commits, and probes report recoveries.

use std::{
    fmt::Display,
    sync::atomic::{AtomicU8, Ordering},
};

use scrip_core::{audit::LogKind, store::StoreCondition, types::StoreError};

/// The conditions of both logs in one atomic value. Each change of the worse one is logged once,
/// even if many writers report it at the same time.
#[derive(Debug, Default)]
pub(crate) struct StoreHealth(AtomicU8);

const BITS: u8 = 4;

/// The position of a log in the value.
fn shift(log: LogKind) -> u8 {
    match log {
        LogKind::Audit => 0,
        LogKind::Read => BITS,
    }
}

fn encode(condition: StoreCondition) -> u8 {
    match condition {
        StoreCondition::Up => 0,
        StoreCondition::CommitFailed => 1,
        StoreCondition::DiskFull => 2,
        StoreCondition::Unreachable => 3,
    }
}

fn decode(state: u8, log: LogKind) -> StoreCondition {
    match (state >> shift(log)) & 0xf {
        0 => StoreCondition::Up,
        1 => StoreCondition::CommitFailed,
        2 => StoreCondition::DiskFull,
        _ => StoreCondition::Unreachable,
    }
}

/// The worse condition of the two logs.
fn worst(state: u8) -> StoreCondition {
    decode(state, LogKind::Audit).max(decode(state, LogKind::Read))
}

impl StoreHealth {
    pub(crate) fn condition(&self) -> StoreCondition {
        worst(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn log_condition(&self, log: LogKind) -> StoreCondition {
        decode(self.0.load(Ordering::Relaxed), log)
    }

    /// Records a failure. A worse condition stays until a recovery.
    pub(crate) fn report_failure(
        &self,
        log: LogKind,
        condition: StoreCondition,
        cause: &dyn Display,
    ) {
        let (before, after) = self.change(log, |it| it.max(condition));
        if after > before {
            log_outage(after, cause);
        }
    }

    /// Records that the storage works again for this log.
    pub(crate) fn report_recovery(&self, log: LogKind) {
        // A node with a working storage only reads the value.
        if self.log_condition(log) == StoreCondition::Up {
            return;
        }
        let (before, after) = self.change(log, |_| StoreCondition::Up);
        if after == StoreCondition::Up {
            log_recovery(before);
        }
    }

    /// Returns the worse condition of both logs before and after the change.
    fn change(
        &self,
        log: LogKind,
        update: impl Fn(StoreCondition) -> StoreCondition,
    ) -> (StoreCondition, StoreCondition) {
        let changed = |state: u8| {
            let condition = encode(update(decode(state, log)));
            (state & !(0xf << shift(log))) | (condition << shift(log))
        };
        let (Ok(before) | Err(before)) =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| Some(changed(it)));
        (worst(before), worst(changed(before)))
    }
}

fn log_outage(condition: StoreCondition, cause: &dyn Display) {
    match condition {
        StoreCondition::Up => (),
        StoreCondition::CommitFailed => tracing::error!(
            %cause,
            "commit failed: writes and reads are refused until a commit succeeds"
        ),
        StoreCondition::DiskFull => {
            tracing::error!(%cause, "disk full: writes and reads are refused");
        }
        StoreCondition::Unreachable => {
            tracing::error!(%cause, "PostgreSQL is away: requests are refused");
        }
    }
}

fn log_recovery(condition: StoreCondition) {
    match condition {
        StoreCondition::Up => (),
        StoreCondition::CommitFailed => {
            tracing::info!("commits succeed again: writes and reads are accepted");
        }
        StoreCondition::DiskFull => {
            tracing::info!("the disk has recovered: writes and reads are accepted again");
        }
        StoreCondition::Unreachable => tracing::info!("PostgreSQL is back"),
    }
}

/// The cause of an error, for the log.
pub(crate) fn describe(error: &StoreError) -> String {
    match error {
        StoreError::Unavailable(_) | StoreError::Busy => error.to_string(),
        StoreError::AlreadyCompleted => "another request completed first".to_owned(),
        StoreError::Corrupt(description) => (*description).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_is_up_only_when_both_logs_have_recovered() {
        let health = StoreHealth::default();
        assert_eq!(health.condition(), StoreCondition::Up);
        health.report_failure(LogKind::Read, StoreCondition::DiskFull, &"test");
        health.report_failure(LogKind::Audit, StoreCondition::CommitFailed, &"test");
        assert_eq!(health.condition(), StoreCondition::DiskFull);
        assert_eq!(health.log_condition(LogKind::Audit), StoreCondition::CommitFailed);
        health.report_failure(LogKind::Read, StoreCondition::CommitFailed, &"test");
        assert_eq!(health.log_condition(LogKind::Read), StoreCondition::DiskFull);
        health.report_recovery(LogKind::Read);
        assert_eq!(health.condition(), StoreCondition::CommitFailed);
        health.report_recovery(LogKind::Audit);
        assert_eq!(health.condition(), StoreCondition::Up);
        health.report_failure(LogKind::Audit, StoreCondition::Unreachable, &"test");
        assert_eq!(health.condition(), StoreCondition::Unreachable);
        assert_eq!(health.log_condition(LogKind::Read), StoreCondition::Up);
    }
}
