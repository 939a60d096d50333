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
    measure::{Level, LogMeasures, SPAN_TARGET},
    store::StoreError,
    time::Ticks,
};
use tokio::sync::{mpsc, oneshot};
use tracing::Instrument;

use crate::sqlite::engine::{connection::BUSY_TIMEOUT, measures::Counts, transaction::Transaction};

/// Past this a write is refused at once: waiting longer than a client does helps nobody.
pub(crate) const QUEUE_MAX: usize = 4096;
/// Enough to spread the cost of a sync; few enough that no one waits long for the others.
const BATCH_MAX: usize = 256;

pub(crate) type Work = Box<dyn FnOnce(&mut Transaction<'_>) -> Worked + Send>;

/// What became of a piece of work, and how to say so after the commit.
pub(crate) struct Worked {
    pub(crate) keep: bool,
    pub(crate) tell: Box<dyn FnOnce(Result<(), StoreError>) + Send>,
}

/// What whoever waits is told when nobody will come to it any more.
pub(crate) fn stopped() -> StoreError {
    StoreError::Unavailable("the writer has stopped".into())
}

#[derive(Debug)]
pub(crate) struct Writer {
    queue: Option<mpsc::Sender<Work>>,
    thread: Option<JoinHandle<()>>,
    pub(crate) progress: Arc<Progress>,
    counts: Arc<Counts>,
}

/// What the writer and the checkpointer tell each other.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Commits so far.
    pub(crate) commits: AtomicU64,
    /// The log has grown past its mark, and only the writer can make it start over.
    pub(crate) restart_due: AtomicBool,
    /// What was in the log must not stay there: it is to be moved and cut to nothing, by the
    /// writer, before it tells anybody of its next commit.
    pub(crate) cut_asked: AtomicBool,
    /// The writer could not; now the checkpointer tries.
    pub(crate) cut_due: AtomicBool,
    /// Pages of the log that are not in the file yet, as the checkpointer last saw it.
    pub(crate) pages_waiting: Level,
}

impl Writer {
    pub(crate) fn start(connection: Connection, ticks: Ticks) -> Result<Self, StoreError> {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let progress = Arc::new(Progress::default());
        let counts = Arc::new(Counts::default());
        let shared = (Arc::clone(&progress), Arc::clone(&counts));
        let thread = Builder::new()
            .name("scrip-writer".to_owned())
            .spawn(move || run(&connection, waiting, &shared.0, &shared.1, ticks))
            .map_err(|error| StoreError::Unavailable(error.into()))?;
        Ok(Self { queue: Some(queue), thread: Some(thread), progress, counts })
    }

    /// Runs the work in the next commit, and answers once that is durable.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write_if(work, |_| true).await
    }

    /// The same, where some outcomes take back what the work did.
    pub(crate) async fn write_if<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
        keeps: fn(&T) -> bool,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let work: Work = Box::new(move |transaction| {
            let outcome = work(transaction);
            let keep = outcome.as_ref().is_ok_and(keeps);
            // A client that has gone away does not want to hear it; the effect stays.
            let tell = move |commit: Result<(), StoreError>| drop(reply.send(commit.and(outcome)));
            Worked { keep, tell: Box::new(tell) }
        });
        self.submit(work)?;
        // From here to the commit: waiting, working, syncing.
        let span = tracing::info_span!(target: SPAN_TARGET, "store_write");
        answer.instrument(span).await.map_err(|_| stopped())?
    }

    /// For the next commit.
    pub(crate) fn submit(&self, work: Work) -> Result<(), StoreError> {
        let queue = self.queue.as_ref().ok_or_else(stopped)?;
        queue.try_send(work).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                self.counts.refused.one();
                StoreError::Busy
            }
            mpsc::error::TrySendError::Closed(_) => stopped(),
        })
    }

    /// Whether a write would be taken now.
    pub(crate) fn takes_work(&self) -> bool {
        self.queue.as_ref().is_some_and(|it| !it.is_closed() && it.capacity() > 0)
    }
}

impl Writer {
    /// What it has counted; `path` is its database file.
    pub(crate) fn measures(&self, log: &'static str, path: &Path) -> LogMeasures {
        let waiting = |it: &mpsc::Sender<Work>| it.max_capacity().saturating_sub(it.capacity());
        LogMeasures {
            log,
            waiting: self.queue.as_ref().map_or(0, waiting).try_into().unwrap_or(u64::MAX),
            wal_pages_waiting: self.progress.pages_waiting.get(),
            ..self.counts.read(path)
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

fn run(
    connection: &Connection,
    mut waiting: mpsc::Receiver<Work>,
    progress: &Progress,
    counts: &Counts,
    ticks: Ticks,
) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while waiting.blocking_recv_many(&mut batch, BATCH_MAX) > 0 {
        if progress.restart_due.swap(false, Ordering::Relaxed) {
            restart(connection);
        }
        let begun = ticks();
        let (done, committed) = commit(connection, &mut batch, &mut waiting);
        let took = ticks().saturating_sub(begun);
        // Not before the commit began: whoever asked may have joined it later.
        if progress.cut_asked.swap(false, Ordering::Relaxed) && !cut_soon(connection) {
            tracing::warn!("somebody reads the database all the while; its log is cut later");
            // Nobody else is to wait for it.
            progress.cut_due.store(true, Ordering::Relaxed);
        }
        // Before anybody hears of it: whoever then asks finds his write counted.
        counts.note(committed.is_ok().then_some(done.len()), took);
        for worked in done.into_iter().flatten() {
            (worked.tell)(if committed.is_ok() { Ok(()) } else { Err(unknown()) });
        }
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
pub(crate) fn cut(connection: &Connection) -> bool {
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
    busy == Ok(0_i64)
}

/// All that is in it, and whether it is durable; nobody has been told.
fn commit(
    connection: &Connection,
    batch: &mut Vec<Work>,
    waiting: &mut mpsc::Receiver<Work>,
) -> (Vec<Option<Worked>>, Result<(), StoreError>) {
    let mut done = Vec::with_capacity(batch.len());
    let mut transaction = match Transaction::begin(connection) {
        Ok(begun) => begun,
        Err(error) => {
            batch.clear();
            return (done, Err(error));
        }
    };
    for work in batch.drain(..) {
        done.push(attempt(&mut transaction, work));
    }
    // What arrived meanwhile shares the sync that is about to be paid for.
    while done.len() < BATCH_MAX
        && let Ok(work) = waiting.try_recv()
    {
        done.push(attempt(&mut transaction, work));
    }
    (done, transaction.commit())
}

fn unknown() -> StoreError {
    StoreError::Unavailable("the commit failed; what became of it is unknown".into())
}

/// Nothing when the work could not even say what became of it; whoever waits is told so.
fn attempt(transaction: &mut Transaction<'_>, work: Work) -> Option<Worked> {
    if transaction.is_over() {
        return None;
    }
    let caught = |it: &mut Transaction<'_>| catch_unwind(AssertUnwindSafe(|| work(it))).ok();
    transaction.attempt(caught, |it| it.as_ref().is_some_and(|it| it.keep)).ok().flatten()
}
