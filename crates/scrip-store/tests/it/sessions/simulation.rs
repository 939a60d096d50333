//! Sessions, played step by step beside the model: each step ends as the model says, and leaves what
//! the model has.

use std::{collections::BTreeSet, pin::Pin, sync::Arc, time::Duration};

use scrip_core::{
    Vault,
    audit::LogKind,
    error::Error,
    id::TokenId,
    operations::threeds_sessions::{
        create_threeds_session::{NewThreeDsSession, create_threeds_session},
        expire_threeds_session::expire_threeds_session,
        get_challenge_result::get_challenge_result,
        get_threeds_session::get_threeds_session,
        notify_challenge::notify_challenge,
        notify_method::notify_method,
        receive_result::{PostedResult, ResultChannel, receive_result},
        update_threeds_session::update_threeds_session,
    },
    policy::{AccessPolicy, Caller, Directory, Permission, TenantSettings},
    store::Store,
    threeds::{CardReference, ChallengeMode, DirectoryServers},
    time::Clock,
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
    vault_harness::{Engine, VaultHarness, test_origin},
};
use scrip_threeds::{
    encoding::{MethodData, encode},
    format::TransId,
    message::{CRes, Message, TransactionContext},
    request::DeviceInfo,
    session::StateMachineEvent,
};
use serde_json::{Value, json};

use crate::sessions::{
    messages::{app, browser, outcome_name, result_message},
    model::{ModelDevice, ModelEvent, ModelOutcome, PlannedWrite, SessionModel},
    random_steps::{ForgedPart, SessionStep, WriteFate},
};

pub(crate) type OperationFuture = Pin<Box<dyn Future<Output = Result<String, Error>>>>;

/// A vault whose sessions are played, and what they should be.
pub(crate) struct SessionSimulation {
    pub(crate) vault_harness: VaultHarness,
    pub(crate) vault: Vault,
    pub(crate) caller: Caller,
    pub(crate) directory: Arc<Directory>,
    pub(crate) schedule: Arc<FaultSchedule>,
    cards: [TokenId; 2],
    /// How many wait for the engine. Its clock stands still for so long: what was decided in time and
    /// is written a minute later is not looked at here.
    pending_commits: u32,
    /// What happened so far.
    pub(crate) outcomes: BTreeSet<String>,
    pub(crate) model: SessionModel,
}

