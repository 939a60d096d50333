//! A server whose store breaks one promise, to see that breaking it is noticed.

use std::{fs, io::Write, path::Path, sync::Arc, time::Duration};

use scrip_api::{app::App, limiter::Limiter};
use scrip_core::{
    Vault,
    access_session::{AccessSessionId, AccessSessionRecord},
    audit::{
        AuditRecord,
        chain::{Chain, Checkpoint, Head, Log, LogRecord, PruneChain},
        trail::Access,
        walk::{WalkRecords, Walked},
    },
    caller::{Inquiry, Mandate, Permit, TenantDeletion},
    directory::{Directory, DirectoryRecords, SystemKeys},
    error::Error,
    guessing_budget::{Bucket, GuessRecord, GuessStore},
    id::{SessionId, TenantId, TokenId, TokenIntentId},
    listing::{ListTokens, Listing, SurveyTokens, Surveyed},
    measure::StoreMeasures,
    policy::{PolicyRecords, Signed},
    store::{
        AccessSessionStore, AnswerStore, AskedAnswer, AuditStore, Batched, Beside, Changed,
        Claimed, DecidePolicy, DeleteToken, DirectoryStore, EventStore, ListingStore, Maintenance,
        Outcome, PolicyStore, SessionStore, StoreFuture, StoreStatus, StoredToken, TokenBatch,
        TokenIntentStore, TokenStore, TokenWrite, UsageStore,
    },
    threeds::{EventRecord, SessionRecord, SessionWrite},
    time::{Month, Timestamp},
    token_intent::StoredTokenIntent,
    usage::Usage,
    vault_rows::{DeletedTenant, NotedTime},
};

use scrip_seal::{EpochKeys, RootKey};
use scrip_server::{
    listen::serve,
    node::{Node, NodeSettings},
    process::clock::{SystemClock, ticks},
};
use scrip_store::SqliteStore;
use serde_json::{Value, json};
use tokio::{net::TcpListener, time::sleep};

/// Long enough that a kill falls into it while every client waits.
const GAP: Duration = Duration::from_millis(40);

/// Longer than it takes to kill a server after it has shown something.
const UNSEEN_GAP: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No fault: a pause between the commit and the answer, which a client may not tell apart
    /// from a lost request.
    Late,
    /// Answers before the commit.
    Early,
    /// Commits the effect without the answer to its idempotency key; late, as above.
    Forgetful,
    /// Shows what it reads before that is recorded.
    Unseen,
}

impl Fault {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::Early => "early",
            Self::Forgetful => "forgetful",
            Self::Unseen => "unseen",
        }
    }

    pub(crate) fn parse(name: &str) -> Self {
        let all = [Self::Late, Self::Early, Self::Forgetful, Self::Unseen];
        all.into_iter().find(|it| it.name() == name).expect("a known fault")
    }
}

/// Serves a data directory that `scrip dev` has made, until killed.
pub(crate) fn run(fault: Fault, data: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let inner = SqliteStore::open(&data.join("scrip.db")).expect("the store opens");
        let source = RootKey::from_file(&data.join("root.key")).expect("the root key is there");
        let vault = Vault {
            store: Arc::new(Faulty { inner: Arc::new(inner), fault }),
            epochs: Arc::new(EpochKeys::in_memory(Duration::from_secs(900))),
            bins: Arc::default(),
            clock: Arc::new(SystemClock),
            chance: scrip_seal::fill_random,
            disclosure: scrip_core::disclosure::DisclosureRules::default(),
            audit: Arc::default(),
            guesses: Arc::default(),
            directory_servers: Arc::new(scrip_core::threeds::NoDirectoryServers::default()),
        };
        let directory = Directory::load(&*vault.store, &source, None).await;
        let directory = directory.expect("the keys open");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let keys = fs::read_to_string(data.join("dev-keys.json")).expect("the keys are there");
        let keys: Value = serde_json::from_str(&keys).expect("they are JSON");
        let hello = json!({ "url": url, "keys": keys["keys"] });
        writeln!(std::io::stdout(), "{hello}").expect("somebody listens");
        let mut app = App::new(vault, directory, Arc::new(source), ticks);
        app.limiter = Limiter::off();
        let node = Node::new(Arc::new(app), NodeSettings::default());
        serve(Arc::new(node), listener, std::future::pending()).await;
    });
}

