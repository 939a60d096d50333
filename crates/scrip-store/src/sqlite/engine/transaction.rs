//! A transaction of the writer, which many pieces of work share.
//!
//! Each of them would read, sign and write the head of the same chain and raise the same two counts.
//! So that is kept here and put once, before the commit. Every piece has a savepoint of its own, and
//! what is kept goes back with it.

use std::ops::Deref;

use rusqlite::Connection;
use scrip_core::{
    audit::{AuditRecord, Entry},
    store::StoreError,
};

use crate::{
    rules::tokens::tally::Tally,
    sqlite::engine::{chains::Chains, statement::fault, tally::put_tally},
};

/// Statements are run on the connection that it stands for.
pub(crate) struct Transaction<'a> {
    connection: &'a Connection,
    pub(crate) chains: Chains,
    pub(crate) tally: Tally,
    /// What was kept when the piece of work began.
    work: Kept,
    savepoint: Savepoint,
}

/// Where a piece of work is taken back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Savepoint {
    /// The transaction as a whole: the first piece of work is alone in it.
    Begin,
    /// One of its own. The engine copies every page that is changed behind it.
    Own,
}

/// How many changes of each.
#[derive(Debug, Clone, Copy, Default)]
struct Kept {
    chains: usize,
    tally: usize,
}

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl<'a> Transaction<'a> {
    pub(crate) fn begin(connection: &'a Connection) -> Result<Self, StoreError> {
        execute(connection, "BEGIN IMMEDIATE")?;
        let (chains, tally) = (Chains::default(), Tally::default());
        Ok(Self { connection, chains, tally, work: Kept::default(), savepoint: Savepoint::Begin })
    }

    /// After a full disk the engine may have ended it by itself.
    pub(crate) fn is_over(&self) -> bool {
        self.connection.is_autocommit()
    }

    /// One piece of work, with what it gives when it is to be kept; else it leaves nothing.
    pub(crate) fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> T,
        keeps: impl FnOnce(&T) -> bool,
    ) -> Result<T, StoreError> {
        if self.savepoint == Savepoint::Own {
            execute(self.connection, "SAVEPOINT work")?;
        }
        self.work = self.kept();
        let worked = work(self);
        if !keeps(&worked) {
            drop(self.take_back());
        }
        if self.savepoint == Savepoint::Own && !self.is_over() {
            drop(execute(self.connection, "RELEASE work"));
        }
        self.savepoint = Savepoint::Own;
        Ok(worked)
    }

    /// All that the piece of work did so far is undone, and it may begin anew.
    pub(crate) fn take_back(&mut self) -> Result<(), StoreError> {
        self.keep_only(self.work);
        match self.savepoint {
            Savepoint::Own => execute(self.connection, "ROLLBACK TO work"),
            Savepoint::Begin => {
                execute(self.connection, "ROLLBACK")?;
                execute(self.connection, "BEGIN IMMEDIATE")
            }
        }
    }

    /// One more record of a chain.
    pub(crate) fn append_entry(
        &mut self,
        audit: &AuditRecord,
        entry: Entry<'_>,
    ) -> Result<(), StoreError> {
        self.chains.append(self.connection, audit, entry)
    }

    fn kept(&self) -> Kept {
        Kept { chains: self.chains.changes(), tally: self.tally.changes() }
    }

    fn keep_only(&mut self, kept: Kept) {
        self.chains.take_back(kept.chains);
        self.tally.take_back(kept.tally);
    }

    /// A part of a piece of work that leaves nothing when it fails.
    pub(crate) fn or_nothing<T>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.check_begun()?;
        execute(self.connection, "SAVEPOINT part")?;
        let before = self.kept();
        let outcome = part(self);
        // A part of what the engine has ended would be a transaction of its own.
        self.check_begun()?;
        if outcome.is_err() {
            self.keep_only(before);
            execute(self.connection, "ROLLBACK TO part")?;
        }
        execute(self.connection, "RELEASE part")?;
        outcome
    }

    /// Puts what was kept, and makes all of it durable.
    pub(crate) fn commit(self) -> Result<(), StoreError> {
        let committed = self.settle().and_then(|()| execute(self.connection, "COMMIT"));
        if committed.is_err() && !self.is_over() {
            drop(execute(self.connection, "ROLLBACK"));
        }
        committed
    }

    /// After a full disk the engine may have ended all of it by itself.
    fn check_begun(&self) -> Result<(), StoreError> {
        if self.is_over() {
            return Err(StoreError::Unavailable("the engine has ended the transaction".into()));
        }
        Ok(())
    }

    fn settle(&self) -> Result<(), StoreError> {
        // What is put now would be a transaction of its own.
        self.check_begun()?;
        self.chains.put(self.connection)?;
        put_tally(self.connection, &self.tally)
    }
}

fn execute(connection: &Connection, sql: &str) -> Result<(), StoreError> {
    connection.prepare_cached(sql).and_then(|mut it| it.execute([])).map(drop).map_err(fault)
}
