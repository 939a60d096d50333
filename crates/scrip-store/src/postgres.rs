//! PostgreSQL: for more than one machine. What holds where several nodes write is in
//! docs/decisions/0034-postgresql.md.

mod access;
mod access_sessions;
mod address;
mod answers;
mod batch;
mod chain;
mod directory;
mod filed;
mod gather;
mod group;
mod guesses;
mod health;
mod intents;
mod lane;
mod listen;
mod listing;
mod migrate;
mod opening;
mod policy;
mod pool;
mod records;
mod roles;
mod row;
mod scope;
pub mod sent;
mod sessions;
mod set;
mod settings;
mod statement;
mod status;
mod survey;
mod sweep;
mod tally;
mod time;
mod tokens;
mod trail;
mod transaction;
pub mod transfer;
mod usage;
mod walk;

use scrip_core::{
    audit::{
        AuditRecord,
        chain::{Chain, Checkpoint, Head, Log, LogRecord, PruneChain},
        trail::Access,
        walk::{WalkRecords, Walked},
    },
    caller::{Inquiry, Mandate, Permit, TenantDeletion},
    directory::{DirectoryRecords, SystemKeys},
    error::Error,
    id::{TenantId, TokenId, TokenIntentId},
    listing::{ListTokens, Listing, SurveyTokens, Surveyed},
    measure::StoreMeasures,
    policy::PolicyRecords,
    store::{
        AnswerStore, AskedAnswer, AuditStore, Batched, Beside, Changed, Claimed, DecidePolicy,
        DeleteToken, DirectoryStore, EventStore, ListingStore, Maintenance, PolicyStore,
        StoreError, StoreFuture, StoreStatus, StoredToken, TokenBatch, TokenIntentStore,
        TokenStore, UsageStore,
    },
    threeds::EventRecord,
    time::{Month, Timestamp},
    token_intent::StoredTokenIntent,
    usage::Usage,
    vault_rows::{DeletedTenant, NotedTime},
};

use crate::{
    claims::Claims,
    postgres::{
        access::AccessLog,
        group::Writes,
        listen::Changes,
        pool::Pool,
        scope::Scope,
        statement::{Instant, Single},
        sweep::Ending,
        transaction::Transaction,
    },
    uses::Uses,
};

pub use address::Transport;
pub use health::Health;
pub use migrate::Migrated;
pub use settings::{PostgresSettings, WrongAddress};
pub use tokio_postgres_rustls::MakeRustlsConnect;

#[derive(Debug)]
pub struct PostgresStore {
    pool: Pool,
    access: AccessLog,
    writes: Writes,
    /// Of this node. Another node's are known by the rows that they commit.
    claims: Claims,
    changes: Changes,
}

impl PostgresStore {
    async fn begin(&self, tenant: TenantId) -> Result<Transaction, StoreError> {
        Transaction::begin(&self.pool, (Log::Audit, tenant), 0).await
    }
}

/// What a transaction gave, once it is durable.
async fn kept<T>(transaction: Transaction, given: T) -> Result<T, StoreError> {
    transaction.commit().await?;
    Ok(given)
}

/// What it gave, after it was taken back.
async fn undone<T>(transaction: Transaction, given: T) -> Result<T, StoreError> {
    transaction.roll_back().await?;
    Ok(given)
}

/// A change of something that may have changed meanwhile; then there is nothing to keep.
async fn changed(transaction: Transaction, changed: Changed) -> Result<Changed, StoreError> {
    match changed {
        Changed::Done => kept(transaction, changed).await,
        Changed::Stale => undone(transaction, changed).await,
    }
}

impl TokenStore for PostgresStore {
    fn write_tokens(&self, inquiry: Inquiry, batch: TokenBatch) -> StoreFuture<'_, Batched> {
        Box::pin(async move {
            let tenant = inquiry.tenant().id;
            let uses = Uses::of(&batch);
            let batched = self.writes.write_tokens(&self.pool, tenant, batch).await?;
            self.access.note_used(&self.pool, tenant, uses.active(&batched));
            Ok(batched)
        })
    }

    fn find_token<'a>(
        &'a self,
        inquiry: Inquiry,
        id: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, Option<StoredToken>> {
        Box::pin(async move {
            let tenant = inquiry.tenant().id;
            let found = tokens::find_token(&self.of(tenant), tenant, id, now).await?;
            Ok(found.map(|(_, token)| token))
        })
    }

    fn find_tokens<'a>(
        &'a self,
        inquiry: Inquiry,
        ids: &'a [TokenId],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<Option<StoredToken>>> {
        let tenant = inquiry.tenant().id;
        Box::pin(async move { tokens::find_tokens(&self.of(tenant), tenant, ids, now).await })
    }

    fn delete_token(&self, permit: Permit, delete: DeleteToken) -> StoreFuture<'_, Changed> {
        Box::pin(async move {
            let mut it = self.begin(permit.tenant().id).await?;
            let deleted = tokens::delete_token(&mut it, &delete).await?;
            changed(it, deleted).await
        })
    }
}

