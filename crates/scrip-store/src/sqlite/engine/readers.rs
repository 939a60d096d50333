//! Connections for reads: as many as read at once, none of them ever behind the writer.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use rusqlite::Connection;
use scrip_core::{
    metrics::{Counter, Gauge, ReaderPoolMetrics, SPAN_TARGET},
    store::StoreError,
};

use crate::{
    sql::{ColumnReader, Parameter, Statements, run_ready},
    sqlite::engine::connection::{PageMode, open_reader},
};

/// Idle connections that are kept; more are opened when more threads read at once.
const IDLE_MAX: usize = 8;

#[derive(Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    pages: PageMode,
    idle: Mutex<Vec<Connection>>,
    busy: Gauge,
    opened: Counter,
}

impl Readers {
    pub(crate) fn new(path: &Path, pages: PageMode) -> Result<Self, StoreError> {
        let idle = Mutex::new(vec![open_reader(path, pages)?]);
        let (busy, opened) = (Gauge::default(), Counter::default());
        opened.increment();
        Ok(Self { path: path.to_owned(), pages, idle, busy, opened })
    }

    /// Reads on the calling thread. A lookup takes microseconds, less than handing it to another
    /// thread would.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let _span = tracing::info_span!(target: SPAN_TARGET, "store_read").entered();
        let idle = self.lock().pop();
        let connection = idle.map_or_else(|| self.open(), Ok)?;
        let _busy = BusyReader::new(&self.busy);
        let result = work(&connection);
        let mut idle = self.lock();
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
        result
    }

    fn open(&self) -> Result<Connection, StoreError> {
        self.opened.increment();
        open_reader(&self.path, self.pages)
    }

    pub(crate) fn metrics(&self) -> ReaderPoolMetrics {
        let idle = self.lock().len().try_into().unwrap_or(u64::MAX);
        ReaderPoolMetrics { busy: self.busy.get(), idle, opened: self.opened.get() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Each statement on a connection by itself.
impl Statements for &Readers {
    async fn query<T>(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        decode: impl Fn(&dyn ColumnReader) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        self.read(|it| run_ready(it.query(sql, parameters, decode)))
    }
}

/// Somebody reads; also one whose read panics has ended.
struct BusyReader<'a>(&'a Gauge);

impl<'a> BusyReader<'a> {
    fn new(level: &'a Gauge) -> Self {
        level.increment();
        Self(level)
    }
}

impl Drop for BusyReader<'_> {
    fn drop(&mut self) {
        self.0.decrement();
    }
}
