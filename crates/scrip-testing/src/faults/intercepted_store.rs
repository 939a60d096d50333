//! An engine with some of its calls replaced.

use std::sync::Arc;

use scrip_core::{
    audit::{
        Access, AuditRecord, Chain, Checkpoint, DeletedTenant, Head, Log, LogRecord, NotedTime,
        PruneChain, WalkRecords, Walked,
    },
    error::Error,
    id::{SessionId, TenantId, TokenId, TokenIntentId},
    idempotency::{AskedAnswer, Claimed},
    listing::{ListTokens, Listing, SurveyTokens, Surveyed},
    measure::StoreMeasures,
    policy::{
        AccessSessionId, AccessSessionRecord, DecidePolicy, DirectoryRecords, Inquiry, Mandate,
        Permit, PolicyRecords, Signed, SystemKeys, TenantDeletion,
        guessing_budget::{Bucket, GuessRecord},
    },
    store::{
        AccessSessionStore, AnswerStore, AuditStore, Beside, Changed, DirectoryStore, Ending,
        EventStore, GuessStore, ListingStore, Maintenance, PolicyStore, SessionStore, Store,
        StoreFuture, StoreStatus, TokenIntentStore, TokenStore, UsageStore,
    },
    threeds::{EventRecord, SessionRecord, SessionWrite},
    time::{Month, Timestamp},
    token::{Batched, DeleteToken, StoredToken, StoredTokenIntent, TokenBatch, Usage},
};

/// What happens instead of a call of an engine. A method that is not replaced calls the engine.
pub trait Interceptor: Send + Sync {
    fn write_tokens<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        inquiry: Inquiry,
        batch: TokenBatch,
    ) -> StoreFuture<'a, Batched> {
        engine.write_tokens(inquiry, batch)
    }

    fn insert_session<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        inquiry: Inquiry,
        write: SessionWrite,
    ) -> StoreFuture<'a, ()> {
        engine.insert_session(inquiry, write)
    }

    fn update_session<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        write: SessionWrite,
    ) -> StoreFuture<'a, Changed> {
        engine.update_session(write)
    }

    fn record_access<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        access: Access,
    ) -> StoreFuture<'a, ()> {
        engine.record_access(access)
    }
}

/// An engine whose calls go through an interceptor.
pub struct InterceptedStore<I> {
    pub engine: Arc<dyn Store>,
    pub interceptor: I,
}

macro_rules! forward {
    ($($name:ident($($argument:ident: $Type:ty),*) -> $Out:ty;)*) => {
        $(fn $name<'a>(&'a self, $($argument: $Type),*) -> StoreFuture<'a, $Out> {
            self.engine.$name($($argument),*)
        })*
    };
}

impl<I: Interceptor> GuessStore for InterceptedStore<I> {
    forward! {
        find_guesses(tenant: TenantId, buckets: &'a [Bucket], now: Timestamp) -> Vec<GuessRecord>;
        insert_guesses(tenant: TenantId, records: Vec<GuessRecord>) -> ();
        sweep_guesses(expired: Timestamp) -> usize;
    }
}

impl<I: Interceptor> TokenStore for InterceptedStore<I> {
    fn write_tokens(&self, inquiry: Inquiry, batch: TokenBatch) -> StoreFuture<'_, Batched> {
        self.interceptor.write_tokens(&self.engine, inquiry, batch)
    }

