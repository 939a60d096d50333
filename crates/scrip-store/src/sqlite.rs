//! The embedded engine: one SQLite file, one writer, readers beside it.

mod access;
mod access_sessions;
mod answers;
mod audit;
pub mod backup;
mod batch;
mod chains;
mod checkpoint;
mod connection;
mod directory;
mod events;
mod filed;
mod guesses;
mod intents;
mod listing;
mod measures;
mod opening;
mod policy;
mod readers;
mod row;
mod sessions;
mod status;
mod survey;
mod sweep;
mod tally;
mod time;
mod tokens;
pub mod trail;
mod transaction;
pub mod transfer;
mod usage;
mod walk;
mod writer;

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
use std::{fs::File, path::PathBuf, sync::atomic::Ordering};

use crate::{
    claims::Claims,
    sqlite::{
        access::AccessLog, checkpoint::Checkpointer, readers::Readers, transaction::Transaction,
        writer::Writer,
    },
    uses::Uses,
};

/// How readers see the pages of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// Mapped: no copy, and the kernel forgets what it needs to.
    Mapped,
    /// Copied into a cache: for a process whose memory is locked, where a mapped page would stay
    /// for good.
    Copied,
}

/// Fields end in this order: the checkpointer and the readers before the writer, whose connection
/// is then the last and tidies the log away; the lock after all of them.
#[derive(Debug)]
pub struct SqliteStore {
    _checkpointer: Option<Checkpointer>,
    readers: Readers,
    writer: Writer,
    access: AccessLog,
    claims: Claims,
    path: PathBuf,
    _lock: Option<File>,
}

impl SqliteStore {
    /// Who reads and who writes a log.
    fn log(&self, log: Log) -> (&Readers, &Writer) {
        match log {
            Log::Audit => (&self.readers, &self.writer),
            Log::Access => (&self.access.readers, &self.access.writer),
        }
    }
}

/// What a piece of work is done in.
type Within<'a, 'b> = &'a mut Transaction<'b>;

/// The engine's own message may quote a value; its code never does.
fn fault(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error() {
        Some(error) => {
            StoreError::Unavailable(format!("SQLite error {}", error.extended_code).into())
        }
        None => StoreError::Corrupt("a row does not have the columns we wrote"),
    }
}

/// What is put once for all who share a commit. Where somebody altered the file so that it cannot be,
/// that must not stop everybody: it is told, and left as it is.
fn put_anyway(put: rusqlite::Result<usize>, tell: impl FnOnce()) -> Result<(), StoreError> {
    match put {
        Err(error) if tokens::is_taken(&error) => {
            tell();
            Ok(())
        }
        put => put.map(drop).map_err(fault),
    }
}

impl TokenStore for SqliteStore {
    fn write_tokens(&self, inquiry: Inquiry, batch: TokenBatch) -> StoreFuture<'_, Batched> {
        let tenant = inquiry.tenant().id;
        let uses = Uses::of(&batch);
        let work = move |it: Within<'_, '_>| batch::write_tokens(it, tenant, batch);
        let written = self.writer.write_if(work, |it| matches!(it, Batched::Written(_)));
        Box::pin(async move {
            let written = written.await?;
            self.access.note_active(tenant, uses.active(&written));
            Ok(written)
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
            let found = self.readers.read(|it| tokens::find_token(it, tenant, id, now))?;
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
        Box::pin(async move { self.readers.read(|it| tokens::find_tokens(it, tenant, ids, now)) })
    }

    fn delete_token(&self, permit: Permit, delete: DeleteToken) -> StoreFuture<'_, Changed> {
        let tenant = permit.tenant().id;
        Box::pin(self.writer.write(move |it| tokens::delete_token(it, tenant, &delete)))
    }
}

impl ListingStore for SqliteStore {
    fn list_tokens(&self, inquiry: Inquiry, list: ListTokens) -> StoreFuture<'_, Listing> {
        let tenant = inquiry.tenant().id;
        Box::pin(async move { self.readers.read(|it| listing::list_tokens(it, tenant, &list)) })
    }

    fn survey_tokens(&self, inquiry: Inquiry, survey: SurveyTokens) -> StoreFuture<'_, Surveyed> {
        let tenant = inquiry.tenant().id;
        Box::pin(async move { self.readers.read(|it| survey::survey_tokens(it, tenant, &survey)) })
    }
}

