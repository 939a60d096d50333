//! The model engine: obviously correct, and what the other engines are compared with.

mod access_sessions;
mod answers;
mod batch;
mod guesses;
mod intents;
mod listing;
mod logs;
mod policy;
mod sessions;
mod snapshot;
mod status;
mod sweep;
mod tokens;
mod usage;

use scrip_core::{
    access_session::AccessSessionRecord,
    audit::{
        AuditRecord,
        chain::{Chain, Checkpoint, Head, Log, LogRecord, PruneChain},
        trail::Access,
        walk::{WalkRecords, Walked},
    },
    caller::{Inquiry, Mandate, Permit, TenantDeletion},
    directory::{DirectoryRecords, SystemKeys},
    error::Error,
    guessing_budget::GuessRecord,
    id::{TenantId, TokenId, TokenIntentId},
    listing::{ListTokens, Listing, SurveyTokens, Surveyed},
    measure::StoreMeasures,
    policy::{PolicyRecords, Signed},
    store::{
        AnswerStore, AskedAnswer, AuditStore, Batched, Beside, Changed, Claimed, DecidePolicy,
        DeleteToken, DirectoryStore, EventStore, ListingStore, Maintenance, PolicyStore,
        StoreError, StoreFuture, StoreStatus, StoredToken, TokenBatch, TokenIntentStore,
        TokenStore, UsageStore,
    },
    threeds::{EventRecord, SessionRecord},
    time::{Month, Timestamp},
    token_intent::StoredTokenIntent,
    usage::Usage,
    vault_rows::{DeletedTenant, NotedTime},
};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use self::snapshot::MemorySnapshot;
use crate::{
    claims::Claims,
    memory::{answers::Answer, logs::Chains, usage::Counted},
};

#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<State>,
    claims: Claims,
}

#[derive(Debug, Default, Clone)]
struct State {
    /// In the order of their making.
    tokens: Vec<Row>,
    intents: Vec<(TenantId, StoredTokenIntent)>,
    answers: Vec<Answer>,
    audit: Chains,
    access: Chains,
    directory: DirectoryRecords,
    access_sessions: Vec<Signed<AccessSessionRecord>>,
    sessions: Vec<SessionRecord>,
    /// Each with its number, of which none is given twice.
    events: Vec<(i64, EventRecord)>,
    last_event: i64,
    deleted_tenants: Vec<DeletedTenant>,
    known_time: Option<NotedTime>,
    counted: Counted,
    guesses: Vec<(TenantId, GuessRecord)>,
}

#[derive(Debug, Clone)]
struct Row {
    number: i64,
    tenant: TenantId,
    token: StoredToken,
}

impl Row {
    fn age(&self) -> (Timestamp, i64) {
        (self.token.record.created_at, self.number)
    }
}

impl MemoryStore {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce(&mut State) -> T + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move { Ok(work(&mut self.lock())) })
    }

    /// Work that fails takes back what it did.
    fn attempt<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce(&mut State) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        self.attempt_if(work, |_| true)
    }

    /// The same, where some outcomes take it back too.
    fn attempt_if<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce(&mut State) -> Result<T, StoreError> + Send + 'a,
        keeps: fn(&T) -> bool,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let mut state = self.lock();
            let mut after = state.clone();
            let outcome = work(&mut after)?;
            if keeps(&outcome) {
                *state = after;
            }
            Ok(outcome)
        })
    }
}

impl TokenStore for MemoryStore {
    fn write_tokens(&self, inquiry: Inquiry, batch: TokenBatch) -> StoreFuture<'_, Batched> {
        self.attempt_if(
            move |it| it.write_tokens(inquiry.tenant().id, batch),
            |it| matches!(it, Batched::Written(_)),
        )
    }

    fn find_token<'a>(
        &'a self,
        inquiry: Inquiry,
        id: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, Option<StoredToken>> {
        self.with(move |it| {
            let at = it.live(inquiry.tenant().id, id, now)?;
            it.tokens.get(at).map(|it| it.token.clone())
        })
    }

    fn find_tokens<'a>(
        &'a self,
        inquiry: Inquiry,
        ids: &'a [TokenId],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<Option<StoredToken>>> {
        self.with(move |it| {
            let find = |id| it.tokens.get(it.live(inquiry.tenant().id, id, now)?);
            ids.iter().map(|id| find(id).map(|it| it.token.clone())).collect()
        })
    }

    fn delete_token(&self, permit: Permit, delete: DeleteToken) -> StoreFuture<'_, Changed> {
        self.with(move |it| it.delete(permit.tenant().id, &delete))
    }
}

