//! The chains of a log: the same tables and statements in the vault and in the access log.

use rusqlite::{Connection, OptionalExtension, Row, ffi::SQLITE_CONSTRAINT_UNIQUE, params};
use scrip_core::{
    audit::{
        AuditRecord,
        chain::{Chain, Checkpoint, Entry, Head, Log, LogRecord, LogRow, PruneChain, Tip},
    },
    id::{ApplicationId, TenantId},
    store::StoreError,
    time::Timestamp,
};
use scrip_seal::Mac;

use crate::sqlite::{fault, row::uuid, tokens::execute};

/// A record of the transaction that this is in.
pub(super) fn insert_audit(
    connection: &Connection,
    tenant: TenantId,
    audit: &AuditRecord,
    entity: &str,
    outcome: &'static str,
) -> Result<(), StoreError> {
    put_head(connection, &append_one(connection, tenant, audit, (entity, outcome))?)
}

/// The last record of a tenant, whose chain is then kept for so long.
pub(super) fn insert_last_audit(
    connection: &Connection,
    tenant: TenantId,
    audit: &AuditRecord,
    retention_seconds: Option<i64>,
) -> Result<(), StoreError> {
    let head = append_one(connection, tenant, audit, (&tenant.to_string(), "done"))?;
    put_head(connection, &audit.end(head, Log::Audit, retention_seconds))
}

fn append_one(
    connection: &Connection,
    tenant: TenantId,
    audit: &AuditRecord,
    (entity, outcome): (&str, &'static str),
) -> Result<Head, StoreError> {
    let mut chain = OpenChain::open(connection, tenant)?;
    chain.append(connection, audit, Entry { log: Log::Audit, tenant, entity, outcome })?;
    Ok(chain.head(audit, Log::Audit))
}

/// A chain that is being written: its head before, and where it has come to. Whoever appends has to
/// put the head that it has then.
pub(super) struct OpenChain {
    tenant: TenantId,
    before: Option<Head>,
    tip: Tip,
}

impl OpenChain {
    pub(super) fn open(connection: &Connection, tenant: TenantId) -> Result<Self, StoreError> {
        let before = match find_head(connection, tenant) {
            Ok(Some(head)) if head.n < i64::MAX => Some(head),
            // A new chain; or somebody took its head away.
            Ok(None) if !has_records(connection, tenant)? => None,
            Ok(_) | Err(StoreError::Corrupt(_)) => Some(lost_head(connection, tenant)?),
            Err(error @ (StoreError::Busy | StoreError::Unavailable(_))) => return Err(error),
        };
        Ok(Self { tenant, before, tip: Tip::of(before.as_ref()) })
    }

    /// One more record. Nobody else writes meanwhile: whose number is taken follows a head that was
    /// put back, and goes on behind the others.
    pub(super) fn append(
        &mut self,
        connection: &Connection,
        audit: &AuditRecord,
        entry: Entry<'_>,
    ) -> Result<(), StoreError> {
        let mut tip = self.tip;
        if !insert_record(connection, &audit.link(&mut tip, entry))? {
            let lost = lost_head(connection, self.tenant)?;
            self.before = Some(lost);
            tip = Tip::of(Some(&lost));
            if !insert_record(connection, &audit.link(&mut tip, entry))? {
                return Err(StoreError::Corrupt("a chain has no free number"));
            }
        }
        self.tip = tip;
        Ok(())
    }

    pub(super) fn head(&self, audit: &AuditRecord, log: Log) -> Head {
        audit.head((log, self.tenant), self.before.as_ref(), self.tip)
    }
}

const HAS_RECORDS: &str = "
-- has_records
SELECT EXISTS (SELECT 1 FROM audit WHERE tenant = ?1)
    OR EXISTS (SELECT 1 FROM audit_checkpoints WHERE tenant = ?1)";

fn has_records(connection: &Connection, tenant: TenantId) -> Result<bool, StoreError> {
    let mut statement = connection.prepare_cached(HAS_RECORDS).map_err(fault)?;
    statement.query_row([tenant.0.as_bytes()], |row| row.get(0)).map_err(fault)
}

/// The last record that has a free number behind it: somebody may have used up the highest. Where
/// no record is left, what the checkpoint says.
const FIND_FREE: &str = "
-- find_free
SELECT n, link FROM audit AS it WHERE tenant = ?1 AND n < 9223372036854775807
    AND NOT EXISTS (SELECT 1 FROM audit WHERE tenant = ?1 AND n = it.n + 1)
ORDER BY n DESC LIMIT 1";
const FIND_PRUNED: &str = "
-- find_pruned
SELECT n, link FROM audit_checkpoints WHERE tenant = ?1 AND n < 9223372036854775807";

/// Nobody must be able to stop a vault by a head that is missing, unreadable or of another time.
/// The chain goes on, and never has a valid head again: verifying finds it.
fn lost_head(connection: &Connection, tenant: TenantId) -> Result<Head, StoreError> {
    tracing::error!(
        %tenant,
        "the head of a chain of records is missing or altered; run: scrip audit verify"
    );
    let find = |sql| {
        let mut statement = connection.prepare_cached(sql).map_err(fault)?;
        let found = |row: &Row<'_>| Ok((row.get(0)?, row.get(1).ok().map(Mac)));
        statement.query_row([tenant.0.as_bytes()], found).optional().map_err(fault)
    };
    let last = match find(FIND_FREE)? {
        None => find(FIND_PRUNED)?,
        some => some,
    };
    let (n, link) = last.unwrap_or((0, None));
    Ok(Head::lost(tenant, n, link))
}

const INSERT_RECORD: &str = "
-- insert_record
INSERT INTO audit (tenant, n, at, actor_kind, actor, operation, entity, outcome, trace, address,
    link)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

/// Whether its number was free.
fn insert_record(connection: &Connection, row: &LogRow<'_>) -> Result<bool, StoreError> {
    let mut statement = connection.prepare_cached(INSERT_RECORD).map_err(fault)?;
    let inserted = statement.execute(params![
        row.tenant.0.as_bytes(),
        row.n,
        row.at.unix_ms,
        row.actor_kind,
        row.actor.as_ref().map(|it| it.0.as_bytes()),
        row.operation,
        row.entity,
        row.outcome,
        row.trace,
        row.address,
        row.link.0,
    ]);
    match inserted {
        Ok(_) => Ok(true),
        Err(error) if is_taken(&error) => Ok(false),
        Err(error) => Err(fault(error)),
    }
}

fn is_taken(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|it| it.extended_code == SQLITE_CONSTRAINT_UNIQUE)
}