impl TokenIntentStore for SqliteStore {
    fn insert_token_intent(
        &self,
        inquiry: Inquiry,
        intent: StoredTokenIntent,
        written: Beside,
    ) -> StoreFuture<'_, ()> {
        let tenant = inquiry.tenant().id;
        let insert =
            move |it: Within<'_, '_>| intents::insert_token_intent(it, tenant, &intent, &written);
        Box::pin(self.writer.write(insert))
    }

    fn find_token_intent(
        &self,
        inquiry: Inquiry,
        id: TokenIntentId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<StoredTokenIntent>> {
        let tenant = inquiry.tenant().id;
        Box::pin(
            async move { self.readers.read(|it| intents::find_token_intent(it, tenant, id, now)) },
        )
    }

    fn delete_token_intent(
        &self,
        inquiry: Inquiry,
        id: TokenIntentId,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Changed> {
        let tenant = inquiry.tenant().id;
        let delete = move |it: Within<'_, '_>| intents::delete_token_intent(it, tenant, id, &audit);
        Box::pin(self.writer.write(delete))
    }
}

impl AnswerStore for SqliteStore {
    fn claim_answer(&self, asked: AskedAnswer) -> StoreFuture<'_, Claimed> {
        Box::pin(async move {
            let Some(claim) = self.claims.take(asked.digest) else { return Ok(Claimed::InFlight) };
            let found = self.readers.read(|it| answers::find_answer(it, &asked))?;
            Ok(found.map_or(Claimed::Claim(claim), Claimed::Answered))
        })
    }

    fn forget_answers(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(self.writer.write(move |it| answers::forget_answers(it, before)))
    }
}

impl DirectoryStore for SqliteStore {
    fn load_directory(&self) -> StoreFuture<'_, DirectoryRecords> {
        Box::pin(async move { self.readers.read(directory::load_directory) })
    }

    fn directory_version(&self) -> StoreFuture<'_, i64> {
        Box::pin(async move { self.readers.read(directory::directory_version) })
    }

    fn insert_system_keys(&self, keys: SystemKeys) -> StoreFuture<'_, ()> {
        Box::pin(self.writer.write(move |it| policy::insert_system_keys(it, &keys)))
    }
}

impl PolicyStore for SqliteStore {
    fn insert_tenant(&self, records: PolicyRecords, audit: AuditRecord) -> StoreFuture<'_, ()> {
        Box::pin(self.writer.write(move |it| policy::insert_tenant(it, &records, &audit)))
    }

    fn change_policy(
        &self,
        mandate: Mandate,
        decide: DecidePolicy,
    ) -> StoreFuture<'_, Result<(), Error>> {
        let tenant = mandate.tenant().id;
        Box::pin(self.writer.write(move |it| policy::change_policy(it, tenant, decide)))
    }

    fn delete_tenant(
        &self,
        deletion: TenantDeletion,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Result<Changed, Error>> {
        Box::pin(async move {
            let delete = move |it: Within<'_, '_>| policy::delete_tenant(it, &deletion, &audit);
            let deleted = self.writer.write(delete).await?;
            // The keys are gone from the tables; the log that had them is cut before the answer,
            // unless somebody reads for longer than a client waits.
            self.writer.progress.cut_asked.store(true, Ordering::Relaxed);
            self.writer.write(|_| Ok(())).await?;
            Ok(deleted)
        })
    }

    fn list_deleted_tenants(&self) -> StoreFuture<'_, Vec<DeletedTenant>> {
        Box::pin(async move { self.readers.read(policy::list_deleted_tenants) })
    }

    fn purge_tenants(&self, tenants: Vec<TenantId>, now: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(async move {
            let gone = self.readers.read(|it| policy::without_row(it, &tenants))?;
            let deleted = gone.clone();
            let forget = move |it: Within<'_, '_>| usage::forget_active(it, &deleted);
            match self.access.writer.write(forget).await? {
                0 => self.writer.write(move |it| policy::purge_tenants(it, &gone, now)).await,
                some => Ok(some),
            }
        })
    }
}

impl EventStore for SqliteStore {
    fn list_events(
        &self,
        after: i64,
        events_max: usize,
    ) -> StoreFuture<'_, Vec<(i64, EventRecord)>> {
        Box::pin(async move { self.readers.read(|it| events::list_events(it, after, events_max)) })
    }

    fn forget_events(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(self.writer.write(move |it| events::forget_events(it, before)))
    }
}

