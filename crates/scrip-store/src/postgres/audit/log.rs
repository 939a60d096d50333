//! The chains of both logs, which share tables.

use scrip_core::{
    audit::{Access, Chain, Checkpoint, Head, Log, LogRecord, PruneChain, WalkRecords, Walked},
    id::TenantId,
    policy::Inquiry,
    store::{AuditStore, StoreFuture},
};

use crate::{
    postgres::{
        PostgresStore,
        engine::{lane::Lane, scope::Scope, transaction::Transaction},
        kept,
    },
    rules::audit::{
        log::{
            ChainKey, ChainStatements, checkpoint_columns, find_checkpoint, head_columns,
            list_chains, list_heads, list_records, prune_chain, record_columns,
        },
        walk::walk_records,
    },
    sql::parameters,
};

pub(crate) const LIST_HEADS: &str = concat!(
    "-- list_heads\nSELECT ",
    head_columns!(),
    " FROM heads AS it WHERE it.log = $1 ORDER BY it.tenant"
);

pub(crate) const LIST_CHECKPOINTS: &str = concat!(
    "-- list_checkpoints\nSELECT ",
    checkpoint_columns!(),
    " FROM checkpoints WHERE log = $1 ORDER BY tenant"
);

pub(crate) const LIST_ALL_RECORDS: &str = concat!(
    "-- list_all_records\nSELECT ",
    record_columns!(),
    " FROM records WHERE log = $1 ORDER BY tenant, n"
);

/// One statement sees one instant.
const LIST_CHAINS: &str = concat!(
    "-- list_chains\nSELECT ",
    head_columns!(),
    ", least(
    (SELECT at FROM records WHERE tenant = it.tenant AND log = it.log ORDER BY n LIMIT 1),
    (SELECT at FROM records WHERE tenant = it.tenant AND log = it.log
        AND actor_kind <> 'operator' ORDER BY n LIMIT 1))
FROM heads AS it WHERE it.log = $1 ORDER BY it.tenant"
);

const STATEMENTS: ChainStatements = ChainStatements {
    list_records: concat!(
        "-- list_records\nSELECT ",
        record_columns!(),
        " FROM records WHERE tenant = $1 AND log = $2 AND n > $3 ORDER BY n LIMIT $4"
    ),
    walk_records: concat!(
        "-- walk_records\nSELECT ",
        record_columns!(),
        " FROM records WHERE tenant = $1 AND log = $2 AND n >= $3 AND n < $4
          ORDER BY n DESC LIMIT $5"
    ),
    find_ends: "
-- find_ends
SELECT min(n), max(n) FROM records WHERE tenant = $1 AND log = $2",
    find_times: "
-- find_times
SELECT min(at), max(at) FROM (
    SELECT at FROM records WHERE tenant = $1 AND log = $2 AND n >= $3 ORDER BY n LIMIT $4
) AS it",
    find_checkpoint: concat!(
        "-- find_checkpoint\nSELECT ",
        checkpoint_columns!(),
        " FROM checkpoints WHERE tenant = $1 AND log = $2"
    ),
    put_checkpoint: "
-- put_checkpoint
INSERT INTO checkpoints (tenant, log, n, link, at, mac) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (tenant, log) DO UPDATE SET n = $3, link = $4, at = $5, mac = $6",
    delete_pruned: "
-- delete_pruned
DELETE FROM records WHERE tenant = $1 AND log = $2 AND n <= $3",
};

fn chain(log: Log, tenant: TenantId) -> ChainKey {
    ChainKey { statements: &STATEMENTS, tenant, log: Some(log.as_str()) }
}

impl AuditStore for PostgresStore {
    fn record_access(&self, access: Access) -> StoreFuture<'_, ()> {
        Box::pin(self.access.record(&self.pool, access))
    }

    fn list_heads(&self, log: Log) -> StoreFuture<'_, Vec<Head>> {
        Box::pin(async move {
            list_heads(&self.of_every_tenant(), LIST_HEADS, &parameters![log.as_str()]).await
        })
    }

    fn list_chains(&self, log: Log) -> StoreFuture<'_, Vec<Chain>> {
        Box::pin(async move {
            list_chains(&self.of_every_tenant(), LIST_CHAINS, &parameters![log.as_str()]).await
        })
    }

    fn list_records(
        &self,
        log: Log,
        tenant: TenantId,
        after: i64,
        records_max: usize,
    ) -> StoreFuture<'_, Vec<LogRecord>> {
        let of = chain(log, tenant);
        Box::pin(async move { list_records(&self.of(tenant), &of, after, records_max).await })
    }

    fn find_checkpoint(&self, log: Log, tenant: TenantId) -> StoreFuture<'_, Option<Checkpoint>> {
        let of = chain(log, tenant);
        Box::pin(async move { find_checkpoint(&self.of(tenant), &of).await })
    }

    fn walk_records(&self, inquiry: Inquiry, walk: WalkRecords) -> StoreFuture<'_, Walked> {
        Box::pin(async move {
            let tenant = inquiry.tenant().id;
            let it = self.at_one_instant(Scope::of(tenant)).await?;
            let found = walk_records(&it, &chain(walk.log, tenant), &walk).await;
            it.end(found).await
        })
    }

    fn prune_chain(&self, prune: PruneChain) -> StoreFuture<'_, usize> {
        Box::pin(async move {
            let PruneChain { log, tenant, .. } = prune;
            let it = Transaction::begin(&self.pool, Lane { log, tenant }, 0).await?;
            let pruned = prune_chain(&it, &chain(log, tenant), &prune).await?;
            kept(it, pruned).await
        })
    }
}
