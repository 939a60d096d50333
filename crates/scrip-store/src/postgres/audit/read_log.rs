//! The access log: reads that are recorded gather, and are written as one.

use scrip_core::{
    audit::{LogKind, ReadLogBatch},
    id::{TenantId, TokenId},
    metrics::WriterMetrics,
    store::StoreError,
    time::Month,
};

use crate::{
    postgres::{
        engine::{
            pool::ConnectionPool,
            tenant_lock::TenantLog,
            transaction::PostgresTransaction,
            write_queue::{Drain, TenantQueues},
        },
        maintenance::usage::record_active_tokens,
    },
    shared::clone_error,
};

/// Of one transaction; more would only make the first wait for the last.
const BATCH_MAX: usize = 256;
/// A record in the engine, more or less.
const RECORD_BYTES: usize = 256;

enum ReadLogWrite {
    Reads(ReadLogBatch),
    /// Leaves no record.
    ActiveTokens(Vec<(Month, TokenId)>),
}

#[derive(Debug)]
pub(crate) struct PostgresReadLog {
    waiting: TenantQueues<ReadLogWrite, ()>,
    pool: ConnectionPool,
}

impl PostgresReadLog {
    pub(crate) fn new(pool: ConnectionPool) -> Self {
        Self { waiting: TenantQueues::default(), pool }
    }

    /// Answers once it is durable.
    pub(crate) async fn append(&self, batch: ReadLogBatch) -> Result<(), StoreError> {
        let (tenant, pool) = (batch.tenant, self.pool.clone());
        let bytes = batch.entries.len().saturating_mul(RECORD_BYTES);
        self.waiting
            .submit_and_wait(tenant, ReadLogWrite::Reads(batch), bytes, |turn| {
                drain_queue(turn, pool)
            })
            .await
    }

    /// After a write that used them. Nobody waits for it. Should it come to nothing, a token is
    /// counted one use later.
    pub(crate) fn record_activity(&self, tenant: TenantId, tokens: Vec<(Month, TokenId)>) {
        if tokens.is_empty() {
            return;
        }
        let pool = self.pool.clone();
        let bytes = tokens.len().saturating_mul(RECORD_BYTES);
        drop(self.waiting.submit(tenant, ReadLogWrite::ActiveTokens(tokens), bytes, |turn| {
            drain_queue(turn, pool)
        }));
    }

    pub(crate) fn metrics(&self) -> WriterMetrics {
        self.waiting.metrics(LogKind::Read.as_str())
    }
}

async fn drain_queue(mut drain: Drain<ReadLogWrite, ()>, pool: ConnectionPool) {
    while let Some(waiting) = drain.next_batch(BATCH_MAX) {
        let (all, replies): (Vec<_>, Vec<_>) =
            waiting.into_iter().map(|it| (it.work, it.reply)).unzip();
        let written = write_batch(&pool, drain.tenant, &all).await;
        drain.count_batch(written.is_ok().then_some(all.len()));
        for reply in replies {
            // A client that has gone away does not want to hear it; the record stays.
            drop(reply.send(written.as_ref().copied().map_err(clone_error)));
        }
    }
}

async fn write_batch(
    pool: &ConnectionPool,
    tenant: TenantId,
    batch: &[ReadLogWrite],
) -> Result<(), StoreError> {
    let mut transaction =
        PostgresTransaction::begin(pool, TenantLog { log: LogKind::Read, tenant }, 0).await?;
    let mut active = Vec::new();
    for work in batch {
        match work {
            ReadLogWrite::Reads(batch) => {
                for it in &batch.entries {
                    transaction.append_record(&batch.audit, &it.entity, it.outcome);
                    active.extend(batch.active_month(it).map(|month| (month, it.entity.as_str())));
                }
            }
            ReadLogWrite::ActiveTokens(tokens) => {
                active.extend(tokens.iter().map(|(month, it)| (*month, it.as_str())));
            }
        }
    }
    record_active_tokens(&transaction, &active).await?;
    transaction.commit().await
}
