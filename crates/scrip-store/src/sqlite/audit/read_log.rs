//! The access log: a file of its own with a writer of its own.
//!
//! Whatever waits is written as one piece of work. So the more reads there are, the less each of
//! them costs.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rusqlite::Connection;
use scrip_core::{
    audit::{LogKind, ReadLogBatch, RecordSubject},
    id::{TenantId, TokenId},
    store::StoreError,
    time::{MonotonicClock, Month},
};
use tokio::sync::oneshot;

use crate::{
    shared::clone_error,
    sqlite::{
        engine::{
            checkpoint::Checkpointer,
            connection::PageMode,
            readers::Readers,
            transaction::SqliteTransaction,
            writer::{TaskResult, Writer, writer_stopped},
        },
        maintenance::usage::record_active_token,
    },
};

/// Past this a read is refused at once.
const QUEUE_MAX: usize = 4096;

/// Fields end in this order, as those of the vault do.
#[derive(Debug)]
pub(crate) struct SqliteReadLog {
    _checkpointer: Option<Checkpointer>,
    pub(crate) readers: Readers,
    pub(crate) writer: Writer,
    queue: Arc<Mutex<Vec<QueuedRead>>>,
}

#[derive(Debug)]
struct QueuedRead {
    batch: ReadLogBatch,
    reply: oneshot::Sender<Result<(), StoreError>>,
}

/// Where it is: beside the vault.
pub(crate) fn read_log_path(vault: &Path) -> PathBuf {
    vault.with_file_name("access.db")
}

impl SqliteReadLog {
    pub(crate) fn start(
        path: &Path,
        pages: PageMode,
        ticks: MonotonicClock,
        connection: Connection,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            _checkpointer: None,
            readers: Readers::new(path, pages)?,
            writer: Writer::start(connection, ticks)?,
            queue: Arc::default(),
        })
    }

    /// For a server: nobody else moves the log into the file.
    pub(crate) fn start_checkpointer(&mut self, path: &Path) -> Result<(), StoreError> {
        self._checkpointer = Some(Checkpointer::start(path, Arc::clone(&self.writer.progress))?);
        Ok(())
    }

    /// Answers once it is on disk.
    pub(crate) async fn append(&self, batch: ReadLogBatch) -> Result<(), StoreError> {
        let (reply, receiver) = oneshot::channel();
        let is_first = {
            let mut waiting = lock(&self.queue);
            if waiting.len() >= QUEUE_MAX {
                return Err(StoreError::Busy);
            }
            waiting.push(QueuedRead { batch, reply });
            waiting.len() == 1
        };
        if is_first {
            // Whoever comes before the writer does is taken along.
            let group = ReadLogTask(Some(Arc::clone(&self.queue)));
            self.writer.submit(Box::new(move |transaction| group.write(transaction)))?;
        }
        receiver.await.map_err(|_| writer_stopped())?
    }

    /// After a write that used them, which waits for no second disk: should the process end before
    /// it comes to this, or have too much to do, a token is counted one use later.
    pub(crate) fn record_activity(&self, tenant: TenantId, tokens: Vec<(Month, TokenId)>) {
        if tokens.is_empty() {
            return;
        }
        let work = move |connection: &mut SqliteTransaction<'_>| {
            let mut notes = tokens.iter();
            let noted = notes.try_for_each(|(month, token)| {
                record_active_token(connection, tenant, *month, token.as_str())
            });
            TaskResult { keep: noted.is_ok(), notify: Box::new(drop) }
        };
        drop(self.writer.submit(Box::new(work)));
    }

    /// Whether a read would be taken now.
    pub(crate) fn accepts_work(&self) -> bool {
        self.writer.accepts_work() && lock(&self.queue).len() < QUEUE_MAX
    }
}

fn lock(queue: &Mutex<Vec<QueuedRead>>) -> MutexGuard<'_, Vec<QueuedRead>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All that wait, until the writer takes them.
struct ReadLogTask(Option<Arc<Mutex<Vec<QueuedRead>>>>);

impl ReadLogTask {
    fn write(mut self, transaction: &mut SqliteTransaction<'_>) -> TaskResult {
        let waiting = self.0.take().map(|it| std::mem::take(&mut *lock(&it)));
        let (all, replies): (Vec<_>, Vec<_>) =
            waiting.unwrap_or_default().into_iter().map(|it| (it.batch, it.reply)).unzip();
        let outcomes = match write_reads(transaction, &all.iter().collect::<Vec<_>>()) {
            Ok(()) => all.iter().map(|_| Ok(())).collect(),
            Err(error) => write_by_tenant(transaction, &all, &error),
        };
        let keep = outcomes.iter().any(Result::is_ok);
        let tell = move |commit: Result<(), StoreError>| {
            for (reply, outcome) in replies.into_iter().zip(outcomes) {
                // A client that has gone away does not want to hear it; the record stays.
                drop(reply.send(commit.as_ref().copied().map_err(clone_error).and(outcome)));
            }
        };
        TaskResult { keep, notify: Box::new(tell) }
    }
}

/// When the writer never came to it, nobody is left waiting.
impl Drop for ReadLogTask {
    fn drop(&mut self) {
        if let Some(waiting) = self.0.take() {
            lock(&waiting).clear();
        }
    }
}

/// All or nothing; whoever calls takes back what was written when it fails.
fn write_reads(
    transaction: &mut SqliteTransaction<'_>,
    batch: &[&ReadLogBatch],
) -> Result<(), StoreError> {
    for access in batch {
        let ReadLogBatch { tenant, audit, entries: seen } = access;
        for it in seen {
            let (entity, outcome) = (&*it.entity, it.outcome);
            let entry = RecordSubject { log: LogKind::Read, tenant: *tenant, entity, outcome };
            transaction.append_entry(audit, entry)?;
            if let Some(month) = access.active_month(it) {
                record_active_token(transaction, *tenant, month, entity)?;
            }
        }
    }
    Ok(())
}

/// Each tenant's by itself, after all together failed: what is wrong with one must not fail the
/// others that share its commit.
fn write_by_tenant(
    transaction: &mut SqliteTransaction<'_>,
    batch: &[ReadLogBatch],
    error: &StoreError,
) -> Vec<Result<(), StoreError>> {
    if transaction.roll_back_work().is_err() {
        return batch.iter().map(|_| Err(clone_error(error))).collect();
    }
    let tenants: HashSet<_> = batch.iter().map(|it| it.tenant).collect();
    let of = |tenant| batch.iter().filter(|it| it.tenant == tenant).collect::<Vec<_>>();
    let write = |tenant| (tenant, transaction.in_savepoint(|it| write_reads(it, &of(tenant))));
    let outcomes: HashMap<_, _> = tenants.into_iter().map(write).collect();
    let outcome = |it: &ReadLogBatch| match outcomes.get(&it.tenant) {
        Some(outcome) => outcome.as_ref().copied().map_err(clone_error),
        None => Err(clone_error(error)),
    };
    batch.iter().map(outcome).collect()
}
