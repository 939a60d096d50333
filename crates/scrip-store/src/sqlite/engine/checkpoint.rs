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
    writer::{Progress, cut},
};

const EVERY: Duration = Duration::from_millis(250);
/// Under unbroken load a passive checkpoint never reaches the end of the log, which would grow
/// without bound. At this many pages the writer lets it start over.
const LOG_PAGES_MAX: i64 = 16 * 1024;
const PASSES_MAX: usize = 4;
const PASS_PAGES_ENOUGH: i64 = 256;

#[derive(Debug)]
pub(crate) struct Checkpointer {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    pub(crate) fn start(path: &Path, progress: Arc<Progress>) -> Result<Self, StoreError> {
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
    let (mut seen, mut last) = (0, Log { pages: 0, moved: 0 });
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
            Ok(log) => {
                let waiting = log.pages.saturating_sub(log.moved);
                progress.pages_waiting.set(waiting.try_into().unwrap_or_default());
                progress.restart_due.store(restart_helps(&last, &log), Ordering::Relaxed);
                // Until every page is moved, readers have to look for it in the log: try again.
                if log.moved == log.pages {
                    seen = commits;
                }
                last = log;
            }
            Err(error) => tracing::warn!(code = ?error.sqlite_error_code(), "checkpoint failed"),
        }
    }
}

struct Log {
    pages: i64,
    moved: i64,
}

/// While somebody reads for long, such as a backup, nothing behind what he sees can be moved. The
/// log cannot start over then, and to let the writer try would only keep everybody waiting.
fn restart_helps(last: &Log, now: &Log) -> bool {
    let is_held = now.moved < now.pages && now.moved == last.moved;
    now.pages > LOG_PAGES_MAX && !is_held
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writer_waits_only_for_what_can_happen() {
        const LONG: i64 = LOG_PAGES_MAX + 1_000;
        let check = |last: (i64, i64), now: (i64, i64), expected| {
            let [last, now] = [last, now].map(|(pages, moved)| Log { pages, moved });
            assert_eq!(restart_helps(&last, &now), expected, "{} {}", now.pages, now.moved);
        };
        check((0, 0), (LOG_PAGES_MAX, LOG_PAGES_MAX), false);
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
