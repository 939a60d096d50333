//! What sessions should be: the pure machine, beside what the vault keeps of them.

use scrip_core::{id::ThreeDsSessionId, threeds::DirectoryServerError};
use scrip_threeds::{
    authentication::AuthenticationParameters,
    code::{AuthenticationCategory, Device, DeviceChannel, Scheme, ThreeDsSessionType},
    fault::Fault,
    format::{TransId, Version},
    message::{ARes, Document, RReq},
    session::{
        SecretCheck, StateMachineEffect, StateMachineEvent, ThreeDsFailure, ThreeDsPhase,
        ThreeDsRejection, ThreeDsSession, UnixSeconds,
    },
};
use serde_json::{Value, json};

pub(crate) const DAY_SECONDS: i64 = 24 * 60 * 60;
const HOUR_SECONDS: i64 = 60 * 60;

/// Who sits where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelDevice {
    /// A browser whose card has a page that runs before.
    BrowserWithMethod,
    Browser,
    App,
    Merchant,
}

impl ModelDevice {
    pub(crate) fn session_type(self) -> ThreeDsSessionType {
        if self == Self::Merchant {
            ThreeDsSessionType::Merchant
        } else {
            ThreeDsSessionType::Customer
        }
    }

    pub(crate) fn device(self) -> Device {
        if self == Self::App { Device::Mobile } else { Device::Browser }
    }
}

/// One session.
#[derive(Debug)]
pub(crate) struct ModelSession {
    pub(crate) id: ThreeDsSessionId,
    pub(crate) kind: ModelDevice,
    /// Nothing once it was swept.
    pub(crate) row: Option<ThreeDsSession>,
    pub(crate) revision: u32,
    /// As the directory server heard it.
    pub(crate) secret: Option<String>,
    /// How many questions somebody may have seen.
    pub(crate) delivered: u32,
    /// What it was shown as, once that was final.
    pub(crate) final_phase: Option<ThreeDsPhase>,
}

impl ModelSession {
    pub(crate) fn ids(&self) -> [String; 3] {
        let id = self.id.to_string();
        let with = |first: &str| format!("{first}{}", &id[1..]);
        [id.clone(), with("a"), with("d")]
    }

    /// As everybody sees it now.
    pub(crate) fn visible(&self, now: i64) -> Option<ThreeDsSession> {
        let row = self.row.as_ref().filter(|it| expiry(it).is_none_or(|it| now < it))?;
        let state = apply_timeouts(row, now);
        (state.phase != ThreeDsPhase::Expired).then_some(state)
    }

    /// What an answer of the directory server would be that is about this session.
    pub(crate) fn authentication_response(&self, status: &str) -> Value {
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
            (ModelDevice::App, "C") => {
                object["acsSignedContent"] = "a.b.c".into();
                object["acsRenderingType"] = json!({"acsInterface": "01", "acsUiTemplate": "01"});
            }
            (_, "C") => object["acsURL"] = "https://acs.example/challenge".into(),
            _ => (),
        }
        if self.kind == ModelDevice::App {
            object["sdkTransID"] = "b2385523-a66c-4907-ac3c-91848e8c0067".into();
        }
        object
    }
}

/// When nobody needs the row any more.
pub(crate) fn expiry(state: &ThreeDsSession) -> Option<i64> {
    match state.phase {
        ThreeDsPhase::Challenged { .. }
        | ThreeDsPhase::Decoupled { .. }
        | ThreeDsPhase::Authenticated { .. } => None,
        ThreeDsPhase::Authenticating { .. } | ThreeDsPhase::Failed { .. } => {
            Some(state.expires_at.0 + DAY_SECONDS)
        }
        ThreeDsPhase::Created
        | ThreeDsPhase::MethodPending
        | ThreeDsPhase::MethodCompleted
        | ThreeDsPhase::MethodTimedOut
        | ThreeDsPhase::Expired => Some(state.expires_at.0),
    }
}

