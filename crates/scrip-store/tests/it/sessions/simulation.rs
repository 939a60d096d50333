//! Sessions, played step by step beside the model: each step ends as the model says, and leaves what
//! the model has.

use std::{collections::BTreeSet, pin::Pin, sync::Arc, time::Duration};

use scrip_core::{
    Vault,
    audit::Log,
    error::Error,
    id::TokenId,
    operations::sessions::{
        create_session::{NewSession, create_session},
        expire_session::expire_session,
        get_challenge_result::get_challenge_result,
        get_session::get_session,
        notify_challenge::notify_challenge,
        notify_method::notify_method,
        receive_result::{Door, Posted, receive_result},
        update_session::update_session,
    },
    policy::{AccessPolicy, Caller, Directory, Permission, Settings},
    store::Store,
    threeds::{CardReference, ChallengeMode, DirectoryServers},
    time::Clock,
};
use scrip_testing::{
    faults::{
        intercepted_store::InterceptedStore,
        schedule::{FaultSchedule, Order, Point, Reached, Script, WITH_METHOD, WITHOUT_METHOD},
    },
    policy::{TOKENS, plain},
    requests::{card, create},
    vault_harness::{Engine, VaultHarness, origin},
};
use scrip_threeds::{
    encoding::{MethodData, encode},
    format::TransId,
    message::{CRes, Message, Scene},
    request::DeviceInfo,
    session::Event,
};
use serde_json::{Value, json};

use crate::sessions::{
    messages::{app, browser, result_message, word},
    model::{Happening, Kind, Model, Plan, Planned},
    random::{Forged, Step, Trip},
};

pub(crate) type Operating = Pin<Box<dyn Future<Output = Result<String, Error>>>>;

/// A vault whose sessions are played, and what they should be.
pub(crate) struct SessionSimulation {
    pub(crate) world: VaultHarness,
    pub(crate) vault: Vault,
    pub(crate) caller: Caller,
    pub(crate) directory: Arc<Directory>,
    pub(crate) stage: Arc<FaultSchedule>,
    cards: [TokenId; 2],
    /// How many wait for the engine. Its clock stands still for so long: what was decided in time and
    /// is written a minute later is not looked at here.
    commits: u32,
    /// What happened so far.
    pub(crate) met: BTreeSet<String>,
    pub(crate) model: Model,
}

impl SessionSimulation {
    pub(crate) async fn open(engine: Engine) -> Self {
        let world = VaultHarness::open(engine).await;
        let tenant = world.tenant(Settings::default()).await;
        let caller = world.caller(&tenant, rights()).await;
        let mut cards = Vec::new();
        for number in [WITH_METHOD, WITHOUT_METHOD] {
            cards.push(create(&world.vault, &caller, card(number)).await.unwrap().token.id);
        }
        let stage = FaultSchedule::new();
        let inner = Arc::clone(&world.vault.store);
        let store: Arc<dyn Store> =
            Arc::new(InterceptedStore { engine: inner, interceptor: Arc::clone(&stage) });
        let directory_servers: Arc<dyn DirectoryServers> = Arc::new(Script::new(&stage));
        let vault = Vault { store, directory_servers, ..world.vault.clone() };
        let directory = Arc::new(world.directory().await);
        let model = Model { now: world.clock.now().unix_ms / 1000, ..Model::default() };
        let cards = cards.try_into().unwrap();
        Self {
            world,
            vault,
            caller,
            directory,
            stage,
            cards,
            commits: 0,
            met: BTreeSet::new(),
            model,
        }
    }

    /// Which session is meant, counted from the last; nothing when there is none yet.
    pub(crate) fn at(&self, of: usize) -> Option<usize> {
        let count = self.model.sessions.len();
        (count > 0).then(|| count - 1 - of % count)
    }

    fn trans_id(&self, of: usize) -> TransId {
        TransId::parse(&self.model.sessions[of].ids()[0]).unwrap()
    }

