//! The writer: commits all queued writes together (group commit).
//!
//! Every queued write (task) can be rolled back alone, so a failed task does not affect the others.
//! Success is reported only after the commit is durable.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{Builder, JoinHandle},
    time::Duration,
};

use rusqlite::Connection;
use scrip_core::types::{
    StoreError,
    metrics::{Counter, Gauge, Histogram, MICROS_BOUNDS, SPAN_TARGET, WriterMetrics},
    time::MonotonicClock,
};
use tokio::sync::{mpsc, oneshot};
use tracing::Instrument;

use crate::sqlite::engine::{
    connection::with_busy_timeout,
    probe::{LogHealth, write_probe},
    statement::SqliteFailure,
    transaction::SqliteTransaction,
};

/// Maximum length of the queue. Further writes are rejected immediately: clients would time out
/// before their turn.
const QUEUE_MAX: usize = 4096;
/// Maximum number of tasks per commit: large enough to share the cost of a sync, small enough to
/// keep the delay short.
const GROUP_MAX: usize = 256;

pub(crate) type WriterTask = Box<dyn FnOnce(&mut SqliteTransaction<'_>) -> TaskResult + Send>;

/// The result of a task, and how to report it after the commit.
pub(crate) struct TaskResult {
    /// Whether the task commits; otherwise it is rolled back.
    pub(crate) should_commit: bool,
    /// The error of SQLite, if the task failed with one.
    pub(crate) failure: Option<SqliteFailure>,
    pub(crate) notify: Box<dyn FnOnce(Result<(), StoreError>) + Send>,
}

/// Returns the error for writes that the writer will not run any more.
pub(crate) fn writer_stopped() -> StoreError {
    StoreError::Unavailable("the writer has stopped".into())
}

#[derive(Debug)]
pub(crate) struct Writer {
    queue: Option<mpsc::Sender<WriterTask>>,
    thread: Option<JoinHandle<()>>,
    pub(crate) progress: Arc<WriterProgress>,
    counts: Arc<WriterCounts>,
    health: LogHealth,
}

/// State that the writer and the checkpointer share.
#[derive(Debug, Default)]
pub(crate) struct WriterProgress {
    /// Number of commits.
    pub(crate) commits: AtomicU64,
    /// The WAL exceeds its threshold, and only the writer can restart it.
    pub(crate) restart_due: AtomicBool,
    /// The WAL may contain deleted keys. The writer must checkpoint and truncate it before it
    /// reports its next commit.
    pub(crate) truncate_requested: AtomicBool,
    /// The writer could not truncate the WAL, so the checkpointer retries.
    pub(crate) truncate_due: AtomicBool,
    /// WAL pages that the checkpointer had not copied to the database at its last pass.
    pub(crate) pages_pending: Gauge,
}

impl Writer {
    pub(crate) fn start(
        connection: Connection,
        clock: MonotonicClock,
        health: LogHealth,
    ) -> Result<Self, StoreError> {
        let (queue, receiver) = mpsc::channel(QUEUE_MAX);
        let progress = Arc::new(WriterProgress::default());
        let counts = Arc::new(WriterCounts::default());
        let thread_state = WriterState {
            progress: Arc::clone(&progress),
            counts: Arc::clone(&counts),
            health: health.clone(),
            clock,
        };
        let thread = Builder::new()
            .name("scrip-writer".to_owned())
            .spawn(move || writer_loop(&connection, receiver, &thread_state))
            .map_err(|error| StoreError::Unavailable(error.into()))?;
        Ok(Self { queue: Some(queue), thread: Some(thread), progress, counts, health })
    }

    /// Runs the work in the next commit and returns when it is durable.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SqliteTransaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write_if(work, |_| true).await
    }

    /// Like [`Writer::write`], but some outcomes roll back the work.
    pub(crate) async fn write_if<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SqliteTransaction<'_>) -> Result<T, StoreError> + Send + 'static,
        should_commit: fn(&T) -> bool,
    ) -> Result<T, StoreError> {
        let (reply, receiver) = oneshot::channel();
        let task: WriterTask = Box::new(move |transaction| {
            let outcome = work(transaction);
            let should_commit = outcome.as_ref().is_ok_and(should_commit);
            let failure = outcome.as_ref().err().and_then(SqliteFailure::find);
            // The client may have disconnected; the effect stays.
            let notify =
                move |commit: Result<(), StoreError>| drop(reply.send(commit.and(outcome)));
            TaskResult { should_commit, failure, notify: Box::new(notify) }
        });
        self.submit(task)?;
        // Covers queueing, execution and sync.
        let span = tracing::info_span!(target: SPAN_TARGET, "store_write");
        receiver.instrument(span).await.map_err(|_| writer_stopped())?
    }

    /// Queues a task for the next commit.
    pub(crate) fn submit(&self, task: WriterTask) -> Result<(), StoreError> {
        let queue = self.queue.as_ref().ok_or_else(writer_stopped)?;
        queue.try_send(task).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                self.counts.rejected.increment();
                StoreError::Busy
            }
            mpsc::error::TrySendError::Closed(_) => writer_stopped(),
        })
    }

    /// Writes and commits without a client, if a commit has failed before. Only a success of this
    /// write ends the outage: a small write of a client can succeed on a disk that is still full.
    pub(crate) async fn probe_after_failure(&self, database: &Path) -> Result<(), StoreError> {
        if self.health.is_up() {
            return Ok(());
        }
        let (reply, receiver) = oneshot::channel();
        let (health, path) = (self.health.clone(), database.with_extension("probe"));
        let task: WriterTask = Box::new(move |transaction| {
            let outcome = write_probe(transaction, &path);
            let failure = outcome.as_ref().err().and_then(SqliteFailure::find);
            let should_commit = outcome.is_ok();
            let notify = move |commit: Result<(), StoreError>| {
                let result = commit.and(outcome);
                // This runs on the thread of the writer, so it cannot hide a later failure.
                if result.is_ok() {
                    health.report_recovery();
                }
                drop(reply.send(result));
            };
            TaskResult { should_commit, failure, notify: Box::new(notify) }
        });
        self.submit(task)?;
        receiver.await.map_err(|_| writer_stopped())?
    }

    /// Whether the queue accepts a write now.
    pub(crate) fn accepts_work(&self) -> bool {
        self.queue.as_ref().is_some_and(|it| !it.is_closed() && it.capacity() > 0)
    }

    /// Returns the writer's metrics; `path` is its database file.
    pub(crate) fn metrics(&self, log: &'static str, path: &Path) -> WriterMetrics {
        let queue_length =
            |it: &mpsc::Sender<WriterTask>| it.max_capacity().saturating_sub(it.capacity());
        let wal = fs::metadata(path.with_extension("db-wal"));
        WriterMetrics {
            log,
            queue_capacity: QUEUE_MAX.try_into().unwrap_or(u64::MAX),
            queued: self.queue.as_ref().map_or(0, queue_length).try_into().unwrap_or(u64::MAX),
            wal_pages_pending: self.progress.pages_pending.get(),
            rejected: self.counts.rejected.get(),
            batch_sizes: self.counts.group_sizes.snapshot(),
            commit_micros: self.counts.commit_micros.snapshot(),
            unknown_outcomes: self.counts.failed.get(),
            wal_bytes: wal.map(|it| it.len()).unwrap_or_default(),
        }
    }
}