macro_rules! head_columns {
    () => {
        "tenant, n, at, link, retention_seconds, mac FROM audit_heads"
    };
}

const FIND_HEAD: &str = concat!("-- find_head\nSELECT ", head_columns!(), " WHERE tenant = ?1");

fn find_head(connection: &Connection, tenant: TenantId) -> Result<Option<Head>, StoreError> {
    let mut statement = connection.prepare_cached(FIND_HEAD).map_err(fault)?;
    statement.query_row([tenant.0.as_bytes()], head).optional().map_err(fault)
}

pub(super) const LIST_HEADS: &str =
    concat!("-- list_heads\nSELECT ", head_columns!(), " ORDER BY tenant");

pub(super) fn head(row: &Row<'_>) -> rusqlite::Result<Head> {
    Ok(Head {
        tenant: TenantId(uuid(row.get(0)?)),
        n: row.get(1)?,
        at: Timestamp { unix_ms: row.get(2)? },
        link: Mac(row.get(3)?),
        retention_seconds: row.get(4)?,
        mac: Mac(row.get(5)?),
    })
}

const PUT_HEAD: &str = "
-- put_head
INSERT INTO audit_heads (tenant, n, at, link, retention_seconds, mac)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (tenant) DO UPDATE SET n = ?2, at = ?3, link = ?4, retention_seconds = ?5, mac = ?6";

pub(super) fn put_head(connection: &Connection, head: &Head) -> Result<(), StoreError> {
    let Head { tenant, n, at, link, retention_seconds, mac } = head;
    let parameters = (tenant.0.as_bytes(), n, at.unix_ms, link.0, retention_seconds, mac.0);
    execute(connection, PUT_HEAD, parameters).map(drop)
}

/// In the order that [`log_row`] reads them.
macro_rules! record_columns {
    () => {
        "tenant, n, at, actor_kind, actor, operation, entity, outcome, trace, address, link \
         FROM audit"
    };
}
pub(super) use record_columns;

/// Any row gives a value or an error.
pub(super) fn log_row<'a>(row: &'a Row<'_>) -> rusqlite::Result<LogRow<'a>> {
    let actor: Option<[u8; 16]> = row.get(4)?;
    Ok(LogRow {
        tenant: TenantId(uuid(row.get(0)?)),
        n: row.get(1)?,
        at: Timestamp { unix_ms: row.get(2)? },
        actor_kind: row.get_ref(3)?.as_str()?,
        actor: actor.map(|it| ApplicationId(uuid(it))),
        operation: row.get_ref(5)?.as_str()?,
        entity: row.get_ref(6)?.as_str()?,
        outcome: row.get_ref(7)?.as_str()?,
        trace: row.get_ref(8)?.as_str()?,
        address: row.get_ref(9)?.as_str()?,
        link: Mac(row.get(10)?),
    })
}

pub(super) const LIST_ALL_RECORDS: &str =
    concat!("-- list_all_records\nSELECT ", record_columns!(), " ORDER BY tenant, n");

