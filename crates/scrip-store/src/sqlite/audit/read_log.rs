//! The read log: a separate database file with its own writer.
//!
//! All queued reads are written as one task, so the cost per read falls with the load.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rusqlite::Connection;
use scrip_core::{
    audit::{LogKind, RecordSubject},
    read_log::ReadLogBatch,
    types::{
        StoreError,
        id::{TenantId, TokenId},
        time::{MonotonicClock, Month},
    },
};
use tokio::sync::oneshot;

use crate::{
    health::StoreHealth,
    shared::{clone_error, deliveries::delivery_parameters},
    sql::parameters,
    sqlite::{
        audit::read_deliveries::INSERT_READ_DELIVERY,
        engine::{
            checkpoint::Checkpointer,
            connection::PageMode,
            probe::LogHealth,
            readers::Readers,
            statement::{SqliteFailure, execute},
            transaction::SqliteTransaction,
            writer::{TaskResult, Writer, writer_stopped},
        },
    },
};

/// Maximum length of the queue. Further reads are rejected immediately.
const QUEUE_MAX: usize = 4096;

/// The database of the read log. Fields are dropped in the same order as those of the vault.
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

/// Returns the path of the read log, which is in the same directory as the vault.
pub(crate) fn read_log_path(vault: &Path) -> PathBuf {
    vault.with_file_name("read_log.db")
}

impl SqliteReadLog {
    pub(crate) fn start(
        path: &Path,
        page_mode: PageMode,
        clock: MonotonicClock,
        connection: Connection,
        health: Arc<StoreHealth>,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            _checkpointer: None,
            readers: Readers::new(path, page_mode)?,
            writer: Writer::start(connection, clock, LogHealth { health, log: LogKind::Read })?,
            queue: Arc::default(),
        })
    }

    /// Starts the checkpointer. Only for a server, which is the only process that checkpoints the
    /// WAL.
    pub(crate) fn start_checkpointer(&mut self, path: &Path) -> Result<(), StoreError> {
        self._checkpointer = Some(Checkpointer::start(path, Arc::clone(&self.writer.progress))?);
        Ok(())
    }

    /// Returns when the batch is durable.
    pub(crate) async fn append(&self, batch: ReadLogBatch) -> Result<(), StoreError> {
        let (reply, receiver) = oneshot::channel();
        let is_first = {
            let mut queue = lock(&self.queue);
            if queue.len() >= QUEUE_MAX {
                return Err(StoreError::Busy);
            }
            queue.push(QueuedRead { batch, reply });
            queue.len() == 1
        };
        if is_first {
            // The task also writes reads that are queued before it runs.
            let task = ReadLogTask(Some(Arc::clone(&self.queue)));
            self.writer.submit(Box::new(move |transaction| task.write(transaction)))?;
        }
        receiver.await.map_err(|_| writer_stopped())?
    }

    /// Queues the activity of tokens that a write used; the write does not wait for a second disk.
    /// If the process stops first or the queue is full, the token is counted at its next use.
    pub(crate) fn record_activity(&self, tenant: TenantId, tokens: Vec<(Month, TokenId)>) {
        if tokens.is_empty() {
            return;
        }
        let task = move |transaction: &mut SqliteTransaction<'_>| {
            let mut active_tokens = tokens.iter();
            let result = active_tokens.try_for_each(|(month, token)| {
                record_active_token(transaction, tenant, *month, token.as_str())
            });
            let failure = result.as_ref().err().and_then(SqliteFailure::find);
            TaskResult { should_commit: result.is_ok(), failure, notify: Box::new(drop) }
        };
        drop(self.writer.submit(Box::new(task)));
    }

    /// Whether the queue accepts a read now.
    pub(crate) fn accepts_work(&self) -> bool {
        self.writer.accepts_work() && lock(&self.queue).len() < QUEUE_MAX
    }
}

fn lock(queue: &Mutex<Vec<QueuedRead>>) -> MutexGuard<'_, Vec<QueuedRead>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes all reads that are queued when it runs.
struct ReadLogTask(Option<Arc<Mutex<Vec<QueuedRead>>>>);

