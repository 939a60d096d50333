//! The chains of a log: the same tables and statements in the vault and in the access log.

use scrip_core::{
    audit::{Access, Chain, Checkpoint, Head, Log, LogRecord, PruneChain, WalkRecords, Walked},
    id::TenantId,
    policy::Inquiry,
    store::{AuditStore, StoreFuture},
};

use crate::{
    rules::audit::{
        log::{
            ChainKey, ChainStatements, checkpoint_columns, find_checkpoint, head_columns,
            list_chains, list_heads, list_records, prune_chain, record_columns,
        },
        walk::walk_records,
    },
    sql::run_ready,
    sqlite::{
        SqliteStore,
        engine::{readers::Readers, statement::at_one_instant, writer::Writer},
    },
};

pub(crate) const LIST_HEADS: &str = concat!(
    "-- list_heads\nSELECT ",
    head_columns!(),
    " FROM audit_heads AS it ORDER BY it.tenant"
);

pub(crate) const LIST_CHECKPOINTS: &str = concat!(
    "-- list_checkpoints\nSELECT ",
    checkpoint_columns!(),
    " FROM audit_checkpoints ORDER BY tenant"
);

pub(crate) const LIST_ALL_RECORDS: &str =
    concat!("-- list_all_records\nSELECT ", record_columns!(), " FROM audit ORDER BY tenant, n");

const LIST_CHAINS: &str = concat!(
    "-- list_chains\nSELECT ",
    head_columns!(),
    ", (SELECT min(at) FROM (
        SELECT * FROM (SELECT at FROM audit WHERE tenant = it.tenant ORDER BY n LIMIT 1)
        UNION ALL SELECT * FROM (
            SELECT at FROM audit WHERE tenant = it.tenant AND actor_kind <> 'operator'
            ORDER BY n LIMIT 1
        )
    ))
FROM audit_heads AS it ORDER BY it.tenant"
);

const STATEMENTS: ChainStatements = ChainStatements {
    list_records: concat!(
        "-- list_records\nSELECT ",
        record_columns!(),
        " FROM audit WHERE tenant = $1 AND n > $2 ORDER BY n LIMIT $3"
    ),
    walk_records: concat!(
        "-- walk_records\nSELECT ",
        record_columns!(),
        " FROM audit WHERE tenant = $1 AND n >= $2 AND n < $3 ORDER BY n DESC LIMIT $4"
    ),
    find_ends: "
-- find_ends
SELECT (SELECT n FROM audit WHERE tenant = $1 ORDER BY n LIMIT 1),
    (SELECT n FROM audit WHERE tenant = $1 ORDER BY n DESC LIMIT 1)",
    find_times: "
-- find_times
SELECT min(at), max(at) FROM (
    SELECT at FROM audit WHERE tenant = $1 AND n >= $2 ORDER BY n LIMIT $3
)",
    find_checkpoint: concat!(
        "-- find_checkpoint\nSELECT ",
        checkpoint_columns!(),
        " FROM audit_checkpoints WHERE tenant = $1"
    ),
    put_checkpoint: "
-- put_checkpoint
INSERT INTO audit_checkpoints (tenant, n, link, at, mac) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant) DO UPDATE SET n = $2, link = $3, at = $4, mac = $5",
    delete_pruned: "
-- delete_pruned
DELETE FROM audit WHERE tenant = $1 AND n <= $2",
};

/// Each log is a database of its own.
fn chain(tenant: TenantId) -> ChainKey {
    ChainKey { statements: &STATEMENTS, tenant, log: None }
}

impl SqliteStore {
    fn log_readers(&self, log: Log) -> &Readers {
        match log {
            Log::Audit => &self.readers,
            Log::Access => &self.access.readers,
        }
    }

    fn log_writer(&self, log: Log) -> &Writer {
        match log {
            Log::Audit => &self.writer,
            Log::Access => &self.access.writer,
        }
    }
}

impl AuditStore for SqliteStore {
    fn record_access(&self, access: Access) -> StoreFuture<'_, ()> {
        Box::pin(self.access.record(access))
    }

    fn list_heads(&self, log: Log) -> StoreFuture<'_, Vec<Head>> {
        let readers = self.log_readers(log);
        Box::pin(async move { readers.read(|it| run_ready(list_heads(it, LIST_HEADS, &[]))) })
    }

    fn list_chains(&self, log: Log) -> StoreFuture<'_, Vec<Chain>> {
        let readers = self.log_readers(log);
        Box::pin(async move { readers.read(|it| run_ready(list_chains(it, LIST_CHAINS, &[]))) })
    }

    fn list_records(
        &self,
        log: Log,
        tenant: TenantId,
        after: i64,
        records_max: usize,
    ) -> StoreFuture<'_, Vec<LogRecord>> {
        let (readers, of) = (self.log_readers(log), chain(tenant));
        Box::pin(
            async move { readers.read(|it| run_ready(list_records(it, &of, after, records_max))) },
        )
    }

    fn find_checkpoint(&self, log: Log, tenant: TenantId) -> StoreFuture<'_, Option<Checkpoint>> {
        let (readers, of) = (self.log_readers(log), chain(tenant));
        Box::pin(async move { readers.read(|it| run_ready(find_checkpoint(it, &of))) })
    }

    fn walk_records(&self, inquiry: Inquiry, walk: WalkRecords) -> StoreFuture<'_, Walked> {
        let (readers, of) = (self.log_readers(walk.log), chain(inquiry.tenant().id));
        Box::pin(async move {
            readers.read(|it| at_one_instant(it, || run_ready(walk_records(it, &of, &walk))))
        })
    }

    fn prune_chain(&self, prune: PruneChain) -> StoreFuture<'_, usize> {
        let (writer, of) = (self.log_writer(prune.log), chain(prune.tenant));
        Box::pin(writer.write(move |it| run_ready(prune_chain(it, &of, &prune))))
    }
}
