//! The one writer: groups whatever is waiting into one durable commit.
//!
//! Every piece of work has a savepoint of its own, so one that fails takes nothing with it; and
//! nobody hears of success before the commit is on disk.

use std::{
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
use scrip_core::{
    metrics::{Gauge, SPAN_TARGET, WriterMetrics},
    store::StoreError,
    time::MonotonicClock,
};
use tokio::sync::{mpsc, oneshot};
use tracing::Instrument;

use crate::sqlite::engine::{
    connection::BUSY_TIMEOUT, transaction::SqliteTransaction, writer_metrics::WriterCounts,
};

/// Past this a write is refused at once: waiting longer than a client does helps nobody.
pub(crate) const QUEUE_MAX: usize = 4096;
/// Enough to spread the cost of a sync; few enough that no one waits long for the others.
const BATCH_MAX: usize = 256;

pub(crate) type WriterTask = Box<dyn FnOnce(&mut SqliteTransaction<'_>) -> TaskResult + Send>;

/// What became of a piece of work, and how to say so after the commit.
pub(crate) struct TaskResult {
    pub(crate) keep: bool,
    pub(crate) notify: Box<dyn FnOnce(Result<(), StoreError>) + Send>,
}

/// What whoever waits is told when nobody will come to it any more.
pub(crate) fn writer_stopped() -> StoreError {
    StoreError::Unavailable("the writer has stopped".into())
}

#[derive(Debug)]
pub(crate) struct Writer {
    queue: Option<mpsc::Sender<WriterTask>>,
    thread: Option<JoinHandle<()>>,
    pub(crate) progress: Arc<WriterProgress>,
    counts: Arc<WriterCounts>,
}

/// What the writer and the checkpointer tell each other.
#[derive(Debug, Default)]
pub(crate) struct WriterProgress {
    /// Commits so far.
    pub(crate) commits: AtomicU64,
    /// The log has grown past its mark, and only the writer can make it start over.
    pub(crate) restart_due: AtomicBool,
    /// What was in the log must not stay there: it is to be moved and cut to nothing, by the
    /// writer, before it tells anybody of its next commit.
    pub(crate) truncate_requested: AtomicBool,
    /// The writer could not; now the checkpointer tries.
    pub(crate) truncate_due: AtomicBool,
    /// Pages of the log that are not in the file yet, as the checkpointer last saw it.
    pub(crate) pages_pending: Gauge,
}

impl Writer {
    pub(crate) fn start(connection: Connection, ticks: MonotonicClock) -> Result<Self, StoreError> {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let progress = Arc::new(WriterProgress::default());
        let counts = Arc::new(WriterCounts::default());
        let shared = (Arc::clone(&progress), Arc::clone(&counts));
        let thread = Builder::new()
            .name("scrip-writer".to_owned())
            .spawn(move || writer_loop(&connection, waiting, &shared.0, &shared.1, ticks))
            .map_err(|error| StoreError::Unavailable(error.into()))?;
        Ok(Self { queue: Some(queue), thread: Some(thread), progress, counts })
    }

    /// Runs the work in the next commit, and answers once that is durable.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SqliteTransaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write_if(work, |_| true).await
    }

    /// The same, where some outcomes take back what the work did.
    pub(crate) async fn write_if<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SqliteTransaction<'_>) -> Result<T, StoreError> + Send + 'static,
        should_keep: fn(&T) -> bool,
    ) -> Result<T, StoreError> {
        let (reply, receiver) = oneshot::channel();
        let work: WriterTask = Box::new(move |transaction| {
            let outcome = work(transaction);
            let keep = outcome.as_ref().is_ok_and(should_keep);
            // A client that has gone away does not want to hear it; the effect stays.
            let tell = move |commit: Result<(), StoreError>| drop(reply.send(commit.and(outcome)));
            TaskResult { keep, notify: Box::new(tell) }
        });
        self.submit(work)?;
        // From here to the commit: waiting, working, syncing.
        let span = tracing::info_span!(target: SPAN_TARGET, "store_write");
        receiver.instrument(span).await.map_err(|_| writer_stopped())?
    }

    /// For the next commit.
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

    /// Whether a write would be taken now.
    pub(crate) fn accepts_work(&self) -> bool {
        self.queue.as_ref().is_some_and(|it| !it.is_closed() && it.capacity() > 0)
    }
}

impl Writer {
    /// What it has counted; `path` is its database file.
    pub(crate) fn metrics(&self, log: &'static str, path: &Path) -> WriterMetrics {
        let waiting =
            |it: &mpsc::Sender<WriterTask>| it.max_capacity().saturating_sub(it.capacity());
        WriterMetrics {
            log,
            queued: self.queue.as_ref().map_or(0, waiting).try_into().unwrap_or(u64::MAX),
            wal_pages_pending: self.progress.pages_pending.get(),
            ..self.counts.metrics(path)
        }
    }
}