struct Faulty {
    inner: Arc<SqliteStore>,
    fault: Fault,
}

impl GuessStore for Faulty {
    fn find_guesses<'a>(
        &'a self,
        tenant: TenantId,
        buckets: &'a [Bucket],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<GuessRecord>> {
        self.inner.find_guesses(tenant, buckets, now)
    }

    fn insert_guesses(&self, tenant: TenantId, records: Vec<GuessRecord>) -> StoreFuture<'_, ()> {
        self.inner.insert_guesses(tenant, records)
    }

    fn sweep_guesses(&self, expired: Timestamp) -> StoreFuture<'_, usize> {
        self.inner.sweep_guesses(expired)
    }
}

impl TokenStore for Faulty {
    /// What makes tokens is faulty, or what records reads is.
    fn write_tokens(&self, inquiry: Inquiry, mut batch: TokenBatch) -> StoreFuture<'_, Batched> {
        let inner = Arc::clone(&self.inner);
        let inserts = batch.writes.iter().all(|it| matches!(it, TokenWrite::Insert(_)));
        if !inserts || self.fault == Fault::Unseen {
            return self.inner.write_tokens(inquiry, batch);
        }
        match self.fault {
            Fault::Late | Fault::Unseen => (),
            Fault::Forgetful => batch.render = None,
            Fault::Early => {
                let claimed = batch.writes.iter().map(|_| Outcome::New).collect();
                return Box::pin(async move {
                    drop(tokio::spawn(async move {
                        sleep(GAP).await;
                        drop(inner.write_tokens(inquiry, batch).await);
                    }));
                    Ok(Batched::Written(claimed))
                });
            }
        }
        Box::pin(async move {
            let written = inner.write_tokens(inquiry, batch).await;
            sleep(GAP).await;
            written
        })
    }

    fn find_token<'a>(
        &'a self,
        inquiry: Inquiry,
        id: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, Option<StoredToken>> {
        self.inner.find_token(inquiry, id, now)
    }

    fn find_tokens<'a>(
        &'a self,
        inquiry: Inquiry,
        ids: &'a [TokenId],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<Option<StoredToken>>> {
        self.inner.find_tokens(inquiry, ids, now)
    }

    fn delete_token(&self, permit: Permit, delete: DeleteToken) -> StoreFuture<'_, Changed> {
        self.inner.delete_token(permit, delete)
    }
}

impl ListingStore for Faulty {
    fn list_tokens(&self, inquiry: Inquiry, list: ListTokens) -> StoreFuture<'_, Listing> {
        self.inner.list_tokens(inquiry, list)
    }

    fn survey_tokens(&self, inquiry: Inquiry, survey: SurveyTokens) -> StoreFuture<'_, Surveyed> {
        self.inner.survey_tokens(inquiry, survey)
    }
}

impl TokenIntentStore for Faulty {
    fn insert_token_intent(
        &self,
        inquiry: Inquiry,
        intent: StoredTokenIntent,
        written: Beside,
    ) -> StoreFuture<'_, ()> {
        self.inner.insert_token_intent(inquiry, intent, written)
    }

    fn find_token_intent(
        &self,
        inquiry: Inquiry,
        id: TokenIntentId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<StoredTokenIntent>> {
        self.inner.find_token_intent(inquiry, id, now)
    }

    fn delete_token_intent(
        &self,
        inquiry: Inquiry,
        id: TokenIntentId,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Changed> {
        self.inner.delete_token_intent(inquiry, id, audit)
    }
}

impl AnswerStore for Faulty {
    fn claim_answer(&self, asked: AskedAnswer) -> StoreFuture<'_, Claimed> {
        self.inner.claim_answer(asked)
    }

    fn forget_answers(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        self.inner.forget_answers(before)
    }
}

