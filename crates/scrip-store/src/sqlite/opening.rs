//! Opens a vault for a server, or for a command next to a running server.

use std::{path::Path, sync::Arc, time::Duration};

use scrip_core::{
    audit::LogKind,
    types::{StoreError, time::MonotonicClock},
};

use crate::{
    claims::InFlightClaims,
    health::StoreHealth,
    policy_turns::PolicyTurns,
    sqlite::{
        SqliteStore,
        audit::read_log::{self, SqliteReadLog},
        engine::{
            checkpoint::Checkpointer,
            connection::{self, DatabaseKind, PageMode},
            probe::LogHealth,
            readers::Readers,
            writer::Writer,
        },
        transfer::has_unfinished_import,
    },
    transfer::UNFINISHED_IMPORT,
};

/// A clock for callers that do not measure commit times.
const STOPPED_CLOCK: MonotonicClock = || Duration::ZERO;

/// How long a server waits for the lock. An operator command holds it only while it starts.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);

impl SqliteStore {
    /// Opens or creates the file and migrates its schema.
    /// Errors: the file cannot be used, is open in another process, or was written by a newer
    /// version.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, PageMode::Mapped, STOPPED_CLOCK)
    }

    /// Like [`SqliteStore::open`], with the given page mode and a clock that measures commit times.
    /// Errors: same as [`SqliteStore::open`].
    pub fn open_with(
        path: &Path,
        page_mode: PageMode,
        clock: MonotonicClock,
    ) -> Result<Self, StoreError> {
        let lock = connection::lock_data_directory(path, LOCK_TIMEOUT)?;
        let in_use_error =
            || StoreError::Unavailable("another process has this data directory open".into());
        let lock = lock.ok_or_else(in_use_error)?;
        let mut store = Self::start(path, page_mode, clock, connection::open_writer)?;
        store.read_log.start_checkpointer(&read_log::read_log_path(path))?;
        let progress = Arc::clone(&store.writer.progress);
        store._checkpointer = Some(Checkpointer::start(path, progress)?);
        store._lock = Some(lock);
        Ok(store)
    }

    /// Opens a vault for an operator command, with or without a running server. SQLite's locks
    /// isolate the transactions of the two processes.
    /// Errors: same as [`SqliteStore::open`].
    pub fn open_for_command(path: &Path) -> Result<Self, StoreError> {
        match connection::lock_data_directory(path, Duration::ZERO)? {
            // No server runs, so this process migrates the schema. The lock is released afterwards,
            // so that a server can start.
            Some(_lock) => {
                Self::start(path, PageMode::Mapped, STOPPED_CLOCK, connection::open_writer)
            }
            None => Self::start(
                path,
                PageMode::Mapped,
                STOPPED_CLOCK,
                connection::open_writer_alongside_server,
            ),
        }
    }

    fn start(
        path: &Path,
        page_mode: PageMode,
        clock: MonotonicClock,
        open: fn(&Path, DatabaseKind) -> Result<rusqlite::Connection, StoreError>,
    ) -> Result<Self, StoreError> {
        let vault = open(path, DatabaseKind::Vault)?;
        if has_unfinished_import(&vault)? {
            return Err(StoreError::Unavailable(UNFINISHED_IMPORT.into()));
        }
        let health = Arc::<StoreHealth>::default();
        let vault_health = LogHealth { health: Arc::clone(&health), log: LogKind::Audit };
        let writer = Writer::start(vault, clock, vault_health)?;
        let read_log_path = read_log::read_log_path(path);
        Ok(Self {
            _checkpointer: None,
            read_log: SqliteReadLog::start(
                &read_log_path,
                page_mode,
                clock,
                open(&read_log_path, DatabaseKind::ReadLog)?,
                Arc::clone(&health),
            )?,
            readers: Readers::new(path, page_mode)?,
            writer,
            claims: InFlightClaims::default(),
            policy_turns: PolicyTurns::default(),
            path: path.to_owned(),
            health,
            _lock: None,
        })
    }
}
