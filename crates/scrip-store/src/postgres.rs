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
mod health;
mod intents;
mod listing;
mod migrate;
mod opening;
mod policy;
mod records;
mod row;
mod sessions;
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
mod usage;
mod walk;

use deadpool_postgres::{Object, Pool};
use scrip_core::{
    access_session::{AccessSessionId, AccessSessionRecord},
    audit::{
        AuditRecord,
        chain::{Chain, Checkpoint, Head, Log, LogRecord, PruneChain},
        trail::Access,
        walk::{WalkRecords, Walked},
    },
    caller::{Inquiry, Mandate, Permit, TenantDeletion},
    directory::{DirectoryRecords, SystemKeys},
    error::Error,
    id::{SessionId, TenantId, TokenId, TokenIntentId},
    listing::{ListTokens, Listing, SurveyTokens, Surveyed},
    measure::StoreMeasures,
    policy::{PolicyRecords, Signed},
    store::{
        AskedAnswer, Batched, Beside, Changed, Claimed, DecidePolicy, DeleteToken, KnownTime,
        Store, StoreError, StoreFuture, StoreStatus, StoredToken, TokenBatch,
    },
    threeds::{EventRecord, SessionRecord, SessionWrite},
    time::{Month, Timestamp},
    token_intent::StoredTokenIntent,
    usage::Usage,
};