impl ListingStore for PostgresStore {
    fn list_tokens(&self, inquiry: Inquiry, list: ListTokens) -> StoreFuture<'_, Listing> {
        Box::pin(async move {
            let tenant = inquiry.tenant().id;
            let it = self.at_one_instant(Scope::of(tenant)).await?;
            let found = listing::list_tokens(&it, tenant, &list).await;
            it.end(found).await
        })
    }

    fn survey_tokens(&self, inquiry: Inquiry, survey: SurveyTokens) -> StoreFuture<'_, Surveyed> {
        Box::pin(async move {
            let tenant = inquiry.tenant().id;
            let it = self.at_one_instant(Scope::of(tenant)).await?;
            let found = survey::survey_tokens(&it, tenant, &survey).await;
            it.end(found).await
        })
    }
}

impl TokenIntentStore for PostgresStore {
    fn insert_token_intent(
        &self,
        inquiry: Inquiry,
        intent: StoredTokenIntent,
        written: Beside,
    ) -> StoreFuture<'_, ()> {
        let tenant = inquiry.tenant().id;
        Box::pin(self.writes.insert_token_intent(&self.pool, tenant, (intent, written)))
    }

    fn find_token_intent(
        &self,
        inquiry: Inquiry,
        id: TokenIntentId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<StoredTokenIntent>> {
        let tenant = inquiry.tenant().id;
        Box::pin(async move { intents::find_token_intent(&self.of(tenant), tenant, id, now).await })
    }

    fn delete_token_intent(
        &self,
        inquiry: Inquiry,
        id: TokenIntentId,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Changed> {
        Box::pin(async move {
            let mut it = self.begin(inquiry.tenant().id).await?;
            let ended = intents::end(&mut it, id, (&audit, "deleted")).await?;
            changed(it, ended).await
        })
    }
}

impl AnswerStore for PostgresStore {
    fn claim_answer(&self, asked: AskedAnswer) -> StoreFuture<'_, Claimed> {
        Box::pin(async move {
            let Some(claim) = self.claims.take(asked.digest) else { return Ok(Claimed::InFlight) };
            let found = answers::find_answer(&self.of(asked.tenant), &asked).await?;
            Ok(found.map_or(Claimed::Claim(claim), Claimed::Answered))
        })
    }

    fn forget_answers(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(async move { answers::forget_answers(&self.of_every_tenant(), before).await })
    }
}

impl DirectoryStore for PostgresStore {
    fn load_directory(&self) -> StoreFuture<'_, DirectoryRecords> {
        Box::pin(async move {
            let it = Instant::new(&self.pool.apart(), Scope::every_tenant()).await?;
            let loaded = directory::load_directory(&it).await;
            it.end(loaded).await
        })
    }

    fn directory_version(&self) -> StoreFuture<'_, i64> {
        Box::pin(async move {
            let pool = self.pool.apart();
            directory::directory_version(&Single::new(&pool, Scope::no_tenant())).await
        })
    }

    fn directory_changed(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.changes.wait().await;
            Ok(())
        })
    }

    fn insert_system_keys(&self, keys: SystemKeys) -> StoreFuture<'_, ()> {
        Box::pin(async move { policy::insert_system_keys(&self.of_no_tenant(), &keys).await })
    }
}

impl PolicyStore for PostgresStore {
    fn insert_tenant(&self, records: PolicyRecords, audit: AuditRecord) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let mut it = self.begin(records.tenant.record.id).await?;
            policy::insert_tenant(&mut it, &records, &audit).await?;
            it.commit().await
        })
    }

    fn change_policy(
        &self,
        mandate: Mandate,
        decide: DecidePolicy,
    ) -> StoreFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let mut it = self.begin(mandate.tenant().id).await?;
            match policy::change_policy(&mut it, decide).await? {
                Ok(()) => kept(it, Ok(())).await,
                refused => undone(it, refused).await,
            }
        })
    }

    fn delete_tenant(
        &self,
        deletion: TenantDeletion,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Result<Changed, Error>> {
        Box::pin(async move {
            let mut it = self.begin(deletion.tenant()).await?;
            match policy::delete_tenant(&mut it, &deletion, &audit).await? {
                Ok(deleted) => changed(it, deleted).await.map(Ok),
                refused => undone(it, refused).await,
            }
        })
    }

    fn list_deleted_tenants(&self) -> StoreFuture<'_, Vec<DeletedTenant>> {
        Box::pin(async move { policy::list_deleted_tenants(&self.of_every_tenant()).await })
    }

    fn purge_tenants(&self, tenants: Vec<TenantId>, now: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(async move { policy::purge_tenants(&self.of_every_tenant(), tenants, now).await })
    }
}

