//! The storage reference: the rows of a card token, inserted with plain SQLite.
//!
//! Schema, settings and checkpoints are those of the embedded engine. Everything between a request
//! and its rows is left out.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{Builder, JoinHandle},
    time::Duration,
};

use rusqlite::{Connection, params};

use crate::harness::{
    clock::{micros, now},
    random::XorshiftRandom,
    results::MeasurementResult,
};

const SCHEMA: &str = include_str!("../../../crates/scrip-store/src/sqlite/migrations/0004.sql");

/// The pragmas of the engine's writer.
const PRAGMAS: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA foreign_keys = ON;
    PRAGMA secure_delete = FAST;
    PRAGMA busy_timeout = 5000;
    PRAGMA temp_store = MEMORY;
    PRAGMA cache_size = -16384;
";

const CHECKPOINT_INTERVAL: Duration = Duration::from_millis(250);
const WAL_PAGES_MAX: i64 = 16 * 1024;

/// The lengths of a sealed card and a sealed CVC.
const BODY_BYTES: usize = 137;
const CVC_BYTES: usize = 57;

#[derive(Debug)]
pub(crate) struct RawStorage {
    connection: Connection,
    restart_due: Arc<AtomicBool>,
    random: XorshiftRandom,
    tenant: [u8; 16],
    actor: [u8; 16],
    at_ms: i64,
    /// The number of the last record.
    last_record: i64,
    /// Closing the channel stops the checkpointer.
    stop: Option<mpsc::Sender<()>>,
    checkpointer: Option<JoinHandle<()>>,
}

impl RawStorage {
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let connection = Connection::open(path)?;
        connection.execute_batch(PRAGMAS)?;
        connection.execute_batch(SCHEMA)?;
        let checkpoint_connection = Connection::open(path)?;
        checkpoint_connection.execute_batch(PRAGMAS)?;
        let restart_due = Arc::new(AtomicBool::new(false));
        let shared_restart_due = Arc::clone(&restart_due);
        let (stop, stop_signal) = mpsc::channel();
        let checkpointer = Builder::new().name("raw-checkpoint".to_owned()).spawn(move || {
            run_checkpoints(&checkpoint_connection, &stop_signal, &shared_restart_due)
        })?;
        let mut random = XorshiftRandom::new(0);
        Ok(Self {
            connection,
            restart_due,
            tenant: random.bytes(),
            actor: random.bytes(),
            random,
            at_ms: 1_700_000_000_000,
            last_record: 0,
            stop: Some(stop),
            checkpointer: Some(checkpointer),
        })
    }

    /// Measures durable commits of `rows` tokens each.
    pub(crate) fn measure(
        &mut self,
        name: &'static str,
        rows: u32,
        warm_up: Duration,
        measured: Duration,
    ) -> anyhow::Result<MeasurementResult> {
        let warm_up_start = now();
        while warm_up_start.elapsed() < warm_up {
            self.commit(rows)?;
        }
        let mut latencies = Vec::new();
        let start = now();
        while start.elapsed() < measured {
            let commit_start = now();
            self.commit(rows)?;
            latencies.push(micros(commit_start.elapsed()));
        }
        Ok(MeasurementResult::new(name, 1, latencies, rows, start.elapsed()))
    }

    fn commit(&mut self, rows: u32) -> anyhow::Result<()> {
        if self.restart_due.swap(false, Ordering::Relaxed) {
            self.connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))?;
        }
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for _ in 0..rows {
            self.insert_token()?;
        }
        self.put_commit_totals(rows)?;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    fn insert_token(&mut self) -> rusqlite::Result<()> {
        let (id, trace) = (self.random.uuid().to_string(), self.random.uuid().to_string());
        self.at_ms = self.at_ms.saturating_add(1);
        let insert_token = "INSERT INTO tokens (tenant, id, type, fingerprint, containers, \
            created_by, created_at, revision, indexes, body, expressions, duplicate_key) \
            VALUES (?1, ?2, 'card', ?3, '/pci/high/', ?4, ?5, 0, x'', ?6, zeroblob(33), \
                substr(?3, 1, 16))";
        let fingerprint = self.random.bytes::<32>();
        let seq = self.connection.prepare_cached(insert_token)?.insert(params![
            self.tenant,
            id,
            fingerprint,
            self.actor,
            self.at_ms,
            self.random.bytes::<BODY_BYTES>().as_slice(),
        ])?;
        let insert_index_entry = "INSERT INTO token_index (tenant, facet, container, created_at, token) \
            VALUES (?, ?, '/pci/high/', ?, ?)";
        for facet in [b"tcard".as_slice(), fingerprint.split_at(17).0] {
            let entry = params![self.tenant, facet, self.at_ms, seq];
            self.connection.prepare_cached(insert_index_entry)?.execute(entry)?;
        }
        let insert_cvc = "INSERT INTO cvcs (token, expires_at, sealed) VALUES (?, ?, ?)";
        self.connection.prepare_cached(insert_cvc)?.execute(params![
            seq,
            self.at_ms.saturating_add(3_600_000),
            self.random.bytes::<CVC_BYTES>().as_slice(),
        ])?;
        self.last_record = self.last_record.saturating_add(1);
        let insert_audit = "INSERT INTO log_records (tenant, sequence, at, actor_kind, actor, operation, \
            entity, outcome, trace, address, link) \
            VALUES (?, ?, ?, 'application', ?, 'create_token', ?, 'created', ?, '127.0.0.1', ?)";
        let link = self.random.bytes::<32>();
        let record =
            params![self.tenant, self.last_record, self.at_ms, self.actor, id, trace, link];
        self.connection.prepare_cached(insert_audit)?.execute(record).map(drop)
    }

    /// Writes the rows that exist once per commit: the chain head and the usage counters.
    fn put_commit_totals(&mut self, rows: u32) -> rusqlite::Result<()> {
        let put_head = "INSERT INTO chain_heads (tenant, sequence, at, link, mac) \
            VALUES (?1, ?2, ?3, ?4, ?4) \
            ON CONFLICT (tenant) DO UPDATE SET sequence = ?2, at = ?3, link = ?4, mac = ?4";
        let head = params![self.tenant, self.last_record, self.at_ms, self.random.bytes::<32>()];
        self.connection.prepare_cached(put_head)?.execute(head)?;
        let put_type = "INSERT INTO usage_types (tenant, type, count, last_created_at) \
            VALUES (?1, 'card', ?2, ?3) \
            ON CONFLICT (tenant, type) DO UPDATE SET count = count + ?2, last_created_at = ?3";
        let usage_values = params![self.tenant, rows, self.at_ms];
        self.connection.prepare_cached(put_type)?.execute(usage_values)?;
        let put_month = "INSERT INTO usage_months (month, tenant, created) VALUES (202311, ?1, ?2) \
            ON CONFLICT (month, tenant) DO UPDATE SET created = created + ?2";
        self.connection.prepare_cached(put_month)?.execute(params![self.tenant, rows]).map(drop)
    }
}

impl Drop for RawStorage {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.checkpointer.take() {
            drop(thread.join());
        }
    }
}

fn run_checkpoints(
    connection: &Connection,
    stop_signal: &mpsc::Receiver<()>,
    restart_due: &AtomicBool,
) {
    while stop_signal.recv_timeout(CHECKPOINT_INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout) {
        let pages: rusqlite::Result<i64> =
            connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1));
        if pages.is_ok_and(|it| it > WAL_PAGES_MAX) {
            restart_due.store(true, Ordering::Relaxed);
        }
    }
}
