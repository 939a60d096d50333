//! A stage on which every write of a session, and every question to a directory server, waits for a
//! word of the test: so whatever can happen between two steps of an operation happens there.

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
    guessing_budget::{Bucket, GuessRecord, GuessStore},
    id::{SessionId, TenantId, TokenId, TokenIntentId},
    listing::{ListTokens, Listing, SurveyTokens, Surveyed},
    measure::StoreMeasures,
    policy::{PolicyRecords, Signed},
    store::{
        AccessSessionStore, AnswerStore, AskedAnswer, AuditStore, Batched, Beside, Changed,
        Claimed, DecidePolicy, DeleteToken, DirectoryStore, EventStore, ListingStore, Maintenance,
        PolicyStore, SessionStore, Store, StoreError, StoreFuture, StoreStatus, StoredToken,
        TokenBatch, TokenIntentStore, TokenStore, UsageStore,
    },
    tenant::TenantKind,
    threeds::{
        Asking, DirectoryServers, EventRecord, Link, SchemeRanges, SessionRecord, SessionWrite,
        Terms, Unanswered,
    },
    time::{Month, Timestamp},
    token_intent::StoredTokenIntent,
    usage::Usage,
    vault_rows::{DeletedTenant, NotedTime},
};
use std::{pin::Pin, sync::Arc};

use scrip_threeds::{
    code::Scheme,
    format::Version,
    message::{Message, PRes, Scene},
    range::CardRanges,
};
use serde_json::json;
use tokio::sync::{Mutex, mpsc, oneshot};
use zeroize::Zeroizing;

/// Where an operation waits.
#[derive(Debug)]
pub(crate) enum Point {
    /// About to write this session.
    Write(SessionId, oneshot::Sender<Order>),
    /// About to ask this.
    Ask(Vec<u8>, oneshot::Sender<Result<Vec<u8>, Unanswered>>),
}

/// What becomes of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Go,
    Fail,
    /// It is written, and nobody hears of it.
    GoAndFail,
}

/// What an operation came to.
#[derive(Debug)]
pub(crate) enum Reached<T> {
    End(T),
    Point(Point),
}

#[derive(Debug)]
pub(crate) struct Stage {
    sender: mpsc::UnboundedSender<Point>,
    points: Mutex<mpsc::UnboundedReceiver<Point>>,
}

impl Stage {
    pub(crate) fn new() -> Arc<Self> {
        let (sender, points) = mpsc::unbounded_channel();
        Arc::new(Self { sender, points: Mutex::new(points) })
    }

    /// Lets an operation run to its end, or to where it waits.
    pub(crate) async fn run<T>(
        &self,
        operation: &mut Pin<Box<dyn Future<Output = T> + '_>>,
    ) -> Reached<T> {
        let mut points = self.points.lock().await;
        tokio::select! {
            biased;
            end = operation => Reached::End(end),
            point = points.recv() => Reached::Point(point.unwrap()),
        }
    }

    async fn write<T>(
        &self,
        id: SessionId,
        write: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let (order, ordered) = oneshot::channel();
        self.sender.send(Point::Write(id, order)).unwrap();
        let broken = || StoreError::Unavailable("the test says so".into());
        match ordered.await {
            Ok(Order::Go) => write.await,
            Ok(Order::GoAndFail) => write.await.and(Err(broken())),
            Ok(Order::Fail) | Err(_) => Err(broken()),
        }
    }
}

/// Cards with this beginning have a page that runs before.
pub(crate) const WITH_METHOD: &str = "4242424242424242";
pub(crate) const WITHOUT_METHOD: &str = "4000056655665556";

/// The directory server of one scheme, which says what the test says.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) stage: Arc<Stage>,
    terms: Terms,
    ranges: Arc<CardRanges>,
}