impl ReadLogTask {
    fn write(mut self, transaction: &mut SqliteTransaction<'_>) -> TaskResult {
        let queued = self.0.take().map(|it| std::mem::take(&mut *lock(&it)));
        let (batches, replies): (Vec<_>, Vec<_>) =
            queued.unwrap_or_default().into_iter().map(|it| (it.batch, it.reply)).unzip();
        let result = write_reads(transaction, &batches.iter().collect::<Vec<_>>());
        let failure = result.as_ref().err().and_then(SqliteFailure::find);
        let outcomes = match result {
            Ok(()) => batches.iter().map(|_| Ok(())).collect(),
            Err(error) => write_by_tenant(transaction, &batches, &error),
        };
        let should_commit = outcomes.iter().any(Result::is_ok);
        let notify = move |commit: Result<(), StoreError>| {
            for (reply, outcome) in replies.into_iter().zip(outcomes) {
                // The client may have disconnected; the record stays.
                drop(reply.send(commit.as_ref().copied().map_err(clone_error).and(outcome)));
            }
        };
        TaskResult { should_commit, failure, notify: Box::new(notify) }
    }
}

/// If the task never ran, all waiting reads get an error.
impl Drop for ReadLogTask {
    fn drop(&mut self) {
        if let Some(queue) = self.0.take() {
            lock(&queue).clear();
        }
    }
}

/// Writes all reads or none; the caller rolls back on an error.
fn write_reads(
    transaction: &mut SqliteTransaction<'_>,
    batches: &[&ReadLogBatch],
) -> Result<(), StoreError> {
    for batch in batches {
        let ReadLogBatch { tenant, entries, .. } = batch;
        for entry in entries {
            let (entity, outcome) = (&*entry.entity, entry.outcome);
            let subject = RecordSubject { log: LogKind::Read, tenant: *tenant, entity, outcome };
            transaction.append_record(&batch.entry_audit(entry), subject)?;
            if let Some(month) = batch.active_month(entry) {
                record_active_token(transaction, *tenant, month, entity)?;
            }
        }
        for delivery in &batch.deliveries {
            execute(transaction, INSERT_READ_DELIVERY, &delivery_parameters(delivery))?;
        }
    }
    Ok(())
}

const INSERT_ACTIVE_TOKEN: &str = "
-- insert_active_tokens
INSERT OR IGNORE INTO active_tokens (month, tenant, token) VALUES ($1, $2, $3)";

const INCREMENT_ACTIVE_MONTH: &str = "
-- increment_active_month
INSERT INTO active_months (month, tenant, active) VALUES ($1, $2, 1)
ON CONFLICT (month, tenant) DO UPDATE SET active = active + 1";

/// Records an active token in the transaction of its read-log record: one row per token and month.
fn record_active_token(
    connection: &Connection,
    tenant: TenantId,
    month: Month,
    token: &str,
) -> Result<(), StoreError> {
    if execute(connection, INSERT_ACTIVE_TOKEN, &parameters![month, tenant, token])? > 0 {
        execute(connection, INCREMENT_ACTIVE_MONTH, &parameters![month, tenant])?;
    }
    Ok(())
}

/// Retries each tenant separately after the combined write failed, so that an error of one tenant
/// does not affect the others of the commit.
fn write_by_tenant(
    transaction: &mut SqliteTransaction<'_>,
    batches: &[ReadLogBatch],
    error: &StoreError,
) -> Vec<Result<(), StoreError>> {
    if transaction.roll_back_work().is_err() {
        return batches.iter().map(|_| Err(clone_error(error))).collect();
    }
    let tenants: HashSet<_> = batches.iter().map(|it| it.tenant).collect();
    let reads_of = |tenant| batches.iter().filter(|it| it.tenant == tenant).collect::<Vec<_>>();
    let write_tenant =
        |tenant| (tenant, transaction.in_savepoint(|it| write_reads(it, &reads_of(tenant))));
    let outcomes: HashMap<_, _> = tenants.into_iter().map(write_tenant).collect();
    let find_outcome = |it: &ReadLogBatch| match outcomes.get(&it.tenant) {
        Some(outcome) => outcome.as_ref().copied().map_err(clone_error),
        None => Err(clone_error(error)),
    };
    batches.iter().map(find_outcome).collect()
}