/// The thread finishes all accepted work before it ends.
impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// The state that the thread of a writer uses.
struct WriterState {
    progress: Arc<WriterProgress>,
    counts: Arc<WriterCounts>,
    health: LogHealth,
    clock: MonotonicClock,
}

fn writer_loop(
    connection: &Connection,
    mut queue: mpsc::Receiver<WriterTask>,
    state: &WriterState,
) {
    let WriterState { progress, counts, health, clock } = state;
    let mut tasks = Vec::with_capacity(GROUP_MAX);
    while queue.blocking_recv_many(&mut tasks, GROUP_MAX) > 0 {
        if progress.restart_due.swap(false, Ordering::Relaxed) {
            restart_wal(connection);
        }
        let started_at = clock();
        let (results, commit_result) = commit_group(connection, &mut tasks, &mut queue, health);
        let duration = clock().saturating_sub(started_at);
        // Read after the commit, because the requesting task may have joined the group late.
        if progress.truncate_requested.swap(false, Ordering::Relaxed)
            && !truncate_wal_with_retries(connection)
        {
            tracing::warn!("WAL truncation deferred: a reader is still active");
            // The checkpointer retries, so that no other write waits for it.
            progress.truncate_due.store(true, Ordering::Relaxed);
        }
        // Counted before the reply, so that a client that has its reply finds its write in the
        // metrics.
        counts.record_commit(commit_result.is_ok().then_some(results.len()), duration);
        for result in results.into_iter().flatten() {
            (result.notify)(if commit_result.is_ok() {
                Ok(())
            } else {
                Err(commit_outcome_unknown())
            });
        }
        progress.commits.fetch_add(1, Ordering::Relaxed);
    }
}

/// How long the writer waits for a restart of the WAL. All writes wait during this time.
const RESTART_TIMEOUT: Duration = Duration::from_millis(100);