const LIST_RECORDS: &str = concat!(
    "-- list_records\nSELECT ",
    record_columns!(),
    " WHERE tenant = ?1 AND n > ?2 ORDER BY n LIMIT ?3"
);

pub(super) fn list_records(
    connection: &Connection,
    tenant: TenantId,
    after: i64,
    records_max: usize,
) -> Result<Vec<LogRecord>, StoreError> {
    let mut statement = connection.prepare_cached(LIST_RECORDS).map_err(fault)?;
    let at_most = i64::try_from(records_max).unwrap_or(i64::MAX);
    let record = |row: &Row<'_>| log_row(row).map(|it| it.to_record());
    let rows = statement.query_map((tenant.0.as_bytes(), after, at_most), record);
    rows.and_then(Iterator::collect).map_err(fault)
}

const FIND_OLDEST: &str = "
-- find_oldest
SELECT min(at) FROM (
    SELECT * FROM (SELECT at FROM audit WHERE tenant = ?1 ORDER BY n LIMIT 1)
    UNION ALL SELECT * FROM (
        SELECT at FROM audit WHERE tenant = ?1 AND actor_kind <> 'operator' ORDER BY n LIMIT 1
    )
)";

/// Without those that cannot be read, which stand in nobody else's way: verifying finds them.
pub(super) fn list_heads(connection: &Connection) -> Result<Vec<Head>, StoreError> {
    let mut statement = connection.prepare_cached(LIST_HEADS).map_err(fault)?;
    let mut rows = statement.query([]).map_err(fault)?;
    let mut heads = Vec::new();
    while let Some(row) = rows.next().map_err(fault)? {
        heads.extend(head(row).ok());
    }
    Ok(heads)
}

/// At one instant.
pub(super) fn list_chains(connection: &Connection) -> Result<Vec<Chain>, StoreError> {
    let _snapshot = connection.unchecked_transaction().map_err(fault)?;
    let heads = list_heads(connection)?;
    let mut statement = connection.prepare_cached(FIND_OLDEST).map_err(fault)?;
    let mut chain = |head: Head| {
        let found = statement.query_row([head.tenant.0.as_bytes()], |row| row.get(0));
        let oldest = found.map_err(fault)?;
        let oldest = Option::map(oldest, |unix_ms| Timestamp { unix_ms });
        Ok(Chain { head, oldest })
    };
    heads.into_iter().map(&mut chain).collect()
}

macro_rules! checkpoint_columns {
    () => {
        "tenant, n, link, at, mac FROM audit_checkpoints"
    };
}

const FIND_CHECKPOINT: &str =
    concat!("-- find_checkpoint\nSELECT ", checkpoint_columns!(), " WHERE tenant = ?1");

pub(super) const LIST_CHECKPOINTS: &str =
    concat!("-- list_checkpoints\nSELECT ", checkpoint_columns!(), " ORDER BY tenant");

pub(super) fn checkpoint(row: &Row<'_>) -> rusqlite::Result<Checkpoint> {
    Ok(Checkpoint {
        tenant: TenantId(uuid(row.get(0)?)),
        n: row.get(1)?,
        link: Mac(row.get(2)?),
        at: Timestamp { unix_ms: row.get(3)? },
        mac: Mac(row.get(4)?),
    })
}

pub(super) fn find_checkpoint(
    connection: &Connection,
    tenant: TenantId,
) -> Result<Option<Checkpoint>, StoreError> {
    let mut statement = connection.prepare_cached(FIND_CHECKPOINT).map_err(fault)?;
    statement.query_row([tenant.0.as_bytes()], checkpoint).optional().map_err(fault)
}

const PUT_CHECKPOINT: &str = "
-- put_checkpoint
INSERT INTO audit_checkpoints (tenant, n, link, at, mac) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (tenant) DO UPDATE SET n = ?2, link = ?3, at = ?4, mac = ?5";

const DELETE_PRUNED: &str = "
-- delete_pruned
DELETE FROM audit WHERE tenant = ?1 AND n <= ?2";

/// Records lie beside each other, so this is a few pages.
const PRUNED_AT_ONCE: usize = 128;

pub(super) fn prune_chain(
    connection: &Connection,
    prune: &PruneChain,
) -> Result<usize, StoreError> {
    let tenant = prune.tenant.0.as_bytes();
    let before = find_checkpoint(connection, prune.tenant)?;
    let records = list_records(connection, prune.tenant, i64::MIN, PRUNED_AT_ONCE)?;
    let broken = |_| StoreError::Corrupt("a chain was altered, and is not pruned");
    let Some(made) = prune.checkpoint(before.as_ref(), &records).map_err(broken)? else {
        return Ok(0);
    };
    let parameters = (tenant, made.n, made.link.0, made.at.unix_ms, made.mac.0);
    execute(connection, PUT_CHECKPOINT, parameters)?;
    execute(connection, DELETE_PRUNED, (tenant, made.n))
}
