//! Checkpoints the WAL in the background, so that no request waits for it.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering, mpsc},
    thread::{Builder, JoinHandle},
    time::Duration,
};

use rusqlite::Connection;
use scrip_core::types::StoreError;

use crate::sqlite::engine::{
    connection::{open_checkpointer, with_busy_timeout},
    statement::SqliteFailure,
    writer::{WriterProgress, truncate_wal},
};

/// Pause between two checkpoints.
const INTERVAL: Duration = Duration::from_millis(250);
/// Under continuous load a passive checkpoint never reaches the end of the WAL, which would then
/// grow without limit. Above this number of pages the writer restarts the WAL.
const WAL_PAGES_MAX: i64 = 16 * 1024;
/// Maximum number of repeated checkpoints.
const PASSES_MAX: usize = 4;
/// A repeated checkpoint that copies fewer pages is the last one.
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
    let (mut checkpointed_commits, mut last_state) = (0, WalState { pages: 0, checkpointed: 0 });
    let mut is_failing = false;
    while stopped.recv_timeout(INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout) {
        if progress.truncate_due.load(Ordering::Relaxed) {
            // No busy timeout: while this connection waits for readers, writers would wait too.
            let is_truncated =
                with_busy_timeout(connection, Duration::ZERO, || truncate_wal(connection));
            progress.truncate_due.store(!is_truncated, Ordering::Relaxed);
        }
        let commits = progress.commits.load(Ordering::Relaxed);
        if commits == checkpointed_commits {
            continue;
        }
        match checkpoint_until_short(connection) {
            Ok(state) => {
                is_failing = false;
                let pending = state.pages.saturating_sub(state.checkpointed);
                progress.pages_pending.set(pending.try_into().unwrap_or_default());
                progress
                    .restart_due
                    .store(should_restart_wal(&last_state, &state), Ordering::Relaxed);
                // Until all pages are checkpointed, readers must search the WAL, so try again.
                if state.checkpointed == state.pages {
                    checkpointed_commits = commits;
                }
                last_state = state;
            }
            // Logged once: on a full disk every checkpoint fails until space is free.
            Err(error) if !is_failing => {
                is_failing = true;
                let cause = error
                    .sqlite_error()
                    .map(|it| SqliteFailure { extended_code: it.extended_code });
                tracing::warn!(
                    cause = cause.map(|it| it.to_string()),
                    "checkpoint failed; retrying"
                );
            }
            Err(_) => (),
        }
    }
}

/// Number of pages in the WAL, and how many of them are in the database file.
struct WalState {
    pages: i64,
    checkpointed: i64,
}

/// Whether the writer should restart the WAL. A long read, such as a backup, blocks checkpoints
/// past its snapshot. Then the WAL cannot restart, and an attempt by the writer would only delay
/// all writes.
fn should_restart_wal(last: &WalState, now: &WalState) -> bool {
    let is_blocked = now.checkpointed < now.pages && now.checkpointed == last.checkpointed;
    now.pages > WAL_PAGES_MAX && !is_blocked
}

/// Repeats checkpoints until the WAL is short before the writer restarts it, because the writer
/// blocks all writes while it checkpoints the remaining pages.
fn checkpoint_until_short(connection: &Connection) -> rusqlite::Result<WalState> {
    let mut state = checkpoint_passive(connection)?;
    for _ in 0..PASSES_MAX {
        let previous_checkpointed = state.checkpointed;
        if state.pages <= WAL_PAGES_MAX {
            break;
        }
        state = checkpoint_passive(connection)?;
        if state.checkpointed.saturating_sub(previous_checkpointed) < PASS_PAGES_MIN {
            break;
        }
    }
    Ok(state)
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
        const LONG_WAL: i64 = WAL_PAGES_MAX + 1_000;
        let assert_restart = |last: (i64, i64), now: (i64, i64), expected| {
            let [last, now] =
                [last, now].map(|(pages, checkpointed)| WalState { pages, checkpointed });
            assert_eq!(
                should_restart_wal(&last, &now),
                expected,
                "{} pages, {} of them checkpointed",
                now.pages,
                now.checkpointed
            );
        };
        assert_restart((0, 0), (WAL_PAGES_MAX, WAL_PAGES_MAX), false);
        assert_restart((0, 0), (LONG_WAL, LONG_WAL), true);
        // Under load some pages are always pending.
        assert_restart((LONG_WAL, LONG_WAL - 900), (LONG_WAL + 500, LONG_WAL - 300), true);
        // All pages are checkpointed, and there are no new writes.
        assert_restart((LONG_WAL, LONG_WAL), (LONG_WAL, LONG_WAL), true);
        // A reader has blocked checkpoints since the last pass.
        assert_restart((LONG_WAL, LONG_WAL - 900), (LONG_WAL + 500, LONG_WAL - 900), false);
        assert_restart((100, 100), (LONG_WAL, 100), false);
    }
}