impl Script {
    pub(crate) fn new(stage: &Arc<Stage>) -> Self {
        let range = |from: &str| {
            json!({
                "startRange": format!("{from}0000000000"), "endRange": format!("{from}9999999999"),
                "acsStartProtocolVersion": "2.1.0", "acsEndProtocolVersion": "2.2.0",
            })
        };
        let mut method = range("424242");
        method["threeDSMethodURL"] = "https://acs.example/method".into();
        let told = json!({
            "messageType": "PRes", "messageVersion": "2.2.0",
            "threeDSServerTransID": "8a880dc0-d2d2-4067-bcb1-b08d1690b26e",
            "dsTransID": "8a880dc0-d2d2-4067-bcb1-b08d1690b26e",
            "dsStartProtocolVersion": "2.1.0", "dsEndProtocolVersion": "2.2.0",
            "serialNum": "1", "cardRangeData": [method, range("400005")],
        });
        let told = PRes::parse(told.to_string().as_bytes(), &Scene::of(Version::V220)).unwrap();
        let terms = Terms {
            public_url: "https://vault.example".to_owned(),
            lenient: true,
            server_name: "Vault".to_owned(),
        };
        let ranges = Arc::new(CardRanges::of(&told).unwrap());
        Self { stage: Arc::clone(stage), terms, ranges }
    }
}

impl DirectoryServers for Script {
    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn ranges(&self, _: TenantKind) -> Vec<SchemeRanges> {
        vec![SchemeRanges { scheme: Scheme::Visa, ranges: Some(Arc::clone(&self.ranges)) }]
    }

    fn link(&self, _: TenantKind, _: Scheme) -> Option<Link> {
        Some(Link {
            reference_number: "3DS_LOA_SER_SCRP_020200_00001".to_owned(),
            operator_id: Some("10001".to_owned()),
            results_url: "https://vault.example".to_owned(),
        })
    }

    fn ask<'a>(&'a self, _: TenantKind, _: Scheme, message: Zeroizing<Vec<u8>>) -> Asking<'a> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.stage.sender.send(Point::Ask(message.to_vec(), answer)).unwrap();
            answered.await.unwrap_or(Err(Unanswered::Broken))
        })
    }
}

/// An engine whose writes of sessions wait.
pub(crate) struct Staged {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) stage: Arc<Stage>,
}

macro_rules! as_before {
    ($($name:ident($($argument:ident: $Type:ty),*) -> $Out:ty;)*) => {
        $(fn $name(&self, $($argument: $Type),*) -> StoreFuture<'_, $Out> {
            self.inner.$name($($argument),*)
        })*
    };
}

impl GuessStore for Staged {
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

impl TokenStore for Staged {
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

    as_before! {
        write_tokens(inquiry: Inquiry, batch: TokenBatch) -> Batched;
        delete_token(permit: Permit, delete: DeleteToken) -> Changed;
    }
}

impl ListingStore for Staged {
    as_before! {
        list_tokens(inquiry: Inquiry, list: ListTokens) -> Listing;
        survey_tokens(inquiry: Inquiry, survey: SurveyTokens) -> Surveyed;
    }
}

impl TokenIntentStore for Staged {
    as_before! {
        insert_token_intent(inquiry: Inquiry, intent: StoredTokenIntent, written: Beside) -> ();
        find_token_intent(inquiry: Inquiry, id: TokenIntentId, now: Timestamp)
            -> Option<StoredTokenIntent>;
        delete_token_intent(inquiry: Inquiry, id: TokenIntentId, audit: AuditRecord) -> Changed;
    }
}

impl AnswerStore for Staged {
    as_before! {
        claim_answer(asked: AskedAnswer) -> Claimed;
        forget_answers(before: Timestamp) -> usize;
    }
}

impl DirectoryStore for Staged {
    as_before! {
        load_directory() -> DirectoryRecords;
        directory_version() -> i64;
        insert_system_keys(keys: SystemKeys) -> ();
    }
}

impl PolicyStore for Staged {
    as_before! {
        insert_tenant(records: PolicyRecords, audit: AuditRecord) -> ();
        change_policy(mandate: Mandate, decide: DecidePolicy) -> Result<(), Error>;
        delete_tenant(deletion: TenantDeletion, audit: AuditRecord) -> Result<Changed, Error>;
        list_deleted_tenants() -> Vec<DeletedTenant>;
        purge_tenants(tenants: Vec<TenantId>, now: Timestamp) -> usize;
    }
}

impl AccessSessionStore for Staged {
    fn find_access_session_by_nonce<'a>(
        &'a self,
        mandate: &'a Mandate,
        nonce: [u8; 32],
    ) -> StoreFuture<'a, Option<Signed<AccessSessionRecord>>> {
        self.inner.find_access_session_by_nonce(mandate, nonce)
    }

    fn list_access_sessions<'a>(
        &'a self,
        mandate: &'a Mandate,
        now: Timestamp,
        sessions_max: usize,
    ) -> StoreFuture<'a, Vec<Signed<AccessSessionRecord>>> {
        self.inner.list_access_sessions(mandate, now, sessions_max)
    }

    as_before! {
        insert_access_session(
            mandate: Mandate, session: Signed<AccessSessionRecord>, written: Beside) -> ();
        find_access_session(id: AccessSessionId) -> Option<Signed<AccessSessionRecord>>;
        authorize_access_session(
            mandate: Mandate, session: Signed<AccessSessionRecord>, written: Beside) -> Changed;
        forget_access_sessions(before: Timestamp) -> usize;
        revoke_access_session(mandate: Mandate, id: AccessSessionId, written: Beside) -> Changed;
    }
}