impl DirectoryStore for Faulty {
    fn load_directory(&self) -> StoreFuture<'_, DirectoryRecords> {
        self.inner.load_directory()
    }

    fn insert_system_keys(&self, keys: SystemKeys) -> StoreFuture<'_, ()> {
        self.inner.insert_system_keys(keys)
    }

    fn directory_version(&self) -> StoreFuture<'_, i64> {
        self.inner.directory_version()
    }
}

impl PolicyStore for Faulty {
    fn insert_tenant(&self, records: PolicyRecords, audit: AuditRecord) -> StoreFuture<'_, ()> {
        self.inner.insert_tenant(records, audit)
    }

    fn change_policy(
        &self,
        mandate: Mandate,
        decide: DecidePolicy,
    ) -> StoreFuture<'_, Result<(), Error>> {
        self.inner.change_policy(mandate, decide)
    }

    fn delete_tenant(
        &self,
        deletion: TenantDeletion,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Result<Changed, Error>> {
        self.inner.delete_tenant(deletion, audit)
    }

    fn list_deleted_tenants(&self) -> StoreFuture<'_, Vec<DeletedTenant>> {
        self.inner.list_deleted_tenants()
    }

    fn purge_tenants(&self, tenants: Vec<TenantId>, now: Timestamp) -> StoreFuture<'_, usize> {
        self.inner.purge_tenants(tenants, now)
    }
}

impl AccessSessionStore for Faulty {
    fn insert_access_session(
        &self,
        mandate: Mandate,
        session: Signed<AccessSessionRecord>,
        written: Beside,
    ) -> StoreFuture<'_, ()> {
        self.inner.insert_access_session(mandate, session, written)
    }

    fn find_access_session(
        &self,
        id: AccessSessionId,
    ) -> StoreFuture<'_, Option<Signed<AccessSessionRecord>>> {
        self.inner.find_access_session(id)
    }

    fn find_access_session_by_nonce<'a>(
        &'a self,
        mandate: &'a Mandate,
        nonce: [u8; 32],
    ) -> StoreFuture<'a, Option<Signed<AccessSessionRecord>>> {
        self.inner.find_access_session_by_nonce(mandate, nonce)
    }

    fn authorize_access_session(
        &self,
        mandate: Mandate,
        session: Signed<AccessSessionRecord>,
        written: Beside,
    ) -> StoreFuture<'_, Changed> {
        self.inner.authorize_access_session(mandate, session, written)
    }

    fn forget_access_sessions(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        self.inner.forget_access_sessions(before)
    }

    fn list_access_sessions<'a>(
        &'a self,
        mandate: &'a Mandate,
        now: Timestamp,
        sessions_max: usize,
    ) -> StoreFuture<'a, Vec<Signed<AccessSessionRecord>>> {
        self.inner.list_access_sessions(mandate, now, sessions_max)
    }

    fn revoke_access_session(
        &self,
        mandate: Mandate,
        id: AccessSessionId,
        written: Beside,
    ) -> StoreFuture<'_, Changed> {
        self.inner.revoke_access_session(mandate, id, written)
    }
}

impl SessionStore for Faulty {
    fn insert_session(&self, inquiry: Inquiry, write: SessionWrite) -> StoreFuture<'_, ()> {
        self.inner.insert_session(inquiry, write)
    }

    fn find_session(
        &self,
        inquiry: Inquiry,
        id: SessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<SessionRecord>> {
        self.inner.find_session(inquiry, id, now)
    }

    fn find_notified_session(
        &self,
        id: SessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<SessionRecord>> {
        self.inner.find_notified_session(id, now)
    }

    fn update_session(&self, write: SessionWrite) -> StoreFuture<'_, Changed> {
        self.inner.update_session(write)
    }

    fn is_named_by_session<'a>(
        &'a self,
        inquiry: Inquiry,
        token: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, bool> {
        self.inner.is_named_by_session(inquiry, token, now)
    }
}

