//! What sessions should be: the pure machine, beside what the vault keeps of them.

use scrip_core::{id::SessionId, threeds::Unanswered};
use scrip_threeds::{
    authentication::Asked,
    code::{AuthenticationCategory, Device, DeviceChannel, Scheme, SessionType},
    fault::Fault,
    format::{TransId, Version},
    message::{ARes, Document, RReq},
    session::{Effect, Event, Failure, Moment, Phase, Refusal, SecretFact, Session},
};
use serde_json::{Value, json};

pub(crate) const DAY_SECONDS: i64 = 24 * 60 * 60;
const HOUR_SECONDS: i64 = 60 * 60;

/// Who sits where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A browser whose card has a page that runs before.
    Page,
    Browser,
    App,
    Merchant,
}

impl Kind {
    pub(crate) fn session_type(self) -> SessionType {
        if self == Self::Merchant { SessionType::Merchant } else { SessionType::Customer }
    }

    pub(crate) fn device(self) -> Device {
        if self == Self::App { Device::Mobile } else { Device::Browser }
    }
}

/// One session.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) id: SessionId,
    pub(crate) kind: Kind,
    /// Nothing once it was swept.
    pub(crate) row: Option<Session>,
    pub(crate) revision: u32,
    /// As the directory server heard it.
    pub(crate) secret: Option<String>,
    /// How many questions somebody may have seen.
    pub(crate) delivered: u32,
    /// What it was shown as, once that was final.
    pub(crate) shown_final: Option<Phase>,
}

impl Known {
    pub(crate) fn ids(&self) -> [String; 3] {
        let id = self.id.to_string();
        let with = |first: &str| format!("{first}{}", &id[1..]);
        [id.clone(), with("a"), with("d")]
    }

    /// As everybody sees it now.
    pub(crate) fn visible(&self, now: i64) -> Option<Session> {
        let row = self.row.as_ref().filter(|it| ends(it).is_none_or(|it| now < it))?;
        let state = settled(row, now);
        (state.phase != Phase::Expired).then_some(state)
    }

    /// What an answer of the directory server would be that is about this session.
    pub(crate) fn answer(&self, status: &str) -> Value {
        let [server, acs, ds] = self.ids();
        let mut object = json!({
            "messageType": "ARes", "messageVersion": "2.2.0", "threeDSServerTransID": server,
            "acsTransID": acs, "dsTransID": ds, "acsReferenceNumber": "acs",
            "dsReferenceNumber": "ds", "transStatus": status,
        });
        match status {
            "Y" | "A" => object["authenticationValue"] = "AAECAwQFBgcICQoLDA0ODxAREhM=".into(),
            "N" | "U" | "R" => object["transStatusReason"] = "01".into(),
            "C" | "D" => {
                object["acsChallengeMandated"] = "N".into();
                object["authenticationType"] = "02".into();
                object["acsDecConInd"] = "Y".into();
                object["cardholderInfo"] = "Look at your phone".into();
            }
            _ => (),
        }
        match (self.kind, status) {
            (Kind::App, "C") => {
                object["acsSignedContent"] = "a.b.c".into();
                object["acsRenderingType"] = json!({"acsInterface": "01", "acsUiTemplate": "01"});
            }
            (_, "C") => object["acsURL"] = "https://acs.example/challenge".into(),
            _ => (),
        }
        if self.kind == Kind::App {
            object["sdkTransID"] = "b2385523-a66c-4907-ac3c-91848e8c0067".into();
        }
        object
    }
}

/// When nobody needs the row any more.
pub(crate) fn ends(state: &Session) -> Option<i64> {
    match state.phase {
        Phase::Challenged { .. } | Phase::Decoupled { .. } | Phase::Authenticated { .. } => None,
        Phase::Authenticating { .. } | Phase::Failed { .. } => {
            Some(state.expires_at.0 + DAY_SECONDS)
        }
        Phase::Created
        | Phase::MethodPending
        | Phase::MethodCompleted
        | Phase::MethodTimedOut
        | Phase::Expired => Some(state.expires_at.0),
    }
}