/// Restarts the WAL. Reads are usually short. If a read blocks the restart, the next checkpoint
/// pass requests it again.
fn restart_wal(connection: &Connection) {
    let busy = with_busy_timeout(connection, RESTART_TIMEOUT, || {
        connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get(0))
    });
    if busy != Ok(0_i64) {
        tracing::debug!("WAL restart failed: a reader is still active");
    }
}

/// The writer makes many short attempts instead of a long one: a reader older than the last commit
/// blocks one attempt and not the next, and SQLite does not wait for a concurrent checkpoint, which
/// may sync to a slow disk. The pauses grow to two and a half seconds in total.
const TRUNCATE_ATTEMPTS: u32 = 50;
const TRUNCATE_BUSY_TIMEOUT: Duration = Duration::from_millis(50);
const TRUNCATE_PAUSE_STEP: Duration = Duration::from_millis(2);

/// Truncates the WAL and returns whether it is empty now.
fn truncate_wal_with_retries(connection: &Connection) -> bool {
    with_busy_timeout(connection, TRUNCATE_BUSY_TIMEOUT, || {
        (0..TRUNCATE_ATTEMPTS).any(|attempt| {
            std::thread::sleep(TRUNCATE_PAUSE_STEP.saturating_mul(attempt));
            truncate_wal(connection)
        })
    })
}

/// Checkpoints and truncates the WAL. Returns false if a reader or another checkpoint blocks it.
pub(crate) fn truncate_wal(connection: &Connection) -> bool {
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
    busy == Ok(0_i64)
}

/// Runs tasks and commits them. Returns the results, which are not yet reported, and whether the
/// commit is durable.
fn commit_group(
    connection: &Connection,
    tasks: &mut Vec<WriterTask>,
    queue: &mut mpsc::Receiver<WriterTask>,
    health: &LogHealth,
) -> (Vec<Option<TaskResult>>, Result<(), StoreError>) {
    let mut results = Vec::with_capacity(tasks.len());
    let mut transaction = match SqliteTransaction::begin(connection) {
        Ok(transaction) => transaction,
        Err(error) => {
            // Reported first: dropping a task reports an error to its caller.
            health.report_failed_commit(&error);
            tasks.clear();
            return (results, Err(error));
        }
    };
    for task in tasks.drain(..) {
        results.push(run_task(&mut transaction, task, health));
    }
    // Tasks that arrived in the meantime share the sync of this commit.
    while results.len() < GROUP_MAX
        && let Ok(task) = queue.try_recv()
    {
        results.push(run_task(&mut transaction, task, health));
    }
    let commit_result = transaction.commit();
    if let Err(error) = &commit_result {
        health.report_failed_commit(error);
    }
    (results, commit_result)
}

fn commit_outcome_unknown() -> StoreError {
    StoreError::Unavailable("the commit failed; its outcome is unknown".into())
}

/// Runs a task; `None` if SQLite has ended the transaction or the task panicked. Dropping the reply
/// channel then reports an error to the caller.
fn run_task(
    transaction: &mut SqliteTransaction<'_>,
    task: WriterTask,
    health: &LogHealth,
) -> Option<TaskResult> {
    if transaction.is_ended() {
        return None;
    }
    let run_and_catch =
        |it: &mut SqliteTransaction<'_>| catch_unwind(AssertUnwindSafe(|| task(it))).ok();
    let result = transaction
        .attempt(run_and_catch, |it| it.as_ref().is_some_and(|it| it.should_commit))
        .ok()
        .flatten();
    health.report_failed_task(result.as_ref().and_then(|it| it.failure));
    result
}

/// Histogram bounds of group sizes, up to the largest group.
const GROUP_SIZE_BOUNDS: &[u64; 9] = &[1, 2, 4, 8, 16, 32, 64, 128, 256];

#[derive(Debug)]
struct WriterCounts {
    /// Writes rejected because the queue was full.
    rejected: Counter,
    group_sizes: Histogram<9>,
    commit_micros: Histogram<16>,
    failed: Counter,
}

impl Default for WriterCounts {
    fn default() -> Self {
        Self {
            rejected: Counter::default(),
            group_sizes: Histogram::new(GROUP_SIZE_BOUNDS),
            commit_micros: Histogram::new(MICROS_BOUNDS),
            failed: Counter::default(),
        }
    }
}

impl WriterCounts {
    /// Records one commit: its number of writes, or `None` if it failed.
    fn record_commit(&self, committed: Option<usize>, duration: Duration) {
        let Some(size) = committed else { return self.failed.increment() };
        self.group_sizes.record(size.try_into().unwrap_or(u64::MAX));
        self.commit_micros.record(duration.as_micros().try_into().unwrap_or(u64::MAX));
    }
}