impl AuditStore for SqliteStore {
    fn record_access(&self, access: Access) -> StoreFuture<'_, ()> {
        Box::pin(self.access.record(access))
    }

    fn list_heads(&self, log: Log) -> StoreFuture<'_, Vec<Head>> {
        Box::pin(async move { self.log(log).0.read(audit::list_heads) })
    }

    fn list_chains(&self, log: Log) -> StoreFuture<'_, Vec<Chain>> {
        Box::pin(async move { self.log(log).0.read(audit::list_chains) })
    }

    fn list_records(
        &self,
        (log, tenant): (Log, TenantId),
        after: i64,
        records_max: usize,
    ) -> StoreFuture<'_, Vec<LogRecord>> {
        let read = move |it: &_| audit::list_records(it, tenant, after, records_max);
        Box::pin(async move { self.log(log).0.read(read) })
    }

    fn find_checkpoint(
        &self,
        (log, tenant): (Log, TenantId),
    ) -> StoreFuture<'_, Option<Checkpoint>> {
        Box::pin(async move { self.log(log).0.read(|it| audit::find_checkpoint(it, tenant)) })
    }

    fn walk_records(&self, inquiry: Inquiry, walk: WalkRecords) -> StoreFuture<'_, Walked> {
        let tenant = inquiry.tenant().id;
        let (readers, _) = self.log(walk.log);
        Box::pin(async move { readers.read(|it| walk::walk_records(it, tenant, &walk)) })
    }

    fn prune_chain(&self, prune: PruneChain) -> StoreFuture<'_, usize> {
        let (_, writer) = self.log(prune.log);
        Box::pin(writer.write(move |it| audit::prune_chain(it, &prune)))
    }
}

impl UsageStore for SqliteStore {
    fn find_usage<'a>(&'a self, mandate: &'a Mandate, month: Month) -> StoreFuture<'a, Usage> {
        let tenant = mandate.tenant().id;
        Box::pin(async move {
            let usage = self.readers.read(|it| usage::find_usage(it, tenant, month))?;
            let active = self.access.readers.read(|it| usage::find_active(it, tenant, month))?;
            Ok(Usage { active, ..usage })
        })
    }

    fn sweep_usage(&self, month: Month) -> StoreFuture<'_, usize> {
        Box::pin(async move {
            let created = self.writer.write(move |it| usage::sweep_created(it, month)).await?;
            let active = self.access.writer.write(move |it| usage::sweep_active(it, month)).await?;
            Ok(created.saturating_add(active))
        })
    }
}

impl Maintenance for SqliteStore {
    fn sweep_tokens(&self, ended: Timestamp, audit: AuditRecord) -> StoreFuture<'_, usize> {
        Box::pin(self.writer.write(move |it| sweep::sweep_tokens(it, ended, &audit)))
    }

    fn sweep_token_intents(&self, ended: Timestamp, audit: AuditRecord) -> StoreFuture<'_, usize> {
        Box::pin(self.writer.write(move |it| sweep::sweep_token_intents(it, ended, &audit)))
    }

    fn sweep_cvcs(&self, ended: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(self.writer.write(move |it| sweep::sweep_cvcs(it, ended)))
    }

    fn sweep_sessions(&self, ended: Timestamp, audit: AuditRecord) -> StoreFuture<'_, usize> {
        Box::pin(self.writer.write(move |it| sweep::sweep_sessions(it, ended, &audit)))
    }

    fn note_time(&self, noted: NotedTime) -> StoreFuture<'_, ()> {
        Box::pin(self.writer.write(move |it| time::note_time(it, noted)))
    }

    fn known_time(&self) -> StoreFuture<'_, Option<NotedTime>> {
        Box::pin(async move { self.readers.read(time::known_time) })
    }

    fn status(&self) -> StoreFuture<'_, StoreStatus> {
        Box::pin(async move {
            let status = self.readers.read(|it| status::status(it, &self.path))?;
            self.access.readers.read(|it| status::with_access(status, it, &self.path))
        })
    }

    fn measures(&self) -> StoreMeasures {
        let access = self.access.writer.measures("access", &access::path_of(&self.path));
        let logs = vec![self.writer.measures("vault", &self.path), access];
        StoreMeasures { logs, readers: self.readers.measures() }
    }

    fn check_ready(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            if !self.writer.takes_work() || !self.access.takes_work() {
                return Err(StoreError::Busy);
            }
            self.readers.read(|it| it.query_row("SELECT 1", [], |_| Ok(())).map_err(fault))
        })
    }
}