/// What time alone makes of a session, said once more: nobody waits longer than a minute for an
/// answer, or than it was granted for a decoupled challenge.
fn apply_timeouts(state: &ThreeDsSession, now: i64) -> ThreeDsSession {
    let to = |phase| ThreeDsSession { phase, ..state.clone() };
    if let ThreeDsPhase::Authenticating { started_at: since, .. } = &state.phase
        && now >= since.0 + 60
    {
        return to(ThreeDsPhase::Failed {
            failure: ThreeDsFailure::OutcomeUnknown,
            authentication: None,
        });
    }
    if let ThreeDsPhase::Decoupled { challenge: waiting, deadline: until } = &state.phase
        && now >= until.0
    {
        let authentication = Some(Box::new(waiting.authentication.clone()));
        return to(ThreeDsPhase::Failed {
            failure: ThreeDsFailure::ResultNotReceived,
            authentication,
        });
    }
    let has_expired = state.method_state().is_some() && now >= state.expires_at.0;
    if has_expired { to(ThreeDsPhase::Expired) } else { state.clone() }
}

/// A write that an operation is about to make.
#[derive(Debug)]
pub(crate) struct PlannedWrite {
    pub(crate) state: ThreeDsSession,
    pub(crate) effects: Vec<StateMachineEffect>,
    pub(crate) operation: &'static str,
    pub(crate) outcome: &'static str,
    /// How the operation ends when it is written.
    pub(crate) end: &'static str,
}

#[derive(Debug)]
pub(crate) enum ModelOutcome {
    /// How it ends.
    Nothing(String),
    Write(Box<PlannedWrite>),
}

/// An event, what is told of it, and how its writes are recorded.
pub(crate) struct ModelEvent {
    pub(crate) event: StateMachineEvent,
    pub(crate) operation: &'static str,
    pub(crate) outcome: &'static str,
    /// What a refusal is to whoever asked.
    pub(crate) refusal_result: fn(&ThreeDsRejection) -> String,
    /// What a session that is not there is.
    pub(crate) missing_result: &'static str,
    /// Whether a step that changes nothing is written too.
    pub(crate) writes_without_change: bool,
}

#[derive(Debug, Default)]
pub(crate) struct SessionModel {
    pub(crate) now: i64,
    pub(crate) sessions: Vec<ModelSession>,
    /// Session, type, status.
    pub(crate) events: Vec<(String, &'static str, Option<&'static str>)>,
    /// Operation, session, outcome.
    pub(crate) records: Vec<[String; 3]>,
}

impl SessionModel {
    pub(crate) fn create(&mut self, id: ThreeDsSessionId, kind: ModelDevice, at: i64) {
        let trans_id = TransId::parse(&id.to_string()).unwrap();
        let channel = DeviceChannel::for_session(kind.session_type(), kind.device());
        let expires_at = UnixSeconds(at + HOUR_SECONDS);
        let state = ThreeDsSession::new(trans_id, kind.session_type(), channel, expires_at);
        let row =
            Some(if kind == ModelDevice::BrowserWithMethod { state.with_method() } else { state });
        let (secret, shown_final) = (None, None);
        let known = ModelSession {
            id,
            kind,
            row,
            revision: 1,
            secret,
            delivered: 0,
            final_phase: shown_final,
        };
        self.sessions.push(known);
        self.events.push((id.to_string(), "3ds.session.created", None));
        self.record("create_session", id, "created");
    }

    fn record(&mut self, operation: &str, id: ThreeDsSessionId, outcome: &str) {
        self.records.push([operation.to_owned(), id.to_string(), outcome.to_owned()]);
        // Where the card's number is opened, that stands beside it.
        if matches!(outcome, "created" | "asked") {
            self.records.push(["use_token".to_owned(), "a card".to_owned(), "used".to_owned()]);
        }
    }

    pub(crate) fn plan(&self, session: usize, model_event: &ModelEvent) -> ModelOutcome {
        let known = &self.sessions[session];
        let Some(state) = known.visible(self.now) else {
            return ModelOutcome::Nothing(model_event.missing_result.to_owned());
        };
        let (next, effects) = match state.step(&model_event.event, UnixSeconds(self.now)) {
            Ok(stepped) => stepped,
            Err(refusal) => return ModelOutcome::Nothing((model_event.refusal_result)(&refusal)),
        };
        let is_reported = effects.iter().any(|it| matches!(it, StateMachineEffect::Emit { .. }));
        if !is_reported && next == state && !model_event.writes_without_change {
            return ModelOutcome::Nothing("done".to_owned());
        }
        let ModelEvent { operation, outcome, .. } = *model_event;
        ModelOutcome::Write(Box::new(PlannedWrite {
            state: next,
            effects,
            operation,
            outcome,
            end: "done",
        }))
    }

