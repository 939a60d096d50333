//! Moves the write-ahead log into the database file while nobody waits for it.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering, mpsc},
    thread::{Builder, JoinHandle},
    time::Duration,
};

use rusqlite::Connection;
use scrip_core::store::StoreError;

use crate::sqlite::engine::{
    connection::{BUSY_TIMEOUT, open_checkpointer},
    writer::{WriterProgress, truncate_wal},
};

const INTERVAL: Duration = Duration::from_millis(250);
/// Under unbroken load a passive checkpoint never reaches the end of the log, which would grow
/// without bound. At this many pages the writer lets it start over.
const WAL_PAGES_MAX: i64 = 16 * 1024;
const PASSES_MAX: usize = 4;
const PASS_PAGES_MIN: i64 = 256;

#[derive(Debug)]
pub(crate) struct Checkpointer {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    pub(crate) fn start(path: &Path, progress: Arc<WriterProgress>) -> Result<Self, StoreError> {
        let connection = open_checkpointer(path)?;
        let (stop, stopped) = mpsc::channel();
        let thread = Builder::new()
            .name("scrip-checkpoint".to_owned())
            .spawn(move || checkpoint_loop(&connection, &stopped, &progress))
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

fn checkpoint_loop(
    connection: &Connection,
    stopped: &mpsc::Receiver<()>,
    progress: &WriterProgress,
) {
    let (mut seen, mut last) = (0, WalState { pages: 0, checkpointed: 0 });
    while stopped.recv_timeout(INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout) {
        if progress.truncate_due.load(Ordering::Relaxed) {
            // Without waiting: whoever waits for readers keeps writers waiting.
            drop(connection.busy_timeout(Duration::ZERO));
            progress.truncate_due.store(!truncate_wal(connection), Ordering::Relaxed);
            drop(connection.busy_timeout(BUSY_TIMEOUT));
        }
        let commits = progress.commits.load(Ordering::Relaxed);
        if commits == seen {
            continue;
        }
        match checkpoint_until_short(connection) {
            Ok(log) => {
                let waiting = log.pages.saturating_sub(log.checkpointed);
                progress.pages_pending.set(waiting.try_into().unwrap_or_default());
                progress.restart_due.store(should_restart_wal(&last, &log), Ordering::Relaxed);
                // Until every page is moved, readers have to look for it in the log: try again.
                if log.checkpointed == log.pages {
                    seen = commits;
                }
                last = log;
            }
            Err(error) => tracing::warn!(code = ?error.sqlite_error_code(), "checkpoint failed"),
        }
    }
}

struct WalState {
    pages: i64,
    checkpointed: i64,
}

/// While somebody reads for long, such as a backup, nothing behind what he sees can be moved. The
/// log cannot start over then, and to let the writer try would only keep everybody waiting.
fn should_restart_wal(last: &WalState, now: &WalState) -> bool {
    let is_held = now.checkpointed < now.pages && now.checkpointed == last.checkpointed;
    now.pages > WAL_PAGES_MAX && !is_held
}

/// Before the writer is told to start over, the log is moved again until little is left of it:
/// what is left, the writer has to move while everybody waits.
fn checkpoint_until_short(connection: &Connection) -> rusqlite::Result<WalState> {
    let mut log = checkpoint_passive(connection)?;
    for _ in 0..PASSES_MAX {
        let before = log.checkpointed;
        if log.pages <= WAL_PAGES_MAX {
            break;
        }
        log = checkpoint_passive(connection)?;
        if log.checkpointed.saturating_sub(before) < PASS_PAGES_MIN {
            break;
        }
    }
    Ok(log)
}

fn checkpoint_passive(connection: &Connection) -> rusqlite::Result<WalState> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        Ok(WalState { pages: row.get(1)?, checkpointed: row.get(2)? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writer_restarts_the_wal_only_when_no_reader_holds_it() {
        const LONG: i64 = WAL_PAGES_MAX + 1_000;
        let check = |last: (i64, i64), now: (i64, i64), expected| {
            let [last, now] =
                [last, now].map(|(pages, moved)| WalState { pages, checkpointed: moved });
            assert_eq!(
                should_restart_wal(&last, &now),
                expected,
                "{} {}",
                now.pages,
                now.checkpointed
            );
        };
        check((0, 0), (WAL_PAGES_MAX, WAL_PAGES_MAX), false);
        check((0, 0), (LONG, LONG), true);
        // Under load there is always something left to move.
        check((LONG, LONG - 900), (LONG + 500, LONG - 300), true);
        // Nobody writes any more.
        check((LONG, LONG), (LONG, LONG), true);
        // Somebody reads, and has since the last time.
        check((LONG, LONG - 900), (LONG + 500, LONG - 900), false);
        check((100, 100), (LONG, 100), false);
    }
}