    fn play<'a>(&'a mut self, step: &'a Step) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            match step {
                Step::Create(kind, trip) => self.create(*kind, trip).await,
                Step::Method { of, about, trip } => self.method(*of, *about, trip).await,
                Step::Device { of, trip } => self.device(*of, trip).await,
                Step::Authenticate(it) => self.authenticate(it).await,
                Step::Result { of, forged, with, status, trip } => {
                    self.result(*of, *with, *forged, status, trip).await;
                }
                Step::Told { of, about, status, trip } => {
                    self.told(*of, *about, *status, trip).await;
                }
                Step::AskResult { of, trip } => self.ask_result(*of, trip).await,
                Step::Advance(_) if self.commits > 0 => (),
                Step::Advance(seconds) => {
                    self.world.clock.advance(Duration::from_secs(seconds.unsigned_abs()));
                    self.model.now += seconds;
                }
                Step::Sweep => {
                    while expire_session(&self.vault).await.unwrap() > 0 {}
                    self.model.sweep();
                }
            }
            self.check().await;
        })
    }

    pub(crate) async fn play_all(&mut self, steps: &[Step]) {
        for step in steps {
            self.play(step).await;
        }
    }

    async fn create(&mut self, kind: Kind, trip: &Trip) {
        let card = &self.cards[usize::from(kind != Kind::Page)];
        let new = NewSession {
            card: CardReference::Token(card.clone()),
            kind: kind.session_type(),
            device: kind.device(),
            device_info: if kind == Kind::Browser || kind == Kind::Page {
                browser()
            } else {
                DeviceInfo::default()
            },
            challenge_mode: ChallengeMode::Iframe,
            metadata: None,
        };
        let (vault, caller) = (self.vault.clone(), self.caller.clone());
        let mut operation: Operating = Box::pin(async move {
            create_session(&vault, &caller, new, None).await.map(|_| "done".to_owned())
        });
        let at = self.model.now;
        let Reached::Point(Point::Write(id, order)) = self.stage.run(&mut operation).await else {
            panic!("a session is written")
        };
        if let Some(end) = self.go(order, trip).await {
            if trip.writes() {
                self.model.create(id, kind, at);
            }
            self.end(&mut operation, end).await;
        }
    }

    /// Has a write done, or not; how the operation ends, unless it dies.
    async fn go(
        &mut self,
        order: tokio::sync::oneshot::Sender<Order>,
        trip: &Trip,
    ) -> Option<&'static str> {
        let (word, end) = match trip {
            Trip::Die => return None,
            Trip::Go => (Order::Go, "done"),
            Trip::Fail => (Order::Fail, "unavailable"),
            Trip::GoAndFail => (Order::GoAndFail, "unavailable"),
            Trip::Wait(steps) => {
                self.commits += 1;
                self.play_all(steps).await;
                self.commits -= 1;
                (Order::Go, "done")
            }
        };
        order.send(word).unwrap();
        Some(end)
    }

    pub(crate) async fn end(&self, operation: &mut Operating, expected: &str) {
        let Reached::End(end) = self.stage.run(operation).await else {
            panic!("nothing more is to be done")
        };
        assert_eq!(word(&end), expected, "{end:?}");
    }

    /// An operation with one write, which begins anew when somebody else was faster.
    async fn change(
        &mut self,
        of: usize,
        mut operation: Operating,
        plan: impl Fn(&Model) -> Plan,
        trip: &Trip,
    ) {
        let mut trip = trip;
        loop {
            let planned = match plan(&self.model) {
                Plan::Nothing(end) => return self.end(&mut operation, &end).await,
                Plan::Write(planned) => planned,
            };
            let Some(fresh) = self.write(of, &mut operation, *planned, trip).await else { return };
            if let Some(end) = fresh {
                return self.end(&mut operation, end).await;
            }
            trip = &Trip::Go;
        }
    }

    /// One write. Nothing when the process died; within, nothing when the row was not as expected.
    pub(crate) async fn write(
        &mut self,
        of: usize,
        operation: &mut Operating,
        planned: Planned,
        trip: &Trip,
    ) -> Option<Option<&'static str>> {
        let (id, revision) = (self.model.sessions[of].id, self.model.sessions[of].revision);
        let reached = self.stage.run(operation).await;
        let Reached::Point(Point::Write(written, order)) = reached else {
            panic!("{planned:?} is to be written: {reached:?}")
        };
        assert_eq!(written, id);
        let end = self.go(order, trip).await?;
        let known = &self.model.sessions[of];
        let is_fresh = known.row.is_some() && known.revision == revision;
        let own = planned.end;
        if !is_fresh {
            self.met.insert("somebody was faster".to_owned());
        }
        if is_fresh && trip.writes() {
            self.model.apply(of, planned);
        }
        match (end, is_fresh) {
            ("done", true) => Some(Some(own)),
            ("done", false) => Some(None),
            (end, _) => Some(Some(end)),
        }
    }

    async fn notify(&mut self, of: usize, operation: Operating, happening: Happening, trip: &Trip) {
        self.change(of, operation, |it| it.plan(of, &happening), trip).await;
    }

    async fn method(&mut self, of: usize, about: usize, trip: &Trip) {
        let (Some(of), Some(about)) = (self.at(of), self.at(about)) else { return };
        let (vault, directory) = (self.vault.clone(), Arc::clone(&self.directory));
        let (id, server_trans_id) = (self.model.sessions[of].id, self.trans_id(about));
        let data = MethodData { server_trans_id: server_trans_id.clone(), notification_url: None };
        let data = data.write();
        let operation = Box::pin(async move {
            let told = notify_method(&vault, &directory, &origin(), id, &data).await;
            told.map(|()| "done".to_owned())
        });
        let happening = Happening {
            event: Event::MethodNotification { server_trans_id },
            operation: "notify_method",
            outcome: "done",
            refused: |_| "invalid".to_owned(),
            absent: "not found",
            always: false,
        };
        self.notify(of, operation, happening, trip).await;
    }

    async fn device(&mut self, of: usize, trip: &Trip) {
        let Some(of) = self.at(of) else { return };
        let (vault, caller) = (self.vault.clone(), self.caller.clone());
        let (id, kind) = (self.model.sessions[of].id, self.model.sessions[of].kind);
        let operation: Operating = Box::pin(async move {
            let updated = update_session(&vault, &caller, id, app(), None).await;
            updated.map(|_| "done".to_owned())
        });
        let happening = Happening {
            event: Event::DeviceInfo,
            operation: "update_session",
            outcome: "updated",
            refused: |_| "conflict".to_owned(),
            absent: "not found",
            always: true,
        };
        let plan = |model: &Model| {
            let is_there = model.sessions[of].visible(model.now).is_some();
            if is_there && kind != Kind::App {
                return Plan::Nothing("invalid".to_owned());
            }
            model.plan(of, &happening)
        };
        self.change(of, operation, plan, trip).await;
    }

    async fn told(&mut self, of: usize, about: usize, status: Option<&'static str>, trip: &Trip) {
        let (Some(of), Some(about)) = (self.at(of), self.at(about)) else { return };
        let (vault, directory) = (self.vault.clone(), Arc::clone(&self.directory));
        let id = self.model.sessions[of].id;
        let [server, acs, _] = self.model.sessions[about].ids();
        let mut object = json!({
            "messageType": "CRes", "messageVersion": "2.2.0", "threeDSServerTransID": server,
            "acsTransID": acs, "challengeCompletionInd": "N",
        });
        if let Some(status) = status {
            object["challengeCompletionInd"] = "Y".into();
            object["transStatus"] = status.into();
        }
        let bytes = object.to_string().into_bytes();
        let scene = Scene::of(scrip_threeds::format::Version::V220);
        let response = Box::new(CRes::parse(&bytes, &scene).unwrap());
        let data = encode(&bytes);
        let operation = Box::pin(async move {
            let told = notify_challenge(&vault, &directory, &origin(), id, &data).await;
            told.map(|_| "done".to_owned())
        });
        let happening = Happening {
            event: Event::ChallengeNotification { response },
            operation: "notify_challenge",
            outcome: "done",
            refused: |_| "invalid".to_owned(),
            absent: "not found",
            always: false,
        };
        self.notify(of, operation, happening, trip).await;
    }

    async fn ask_result(&mut self, of: usize, trip: &Trip) {
        let Some(of) = self.at(of) else { return };
        let (vault, caller) = (self.vault.clone(), self.caller.clone());
        let id = self.model.sessions[of].id;
        let operation = Box::pin(async move {
            get_challenge_result(&vault, &caller, id).await.map(|_| "done".to_owned())
        });
        let happening = Happening {
            event: Event::ResultAsked,
            operation: "get_challenge_result",
            outcome: "read",
            refused: |_| "nothing yet".to_owned(),
            absent: "not found",
            always: true,
        };
        self.notify(of, operation, happening, trip).await;
    }

    async fn result(&mut self, of: usize, with: usize, forged: Forged, status: &str, trip: &Trip) {
        let (Some(of), Some(with)) = (self.at(of), self.at(with)) else { return };
        let (ours, theirs) = (&self.model.sessions[of], &self.model.sessions[with]);
        let unknown = || "0".repeat(64);
        let secret = match forged {
            Forged::Secret if of != with => theirs.secret.clone(),
            Forged::Secret => None,
            Forged::Nothing | Forged::Message | Forged::Acs | Forged::Ds => ours.secret.clone(),
        };
        let secret = secret.unwrap_or_else(unknown);
        let (mut ids, others) = (ours.ids(), theirs.ids());
        match forged {
            Forged::Nothing | Forged::Secret => (),
            Forged::Message => ids.clone_from(&others),
            Forged::Acs => ids[1].clone_from(&others[1]),
            Forged::Ds => ids[2].clone_from(&others[2]),
        }
        let message = result_message(&ids, status);
        if let Plan::Nothing(code) = self.model.plan_result(of, &secret, &message) {
            let what = if forged == Forged::Nothing || of == with {
                "result".to_owned()
            } else {
                format!("forged {forged:?}")
            };
            let is_challenged =
                ours.visible(self.model.now).is_some_and(|it| it.waiting().is_some());
            if is_challenged || what == "result" {
                self.met.insert(format!("{what} {code}"));
            }
        }
        let is_own = forged == Forged::Nothing || (of == with && forged != Forged::Secret);
        let plan = |model: &Model| model.plan_result(of, &secret, &message);
        assert!(is_own || matches!(plan(&self.model), Plan::Nothing(code) if code != "done"));
        let (vault, directory, id) = (self.vault.clone(), Arc::clone(&self.directory), ours.id);
        let (sent, bytes) = (secret.clone(), message.to_string().into_bytes());
        let operation = Box::pin(async move {
            let posted = Posted { id, secret: &sent, message: &bytes, door: Door::Open };
            let answer = receive_result(&vault, &directory, &origin(), posted).await?;
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            Ok(match answer["errorCode"].as_str() {
                Some(code) => code.to_owned(),
                None if answer["messageType"] == "RRes" => "done".to_owned(),
                None => answer.to_string(),
            })
        });
        self.change(of, operation, plan, trip).await;
    }

    /// What is stored, told and recorded is what the model says.
    pub(crate) async fn check(&mut self) {
        let now = self.model.now;
        for known in &mut self.model.sessions {
            let shown = match get_session(&self.vault, &self.caller, known.id).await {
                Ok(view) => Some(view.body.state),
                Err(Error::NotFound) => None,
                Err(error) => panic!("{error:?}"),
            };
            assert_eq!(shown, known.visible(now));
            let Some(shown) = shown else { continue };
            let kind = std::mem::discriminant(&shown.phase);
            let before = known.shown_final.as_ref().map(std::mem::discriminant);
            assert!(before.is_none_or(|it| it == kind), "{:?} was final", known.shown_final);
            if shown.is_final() {
                known.shown_final = Some(shown.phase);
            }
        }
        let tenant = self.caller.tenant();
        let mut events = Vec::new();
        for (_, event) in self.vault.store.list_events(0, 10_000).await.unwrap() {
            let event = event.open(tenant).unwrap();
            let session = event.data.session;
            events.push((session.id, event.kind.name(), session.authentication_status));
        }
        let told = |(id, kind, status): &(String, &'static str, Option<&str>)| {
            (id.clone(), *kind, status.map(str::to_owned))
        };
        assert_eq!(events, self.model.events.iter().map(told).collect::<Vec<_>>());
        let records = self.vault.store.list_records(Log::Audit, tenant.id, 0, 10_000).await;
        let records = records.unwrap().into_iter();
        let words = records.map(|it| {
            let of_card = self.cards.iter().any(|card| card.as_str() == it.entity);
            let used = it.operation == "use_token" && of_card;
            let entity = if used { "a card".to_owned() } else { it.entity };
            [it.operation, entity, it.outcome]
        });
        let others = ["create_tenant", "create_application", "create_token"];
        let trail: Vec<_> = words.filter(|it| !others.contains(&&*it[0])).collect();
        assert_eq!(trail, self.model.trail);
        self.met
            .extend(trail.iter().map(|[operation, _, outcome]| format!("{operation} {outcome}")));
    }
}

/// All that is needed to use sessions.
pub(crate) fn rights() -> AccessPolicy {
    let sessions =
        &[Permission::SessionCreate, Permission::SessionRead, Permission::SessionAuthenticate];
    plain(&[TOKENS, sessions].concat())
}
