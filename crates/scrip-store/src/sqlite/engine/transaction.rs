//! A transaction of the writer, which many pieces of work share.
//!
//! Each of them would read, sign and write the head of the same chain and raise the same two counts.
//! So that is kept here and put once, before the commit. Every piece has a savepoint of its own, and
//! what is kept goes back with it.

use std::ops::Deref;

use rusqlite::Connection;
use scrip_core::{
    audit::{AuditRecord, RecordSubject},
    store::StoreError,
};

use crate::{
    shared::tokens::usage_delta::UsageDelta,
    sqlite::engine::{open_chains::OpenChains, statement::store_error, usage::put_usage},
};

/// Statements are run on the connection that it stands for.
pub(crate) struct SqliteTransaction<'a> {
    connection: &'a Connection,
    pub(crate) chains: OpenChains,
    pub(crate) usage: UsageDelta,
    /// What was kept when the piece of work began.
    work_start: TransactionMark,
    rollback_target: RollbackTarget,
}

/// Where a piece of work is taken back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RollbackTarget {
    /// The transaction as a whole: the first piece of work is alone in it.
    WholeTransaction,
    /// One of its own. The engine copies every page that is changed behind it.
    Savepoint,
}

/// How many changes of each.
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
            work_start: TransactionMark::default(),
            rollback_target: RollbackTarget::WholeTransaction,
        })
    }

    /// After a full disk the engine may have ended it by itself.
    pub(crate) fn is_ended(&self) -> bool {
        self.connection.is_autocommit()
    }

    /// One piece of work, with what it gives when it is to be kept; else it leaves nothing.
    pub(crate) fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> T,
        should_keep: impl FnOnce(&T) -> bool,
    ) -> Result<T, StoreError> {
        if self.rollback_target == RollbackTarget::Savepoint {
            execute_cached(self.connection, "SAVEPOINT work")?;
        }
        self.work_start = self.mark();
        let result = work(self);
        if !should_keep(&result) {
            drop(self.roll_back_work());
        }
        if self.rollback_target == RollbackTarget::Savepoint && !self.is_ended() {
            drop(execute_cached(self.connection, "RELEASE work"));
        }
        self.rollback_target = RollbackTarget::Savepoint;
        Ok(result)
    }

    /// All that the piece of work did so far is undone, and it may begin anew.
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

    /// One more record of a chain.
    pub(crate) fn append_entry(
        &mut self,
        audit: &AuditRecord,
        entry: RecordSubject<'_>,
    ) -> Result<(), StoreError> {
        self.chains.append(self.connection, audit, entry)
    }

    fn mark(&self) -> TransactionMark {
        TransactionMark { chains: self.chains.change_count(), usage: self.usage.change_count() }
    }

    fn roll_back_to_mark(&mut self, mark: TransactionMark) {
        self.chains.roll_back_to(mark.chains);
        self.usage.truncate(mark.usage);
    }

    /// A part of a piece of work that leaves nothing when it fails.
    pub(crate) fn in_savepoint<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.check_active()?;
        execute_cached(self.connection, "SAVEPOINT part")?;
        let before = self.mark();
        let outcome = work(self);
        // A part of what the engine has ended would be a transaction of its own.
        self.check_active()?;
        if outcome.is_err() {
            self.roll_back_to_mark(before);
            execute_cached(self.connection, "ROLLBACK TO part")?;
        }
        execute_cached(self.connection, "RELEASE part")?;
        outcome
    }

    /// Puts what was kept, and makes all of it durable.
    pub(crate) fn commit(self) -> Result<(), StoreError> {
        let committed = self.put_pending().and_then(|()| execute_cached(self.connection, "COMMIT"));
        if committed.is_err() && !self.is_ended() {
            drop(execute_cached(self.connection, "ROLLBACK"));
        }
        committed
    }

    /// After a full disk the engine may have ended all of it by itself.
    fn check_active(&self) -> Result<(), StoreError> {
        if self.is_ended() {
            return Err(StoreError::Unavailable("the engine has ended the transaction".into()));
        }
        Ok(())
    }

    fn put_pending(&self) -> Result<(), StoreError> {
        // What is put now would be a transaction of its own.
        self.check_active()?;
        self.chains.put_heads(self.connection)?;
        put_usage(self.connection, &self.usage)
    }
}

fn execute_cached(connection: &Connection, sql: &str) -> Result<(), StoreError> {
    connection.prepare_cached(sql).and_then(|mut it| it.execute([])).map(drop).map_err(store_error)
}
