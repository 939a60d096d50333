//! Read connections: one per concurrent read. Readers never wait for the writer.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use rusqlite::Connection;
use scrip_core::types::{
    StoreError,
    metrics::{Counter, Gauge, LONG_WORK_MICROS, ReaderPoolMetrics, SPAN_TARGET},
};

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
    time::Instant,
};

use crate::{
    sql::{ColumnReader, Parameter, Statements, run_sync_future},
    sqlite::engine::connection::{PageMode, open_reader},
};

/// Maximum number of idle connections that are kept. If more threads read at the same time, more
/// connections are opened, and closed after the read.
const IDLE_MAX: usize = 8;

#[derive(Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    page_mode: PageMode,
    idle: Mutex<Vec<Connection>>,
    busy: Gauge,
    opened: Counter,
}

impl Readers {
    pub(crate) fn new(path: &Path, page_mode: PageMode) -> Result<Self, StoreError> {
        let idle = Mutex::new(vec![open_reader(path, page_mode)?]);
        let (busy, opened) = (Gauge::default(), Counter::default());
        opened.increment();
        Ok(Self { path: path.to_owned(), page_mode, idle, busy, opened })
    }

    /// Reads on the calling thread: a lookup takes microseconds, less than a switch to another
    /// thread.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let _span = tracing::info_span!(target: SPAN_TARGET, "store_read").entered();
        let idle_connection = self.lock().pop();
        let connection = idle_connection.map_or_else(|| self.open(), Ok)?;
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
        open_reader(&self.path, self.page_mode)
    }

    pub(crate) fn metrics(&self) -> ReaderPoolMetrics {
        let idle = self.lock().len().try_into().unwrap_or(u64::MAX);
        ReaderPoolMetrics { busy: self.busy.get(), idle, opened: self.opened.get() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Each statement may run on a different connection.
impl Statements for &Readers {
    async fn query<T>(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        decode: impl Fn(&dyn ColumnReader) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        self.read(|it| run_sync_future(it.query(sql, parameters, decode)))
    }
}

/// Counts an active read. Drop also runs after a panic.
struct BusyReader<'a>(&'a Gauge);

impl<'a> BusyReader<'a> {
    fn new(busy: &'a Gauge) -> Self {
        busy.increment();
        Self(busy)
    }
}

impl Drop for BusyReader<'_> {
    fn drop(&mut self) {
        self.0.decrement();
    }
}

/// Runs a read that may take long, and lets another thread serve the requests of this worker
/// meanwhile.
pub(crate) fn run_blocking<T>(read: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|it| it.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(|| {
            let started = Instant::now();
            let result = read();
            LONG_WORK_MICROS.add(started.elapsed().as_micros().try_into().unwrap_or(u64::MAX));
            result
        }),
        Ok(_) | Err(_) => read(),
    }
}
