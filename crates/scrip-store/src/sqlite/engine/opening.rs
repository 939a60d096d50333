//! Opening a vault, as a server or beside one.

use std::{path::Path, sync::Arc, time::Duration};

use scrip_core::{store::StoreError, time::Ticks};

use crate::{
    claims::Claims,
    sqlite::{
        SqliteStore,
        audit::access_log::{self, AccessLog},
        engine::{
            checkpoint::Checkpointer,
            connection::{self, Kind, Pages},
            readers::Readers,
            writer::Writer,
        },
        transfer::is_importing,
    },
    transfer::UNFINISHED_IMPORT,
};

/// Where nobody asks how long commits take: they take no time.
const UNTIMED: Ticks = || Duration::ZERO;

/// An operator's command holds the lock only to begin; a server waits for that long.
const SERVER_PATIENCE: Duration = Duration::from_secs(3);

impl SqliteStore {
    /// Opens or creates the file, and brings its schema up to date.
    ///
    /// # Errors
    /// The file cannot be used, is open elsewhere, or was written by a newer version.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, Pages::Mapped, UNTIMED)
    }

    /// The same, with a choice of how pages are read, and a clock by which commits are timed.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn open_with(path: &Path, pages: Pages, ticks: Ticks) -> Result<Self, StoreError> {
        let lock = connection::lock(path, SERVER_PATIENCE)?;
        let busy =
            || StoreError::Unavailable("another process has this data directory open".into());
        let lock = lock.ok_or_else(busy)?;
        let mut store = Self::start(path, pages, ticks, connection::open_writer)?;
        store.access.keep_short(&access_log::path_of(path))?;
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
    pub fn open_beside(path: &Path) -> Result<Self, StoreError> {
        match connection::lock(path, Duration::ZERO)? {
            // Nobody is there, so the schema is ours to bring up to date; and then the lock is
            // free again for a server to start.
            Some(_lock) => Self::start(path, Pages::Mapped, UNTIMED, connection::open_writer),
            None => Self::start(path, Pages::Mapped, UNTIMED, connection::open_writer_beside),
        }
    }

    fn start(
        path: &Path,
        pages: Pages,
        ticks: Ticks,
        open: fn(&Path, Kind) -> Result<rusqlite::Connection, StoreError>,
    ) -> Result<Self, StoreError> {
        let vault = open(path, Kind::Vault)?;
        if is_importing(&vault)? {
            return Err(StoreError::Unavailable(UNFINISHED_IMPORT.into()));
        }
        let writer = Writer::start(vault, ticks)?;
        let access = access_log::path_of(path);
        Ok(Self {
            _checkpointer: None,
            access: AccessLog::start(&access, pages, ticks, open(&access, Kind::Access)?)?,
            readers: Readers::new(path, pages)?,
            writer,
            claims: Claims::default(),
            path: path.to_owned(),
            _lock: None,
        })
    }
}
