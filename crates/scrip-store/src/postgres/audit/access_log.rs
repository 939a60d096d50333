//! The access log: reads that are recorded gather, and are written as one.

use scrip_core::{
    audit::{Access, Log},
    id::{TenantId, TokenId},
    measure::LogMeasures,
    store::StoreError,
    time::Month,
};

use crate::{
    postgres::{
        engine::{
            gather::{Gathering, Turn},
            lane::Lane,
            pool::Pool,
            transaction::Transaction,
        },
        maintenance::usage::note_active,
    },
    rules::again,
};

/// Of one transaction; more would only make the first wait for the last.
const GROUP_MAX: usize = 256;
/// A record in the engine, more or less.
const RECORD_BYTES: usize = 256;

enum Work {
    Seen(Access),
    /// Leaves no record.
    Used(Vec<(Month, TokenId)>),
}

#[derive(Debug)]
pub(crate) struct AccessLog {
    waiting: Gathering<Work, ()>,
    pool: Pool,
}

impl AccessLog {
    pub(crate) fn new(pool: Pool) -> Self {
        Self { waiting: Gathering::default(), pool }
    }

    /// Answers once it is durable.
    pub(crate) async fn record(&self, access: Access) -> Result<(), StoreError> {
        let (tenant, pool) = (access.tenant, self.pool.clone());
        let bytes = access.seen.len().saturating_mul(RECORD_BYTES);
        self.waiting.done(tenant, Work::Seen(access), bytes, |turn| write(turn, pool)).await
    }

    /// After a write that used them. Nobody waits for it. Should it come to nothing, a token is
    /// counted one use later.
    pub(crate) fn note_active(&self, tenant: TenantId, tokens: Vec<(Month, TokenId)>) {
        if tokens.is_empty() {
            return;
        }
        let pool = self.pool.clone();
        let bytes = tokens.len().saturating_mul(RECORD_BYTES);
        drop(self.waiting.hand(tenant, Work::Used(tokens), bytes, |turn| write(turn, pool)));
    }

    pub(crate) fn measures(&self) -> LogMeasures {
        self.waiting.measures(Log::Access.as_str())
    }
}

async fn write(mut turn: Turn<Work, ()>, pool: Pool) {
    while let Some(waiting) = turn.next(GROUP_MAX) {
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

async fn write_all(pool: &Pool, tenant: TenantId, all: &[Work]) -> Result<(), StoreError> {
    let mut transaction = Transaction::begin(pool, Lane { log: Log::Access, tenant }, 0).await?;
    let mut active = Vec::new();
    for work in all {
        match work {
            Work::Seen(access) => {
                for it in &access.seen {
                    transaction.append_record(&access.audit, &it.entity, it.outcome);
                    active.extend(access.active(it).map(|month| (month, it.entity.as_str())));
                }
            }
            Work::Used(tokens) => {
                active.extend(tokens.iter().map(|(month, it)| (*month, it.as_str())));
            }
        }
    }
    note_active(&transaction, &active).await?;
    transaction.commit().await
}