impl SessionSimulation {
    pub(crate) async fn open(engine: Engine) -> Self {
        let harness = VaultHarness::open(engine).await;
        let tenant = harness.tenant(TenantSettings::default()).await;
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
            directory,
            schedule: stage,
            cards,
            pending_commits: 0,
            outcomes: BTreeSet::new(),
            model,
        }
    }

    /// Which session is meant, counted from the last; nothing when there is none yet.
    pub(crate) fn session_index(&self, steps_back: usize) -> Option<usize> {
        let count = self.model.sessions.len();
        (count > 0).then(|| count - 1 - steps_back % count)
    }

    fn trans_id(&self, session: usize) -> TransId {
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
                    while expire_threeds_session(&self.vault).await.unwrap() > 0 {}
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
            panic!("a session is written")
        };
        if let Some(end) = self.apply_fate(order, fate).await {
            if fate.commits() {
                self.model.create(id, kind, at);
            }
            self.expect_end(&mut operation, end).await;
        }
    }

    /// Has a write done, or not; how the operation ends, unless it dies.
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
            panic!("nothing more is to be done")
        };
        assert_eq!(outcome_name(&end), expected, "{end:?}");
    }

    /// An operation with one write, which begins anew when somebody else was faster.
    async fn run_change(
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

    /// One write. Nothing when the process died; within, nothing when the row was not as expected.
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
            panic!("{planned:?} is to be written: {reached:?}")
        };
        assert_eq!(written, id);
        let end = self.apply_fate(order, fate).await?;
        let known = &self.model.sessions[session];
        let is_fresh = known.row.is_some() && known.revision == revision;
        let own = planned.end;
        if !is_fresh {
            self.outcomes.insert("somebody was faster".to_owned());
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

    async fn run_event(
        &mut self,
        session: usize,
        operation: OperationFuture,
        model_event: ModelEvent,
        fate: &WriteFate,
    ) {
        self.run_change(session, operation, |it| it.plan(session, &model_event), fate).await;
    }

    async fn method(&mut self, session: usize, about_session: usize, fate: &WriteFate) {
        let (Some(session), Some(about_session)) =
            (self.session_index(session), self.session_index(about_session))
        else {
            return;
        };
        let (vault, directory) = (self.vault.clone(), Arc::clone(&self.directory));
        let (id, server_trans_id) = (self.model.sessions[session].id, self.trans_id(about_session));
        let data = MethodData { server_trans_id: server_trans_id.clone(), notification_url: None };
        let data = data.encode();
        let operation = Box::pin(async move {
            let told = notify_method(&vault, &directory, &test_origin(), id, &data).await;
            told.map(|()| "done".to_owned())
        });
        let happening = ModelEvent {
            event: StateMachineEvent::MethodNotification { server_trans_id },
            operation: "notify_method",
            outcome: "done",
            refusal_result: |_| "invalid".to_owned(),
            missing_result: "not found",
            writes_without_change: false,
        };
        self.run_event(session, operation, happening, fate).await;
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
            operation: "update_session",
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

    async fn notify_challenge_result(
        &mut self,
        session: usize,
        about_session: usize,
        status: Option<&'static str>,
        fate: &WriteFate,
    ) {
        let (Some(session), Some(about_session)) =
            (self.session_index(session), self.session_index(about_session))
        else {
            return;
        };
        let (vault, directory) = (self.vault.clone(), Arc::clone(&self.directory));
        let id = self.model.sessions[session].id;
        let [server, acs, _] = self.model.sessions[about_session].ids();
        let mut object = json!({
            "messageType": "CRes", "messageVersion": "2.2.0", "threeDSServerTransID": server,
            "acsTransID": acs, "challengeCompletionInd": "N",
        });
        if let Some(status) = status {
            object["challengeCompletionInd"] = "Y".into();
            object["transStatus"] = status.into();
        }
        let bytes = object.to_string().into_bytes();
        let harness = TransactionContext::for_version(scrip_threeds::format::Version::V220);
        let response = Box::new(CRes::parse(&bytes, &harness).unwrap());
        let data = encode(&bytes);
        let operation = Box::pin(async move {
            let told = notify_challenge(&vault, &directory, &test_origin(), id, &data).await;
            told.map(|_| "done".to_owned())
        });
        let happening = ModelEvent {
            event: StateMachineEvent::ChallengeNotification { response },
            operation: "notify_challenge",
            outcome: "done",
            refusal_result: |_| "invalid".to_owned(),
            missing_result: "not found",
            writes_without_change: false,
        };
        self.run_event(session, operation, happening, fate).await;
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

    async fn result(
        &mut self,
        session: usize,
        other: usize,
        forged: ForgedPart,
        status: &str,
        fate: &WriteFate,
    ) {
        let (Some(session), Some(other)) = (self.session_index(session), self.session_index(other))
        else {
            return;
        };
        let (ours, theirs) = (&self.model.sessions[session], &self.model.sessions[other]);
        let unknown = || "0".repeat(64);
        let secret = match forged {
            ForgedPart::Secret if session != other => theirs.secret.clone(),
            ForgedPart::Secret => None,
            ForgedPart::Nothing | ForgedPart::Message | ForgedPart::Acs | ForgedPart::Ds => {
                ours.secret.clone()
            }
        };
        let secret = secret.unwrap_or_else(unknown);
        let (mut ids, others) = (ours.ids(), theirs.ids());
        match forged {
            ForgedPart::Nothing | ForgedPart::Secret => (),
            ForgedPart::Message => ids.clone_from(&others),
            ForgedPart::Acs => ids[1].clone_from(&others[1]),
            ForgedPart::Ds => ids[2].clone_from(&others[2]),
        }
        let message = result_message(&ids, status);
        if let ModelOutcome::Nothing(code) = self.model.plan_result(session, &secret, &message) {
            let what = if forged == ForgedPart::Nothing || session == other {
                "result".to_owned()
            } else {
                format!("forged {forged:?}")
            };
            let is_challenged =
                ours.visible(self.model.now).is_some_and(|it| it.pending_challenge().is_some());
            if is_challenged || what == "result" {
                self.outcomes.insert(format!("{what} {code}"));
            }
        }
        let is_own =
            forged == ForgedPart::Nothing || (session == other && forged != ForgedPart::Secret);
        let plan = |model: &SessionModel| model.plan_result(session, &secret, &message);
        assert!(
            is_own || matches!(plan(&self.model), ModelOutcome::Nothing(code) if code != "done")
        );
        let (vault, directory, id) = (self.vault.clone(), Arc::clone(&self.directory), ours.id);
        let (sent, bytes) = (secret.clone(), message.to_string().into_bytes());
        let operation = Box::pin(async move {
            let posted = PostedResult {
                id,
                secret: &sent,
                message: &bytes,
                channel: ResultChannel::Unauthenticated,
            };
            let answer = receive_result(&vault, &directory, &test_origin(), posted).await?;
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            Ok(match answer["errorCode"].as_str() {
                Some(code) => code.to_owned(),
                None if answer["messageType"] == "RRes" => "done".to_owned(),
                None => answer.to_string(),
            })
        });
        self.run_change(session, operation, plan, fate).await;
    }

    /// What is stored, told and recorded is what the model says.
    pub(crate) async fn check(&mut self) {
        let now = self.model.now;
        for known in &mut self.model.sessions {
            let shown = match get_threeds_session(&self.vault, &self.caller, known.id).await {
                Ok(view) => Some(view.body.state),
                Err(Error::NotFound) => None,
                Err(error) => panic!("{error:?}"),
            };
            assert_eq!(shown, known.visible(now));
            let Some(shown) = shown else { continue };
            let kind = std::mem::discriminant(&shown.phase);
            let before = known.final_phase.as_ref().map(std::mem::discriminant);
            assert!(before.is_none_or(|it| it == kind), "{:?} was final", known.final_phase);
            if shown.is_final() {
                known.final_phase = Some(shown.phase);
            }
        }
        let tenant = self.caller.tenant();
        let mut events = Vec::new();
        for (_, event) in self.vault.store.list_threeds_events(0, 10_000).await.unwrap() {
            let event = event.open(tenant).unwrap();
            let session = event.data.session;
            events.push((session.id, event.kind.name(), session.authentication_status));
        }
        let told = |(id, kind, status): &(String, &'static str, Option<&str>)| {
            (id.clone(), *kind, status.map(str::to_owned))
        };
        assert_eq!(events, self.model.events.iter().map(told).collect::<Vec<_>>());
        let records = self.vault.store.list_records(LogKind::Audit, tenant.id, 0, 10_000).await;
        let records = records.unwrap().into_iter();
        let words = records.map(|it| {
            let of_card = self.cards.iter().any(|card| card.as_str() == it.entity);
            let used = it.operation == "use_token" && of_card;
            let entity = if used { "a card".to_owned() } else { it.entity };
            [it.operation, entity, it.outcome]
        });
        let others = ["create_tenant", "create_application", "create_token"];
        let trail: Vec<_> = words.filter(|it| !others.contains(&&*it[0])).collect();
        assert_eq!(trail, self.model.records);
        self.outcomes
            .extend(trail.iter().map(|[operation, _, outcome]| format!("{operation} {outcome}")));
    }
}

/// All that is needed to use sessions.
pub(crate) fn session_permissions() -> AccessPolicy {
    let sessions = &[
        Permission::ThreeDsSessionCreate,
        Permission::ThreeDsSessionRead,
        Permission::ThreeDsSessionAuthenticate,
    ];
    access_without_rules(&[TOKENS, sessions].concat())
}
