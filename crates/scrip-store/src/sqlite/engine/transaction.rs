//! A transaction of the writer, shared by many queued writes (group commit). The code calls a
//! queued write a task.
//!
//! Each task would read, sign and write the same chain head and update the same two counters. So
//! these values are collected here and written once, before the commit. Every task has a savepoint;
//! a rollback also reverts its collected values.

use std::{cell::Cell, ops::Deref};

use rusqlite::Connection;
use scrip_core::{
    audit::{AuditRecord, RecordSubject},
    types::{StoreError, id::TenantId},
};

use crate::{
    shared::tokens::usage_delta::UsageDelta,
    sql::KeyVersions,
    sqlite::engine::{open_chains::OpenChains, statement::store_error, usage::put_usage},
};

/// A write transaction. It derefs to the connection, on which statements run.
pub(crate) struct SqliteTransaction<'a> {
    connection: &'a Connection,
    pub(crate) chains: OpenChains,
    pub(crate) usage: UsageDelta,
    /// The key versions that the current task has read.
    pub(crate) key_versions: Cell<Option<(TenantId, KeyVersions)>>,
    /// Collected values at the start of the task.
    work_start: TransactionMark,
    rollback_target: RollbackTarget,
}

/// The state that a task is rolled back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RollbackTarget {
    /// The whole transaction, because the task is the first one.
    WholeTransaction,
    /// A savepoint. SQLite then copies every page that the task changes.
    Savepoint,
}

/// The number of collected changes of each kind.
#[derive(Debug, Clone, Copy, Default)]
struct TransactionMark {
    chains: usize,
    usage: usize,
}

impl Deref for SqliteTransaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl<'a> SqliteTransaction<'a> {
    pub(crate) fn begin(connection: &'a Connection) -> Result<Self, StoreError> {
        execute_cached(connection, "BEGIN IMMEDIATE")?;
        let (chains, usage) = (OpenChains::default(), UsageDelta::default());
        Ok(Self {
            connection,
            chains,
            usage,
            key_versions: Cell::new(None),
            work_start: TransactionMark::default(),
            rollback_target: RollbackTarget::WholeTransaction,
        })
    }

    /// Whether the transaction has ended. SQLite may end it when the disk is full.
    pub(crate) fn is_ended(&self) -> bool {
        self.connection.is_autocommit()
    }

    /// Runs one task and returns its result. Rolls back the task if `should_commit` is false.
    pub(crate) fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> T,
        should_commit: impl FnOnce(&T) -> bool,
    ) -> Result<T, StoreError> {
        if self.rollback_target == RollbackTarget::Savepoint {
            execute_cached(self.connection, "SAVEPOINT work")?;
        }
        self.work_start = self.mark();
        self.key_versions.set(None);
        let result = work(self);
        if !should_commit(&result) {
            drop(self.roll_back_work());
        }
        if self.rollback_target == RollbackTarget::Savepoint && !self.is_ended() {
            drop(execute_cached(self.connection, "RELEASE work"));
        }
        self.rollback_target = RollbackTarget::Savepoint;
        Ok(result)
    }

    /// Rolls back the current task, which may start again.
    pub(crate) fn roll_back_work(&mut self) -> Result<(), StoreError> {
        self.roll_back_to_mark(self.work_start);
        match self.rollback_target {
            RollbackTarget::Savepoint => execute_cached(self.connection, "ROLLBACK TO work"),
            RollbackTarget::WholeTransaction => {
                execute_cached(self.connection, "ROLLBACK")?;
                execute_cached(self.connection, "BEGIN IMMEDIATE")
            }
        }
    }

    /// Appends a record to a chain.
    pub(crate) fn append_record(
        &mut self,
        audit: &AuditRecord,
        subject: RecordSubject<'_>,
    ) -> Result<(), StoreError> {
        self.chains.append(self.connection, audit, subject)
    }

    fn mark(&self) -> TransactionMark {
        TransactionMark { chains: self.chains.change_count(), usage: self.usage.change_count() }
    }

    fn roll_back_to_mark(&mut self, mark: TransactionMark) {
        self.chains.roll_back_to(mark.chains);
        self.usage.truncate(mark.usage);
    }

    /// Runs a part of a task that is rolled back alone if it fails.
    pub(crate) fn in_savepoint<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.check_active()?;
        execute_cached(self.connection, "SAVEPOINT part")?;
        let mark = self.mark();
        let result = work(self);
        // If SQLite has ended the transaction, the savepoint would begin a new one.
        self.check_active()?;
        if result.is_err() {
            self.roll_back_to_mark(mark);
            execute_cached(self.connection, "ROLLBACK TO part")?;
        }
        execute_cached(self.connection, "RELEASE part")?;
        result
    }

    /// Writes the collected values and commits.
    pub(crate) fn commit(self) -> Result<(), StoreError> {
        let result = self.put_pending().and_then(|()| execute_cached(self.connection, "COMMIT"));
        if result.is_err() && !self.is_ended() {
            drop(execute_cached(self.connection, "ROLLBACK"));
        }
        result
    }

    /// Fails if SQLite has ended the transaction.
    fn check_active(&self) -> Result<(), StoreError> {
        if self.is_ended() {
            return Err(StoreError::Unavailable("SQLite has ended the transaction".into()));
        }
        Ok(())
    }

    fn put_pending(&self) -> Result<(), StoreError> {
        // If SQLite has ended the transaction, these writes would begin a new one.
        self.check_active()?;
        self.chains.put_heads(self.connection)?;
        put_usage(self.connection, &self.usage)
    }
}

fn execute_cached(connection: &Connection, sql: &str) -> Result<(), StoreError> {
    connection.prepare_cached(sql).and_then(|mut it| it.execute([])).map(drop).map_err(store_error)
}
