//! The one writer: groups whatever is waiting into one durable commit.
//!
//! Every piece of work has a savepoint of its own, so one that fails takes nothing with it; and
//! nobody hears of success before the commit is on disk.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{Builder, JoinHandle},
    time::Duration,
};

use rusqlite::Connection;
use scrip_core::store::StoreError;
use tokio::sync::{mpsc, oneshot};

use crate::sqlite::{connection::BUSY_TIMEOUT, fault};

/// Past this a write is refused at once: waiting longer than a client does helps nobody.
const QUEUE_MAX: usize = 4096;
/// Enough to spread the cost of a sync; few enough that no one waits long for the others.
const BATCH_MAX: usize = 256;

type Work = Box<dyn FnOnce(&Connection) -> Worked + Send>;

/// What became of a piece of work, and how to say so after the commit.
struct Worked {
    keep: bool,
    tell: Box<dyn FnOnce(Result<(), StoreError>) + Send>,
}

#[derive(Debug)]
pub(super) struct Writer {
    queue: Option<mpsc::Sender<Work>>,
    thread: Option<JoinHandle<()>>,
    pub(super) progress: Arc<Progress>,
}

/// What the writer and the checkpointer tell each other.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Commits so far.
    pub(super) commits: AtomicU64,
    /// The log has grown past its mark, and only the writer can make it start over.
    pub(super) restart_due: AtomicBool,
    /// What was in the log must not stay there: it is to be moved and cut to nothing, by the
    /// writer, before it tells anybody of its next commit.
    pub(super) cut_asked: AtomicBool,
    /// The writer could not; now the checkpointer tries.
    pub(super) cut_due: AtomicBool,
}

impl Writer {
    pub(super) fn start(connection: Connection) -> Result<Self, StoreError> {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let progress = Arc::new(Progress::default());
        let shared = Arc::clone(&progress);
        let thread = Builder::new()
            .name("scrip-writer".to_owned())
            .spawn(move || run(&connection, waiting, &shared))
            .map_err(|error| StoreError::Unavailable(error.into()))?;
        Ok(Self { queue: Some(queue), thread: Some(thread), progress })
    }

    /// Runs the work in the next commit, and answers once that is durable.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write_if(work, |_| true).await
    }

    /// The same, where some outcomes take back what the work did.
    pub(super) async fn write_if<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
        keeps: fn(&T) -> bool,
    ) -> Result<T, StoreError> {
        let stopped = || StoreError::Unavailable("the writer has stopped".into());
        let (reply, answer) = oneshot::channel();
        let work: Work = Box::new(move |connection| {
            let outcome = work(connection);
            let keep = outcome.as_ref().is_ok_and(keeps);
            // A client that has gone away does not want to hear it; the effect stays.
            let tell = move |commit: Result<(), StoreError>| drop(reply.send(commit.and(outcome)));
            Worked { keep, tell: Box::new(tell) }
        });
        let queue = self.queue.as_ref().ok_or_else(stopped)?;
        queue.try_send(work).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => StoreError::Busy,
            mpsc::error::TrySendError::Closed(_) => stopped(),
        })?;
        answer.await.map_err(|_| stopped())?
    }

    /// Whether a write would be taken now.
    pub(super) fn takes_work(&self) -> bool {
        self.queue.as_ref().is_some_and(|it| !it.is_closed() && it.capacity() > 0)
    }
}

impl Writer {
    /// Writes that were taken and not begun.
    pub(super) fn waiting(&self) -> u64 {
        let waiting = |it: &mpsc::Sender<Work>| it.max_capacity().saturating_sub(it.capacity());
        self.queue.as_ref().map_or(0, waiting).try_into().unwrap_or(u64::MAX)
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

fn run(connection: &Connection, mut waiting: mpsc::Receiver<Work>, progress: &Progress) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while waiting.blocking_recv_many(&mut batch, BATCH_MAX) > 0 {
        if progress.restart_due.swap(false, Ordering::Relaxed) {
            restart(connection);
        }
        commit(connection, &mut batch, &mut waiting, progress);
        progress.commits.fetch_add(1, Ordering::Relaxed);
    }
}

/// Everybody who writes waits for as long.
const RESTART_WAIT: Duration = Duration::from_millis(100);

/// Readers are short; should one be in the way, the next mark tries again.
fn restart(connection: &Connection) {
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
const CUTS_BEFORE_ANSWER: u32 = 50;
const CUT_WAIT: Duration = Duration::from_millis(50);
const CUT_PAUSE_GROWS: Duration = Duration::from_millis(2);

/// Says whether the log is empty now.
fn cut_soon(connection: &Connection) -> bool {
    drop(connection.busy_timeout(CUT_WAIT));
    let done = (0..CUTS_BEFORE_ANSWER).any(|attempt| {
        std::thread::sleep(CUT_PAUSE_GROWS.saturating_mul(attempt));
        cut(connection)
    });
    drop(connection.busy_timeout(BUSY_TIMEOUT));
    done
}

/// Moves the log into the database and cuts it to nothing, if nobody is in the way.
pub(super) fn cut(connection: &Connection) -> bool {
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
    busy == Ok(0_i64)
}

fn commit(
    connection: &Connection,
    batch: &mut Vec<Work>,
    waiting: &mut mpsc::Receiver<Work>,
    progress: &Progress,
) {
    let mut done = Vec::with_capacity(batch.len());
    if execute(connection, "BEGIN IMMEDIATE").is_err() {
        batch.clear();
        return;
    }
    for work in batch.drain(..) {
        done.push(attempt(connection, work));
    }
    // What arrived meanwhile shares the sync that is about to be paid for.
    while done.len() < BATCH_MAX
        && let Ok(work) = waiting.try_recv()
    {
        done.push(attempt(connection, work));
    }
    let committed = execute(connection, "COMMIT");
    if committed.is_err() && !connection.is_autocommit() {
        drop(execute(connection, "ROLLBACK"));
    }
    // Not before the commit began: whoever asked may have joined it later.
    if progress.cut_asked.swap(false, Ordering::Relaxed) && !cut_soon(connection) {
        tracing::warn!("somebody reads the database all the while; its log is cut later");
        // Nobody else is to wait for it.
        progress.cut_due.store(true, Ordering::Relaxed);
    }
    for worked in done.into_iter().flatten() {
        (worked.tell)(if committed.is_ok() { Ok(()) } else { Err(unknown()) });
    }
}

fn unknown() -> StoreError {
    StoreError::Unavailable("the commit failed; what became of it is unknown".into())
}

/// Nothing when the work could not even say what became of it; whoever waits is told so.
fn attempt(connection: &Connection, work: Work) -> Option<Worked> {
    // After a full disk the engine may have ended the whole transaction by itself.
    if connection.is_autocommit() || execute(connection, "SAVEPOINT work").is_err() {
        return None;
    }
    let worked = catch_unwind(AssertUnwindSafe(|| work(connection))).ok();
    if !worked.as_ref().is_some_and(|it| it.keep) && !connection.is_autocommit() {
        drop(execute(connection, "ROLLBACK TO work"));
    }
    if !connection.is_autocommit() {
        drop(execute(connection, "RELEASE work"));
    }
    worked
}

fn execute(connection: &Connection, sql: &str) -> Result<(), StoreError> {
    connection.prepare_cached(sql).and_then(|mut it| it.execute([])).map(drop).map_err(fault)
}