impl EventStore for Faulty {
    fn list_events(
        &self,
        after: i64,
        events_max: usize,
    ) -> StoreFuture<'_, Vec<(i64, EventRecord)>> {
        self.inner.list_events(after, events_max)
    }

    fn forget_events(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        self.inner.forget_events(before)
    }
}

impl AuditStore for Faulty {
    fn record_access(&self, access: Access) -> StoreFuture<'_, ()> {
        if self.fault != Fault::Unseen {
            return self.inner.record_access(access);
        }
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            drop(tokio::spawn(async move {
                sleep(UNSEEN_GAP).await;
                drop(inner.record_access(access).await);
            }));
            Ok(())
        })
    }

    fn list_heads(&self, log: Log) -> StoreFuture<'_, Vec<Head>> {
        self.inner.list_heads(log)
    }

    fn list_chains(&self, log: Log) -> StoreFuture<'_, Vec<Chain>> {
        self.inner.list_chains(log)
    }

    fn list_records(
        &self,
        of: (Log, TenantId),
        after: i64,
        records_max: usize,
    ) -> StoreFuture<'_, Vec<LogRecord>> {
        self.inner.list_records(of, after, records_max)
    }

    fn find_checkpoint(&self, of: (Log, TenantId)) -> StoreFuture<'_, Option<Checkpoint>> {
        self.inner.find_checkpoint(of)
    }

    fn walk_records(&self, inquiry: Inquiry, walk: WalkRecords) -> StoreFuture<'_, Walked> {
        self.inner.walk_records(inquiry, walk)
    }

    fn prune_chain(&self, prune: PruneChain) -> StoreFuture<'_, usize> {
        self.inner.prune_chain(prune)
    }
}

impl UsageStore for Faulty {
    fn find_usage<'a>(&'a self, mandate: &'a Mandate, month: Month) -> StoreFuture<'a, Usage> {
        self.inner.find_usage(mandate, month)
    }

    fn sweep_usage(&self, month: Month) -> StoreFuture<'_, usize> {
        self.inner.sweep_usage(month)
    }
}

impl Maintenance for Faulty {
    fn sweep_tokens(&self, ended: Timestamp, audit: AuditRecord) -> StoreFuture<'_, usize> {
        self.inner.sweep_tokens(ended, audit)
    }

    fn sweep_token_intents(&self, ended: Timestamp, audit: AuditRecord) -> StoreFuture<'_, usize> {
        self.inner.sweep_token_intents(ended, audit)
    }

    fn sweep_cvcs(&self, ended: Timestamp) -> StoreFuture<'_, usize> {
        self.inner.sweep_cvcs(ended)
    }

    fn not_after(&self, at: Timestamp) -> StoreFuture<'_, Timestamp> {
        self.inner.not_after(at)
    }

    fn sweep_sessions(&self, ended: Timestamp, audit: AuditRecord) -> StoreFuture<'_, usize> {
        self.inner.sweep_sessions(ended, audit)
    }

    fn note_time(&self, noted: NotedTime) -> StoreFuture<'_, ()> {
        self.inner.note_time(noted)
    }

    fn known_time(&self) -> StoreFuture<'_, Option<NotedTime>> {
        self.inner.known_time()
    }

    fn measures(&self) -> StoreMeasures {
        self.inner.measures()
    }

    fn status(&self) -> StoreFuture<'_, StoreStatus> {
        self.inner.status()
    }

    fn check_ready(&self) -> StoreFuture<'_, ()> {
        self.inner.check_ready()
    }
}
