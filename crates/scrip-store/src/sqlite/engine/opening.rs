//! Opening a vault, as a server or beside one.

use std::{path::Path, sync::Arc, time::Duration};

use scrip_core::{store::StoreError, time::MonotonicClock};

use crate::{
    claims::InFlightClaims,
    sqlite::{
        SqliteStore,
        audit::read_log::{self, SqliteReadLog},
        engine::{
            checkpoint::Checkpointer,
            connection::{self, DatabaseKind, PageMode},
            readers::Readers,
            writer::Writer,
        },
        transfer::has_unfinished_import,
    },
    transfer::UNFINISHED_IMPORT,
};

/// Where nobody asks how long commits take: they take no time.
const UNTIMED: MonotonicClock = || Duration::ZERO;

/// An operator's command holds the lock only to begin; a server waits for that long.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);

impl SqliteStore {
    /// Opens or creates the file, and brings its schema up to date.
    ///
    /// # Errors
    /// The file cannot be used, is open elsewhere, or was written by a newer version.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, PageMode::Mapped, UNTIMED)
    }

    /// The same, with a choice of how pages are read, and a clock by which commits are timed.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn open_with(
        path: &Path,
        pages: PageMode,
        ticks: MonotonicClock,
    ) -> Result<Self, StoreError> {
        let lock = connection::lock_data_directory(path, LOCK_TIMEOUT)?;
        let busy =
            || StoreError::Unavailable("another process has this data directory open".into());
        let lock = lock.ok_or_else(busy)?;
        let mut store = Self::start(path, pages, ticks, connection::open_writer)?;
        store.read_log.start_checkpointer(&read_log::read_log_path(path))?;
        let progress = Arc::clone(&store.writer.progress);
        store._checkpointer = Some(Checkpointer::start(path, progress)?);
        store._lock = Some(lock);
        Ok(store)
    }

    /// For an operator's command, beside a running server or without one. The engine's own locks
    /// keep the two apart for each transaction.
    ///
    /// # Errors
    /// As for [`SqliteStore::open`].
    pub fn open_for_command(path: &Path) -> Result<Self, StoreError> {
        match connection::lock_data_directory(path, Duration::ZERO)? {
            // Nobody is there, so the schema is ours to bring up to date; and then the lock is
            // free again for a server to start.
            Some(_lock) => Self::start(path, PageMode::Mapped, UNTIMED, connection::open_writer),
            None => Self::start(
                path,
                PageMode::Mapped,
                UNTIMED,
                connection::open_writer_alongside_server,
            ),
        }
    }

    fn start(
        path: &Path,
        pages: PageMode,
        ticks: MonotonicClock,
        open: fn(&Path, DatabaseKind) -> Result<rusqlite::Connection, StoreError>,
    ) -> Result<Self, StoreError> {
        let vault = open(path, DatabaseKind::Vault)?;
        if has_unfinished_import(&vault)? {
            return Err(StoreError::Unavailable(UNFINISHED_IMPORT.into()));
        }
        let writer = Writer::start(vault, ticks)?;
        let access = read_log::read_log_path(path);
        Ok(Self {
            _checkpointer: None,
            read_log: SqliteReadLog::start(
                &access,
                pages,
                ticks,
                open(&access, DatabaseKind::ReadLog)?,
            )?,
            readers: Readers::new(path, pages)?,
            writer,
            claims: InFlightClaims::default(),
            path: path.to_owned(),
            _lock: None,
        })
    }
}