/// What time alone makes of a session, said once more: nobody waits longer than a minute for an
/// answer, or than it was granted for a decoupled challenge.
fn settled(state: &Session, now: i64) -> Session {
    let to = |phase| Session { phase, ..state.clone() };
    if let Phase::Authenticating { since, .. } = &state.phase
        && now >= since.0 + 60
    {
        return to(Phase::Failed { failure: Failure::FateUnknown, authentication: None });
    }
    if let Phase::Decoupled { waiting, until } = &state.phase
        && now >= until.0
    {
        let authentication = Some(Box::new(waiting.authentication.clone()));
        return to(Phase::Failed { failure: Failure::ResultNotReceived, authentication });
    }
    let has_expired = state.method().is_some() && now >= state.expires_at.0;
    if has_expired { to(Phase::Expired) } else { state.clone() }
}

/// A write that an operation is about to make.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) state: Session,
    pub(crate) effects: Vec<Effect>,
    pub(crate) operation: &'static str,
    pub(crate) outcome: &'static str,
    /// How the operation ends when it is written.
    pub(crate) end: &'static str,
}

#[derive(Debug)]
pub(crate) enum Plan {
    /// How it ends.
    Nothing(String),
    Write(Box<Planned>),
}

/// An event, what is told of it, and how its writes are recorded.
pub(crate) struct Happening {
    pub(crate) event: Event,
    pub(crate) operation: &'static str,
    pub(crate) outcome: &'static str,
    /// What a refusal is to whoever asked.
    pub(crate) refused: fn(&Refusal) -> String,
    /// What a session that is not there is.
    pub(crate) absent: &'static str,
    /// Whether a step that changes nothing is written too.
    pub(crate) always: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) now: i64,
    pub(crate) sessions: Vec<Known>,
    /// Session, type, status.
    pub(crate) events: Vec<(String, &'static str, Option<&'static str>)>,
    /// Operation, session, outcome.
    pub(crate) trail: Vec<[String; 3]>,
}

impl Model {
    pub(crate) fn create(&mut self, id: SessionId, kind: Kind, at: i64) {
        let trans_id = TransId::parse(&id.to_string()).unwrap();
        let channel = DeviceChannel::of(kind.session_type(), kind.device());
        let expires_at = Moment(at + HOUR_SECONDS);
        let state = Session::created(trans_id, kind.session_type(), channel, expires_at);
        let row = Some(if kind == Kind::Page { state.with_method() } else { state });
        let (secret, shown_final) = (None, None);
        let known = Known { id, kind, row, revision: 1, secret, delivered: 0, shown_final };
        self.sessions.push(known);
        self.events.push((id.to_string(), "3ds.session.created", None));
        self.record("create_session", id, "created");
    }

    fn record(&mut self, operation: &str, id: SessionId, outcome: &str) {
        self.trail.push([operation.to_owned(), id.to_string(), outcome.to_owned()]);
        // Where the card's number is opened, that stands beside it.
        if matches!(outcome, "created" | "asked") {
            self.trail.push(["use_token".to_owned(), "a card".to_owned(), "used".to_owned()]);
        }
    }

    pub(crate) fn plan(&self, of: usize, happening: &Happening) -> Plan {
        let known = &self.sessions[of];
        let Some(state) = known.visible(self.now) else {
            return Plan::Nothing(happening.absent.to_owned());
        };
        let (next, effects) = match state.step(&happening.event, Moment(self.now)) {
            Ok(stepped) => stepped,
            Err(refusal) => return Plan::Nothing((happening.refused)(&refusal)),
        };
        let told = effects.iter().any(|it| matches!(it, Effect::Emit { .. }));
        if !told && next == state && !happening.always {
            return Plan::Nothing("done".to_owned());
        }
        let Happening { operation, outcome, .. } = *happening;
        Plan::Write(Box::new(Planned { state: next, effects, operation, outcome, end: "done" }))
    }

