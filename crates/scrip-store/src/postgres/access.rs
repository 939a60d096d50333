//! The access log: reads that are recorded gather, and are written as one.

use scrip_core::{
    audit::{chain::Log, trail::Access},
    id::{TenantId, TokenId},
    measure::LogMeasures,
    store::StoreError,
    time::Month,
};

use crate::postgres::{
    gather::{Gathering, Turn, again},
    pool::Pool,
    transaction::Transaction,
    usage::note_active,
};

#[derive(Debug, Default)]
pub(super) struct AccessLog(Gathering<Access, ()>);

impl AccessLog {
    /// Answers once it is durable.
    pub(super) async fn record(&self, pool: &Pool, access: Access) -> Result<(), StoreError> {
        let (tenant, pool) = (access.tenant, pool.clone());
        self.0.done(tenant, (access, 0), |turn| write(turn, pool)).await
    }

    pub(super) fn measures(&self) -> LogMeasures {
        self.0.measures(Log::Access.as_str())
    }
}

async fn write(mut turn: Turn<Access, ()>, pool: Pool) {
    while let Some(waiting) = turn.next(usize::MAX) {
        let (all, replies): (Vec<_>, Vec<_>) =
            waiting.into_iter().map(|it| (it.work, it.reply)).unzip();
        let written = write_all(&pool, turn.tenant, &all).await;
        turn.note(written.is_ok().then_some(all.len()));
        for reply in replies {
            // A client that has gone away does not want to hear it; the record stays.
            drop(reply.send(written.as_ref().copied().map_err(again)));
        }
    }
}

async fn write_all(pool: &Pool, tenant: TenantId, all: &[Access]) -> Result<(), StoreError> {
    let mut transaction = Transaction::begin(pool, (Log::Access, tenant), 0).await?;
    let mut active = Vec::new();
    for access in all {
        for it in &access.seen {
            transaction.append(&access.audit, &it.entity, it.outcome);
            active.extend(access.active(it).map(|month| (month, it.entity.as_str())));
        }
    }
    note_active(&transaction, &active).await?;
    transaction.commit().await
}

/// After a write that used them. Should the process end before it comes to this, a token is counted
/// one use later.
pub(super) async fn note_used(pool: &Pool, tenant: TenantId, tokens: &[(Month, TokenId)]) {
    if tokens.is_empty() {
        return;
    }
    let tokens: Vec<_> = tokens.iter().map(|(month, it)| (*month, it.as_str())).collect();
    let noted = async {
        let transaction = Transaction::begin(pool, (Log::Access, tenant), 0).await?;
        note_active(&transaction, &tokens).await?;
        transaction.commit().await
    };
    drop(noted.await);
}