use crate::{
    claims::Claims,
    postgres::{
        access::{AccessLog, note_used},
        settings::connection,
        statement::at_one_instant,
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
    /// Of this node. Another node's are known by the rows that they commit.
    claims: Claims,
}

impl PostgresStore {
    async fn client(&self) -> Result<Object, StoreError> {
        connection(&self.pool).await
    }

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

impl Store for PostgresStore {
    fn write_tokens(&self, inquiry: Inquiry, batch: TokenBatch) -> StoreFuture<'_, Batched> {
        Box::pin(async move {
            let tenant = inquiry.tenant().id;
            let uses = Uses::of(&batch);
            // An id that has expired is tried twice.
            let tokens = batch.writes.len().saturating_mul(2);
            let mut it = Transaction::begin(&self.pool, (Log::Audit, tenant), tokens).await?;
            let batched = batch::write_tokens(&mut it, batch).await?;
            let batched = match batched {
                Batched::Written(_) => kept(it, batched).await?,
                Batched::Refused(_) => undone(it, batched).await?,
            };
            note_used(&self.pool, tenant, &uses.active(&batched)).await;
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
            let found = tokens::find_token(&self.client().await?, tenant, id, now).await?;
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
        Box::pin(async move { tokens::find_tokens(&self.client().await?, tenant, ids, now).await })
    }

    fn list_tokens(&self, inquiry: Inquiry, list: ListTokens) -> StoreFuture<'_, Listing> {
        Box::pin(async move {
            let mut client = self.client().await?;
            let it = at_one_instant(&mut client).await?;
            listing::list_tokens(&it, inquiry.tenant().id, &list).await
        })
    }

    fn survey_tokens(&self, inquiry: Inquiry, survey: SurveyTokens) -> StoreFuture<'_, Surveyed> {
        Box::pin(async move {
            let mut client = self.client().await?;
            let it = at_one_instant(&mut client).await?;
            survey::survey_tokens(&it, inquiry.tenant().id, &survey).await
        })
    }

    fn insert_token_intent(
        &self,
        inquiry: Inquiry,
        intent: StoredTokenIntent,
        written: Beside,
    ) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let mut it = self.begin(inquiry.tenant().id).await?;
            intents::insert_token_intent(&mut it, &intent, &written).await?;
            it.commit().await
        })
    }

    fn find_token_intent(
        &self,
        inquiry: Inquiry,
        id: TokenIntentId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<StoredTokenIntent>> {
        let tenant = inquiry.tenant().id;
        Box::pin(
            async move { intents::find_token_intent(&self.client().await?, tenant, id, now).await },
        )
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

    fn delete_token(&self, permit: Permit, delete: DeleteToken) -> StoreFuture<'_, Changed> {
        Box::pin(async move {
            let mut it = self.begin(permit.tenant().id).await?;
            let deleted = tokens::delete_token(&mut it, &delete).await?;
            changed(it, deleted).await
        })
    }

    fn sweep_tokens(&self, ended: Timestamp, audit: AuditRecord) -> StoreFuture<'_, usize> {
        Box::pin(async move { sweep::sweep(&self.pool, Ending::Token, ended, &audit).await })
    }

    fn sweep_token_intents(&self, ended: Timestamp, audit: AuditRecord) -> StoreFuture<'_, usize> {
        Box::pin(async move { sweep::sweep(&self.pool, Ending::TokenIntent, ended, &audit).await })
    }

    fn sweep_cvcs(&self, ended: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(async move { sweep::sweep_cvcs(&self.client().await?, ended).await })
    }

    fn claim_answer(&self, asked: AskedAnswer) -> StoreFuture<'_, Claimed> {
        Box::pin(async move {
            let Some(claim) = self.claims.take(asked.digest) else { return Ok(Claimed::InFlight) };
            let found = answers::find_answer(&self.client().await?, &asked).await?;
            Ok(found.map_or(Claimed::Claim(claim), Claimed::Answered))
        })
    }

    fn forget_answers(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(async move { answers::forget_answers(&self.client().await?, before).await })
    }

    fn load_directory(&self) -> StoreFuture<'_, DirectoryRecords> {
        Box::pin(async move {
            let mut client = self.client().await?;
            directory::load_directory(&at_one_instant(&mut client).await?).await
        })
    }

    fn directory_version(&self) -> StoreFuture<'_, i64> {
        Box::pin(async move { directory::directory_version(&self.client().await?).await })
    }

    fn insert_system_keys(&self, keys: SystemKeys) -> StoreFuture<'_, ()> {
        Box::pin(async move { policy::insert_system_keys(&self.client().await?, &keys).await })
    }

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

    fn purge_tenants(&self, now: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(async move { policy::purge_tenants(&self.client().await?, now).await })
    }

    fn insert_access_session(
        &self,
        mandate: Mandate,
        session: Signed<AccessSessionRecord>,
        written: Beside,
    ) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let mut it = self.begin(mandate.tenant().id).await?;
            access_sessions::insert_access_session(&mut it, &session, &written).await?;
            it.commit().await
        })
    }

    fn find_access_session(
        &self,
        id: AccessSessionId,
    ) -> StoreFuture<'_, Option<Signed<AccessSessionRecord>>> {
        Box::pin(
            async move { access_sessions::find_access_session(&self.client().await?, id).await },
        )
    }

    fn find_access_session_by_nonce<'a>(
        &'a self,
        mandate: &'a Mandate,
        nonce: [u8; 32],
    ) -> StoreFuture<'a, Option<Signed<AccessSessionRecord>>> {
        let tenant = mandate.tenant().id;
        Box::pin(async move {
            let client = self.client().await?;
            access_sessions::find_access_session_by_nonce(&client, tenant, nonce).await
        })
    }

    fn authorize_access_session(
        &self,
        mandate: Mandate,
        session: Signed<AccessSessionRecord>,
        written: Beside,
    ) -> StoreFuture<'_, Changed> {
        Box::pin(async move {
            let mut it = self.begin(mandate.tenant().id).await?;
            let authorized =
                access_sessions::authorize_access_session(&mut it, &session, &written).await?;
            changed(it, authorized).await
        })
    }

    fn forget_access_sessions(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(async move {
            access_sessions::forget_access_sessions(&self.client().await?, before).await
        })
    }

    fn insert_session(&self, inquiry: Inquiry, write: SessionWrite) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let mut it = self.begin(inquiry.tenant().id).await?;
            sessions::insert_session(&mut it, &write).await?;
            it.commit().await
        })
    }

    fn find_session(
        &self,
        inquiry: Inquiry,
        id: SessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<SessionRecord>> {
        let tenant = inquiry.tenant().id;
        Box::pin(
            async move { sessions::find_session(&self.client().await?, tenant, id, now).await },
        )
    }

    fn find_notified_session(
        &self,
        id: SessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<SessionRecord>> {
        Box::pin(
            async move { sessions::find_notified_session(&self.client().await?, id, now).await },
        )
    }

    fn update_session(&self, write: SessionWrite) -> StoreFuture<'_, Changed> {
        Box::pin(async move {
            let mut it = self.begin(write.session.tenant).await?;
            let updated = sessions::update_session(&mut it, &write).await?;
            changed(it, updated).await
        })
    }

    fn sweep_sessions(&self, ended: Timestamp, audit: AuditRecord) -> StoreFuture<'_, usize> {
        Box::pin(async move { sweep::sweep(&self.pool, Ending::Session, ended, &audit).await })
    }

    fn list_events(
        &self,
        after: i64,
        events_max: usize,
    ) -> StoreFuture<'_, Vec<(i64, EventRecord)>> {
        Box::pin(
            async move { sessions::list_events(&self.client().await?, after, events_max).await },
        )
    }

    fn forget_events(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(async move { sessions::forget_events(&self.client().await?, before).await })
    }

    fn record_access(&self, access: Access) -> StoreFuture<'_, ()> {
        Box::pin(self.access.record(&self.pool, access))
    }

    fn list_heads(&self, log: Log) -> StoreFuture<'_, Vec<Head>> {
        Box::pin(async move { records::list_heads(&self.client().await?, log).await })
    }

    fn list_chains(&self, log: Log) -> StoreFuture<'_, Vec<Chain>> {
        Box::pin(async move { records::list_chains(&self.client().await?, log).await })
    }

    fn list_records(
        &self,
        of: (Log, TenantId),
        after: i64,
        records_max: usize,
    ) -> StoreFuture<'_, Vec<LogRecord>> {
        Box::pin(async move {
            records::list_records(&self.client().await?, of, after, records_max).await
        })
    }

    fn find_checkpoint(&self, of: (Log, TenantId)) -> StoreFuture<'_, Option<Checkpoint>> {
        Box::pin(async move { records::find_checkpoint(&self.client().await?, of).await })
    }

    fn walk_records(&self, inquiry: Inquiry, walk: WalkRecords) -> StoreFuture<'_, Walked> {
        Box::pin(async move {
            let mut client = self.client().await?;
            let it = at_one_instant(&mut client).await?;
            walk::walk_records(&it, inquiry.tenant().id, &walk).await
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

    fn find_usage<'a>(&'a self, mandate: &'a Mandate, month: Month) -> StoreFuture<'a, Usage> {
        let tenant = mandate.tenant().id;
        Box::pin(async move { usage::find_usage(&self.client().await?, tenant, month).await })
    }

    fn sweep_usage(&self, month: Month) -> StoreFuture<'_, usize> {
        Box::pin(async move { usage::sweep_usage(&self.client().await?, month).await })
    }

    fn note_time(&self, time: KnownTime) -> StoreFuture<'_, ()> {
        Box::pin(async move { time::note_time(&self.client().await?, time).await })
    }

    fn known_time(&self) -> StoreFuture<'_, Option<KnownTime>> {
        Box::pin(async move { time::known_time(&self.client().await?).await })
    }

    fn check_ready(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move { status::check_ready(&self.client().await?).await })
    }

    fn measures(&self) -> StoreMeasures {
        status::measures(&self.pool)
    }

    fn status(&self) -> StoreFuture<'_, StoreStatus> {
        Box::pin(async move { status::status(&self.client().await?).await })
    }
}