/// What was accepted is finished before the thread ends.
impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn writer_loop(
    connection: &Connection,
    mut queue: mpsc::Receiver<WriterTask>,
    progress: &WriterProgress,
    counts: &WriterCounts,
    ticks: MonotonicClock,
) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while queue.blocking_recv_many(&mut batch, BATCH_MAX) > 0 {
        if progress.restart_due.swap(false, Ordering::Relaxed) {
            restart_wal(connection);
        }
        let started = ticks();
        let (done, committed) = commit_batch(connection, &mut batch, &mut queue);
        let took = ticks().saturating_sub(started);
        // Not before the commit began: whoever asked may have joined it later.
        if progress.truncate_requested.swap(false, Ordering::Relaxed)
            && !truncate_wal_with_retries(connection)
        {
            tracing::warn!("somebody reads the database all the while; its log is cut later");
            // Nobody else is to wait for it.
            progress.truncate_due.store(true, Ordering::Relaxed);
        }
        // Before anybody hears of it: whoever then asks finds his write counted.
        counts.record_commit(committed.is_ok().then_some(done.len()), took);
        for worked in done.into_iter().flatten() {
            (worked.notify)(if committed.is_ok() { Ok(()) } else { Err(commit_outcome_unknown()) });
        }
        progress.commits.fetch_add(1, Ordering::Relaxed);
    }
}

/// Everybody who writes waits for as long.
const RESTART_WAIT: Duration = Duration::from_millis(100);

/// Readers are short; should one be in the way, the next mark tries again.
fn restart_wal(connection: &Connection) {
    drop(connection.busy_timeout(RESTART_WAIT));
    let busy = connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get(0));
    if busy != Ok(0_i64) {
        tracing::debug!("the log could not start over");
    }
    drop(connection.busy_timeout(BUSY_TIMEOUT));
}

/// Many short attempts, not a long one: a reader from before the last commit is in the way of one
/// and not of the next, and whoever else moves the log at the moment the engine does not wait for.
/// He may sync to a slow disk: the pauses grow, to two and a half seconds all together.
const TRUNCATE_ATTEMPTS: u32 = 50;
const TRUNCATE_BUSY_TIMEOUT: Duration = Duration::from_millis(50);
const TRUNCATE_PAUSE_STEP: Duration = Duration::from_millis(2);

/// Says whether the log is empty now.
fn truncate_wal_with_retries(connection: &Connection) -> bool {
    drop(connection.busy_timeout(TRUNCATE_BUSY_TIMEOUT));
    let done = (0..TRUNCATE_ATTEMPTS).any(|attempt| {
        std::thread::sleep(TRUNCATE_PAUSE_STEP.saturating_mul(attempt));
        truncate_wal(connection)
    });
    drop(connection.busy_timeout(BUSY_TIMEOUT));
    done
}

/// Moves the log into the database and cuts it to nothing, if nobody is in the way.
pub(crate) fn truncate_wal(connection: &Connection) -> bool {
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
    busy == Ok(0_i64)
}

/// All that is in it, and whether it is durable; nobody has been told.
fn commit_batch(
    connection: &Connection,
    batch: &mut Vec<WriterTask>,
    queue: &mut mpsc::Receiver<WriterTask>,
) -> (Vec<Option<TaskResult>>, Result<(), StoreError>) {
    let mut done = Vec::with_capacity(batch.len());
    let mut transaction = match SqliteTransaction::begin(connection) {
        Ok(started) => started,
        Err(error) => {
            batch.clear();
            return (done, Err(error));
        }
    };
    for work in batch.drain(..) {
        done.push(run_task(&mut transaction, work));
    }
    // What arrived meanwhile shares the sync that is about to be paid for.
    while done.len() < BATCH_MAX
        && let Ok(work) = queue.try_recv()
    {
        done.push(run_task(&mut transaction, work));
    }
    (done, transaction.commit())
}

fn commit_outcome_unknown() -> StoreError {
    StoreError::Unavailable("the commit failed; what became of it is unknown".into())
}

/// Nothing when the work could not even say what became of it; whoever waits is told so.
fn run_task(transaction: &mut SqliteTransaction<'_>, task: WriterTask) -> Option<TaskResult> {
    if transaction.is_ended() {
        return None;
    }
    let caught = |it: &mut SqliteTransaction<'_>| catch_unwind(AssertUnwindSafe(|| task(it))).ok();
    transaction.attempt(caught, |it| it.as_ref().is_some_and(|it| it.keep)).ok().flatten()
}