impl ListingStore for MemoryStore {
    fn list_tokens(&self, inquiry: Inquiry, list: ListTokens) -> StoreFuture<'_, Listing> {
        self.with(move |it| it.list(inquiry.tenant().id, &list))
    }

    fn survey_tokens(&self, inquiry: Inquiry, survey: SurveyTokens) -> StoreFuture<'_, Surveyed> {
        self.with(move |it| it.survey(inquiry.tenant().id, &survey))
    }
}

impl TokenIntentStore for MemoryStore {
    fn insert_token_intent(
        &self,
        inquiry: Inquiry,
        intent: StoredTokenIntent,
        written: Beside,
    ) -> StoreFuture<'_, ()> {
        self.attempt(move |it| {
            let tenant = inquiry.tenant().id;
            it.check_tenant(tenant)?;
            it.intents.push((tenant, intent));
            it.beside(tenant, written, "created")
        })
    }

    fn find_token_intent(
        &self,
        inquiry: Inquiry,
        id: TokenIntentId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<StoredTokenIntent>> {
        self.with(move |it| it.find_intent(inquiry.tenant().id, id, now))
    }

    fn delete_token_intent(
        &self,
        inquiry: Inquiry,
        id: TokenIntentId,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Changed> {
        self.with(move |it| it.end_intent(inquiry.tenant().id, id, (&audit, "deleted")))
    }
}

impl AnswerStore for MemoryStore {
    fn claim_answer(&self, asked: AskedAnswer) -> StoreFuture<'_, Claimed> {
        let Some(claim) = self.claims.take(asked.digest) else {
            return self.with(|_| Claimed::InFlight);
        };
        self.with(move |it| it.answer(&asked).map_or(Claimed::Claim(claim), Claimed::Answered))
    }

    fn forget_answers(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        self.with(move |it| {
            let had = it.answers.len();
            it.answers.retain(|it| it.record.created_at > before);
            had - it.answers.len()
        })
    }
}

impl DirectoryStore for MemoryStore {
    fn load_directory(&self) -> StoreFuture<'_, DirectoryRecords> {
        self.with(|it| it.directory.clone())
    }

    fn insert_system_keys(&self, keys: SystemKeys) -> StoreFuture<'_, ()> {
        self.attempt(move |it| {
            if it.directory.system_keys.is_some() {
                return Err(StoreError::Unavailable("there are keys".into()));
            }
            it.directory.system_keys = Some(keys);
            Ok(())
        })
    }

    fn directory_version(&self) -> StoreFuture<'_, i64> {
        self.with(|it| it.directory.version)
    }
}

impl PolicyStore for MemoryStore {
    fn insert_tenant(&self, records: PolicyRecords, audit: AuditRecord) -> StoreFuture<'_, ()> {
        self.with(move |it| it.insert_tenant(records, &audit))
    }

    fn change_policy(
        &self,
        mandate: Mandate,
        decide: DecidePolicy,
    ) -> StoreFuture<'_, Result<(), Error>> {
        self.attempt(move |it| it.change_policy(mandate.tenant().id, decide))
    }

    fn delete_tenant(
        &self,
        deletion: TenantDeletion,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Result<Changed, Error>> {
        self.with(move |it| it.delete_tenant(&deletion, &audit))
    }

    fn list_deleted_tenants(&self) -> StoreFuture<'_, Vec<DeletedTenant>> {
        self.with(|it| it.deleted_tenants.clone())
    }

    fn purge_tenants(&self, tenants: Vec<TenantId>, _now: Timestamp) -> StoreFuture<'_, usize> {
        self.with(move |it| {
            let rows = |it: &State| it.tokens.len() + it.sessions.len() + it.events.len();
            let had = rows(it);
            let living: Vec<_> =
                it.directory.tenants.iter().map(|it| it.tenant.record.id).collect();
            let deleted: Vec<_> = tenants.into_iter().filter(|it| !living.contains(it)).collect();
            it.tokens.retain(|it| !deleted.contains(&it.tenant));
            it.intents.retain(|(tenant, _)| !deleted.contains(tenant));
            it.sessions.retain(|it| !deleted.contains(&it.tenant));
            it.events.retain(|(_, it)| !deleted.contains(&it.tenant));
            it.counted.forget(&deleted);
            it.guesses.retain(|(tenant, _)| !deleted.contains(tenant));
            had - rows(it)
        })
    }
}