    pub(crate) fn apply(&mut self, session: usize, planned: PlannedWrite) {
        let known = &mut self.sessions[session];
        let id = known.id;
        known.row = Some(planned.state);
        known.revision += 1;
        for effect in &planned.effects {
            if let StateMachineEffect::Emit { event, status } = effect {
                let status = status.map(scrip_threeds::code::Status::name);
                self.events.push((id.to_string(), event.name(), status));
            }
        }
        self.record(planned.operation, id, planned.outcome);
    }

    /// What the one who asked makes of what came back.
    pub(crate) fn conclude(
        &self,
        state: &ThreeDsSession,
        response: &Result<Vec<u8>, DirectoryServerError>,
    ) -> PlannedWrite {
        let now = UnixSeconds(self.now);
        let given_up = apply_timeouts(state, self.now) != *state;
        let read = |bytes: &[u8]| -> Result<StateMachineEvent, Fault> {
            let harness = state.transaction_context().unwrap();
            let answer = Document::parse(bytes)?.parse_as::<ARes>(&harness)?;
            Ok(StateMachineEvent::Response { ares: Box::new(answer) })
        };
        let event = match response {
            _ if given_up => StateMachineEvent::Timeout,
            Err(DirectoryServerError::NotSent) => StateMachineEvent::RequestNotSent,
            Err(DirectoryServerError::TimedOut | DirectoryServerError::Broken) => {
                StateMachineEvent::Timeout
            }
            Ok(bytes) => read(bytes).unwrap_or(StateMachineEvent::Error),
        };
        let stepped = state.step(&event, now);
        let stepped = stepped.or_else(|_| state.step(&StateMachineEvent::Error, now));
        let (state, effects) = stepped.unwrap();
        let status = state.authentication().map(|it| it.status.name());
        let (outcome, end) = match status {
            Some(status) => (status, "done"),
            None => ("failed", "service"),
        };
        PlannedWrite { state, effects, operation: "authenticate_session", outcome, end }
    }

    /// What a posted result comes to; a refusal is a code.
    pub(crate) fn plan_result(
        &self,
        session: usize,
        secret: &str,
        message: &Value,
    ) -> ModelOutcome {
        let known = &self.sessions[session];
        let refuse = |code: &str| ModelOutcome::Nothing(code.to_owned());
        let code = |fault: &Fault| fault.code.code().to_owned();
        let Some(state) = known.visible(self.now) else { return refuse("301") };
        if known.secret.as_deref() != Some(secret) {
            return refuse("301");
        }
        let Some(harness) = state.transaction_context() else { return refuse("301") };
        let document = Document::parse(message.to_string().as_bytes()).unwrap();
        let result = match document.parse_as::<RReq>(&harness) {
            Ok(result) => Box::new(result),
            Err(fault) => return refuse(&code(&fault)),
        };
        let is_decoupled =
            matches!(known.row.as_ref().unwrap().phase, ThreeDsPhase::Decoupled { .. });
        if is_decoupled && state.is_final() && result.server_trans_id.eq_ignore_case(&state.id) {
            return refuse("402");
        }
        let happening = ModelEvent {
            event: StateMachineEvent::Result { result, secret: SecretCheck::Matches },
            operation: "receive_result",
            outcome: "done",
            refusal_result: |it| it.fault().code.code().to_owned(),
            missing_result: "301",
            writes_without_change: false,
        };
        self.plan(session, &happening)
    }

    /// Those whose time is over go, the first to end first.
    pub(crate) fn sweep(&mut self) {
        let mut gone: Vec<_> = (0..self.sessions.len())
            .filter_map(|at| Some((expiry(self.sessions[at].row.as_ref()?)?, at)))
            .filter(|(end, _)| *end <= self.now)
            .collect();
        gone.sort_unstable();
        for (_, at) in gone {
            self.sessions[at].row = None;
            self.record("expire_session", self.sessions[at].id, "expired");
        }
    }
}

pub(crate) fn authentication_parameters(decoupled: bool) -> AuthenticationParameters {
    AuthenticationParameters {
        version: Version::V220,
        scheme: Scheme::Visa,
        category: AuthenticationCategory::Payment,
        challenge_preference: None,
        decoupled_minutes: decoupled.then_some(5),
    }
}