    forward! {
        find_token(inquiry: Inquiry, id: &'a TokenId, now: Timestamp) -> Option<StoredToken>;
        find_tokens(inquiry: Inquiry, ids: &'a [TokenId], now: Timestamp)
            -> Vec<Option<StoredToken>>;
        delete_token(permit: Permit, delete: DeleteToken) -> Changed;
    }
}

impl<I: Interceptor> ListingStore for InterceptedStore<I> {
    forward! {
        list_tokens(inquiry: Inquiry, list: ListTokens) -> Listing;
        survey_tokens(inquiry: Inquiry, survey: SurveyTokens) -> Surveyed;
    }
}

impl<I: Interceptor> TokenIntentStore for InterceptedStore<I> {
    forward! {
        insert_token_intent(inquiry: Inquiry, intent: StoredTokenIntent, written: Beside) -> ();
        find_token_intent(inquiry: Inquiry, id: TokenIntentId, now: Timestamp)
            -> Option<StoredTokenIntent>;
        delete_token_intent(inquiry: Inquiry, id: TokenIntentId, audit: AuditRecord) -> Changed;
    }
}

impl<I: Interceptor> AnswerStore for InterceptedStore<I> {
    forward! {
        claim_answer(asked: AskedAnswer) -> Claimed;
        forget_answers(before: Timestamp) -> usize;
    }
}

impl<I: Interceptor> DirectoryStore for InterceptedStore<I> {
    forward! {
        load_directory() -> DirectoryRecords;
        directory_version() -> i64;
        insert_system_keys(keys: SystemKeys) -> ();
    }
}

impl<I: Interceptor> PolicyStore for InterceptedStore<I> {
    forward! {
        insert_tenant(records: PolicyRecords, audit: AuditRecord) -> ();
        change_policy(mandate: Mandate, decide: DecidePolicy) -> Result<(), Error>;
        delete_tenant(deletion: TenantDeletion, audit: AuditRecord) -> Result<Changed, Error>;
        list_deleted_tenants() -> Vec<DeletedTenant>;
        purge_tenants(tenants: Vec<TenantId>, now: Timestamp) -> usize;
    }
}

impl<I: Interceptor> AccessSessionStore for InterceptedStore<I> {
    forward! {
        find_access_session_by_nonce(mandate: &'a Mandate, nonce: [u8; 32])
            -> Option<Signed<AccessSessionRecord>>;
        list_access_sessions(mandate: &'a Mandate, now: Timestamp, sessions_max: usize)
            -> Vec<Signed<AccessSessionRecord>>;
        insert_access_session(
            mandate: Mandate, session: Signed<AccessSessionRecord>, written: Beside) -> ();
        find_access_session(id: AccessSessionId) -> Option<Signed<AccessSessionRecord>>;
        authorize_access_session(
            mandate: Mandate, session: Signed<AccessSessionRecord>, written: Beside) -> Changed;
        forget_access_sessions(before: Timestamp) -> usize;
        revoke_access_session(mandate: Mandate, id: AccessSessionId, written: Beside) -> Changed;
    }
}

impl<I: Interceptor> SessionStore for InterceptedStore<I> {
    fn insert_session(&self, inquiry: Inquiry, write: SessionWrite) -> StoreFuture<'_, ()> {
        self.interceptor.insert_session(&self.engine, inquiry, write)
    }

    fn update_session(&self, write: SessionWrite) -> StoreFuture<'_, Changed> {
        self.interceptor.update_session(&self.engine, write)
    }

    forward! {
        is_named_by_session(inquiry: Inquiry, token: &'a TokenId, now: Timestamp) -> bool;
        find_session(inquiry: Inquiry, id: SessionId, now: Timestamp) -> Option<SessionRecord>;
        find_notified_session(id: SessionId, now: Timestamp) -> Option<SessionRecord>;
    }
}

impl<I: Interceptor> EventStore for InterceptedStore<I> {
    forward! {
        list_events(after: i64, events_max: usize) -> Vec<(i64, EventRecord)>;
        forget_events(before: Timestamp) -> usize;
    }
}

impl<I: Interceptor> AuditStore for InterceptedStore<I> {
    fn record_access(&self, access: Access) -> StoreFuture<'_, ()> {
        self.interceptor.record_access(&self.engine, access)
    }

    forward! {
        list_heads(log: Log) -> Vec<Head>;
        list_chains(log: Log) -> Vec<Chain>;
        list_records(log: Log, tenant: TenantId, after: i64, records_max: usize) -> Vec<LogRecord>;
        find_checkpoint(log: Log, tenant: TenantId) -> Option<Checkpoint>;
        walk_records(inquiry: Inquiry, walk: WalkRecords) -> Walked;
        prune_chain(prune: PruneChain) -> usize;
    }
}

impl<I: Interceptor> UsageStore for InterceptedStore<I> {
    forward! {
        find_usage(mandate: &'a Mandate, month: Month) -> Usage;
        sweep_usage(month: Month) -> usize;
    }
}

impl<I: Interceptor> Maintenance for InterceptedStore<I> {
    fn measures(&self) -> StoreMeasures {
        self.engine.measures()
    }

    forward! {
        sweep(ending: Ending, ended: Timestamp, audit: AuditRecord) -> usize;
        sweep_cvcs(ended: Timestamp) -> usize;
        not_after(at: Timestamp) -> Timestamp;
        note_time(noted: NotedTime) -> ();
        known_time() -> Option<NotedTime>;
        check_ready() -> ();
        status() -> StoreStatus;
    }
}
