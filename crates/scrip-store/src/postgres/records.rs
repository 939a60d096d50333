//! The chains of both logs, read and pruned.

use scrip_core::{
    audit::chain::{Chain, Checkpoint, Head, Log, LogRecord, LogRow, PruneChain},
    id::{ApiKeyId, ApplicationId, TenantId},
    store::StoreError,
};
use scrip_seal::Mac;
use tokio_postgres::Row;

use crate::postgres::{
    chain::head,
    row::{array, column, optional_time, time},
    statement::{Parameters, PostgresClient, count, query},
    transaction::Transaction,
};

/// In the order that [`log_row`] reads them.
macro_rules! record_columns {
    () => {
        "tenant, n, at, actor_kind, actor, operation, entity, outcome, trace, address, api_key, \
         os_user, repeats, link \
         FROM records WHERE tenant = $1 AND log = $2"
    };
}
pub(super) use record_columns;

pub(super) fn log_row(row: &Row) -> Result<LogRow<'_>, StoreError> {
    let actor: Option<uuid::Uuid> = column(row, 4)?;
    let api_key: Option<uuid::Uuid> = column(row, 10)?;
    Ok(LogRow {
        tenant: TenantId(column(row, 0)?),
        n: column(row, 1)?,
        at: time(row, 2)?,
        actor_kind: column(row, 3)?,
        actor: actor.map(ApplicationId),
        operation: column(row, 5)?,
        entity: column(row, 6)?,
        outcome: column(row, 7)?,
        trace: column(row, 8)?,
        address: column(row, 9)?,
        api_key: api_key.map(ApiKeyId),
        os_user: column(row, 11)?,
        repeats: column(row, 12)?,
        link: Mac(array(row, 13)?),
    })
}

const LIST_RECORDS: &str =
    concat!("-- list_records\nSELECT ", record_columns!(), " AND n > $3 ORDER BY n LIMIT $4");

pub(super) async fn list_records(
    client: &impl PostgresClient,
    (log, tenant): (Log, TenantId),
    after: i64,
    records_max: usize,
) -> Result<Vec<LogRecord>, StoreError> {
    let most = i64::try_from(records_max).unwrap_or(i64::MAX);
    let rows = query(client, LIST_RECORDS, &[&tenant.0, &log.as_str(), &after, &most]).await?;
    rows.iter().map(|row| log_row(row).map(|it| it.to_record())).collect()
}

pub(super) const LIST_HEADS: &str = "
-- list_heads
SELECT n, at, link, retention_seconds, mac, tenant FROM heads WHERE log = $1 ORDER BY tenant";

/// Without those that cannot be read, which stand in nobody else's way: verifying finds them.
pub(super) async fn list_heads(
    client: &impl PostgresClient,
    log: Log,
) -> Result<Vec<Head>, StoreError> {
    let rows = query(client, LIST_HEADS, &[&log.as_str()]).await?;
    Ok(rows.iter().filter_map(|row| head(row, 5, 0).ok()).collect())
}

const LIST_CHAINS: &str = "
-- list_chains
SELECT it.n, it.at, it.link, it.retention_seconds, it.mac, it.tenant, least(
    (SELECT at FROM records WHERE tenant = it.tenant AND log = it.log ORDER BY n LIMIT 1),
    (SELECT at FROM records WHERE tenant = it.tenant AND log = it.log
        AND actor_kind <> 'operator' ORDER BY n LIMIT 1))
FROM heads AS it WHERE it.log = $1 ORDER BY it.tenant";

/// One statement sees one instant.
pub(super) async fn list_chains(
    client: &impl PostgresClient,
    log: Log,
) -> Result<Vec<Chain>, StoreError> {
    let rows = query(client, LIST_CHAINS, &[&log.as_str()]).await?;
    let chain = |row: &Row| {
        let head = head(row, 5, 0).ok()?;
        Some(optional_time(row, 6).map(|oldest| Chain { head, oldest }))
    };
    rows.iter().filter_map(chain).collect()
}

const FIND_CHECKPOINT: &str = "
-- find_checkpoint
SELECT n, link, at, mac FROM checkpoints WHERE tenant = $1 AND log = $2";

pub(super) async fn find_checkpoint(
    client: &impl PostgresClient,
    (log, tenant): (Log, TenantId),
) -> Result<Option<Checkpoint>, StoreError> {
    let rows = query(client, FIND_CHECKPOINT, &[&tenant.0, &log.as_str()]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Checkpoint {
        tenant,
        n: column(row, 0)?,
        link: Mac(array(row, 1)?),
        at: time(row, 2)?,
        mac: Mac(array(row, 3)?),
    }))
}

const PUT_CHECKPOINT: &str = "
-- put_checkpoint
INSERT INTO checkpoints (tenant, log, n, link, at, mac) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (tenant, log) DO UPDATE SET n = $3, link = $4, at = $5, mac = $6";

const DELETE_PRUNED: &str = "
-- delete_pruned
DELETE FROM records WHERE tenant = $1 AND log = $2 AND n <= $3";

const PRUNED_AT_ONCE: usize = 128;

/// Nobody else writes to this chain meanwhile, nor prunes it.
pub(super) async fn prune_chain(
    transaction: &Transaction,
    prune: &PruneChain,
) -> Result<usize, StoreError> {
    let of = (prune.log, prune.tenant);
    let before = find_checkpoint(transaction.client()?, of).await?;
    let records = list_records(transaction.client()?, of, i64::MIN, PRUNED_AT_ONCE).await?;
    let broken = |_| StoreError::Corrupt("a chain was altered, and is not pruned");
    let Some(made) = prune.checkpoint(before.as_ref(), &records).map_err(broken)? else {
        return Ok(0);
    };
    let (tenant, log) = (prune.tenant.0, prune.log.as_str());
    let (link, mac) = (made.link.0.as_slice(), made.mac.0.as_slice());
    let put: Parameters<'_, 6> = [&tenant, &log, &made.n, &link, &made.at.unix_ms, &mac];
    transaction.execute_raw(PUT_CHECKPOINT, &put).await?;
    transaction.execute_raw(DELETE_PRUNED, &[&tenant, &log, &made.n]).await.map(count)
}