impl EventStore for MemoryStore {
    fn list_events(
        &self,
        after: i64,
        events_max: usize,
    ) -> StoreFuture<'_, Vec<(i64, EventRecord)>> {
        self.with(move |it| it.list_events(after, events_max))
    }

    fn forget_events(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        self.with(move |it| it.forget_events(before))
    }
}

impl AuditStore for MemoryStore {
    fn record_access(&self, access: Access) -> StoreFuture<'_, ()> {
        self.with(move |it| it.record_access(&access))
    }

    fn list_heads(&self, log: Log) -> StoreFuture<'_, Vec<Head>> {
        self.with(move |it| it.log(log).list().iter().map(|it| it.head).collect())
    }

    fn list_chains(&self, log: Log) -> StoreFuture<'_, Vec<Chain>> {
        self.with(move |it| it.log(log).list())
    }

    fn list_records(
        &self,
        (log, tenant): (Log, TenantId),
        after: i64,
        records_max: usize,
    ) -> StoreFuture<'_, Vec<LogRecord>> {
        self.with(move |it| it.log(log).records(tenant, after).take(records_max).cloned().collect())
    }

    fn find_checkpoint(
        &self,
        (log, tenant): (Log, TenantId),
    ) -> StoreFuture<'_, Option<Checkpoint>> {
        self.with(move |it| it.log(log).checkpoint(tenant))
    }

    fn walk_records(&self, inquiry: Inquiry, walk: WalkRecords) -> StoreFuture<'_, Walked> {
        self.with(move |it| it.log(walk.log).walk(inquiry.tenant().id, &walk))
    }

    fn prune_chain(&self, prune: PruneChain) -> StoreFuture<'_, usize> {
        self.attempt(move |it| it.log(prune.log).prune(&prune))
    }
}

impl UsageStore for MemoryStore {
    fn find_usage<'a>(&'a self, mandate: &'a Mandate, month: Month) -> StoreFuture<'a, Usage> {
        self.with(move |it| it.usage(mandate.tenant().id, month))
    }

    fn sweep_usage(&self, month: Month) -> StoreFuture<'_, usize> {
        self.with(move |it| it.counted.sweep(month))
    }
}

impl Maintenance for MemoryStore {
    fn sweep_tokens(&self, ended: Timestamp, audit: AuditRecord) -> StoreFuture<'_, usize> {
        self.with(move |it| it.sweep_tokens(ended, &audit))
    }

    fn sweep_token_intents(&self, ended: Timestamp, audit: AuditRecord) -> StoreFuture<'_, usize> {
        self.with(move |it| it.sweep_token_intents(ended, &audit))
    }

    fn sweep_cvcs(&self, ended: Timestamp) -> StoreFuture<'_, usize> {
        self.with(move |it| it.sweep_cvcs(ended))
    }

    fn sweep_sessions(&self, ended: Timestamp, audit: AuditRecord) -> StoreFuture<'_, usize> {
        self.with(move |it| it.sweep_sessions(ended, &audit))
    }

    fn note_time(&self, noted: NotedTime) -> StoreFuture<'_, ()> {
        self.with(move |it| it.known_time = Some(noted))
    }

    fn known_time(&self) -> StoreFuture<'_, Option<NotedTime>> {
        self.with(|it| it.known_time)
    }

    fn measures(&self) -> StoreMeasures {
        StoreMeasures::default()
    }

    fn status(&self) -> StoreFuture<'_, StoreStatus> {
        self.with(|it| it.status())
    }

    fn check_ready(&self) -> StoreFuture<'_, ()> {
        self.with(|_| ())
    }
}