impl EventStore for PostgresStore {
    fn list_events(
        &self,
        after: i64,
        events_max: usize,
    ) -> StoreFuture<'_, Vec<(i64, EventRecord)>> {
        Box::pin(
            async move { sessions::list_events(&self.of_every_tenant(), after, events_max).await },
        )
    }

    fn forget_events(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(async move { sessions::forget_events(&self.of_every_tenant(), before).await })
    }
}

impl AuditStore for PostgresStore {
    fn record_access(&self, access: Access) -> StoreFuture<'_, ()> {
        Box::pin(self.access.record(&self.pool, access))
    }

    fn list_heads(&self, log: Log) -> StoreFuture<'_, Vec<Head>> {
        Box::pin(async move { records::list_heads(&self.of_every_tenant(), log).await })
    }

    fn list_chains(&self, log: Log) -> StoreFuture<'_, Vec<Chain>> {
        Box::pin(async move { records::list_chains(&self.of_every_tenant(), log).await })
    }

    fn list_records(
        &self,
        of: (Log, TenantId),
        after: i64,
        records_max: usize,
    ) -> StoreFuture<'_, Vec<LogRecord>> {
        Box::pin(async move { records::list_records(&self.of(of.1), of, after, records_max).await })
    }

    fn find_checkpoint(&self, of: (Log, TenantId)) -> StoreFuture<'_, Option<Checkpoint>> {
        Box::pin(async move { records::find_checkpoint(&self.of(of.1), of).await })
    }

    fn walk_records(&self, inquiry: Inquiry, walk: WalkRecords) -> StoreFuture<'_, Walked> {
        Box::pin(async move {
            let tenant = inquiry.tenant().id;
            let it = self.at_one_instant(Scope::of(tenant)).await?;
            let found = walk::walk_records(&it, tenant, &walk).await;
            it.end(found).await
        })
    }

    fn prune_chain(&self, prune: PruneChain) -> StoreFuture<'_, usize> {
        Box::pin(async move {
            let of = (prune.log, prune.tenant);
            let it = Transaction::begin(&self.pool, of, 0).await?;
            let pruned = records::prune_chain(&it, &prune).await?;
            kept(it, pruned).await
        })
    }
}

impl UsageStore for PostgresStore {
    fn find_usage<'a>(&'a self, mandate: &'a Mandate, month: Month) -> StoreFuture<'a, Usage> {
        let tenant = mandate.tenant().id;
        Box::pin(async move { usage::find_usage(&self.of(tenant), tenant, month).await })
    }

    fn sweep_usage(&self, month: Month) -> StoreFuture<'_, usize> {
        Box::pin(async move { usage::sweep_usage(&self.of_every_tenant(), month).await })
    }
}

impl Maintenance for PostgresStore {
    fn sweep_tokens(&self, ended: Timestamp, audit: AuditRecord) -> StoreFuture<'_, usize> {
        Box::pin(async move { sweep::sweep(&self.pool, Ending::Token, ended, &audit).await })
    }

    fn sweep_token_intents(&self, ended: Timestamp, audit: AuditRecord) -> StoreFuture<'_, usize> {
        Box::pin(async move { sweep::sweep(&self.pool, Ending::TokenIntent, ended, &audit).await })
    }

    fn sweep_cvcs(&self, ended: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(async move { sweep::sweep_cvcs(&self.of_every_tenant(), ended).await })
    }

    fn not_after(&self, at: Timestamp) -> StoreFuture<'_, Timestamp> {
        Box::pin(async move { time::not_after(&self.of_no_tenant(), self.pool.clock(), at).await })
    }

    fn sweep_sessions(&self, ended: Timestamp, audit: AuditRecord) -> StoreFuture<'_, usize> {
        Box::pin(async move { sweep::sweep(&self.pool, Ending::Session, ended, &audit).await })
    }

    fn note_time(&self, noted: NotedTime) -> StoreFuture<'_, ()> {
        Box::pin(async move { time::note_time(&self.of_no_tenant(), noted).await })
    }

    fn known_time(&self) -> StoreFuture<'_, Option<NotedTime>> {
        Box::pin(async move { time::known_time(&self.of_no_tenant()).await })
    }

    fn check_ready(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move { status::check_ready(&self.of_no_tenant()).await })
    }

    fn measures(&self) -> StoreMeasures {
        let logs = vec![self.writes.measures(), self.access.measures()];
        StoreMeasures { logs, readers: status::connections(&self.pool) }
    }

    fn status(&self) -> StoreFuture<'_, StoreStatus> {
        Box::pin(
            async move { status::status(&Single::long(&self.pool, Scope::every_tenant())).await },
        )
    }
}
