//! The chains of a log: the same tables and statements in the vault and in the access log.

use rusqlite::{Connection, OptionalExtension, Row};
use scrip_core::{
    audit::{
        AuditRecord,
        chain::{Chain, Checkpoint, Entry, Head, Log, LogRecord, LogRow, PruneChain},
    },
    id::{ApiKeyId, ApplicationId, TenantId},
    store::StoreError,
    time::Timestamp,
};
use scrip_seal::Mac;

use crate::sqlite::{
    chains::{LIST_HEADS, head},
    fault,
    row::uuid,
    tokens::execute,
    transaction::Transaction,
};

/// A record of the transaction that this is in.
pub(super) fn insert_audit(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    audit: &AuditRecord,
    entity: &str,
    outcome: &'static str,
) -> Result<(), StoreError> {
    transaction.append_entry(audit, Entry { log: Log::Audit, tenant, entity, outcome })
}

/// The last record of a tenant, whose chain is then kept for so long.
pub(super) fn insert_last_audit(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    audit: &AuditRecord,
    retention_seconds: Option<i64>,
) -> Result<(), StoreError> {
    insert_audit(transaction, tenant, audit, &tenant.to_string(), "done")?;
    transaction.chains.end(tenant, audit, retention_seconds);
    Ok(())
}

/// In the order that [`log_row`] reads them.
macro_rules! record_columns {
    () => {
        "tenant, n, at, actor_kind, actor, operation, entity, outcome, trace, address, api_key, \
         os_user, repeats, link \
         FROM audit"
    };
}
pub(super) use record_columns;

/// Any row gives a value or an error.
pub(super) fn log_row<'a>(row: &'a Row<'_>) -> rusqlite::Result<LogRow<'a>> {
    let actor: Option<[u8; 16]> = row.get(4)?;
    let api_key: Option<[u8; 16]> = row.get(10)?;
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
        api_key: api_key.map(|it| ApiKeyId(uuid(it))),
        os_user: row.get_ref(11)?.as_str_or_null()?,
        repeats: row.get(12)?,
        link: Mac(row.get(13)?),
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
