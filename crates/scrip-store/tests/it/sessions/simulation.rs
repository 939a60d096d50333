//! Runs session steps on a vault and on the model, and compares outcome and state after each step.

use std::{collections::BTreeSet, pin::Pin, sync::Arc, time::Duration};

use scrip_core::{
    Error, Timestamp, Vault,
    audit::LogKind,
    events::{ClaimedDelivery, WebhookKey},
    operations::{
        threeds_sessions::{
            create_threeds_session::{NewThreeDsSession, create_threeds_session},
            expire_threeds_session::expire_threeds_session,
            get_challenge_result::get_challenge_result,
            get_threeds_session::get_threeds_session,
            update_threeds_session::update_threeds_session,
        },
        webhooks::create_webhook::create_webhook,
    },
    policy::{
        AccessPolicy, Caller, Directory, PolicyPermit, Tenant,
        webhook::{EventList, WebhookDraft},
    },
    store::{Store, deliveries::DeliveryClaim},
    threeds::{CardReference, ChallengeMode, DirectoryServers},
    types::{EventType, Permission, id::TokenId, time::Clock},
};
use scrip_testing::{
    faults::{
        intercepted_store::InterceptedStore,
        schedule::{
            FaultSchedule, PausePoint, RunOutcome, ScheduledDirectoryServers, WITH_METHOD,
            WITHOUT_METHOD, WriteOrder,
        },
    },
    policy::{TOKENS, access_without_rules},
    requests::{card, create},
    vault::webhook_draft,
    vault_harness::{Engine, VaultHarness},
};
use scrip_threeds::{format::TransId, request::DeviceInfo, session::StateMachineEvent};
use serde_json::Value;

use crate::sessions::{
    messages::{app, browser, outcome_name},
    model::{ModelDevice, ModelEvent, ModelOutcome, PlannedWrite, SessionModel},
    random_steps::{SessionStep, WriteFate},
};

pub(crate) type OperationFuture = Pin<Box<dyn Future<Output = Result<String, Error>>>>;

/// A vault with simulated sessions, and the model of their expected state.
pub(crate) struct SessionSimulation {
    pub(crate) vault_harness: VaultHarness,
    pub(crate) vault: Vault,
    pub(crate) caller: Caller,
    /// Wants all events of sessions.
    pub(crate) webhook: WebhookKey,
    pub(crate) directory: Arc<Directory>,
    pub(crate) schedule: Arc<FaultSchedule>,
    cards: [TokenId; 2],
    /// Number of pending writes. The clock does not advance while there are any, so writes that are
    /// delayed past a timeout are not covered.
    pending_commits: u32,
    /// Outcomes so far.
    pub(crate) outcomes: BTreeSet<String>,
    pub(crate) model: SessionModel,
}

impl SessionSimulation {
    pub(crate) async fn open(engine: Engine) -> Self {
        let harness = VaultHarness::open(engine).await;
        let tenant = harness.default_tenant().await;
        let webhook = create_webhook_for_sessions(&harness, &tenant).await;
        let caller = harness.caller(&tenant, session_permissions()).await;
        let mut cards = Vec::new();
        for number in [WITH_METHOD, WITHOUT_METHOD] {
            cards.push(create(&harness.vault, &caller, card(number)).await.unwrap().token.id);
        }
        let stage = FaultSchedule::new();
        let inner = Arc::clone(&harness.vault.store);
        let store: Arc<dyn Store> =
            Arc::new(InterceptedStore { engine: inner, interceptor: Arc::clone(&stage) });
        let directory_servers: Arc<dyn DirectoryServers> =
            Arc::new(ScheduledDirectoryServers::new(&stage));
        let vault = Vault { store, directory_servers, ..harness.vault.clone() };
        let directory = Arc::new(harness.directory().await);
        let model =
            SessionModel { now: harness.clock.now().unix_ms / 1000, ..SessionModel::default() };
        let cards = cards.try_into().unwrap();
        Self {
            vault_harness: harness,
            vault,
            caller,
            webhook,
            directory,
            schedule: stage,
            cards,
            pending_commits: 0,
            outcomes: BTreeSet::new(),
            model,
        }
    }

