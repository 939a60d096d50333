//! Moves the write-ahead log into the database file while nobody waits for it.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering, mpsc},
    thread::{Builder, JoinHandle},
    time::Duration,
};

use rusqlite::Connection;
use scrip_core::store::StoreError;

use crate::sqlite::{
    connection::{BUSY_TIMEOUT, open_checkpointer},
    writer::{Progress, cut},
};

const EVERY: Duration = Duration::from_millis(250);
/// Under unbroken load a passive checkpoint never reaches the end of the log, which would grow
/// without bound. At this many pages the writer lets it start over.
const LOG_PAGES_MAX: i64 = 16 * 1024;
const PASSES_MAX: usize = 4;
const PASS_PAGES_ENOUGH: i64 = 256;

#[derive(Debug)]
pub(super) struct Checkpointer {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    pub(super) fn start(path: &Path, progress: Arc<Progress>) -> Result<Self, StoreError> {
        let connection = open_checkpointer(path)?;
        let (stop, stopped) = mpsc::channel();
        let thread = Builder::new()
            .name("scrip-checkpoint".to_owned())
            .spawn(move || run(&connection, &stopped, &progress))
            .map_err(|error| StoreError::Unavailable(error.into()))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn run(connection: &Connection, stopped: &mpsc::Receiver<()>, progress: &Progress) {
    let mut seen = 0;
    while stopped.recv_timeout(EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
        if progress.cut_due.load(Ordering::Relaxed) {
            // Without waiting: whoever waits for readers keeps writers waiting.
            drop(connection.busy_timeout(Duration::ZERO));
            progress.cut_due.store(!cut(connection), Ordering::Relaxed);
            drop(connection.busy_timeout(BUSY_TIMEOUT));
        }
        let commits = progress.commits.load(Ordering::Relaxed);
        if commits == seen {
            continue;
        }
        match catch_up(connection) {
            Ok(Log { pages, moved }) => {
                progress.restart_due.store(pages > LOG_PAGES_MAX, Ordering::Relaxed);
                // Until every page is moved, readers have to look for it in the log: try again.
                if moved == pages {
                    seen = commits;
                }
            }
            Err(error) => tracing::warn!(code = ?error.sqlite_error_code(), "checkpoint failed"),
        }
    }
}

struct Log {
    pages: i64,
    moved: i64,
}

/// Before the writer is told to start over, the log is moved again until little is left of it:
/// what is left, the writer has to move while everybody waits.
fn catch_up(connection: &Connection) -> rusqlite::Result<Log> {
    let mut log = passive(connection)?;
    for _ in 0..PASSES_MAX {
        let before = log.moved;
        if log.pages <= LOG_PAGES_MAX {
            break;
        }
        log = passive(connection)?;
        if log.moved.saturating_sub(before) < PASS_PAGES_ENOUGH {
            break;
        }
    }
    Ok(log)
}

fn passive(connection: &Connection) -> rusqlite::Result<Log> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        Ok(Log { pages: row.get(1)?, moved: row.get(2)? })
    })
}