impl SessionStore for Staged {
    fn insert_session(&self, inquiry: Inquiry, write: SessionWrite) -> StoreFuture<'_, ()> {
        let id = write.session.id;
        Box::pin(async move {
            // The engine is not asked before it is its turn.
            let write = async { self.inner.insert_session(inquiry, write).await };
            self.stage.write(id, write).await
        })
    }

    fn update_session(&self, write: SessionWrite) -> StoreFuture<'_, Changed> {
        let id = write.session.id;
        Box::pin(async move {
            let write = async { self.inner.update_session(write).await };
            self.stage.write(id, write).await
        })
    }

    fn is_named_by_session<'a>(
        &'a self,
        inquiry: Inquiry,
        token: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, bool> {
        self.inner.is_named_by_session(inquiry, token, now)
    }

    as_before! {
        find_session(inquiry: Inquiry, id: SessionId, now: Timestamp) -> Option<SessionRecord>;
        find_notified_session(id: SessionId, now: Timestamp) -> Option<SessionRecord>;
    }
}

impl EventStore for Staged {
    as_before! {
        list_events(after: i64, events_max: usize) -> Vec<(i64, EventRecord)>;
        forget_events(before: Timestamp) -> usize;
    }
}

impl AuditStore for Staged {
    as_before! {
        record_access(access: Access) -> ();
        list_heads(log: Log) -> Vec<Head>;
        list_chains(log: Log) -> Vec<Chain>;
        list_records(of: (Log, TenantId), after: i64, records_max: usize) -> Vec<LogRecord>;
        find_checkpoint(of: (Log, TenantId)) -> Option<Checkpoint>;
        walk_records(inquiry: Inquiry, walk: WalkRecords) -> Walked;
        prune_chain(prune: PruneChain) -> usize;
    }
}

impl UsageStore for Staged {
    fn find_usage<'a>(&'a self, mandate: &'a Mandate, month: Month) -> StoreFuture<'a, Usage> {
        self.inner.find_usage(mandate, month)
    }

    as_before! {
        sweep_usage(month: Month) -> usize;
    }
}

impl Maintenance for Staged {
    fn measures(&self) -> StoreMeasures {
        self.inner.measures()
    }

    as_before! {
        sweep_tokens(ended: Timestamp, audit: AuditRecord) -> usize;
        sweep_token_intents(ended: Timestamp, audit: AuditRecord) -> usize;
        sweep_cvcs(ended: Timestamp) -> usize;
        not_after(at: Timestamp) -> Timestamp;
        sweep_sessions(ended: Timestamp, audit: AuditRecord) -> usize;
        note_time(noted: NotedTime) -> ();
        known_time() -> Option<NotedTime>;
        check_ready() -> ();
        status() -> StoreStatus;
    }
}