    pub(crate) fn apply(&mut self, of: usize, planned: Planned) {
        let known = &mut self.sessions[of];
        let id = known.id;
        known.row = Some(planned.state);
        known.revision += 1;
        for effect in &planned.effects {
            if let Effect::Emit { event, status } = effect {
                let status = status.map(scrip_threeds::code::Status::name);
                self.events.push((id.to_string(), event.name(), status));
            }
        }
        self.record(planned.operation, id, planned.outcome);
    }

    /// What the one who asked makes of what came back.
    pub(crate) fn conclude(
        &self,
        state: &Session,
        answered: &Result<Vec<u8>, Unanswered>,
    ) -> Planned {
        let now = Moment(self.now);
        let given_up = settled(state, self.now) != *state;
        let read = |bytes: &[u8]| -> Result<Event, Fault> {
            let scene = state.scene().unwrap();
            let answer = Document::read(bytes)?.read_as::<ARes>(&scene)?;
            Ok(Event::Response { answer: Box::new(answer) })
        };
        let event = match answered {
            _ if given_up => Event::Timeout,
            Err(Unanswered::NotSent) => Event::RequestNotSent,
            Err(Unanswered::TimedOut | Unanswered::Broken) => Event::Timeout,
            Ok(bytes) => read(bytes).unwrap_or(Event::Error),
        };
        let stepped = state.step(&event, now);
        let stepped = stepped.or_else(|_| state.step(&Event::Error, now));
        let (state, effects) = stepped.unwrap();
        let status = state.authentication().map(|it| it.status.name());
        let (outcome, end) = match status {
            Some(status) => (status, "done"),
            None => ("failed", "service"),
        };
        Planned { state, effects, operation: "authenticate_session", outcome, end }
    }

    /// What a posted result comes to; a refusal is a code.
    pub(crate) fn plan_result(&self, of: usize, secret: &str, message: &Value) -> Plan {
        let known = &self.sessions[of];
        let refuse = |code: &str| Plan::Nothing(code.to_owned());
        let code = |fault: &Fault| fault.code.code().to_owned();
        let Some(state) = known.visible(self.now) else { return refuse("301") };
        if known.secret.as_deref() != Some(secret) {
            return refuse("301");
        }
        let Some(scene) = state.scene() else { return refuse("301") };
        let document = Document::read(message.to_string().as_bytes()).unwrap();
        let result = match document.read_as::<RReq>(&scene) {
            Ok(result) => Box::new(result),
            Err(fault) => return refuse(&code(&fault)),
        };
        let is_decoupled = matches!(known.row.as_ref().unwrap().phase, Phase::Decoupled { .. });
        if is_decoupled && state.is_final() && result.server_trans_id.is_same(&state.id) {
            return refuse("402");
        }
        let happening = Happening {
            event: Event::Result { result, secret: SecretFact::Matches },
            operation: "receive_result",
            outcome: "done",
            refused: |it| it.fault().code.code().to_owned(),
            absent: "301",
            always: false,
        };
        self.plan(of, &happening)
    }

    /// Those whose time is over go, the first to end first.
    pub(crate) fn sweep(&mut self) {
        let mut gone: Vec<_> = (0..self.sessions.len())
            .filter_map(|at| Some((ends(self.sessions[at].row.as_ref()?)?, at)))
            .filter(|(end, _)| *end <= self.now)
            .collect();
        gone.sort_unstable();
        for (_, at) in gone {
            self.sessions[at].row = None;
            self.record("expire_session", self.sessions[at].id, "expired");
        }
    }
}

pub(crate) fn asked(decoupled: bool) -> Asked {
    Asked {
        version: Version::V220,
        scheme: Scheme::Visa,
        category: AuthenticationCategory::Payment,
        challenge_preference: None,
        decoupled_minutes: decoupled.then_some(5),
    }
}
