//! The read log: queued records of reads are written by group commit.

use scrip_core::{
    audit::LogKind,
    read_log::ReadLogBatch,
    types::{
        StoreError,
        id::{TenantId, TokenId},
        metrics::WriterMetrics,
        time::Month,
    },
};

use crate::{
    postgres::engine::{
        pool::ConnectionPool,
        tenant_lock::TenantLog,
        transaction::PostgresTransaction,
        write_queue::{Drain, TenantQueues},
    },
    shared::clone_error,
    sql::WriteTransaction,
};

/// Maximum number of queued writes per transaction. A larger group only delays the first write
/// until the last one is done.
const GROUP_MAX: usize = 256;
/// Approximate size of a record in the database.
const RECORD_BYTES: usize = 256;

enum ReadLogWrite {
    Reads(ReadLogBatch),
    /// Updates usage counters only; writes no log record.
    ActiveTokens(Vec<(Month, TokenId)>),
}

#[derive(Debug)]
pub(crate) struct PostgresReadLog {
    queues: TenantQueues<ReadLogWrite, ()>,
    pool: ConnectionPool,
}

impl PostgresReadLog {
    pub(crate) fn new(pool: ConnectionPool) -> Self {
        Self { queues: TenantQueues::default(), pool }
    }

    /// Returns when the batch is durable.
    pub(crate) async fn append(&self, batch: ReadLogBatch) -> Result<(), StoreError> {
        let (tenant, pool) = (batch.tenant, self.pool.clone());
        let bytes = batch.entries.len().saturating_mul(RECORD_BYTES);
        self.queues
            .submit_and_wait(tenant, ReadLogWrite::Reads(batch), bytes, |drain| {
                drain_queue(drain, pool)
            })
            .await
    }

    /// Queues the activity of tokens that a write used; the write does not wait. If the
    /// queue rejects the activity, the token is counted at its next use.
    pub(crate) fn record_activity(&self, tenant: TenantId, tokens: Vec<(Month, TokenId)>) {
        if tokens.is_empty() {
            return;
        }
        let pool = self.pool.clone();
        let bytes = tokens.len().saturating_mul(RECORD_BYTES);
        drop(self.queues.submit(tenant, ReadLogWrite::ActiveTokens(tokens), bytes, |drain| {
            drain_queue(drain, pool)
        }));
    }

    pub(crate) fn metrics(&self) -> WriterMetrics {
        self.queues.metrics(LogKind::Read.as_str())
    }
}

async fn drain_queue(mut drain: Drain<ReadLogWrite, ()>, pool: ConnectionPool) {
    while let Some(group) = drain.next_group(GROUP_MAX) {
        let (writes, replies): (Vec<_>, Vec<_>) =
            group.into_iter().map(|it| (it.work, it.reply)).unzip();
        let result = write_group(&pool, drain.tenant, &writes).await;
        drain.count_transaction(result.is_ok().then_some(writes.len()));
        for reply in replies {
            // The client may have disconnected; the record stays.
            drop(reply.send(result.as_ref().copied().map_err(clone_error)));
        }
    }
}

async fn write_group(
    pool: &ConnectionPool,
    tenant: TenantId,
    writes: &[ReadLogWrite],
) -> Result<(), StoreError> {
    let mut transaction =
        PostgresTransaction::begin(pool, TenantLog { log: LogKind::Read, tenant }, 0).await?;
    let mut active_tokens = Vec::new();
    for write in writes {
        match write {
            ReadLogWrite::Reads(batch) => {
                for entry in &batch.entries {
                    let audit = batch.entry_audit(entry);
                    transaction.append_record(&audit, &entry.entity, entry.outcome);
                    let month = batch.active_month(entry);
                    active_tokens.extend(month.map(|it| (it, entry.entity.as_str())));
                }
                transaction.insert_deliveries(&batch.deliveries).await?;
            }
            ReadLogWrite::ActiveTokens(tokens) => {
                active_tokens.extend(tokens.iter().map(|(month, it)| (*month, it.as_str())));
            }
        }
    }
    record_active_tokens(&transaction, &active_tokens).await?;
    transaction.commit().await
}

/// One row per token and month.
const INSERT_ACTIVE_TOKENS: &str = "
-- insert_active_tokens
WITH inserted_active AS (
    INSERT INTO active_tokens (tenant, month, token)
    SELECT DISTINCT $1::uuid, * FROM unnest($2::bigint[], $3::text[])
    ON CONFLICT (tenant, month, token) DO NOTHING
    RETURNING month
)
    INSERT INTO active_months (tenant, month, active)
    SELECT $1, month, count(*) FROM inserted_active GROUP BY month
ON CONFLICT (tenant, month) DO UPDATE SET active = active_months.active + excluded.active";

/// Records active tokens in the transaction of the read-log record.
async fn record_active_tokens(
    transaction: &PostgresTransaction,
    tokens: &[(Month, &str)],
) -> Result<(), StoreError> {
    if tokens.is_empty() {
        return Ok(());
    }
    let (months, tokens): (Vec<_>, Vec<_>) =
        tokens.iter().map(|(month, token)| (month.0, *token)).unzip();
    let tenant = transaction.tenant.0;
    transaction.execute_raw(INSERT_ACTIVE_TOKENS, &[&tenant, &months, &tokens]).await.map(drop)
}
