//! Connections for reads: as many as read at once, none of them ever behind the writer.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use rusqlite::Connection;
use scrip_core::store::StoreError;

use crate::sqlite::{Pages, connection::open_reader};

/// Idle connections that are kept; more are opened when more threads read at once.
const IDLE_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    pages: Pages,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(path: &Path, pages: Pages) -> Result<Self, StoreError> {
        let idle = Mutex::new(vec![open_reader(path, pages)?]);
        Ok(Self { path: path.to_owned(), pages, idle })
    }

    /// Reads on the calling thread. A lookup takes microseconds, less than handing it to another
    /// thread would.
    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let idle = self.lock().pop();
        let connection = idle.map_or_else(|| open_reader(&self.path, self.pages), Ok)?;
        let result = work(&connection);
        let mut idle = self.lock();
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
        result
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