    /// The index of a session, counted from the last; `None` if there is none yet.
    pub(crate) fn session_index(&self, steps_back: usize) -> Option<usize> {
        let count = self.model.sessions.len();
        (count > 0).then(|| count - 1 - steps_back % count)
    }

    pub(crate) fn trans_id(&self, session: usize) -> TransId {
        TransId::parse(&self.model.sessions[session].ids()[0]).unwrap()
    }

    fn run_step<'a>(&'a mut self, step: &'a SessionStep) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            match step {
                SessionStep::Create(kind, trip) => self.create(*kind, trip).await,
                SessionStep::Method { session, about_session, fate: trip } => {
                    self.method(*session, *about_session, trip).await
                }
                SessionStep::Device { session, fate: trip } => self.device(*session, trip).await,
                SessionStep::Authenticate(it) => self.authenticate(it).await,
                SessionStep::Result { session, forged, other, status, fate: trip } => {
                    self.result(*session, *other, *forged, status, trip).await;
                }
                SessionStep::ChallengeNotification {
                    session: of,
                    about_session: about,
                    status,
                    fate: trip,
                } => {
                    self.notify_challenge_result(*of, *about, *status, trip).await;
                }
                SessionStep::GetChallengeResult { session, fate: trip } => {
                    self.get_result(*session, trip).await
                }
                SessionStep::Advance(_) if self.pending_commits > 0 => (),
                SessionStep::Advance(seconds) => {
                    self.vault_harness.clock.advance(Duration::from_secs(seconds.unsigned_abs()));
                    self.model.now += seconds;
                }
                SessionStep::Sweep => {
                    while expire_threeds_session(&self.vault, &self.directory).await.unwrap() > 0 {}
                    self.model.sweep();
                }
            }
            self.check().await;
        })
    }

    pub(crate) async fn run_steps(&mut self, steps: &[SessionStep]) {
        for step in steps {
            self.run_step(step).await;
        }
    }

    async fn create(&mut self, kind: ModelDevice, fate: &WriteFate) {
        let card = &self.cards[usize::from(kind != ModelDevice::BrowserWithMethod)];
        let new = NewThreeDsSession {
            card: CardReference::Token(card.clone()),
            kind: kind.session_type(),
            device: kind.device(),
            device_info: if kind == ModelDevice::Browser || kind == ModelDevice::BrowserWithMethod {
                browser()
            } else {
                DeviceInfo::default()
            },
            challenge_mode: ChallengeMode::Iframe,
            metadata: None,
        };
        let (vault, caller) = (self.vault.clone(), self.caller.clone());
        let mut operation: OperationFuture = Box::pin(async move {
            create_threeds_session(&vault, &caller, new, None).await.map(|_| "done".to_owned())
        });
        let at = self.model.now;
        let RunOutcome::Paused(PausePoint::Write(id, order)) =
            self.schedule.run(&mut operation).await
        else {
            panic!("expected a session write")
        };
        if let Some(end) = self.apply_fate(order, fate).await {
            if fate.commits() {
                self.model.create(id, kind, at);
            }
            self.expect_end(&mut operation, end).await;
        }
    }

    /// Applies a fate to a write. Returns the outcome of the operation, unless the process crashes.
    async fn apply_fate(
        &mut self,
        order: tokio::sync::oneshot::Sender<WriteOrder>,
        fate: &WriteFate,
    ) -> Option<&'static str> {
        let (outcome_name, end) = match fate {
            WriteFate::Die => return None,
            WriteFate::Commit => (WriteOrder::Commit, "done"),
            WriteFate::Fail => (WriteOrder::Fail, "unavailable"),
            WriteFate::CommitAndFail => (WriteOrder::CommitAndFail, "unavailable"),
            WriteFate::Wait(steps) => {
                self.pending_commits += 1;
                self.run_steps(steps).await;
                self.pending_commits -= 1;
                (WriteOrder::Commit, "done")
            }
        };
        order.send(outcome_name).unwrap();
        Some(end)
    }

    pub(crate) async fn expect_end(&self, operation: &mut OperationFuture, expected: &str) {
        let RunOutcome::End(end) = self.schedule.run(operation).await else {
            panic!("expected no further call")
        };
        assert_eq!(outcome_name(&end), expected, "{end:?}");
    }

    /// An operation with one write, which is retried if the row changed.
    pub(crate) async fn run_change(
        &mut self,
        session: usize,
        mut operation: OperationFuture,
        plan: impl Fn(&SessionModel) -> ModelOutcome,
        fate: &WriteFate,
    ) {
        let mut trip = fate;
        loop {
            let planned = match plan(&self.model) {
                ModelOutcome::Nothing(end) => return self.expect_end(&mut operation, &end).await,
                ModelOutcome::Write(planned) => planned,
            };
            let Some(fresh) = self.run_write(session, &mut operation, *planned, trip).await else {
                return;
            };
            if let Some(end) = fresh {
                return self.expect_end(&mut operation, end).await;
            }
            trip = &WriteFate::Commit;
        }
    }

    /// One write. The outer `None` means that the process crashed, the inner `None` that the row
    /// was stale.
    pub(crate) async fn run_write(
        &mut self,
        session: usize,
        operation: &mut OperationFuture,
        planned: PlannedWrite,
        fate: &WriteFate,
    ) -> Option<Option<&'static str>> {
        let (id, revision) =
            (self.model.sessions[session].id, self.model.sessions[session].revision);
        let reached = self.schedule.run(operation).await;
        let RunOutcome::Paused(PausePoint::Write(written, order)) = reached else {
            panic!("expected the write {planned:?}: {reached:?}")
        };
        assert_eq!(written, id);
        let end = self.apply_fate(order, fate).await?;
        let known = &self.model.sessions[session];
        let is_fresh = known.row.is_some() && known.revision == revision;
        let own = planned.end;
        if !is_fresh {
            self.outcomes.insert("stale write".to_owned());
        }
        if is_fresh && fate.commits() {
            self.model.apply(session, planned);
        }
        match (end, is_fresh) {
            ("done", true) => Some(Some(own)),
            ("done", false) => Some(None),
            (end, _) => Some(Some(end)),
        }
    }

    pub(crate) async fn run_event(
        &mut self,
        session: usize,
        operation: OperationFuture,
        model_event: ModelEvent,
        fate: &WriteFate,
    ) {
        self.run_change(session, operation, |it| it.plan(session, &model_event), fate).await;
    }

    async fn device(&mut self, session: usize, fate: &WriteFate) {
        let Some(session) = self.session_index(session) else { return };
        let (vault, caller) = (self.vault.clone(), self.caller.clone());
        let (id, kind) = (self.model.sessions[session].id, self.model.sessions[session].kind);
        let operation: OperationFuture = Box::pin(async move {
            let updated = update_threeds_session(&vault, &caller, id, app(), None).await;
            updated.map(|_| "done".to_owned())
        });
        let happening = ModelEvent {
            event: StateMachineEvent::DeviceInfo,
            operation: "update_threeds_session",
            outcome: "updated",
            refusal_result: |_| "conflict".to_owned(),
            missing_result: "not found",
            writes_without_change: true,
        };
        let plan = |model: &SessionModel| {
            let is_there = model.sessions[session].visible(model.now).is_some();
            if is_there && kind != ModelDevice::App {
                return ModelOutcome::Nothing("invalid".to_owned());
            }
            model.plan(session, &happening)
        };
        self.run_change(session, operation, plan, fate).await;
    }

    async fn get_result(&mut self, session: usize, fate: &WriteFate) {
        let Some(session) = self.session_index(session) else { return };
        let (vault, caller) = (self.vault.clone(), self.caller.clone());
        let id = self.model.sessions[session].id;
        let operation = Box::pin(async move {
            get_challenge_result(&vault, &caller, id).await.map(|_| "done".to_owned())
        });
        let happening = ModelEvent {
            event: StateMachineEvent::ResultRequested,
            operation: "get_challenge_result",
            outcome: "read",
            refusal_result: |_| "nothing yet".to_owned(),
            missing_result: "not found",
            writes_without_change: true,
        };
        self.run_event(session, operation, happening, fate).await;
    }

    /// Claims all deliveries, with a lease that has ended, so that the next call claims them again.
    pub(crate) async fn claim_all_deliveries(&self) -> Vec<ClaimedDelivery> {
        let (now, lease_until) = (self.vault.clock.now(), Timestamp { unix_ms: 0 });
        let claim = DeliveryClaim { now, lease_until, deliveries_max: 10_000 };
        self.vault.store.claim_deliveries(self.webhook, claim).await.unwrap()
    }

    /// Compares stored sessions, events and audit records with the model.
    pub(crate) async fn check(&mut self) {
        let now = self.model.now;
        for known in &mut self.model.sessions {
            let visible = match get_threeds_session(&self.vault, &self.caller, known.id).await {
                Ok(view) => Some(view.body.state),
                Err(Error::NotFound) => None,
                Err(error) => panic!("{error:?}"),
            };
            assert_eq!(visible, known.visible(now));
            let Some(visible) = visible else { continue };
            let kind = std::mem::discriminant(&visible.phase);
            let before = known.final_phase.as_ref().map(std::mem::discriminant);
            assert!(before.is_none_or(|it| it == kind), "{:?} was final", known.final_phase);
            if visible.is_final() {
                known.final_phase = Some(visible.phase);
            }
        }
        let tenant = self.caller.tenant();
        let mut events = Vec::new();
        for delivery in self.claim_all_deliveries().await {
            let event = delivery.open(tenant).unwrap();
            let event: Value = serde_json::from_str(event.as_str()).unwrap();
            let session = &event["data"]["session"];
            let text = |value: &Value| value.as_str().map(str::to_owned);
            events.push((
                text(&session["id"]).unwrap(),
                delivery.event_type,
                text(&session["authentication_status"]),
            ));
        }
        let owned_event = |(id, kind, status): &(String, &'static str, Option<&str>)| {
            (id.clone(), (*kind).to_owned(), status.map(str::to_owned))
        };
        let mut expected: Vec<_> = self.model.events.iter().map(owned_event).collect();
        // Events at the same time have no order.
        events.sort();
        expected.sort();
        assert_eq!(events, expected);
        let records = self.vault.store.list_records(LogKind::Audit, tenant.id, 0, 10_000).await;
        let records = records.unwrap().into_iter();
        let words = records.map(|it| {
            let of_card = self.cards.iter().any(|card| card.as_str() == it.entity);
            let used = it.operation == "use_token" && of_card;
            let entity = if used { "a card".to_owned() } else { it.entity };
            [it.operation, entity, it.outcome]
        });
        let others = ["create_tenant", "create_application", "create_token", "create_webhook"];
        let records: Vec<_> = words.filter(|it| !others.contains(&&*it[0])).collect();
        assert_eq!(records, self.model.records);
        self.outcomes
            .extend(records.iter().map(|[operation, _, outcome]| format!("{operation} {outcome}")));
    }
}

async fn create_webhook_for_sessions(harness: &VaultHarness, tenant: &Arc<Tenant>) -> WebhookKey {
    let names = EventType::ALL.iter().map(|it| it.as_str());
    let names: Vec<_> = names.filter(|it| it.starts_with("3ds.session.")).collect();
    let events = EventList::from_text(&names.join(",")).unwrap();
    let draft = WebhookDraft { events, ..webhook_draft("sessions") };
    let permit = PolicyPermit::for_operator(Arc::clone(tenant));
    let webhook = create_webhook(&harness.vault, permit, draft, None).await.unwrap();
    WebhookKey { tenant: tenant.id, webhook: webhook.record.id }
}

/// All permissions for sessions.
pub(crate) fn session_permissions() -> AccessPolicy {
    let sessions = &[
        Permission::ThreeDsSessionCreate,
        Permission::ThreeDsSessionRead,
        Permission::ThreeDsSessionAuthenticate,
    ];
    access_without_rules(&[TOKENS, sessions].concat())
}
