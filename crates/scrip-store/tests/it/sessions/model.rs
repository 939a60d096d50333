//! The model of the sessions: the pure state machine, and the data that the vault should store.

use scrip_core::{threeds::DirectoryServerError, types::id::ThreeDsSessionId};
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

/// The device of the cardholder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelDevice {
    /// A browser, with a card that has a method page.
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

/// The expected state of one session.
#[derive(Debug)]
pub(crate) struct ModelSession {
    pub(crate) id: ThreeDsSessionId,
    pub(crate) kind: ModelDevice,
    /// `None` after the row was deleted.
    pub(crate) row: Option<ThreeDsSession>,
    pub(crate) revision: u32,
    /// The secret that was sent to the directory server.
    pub(crate) secret: Option<String>,
    /// Messages that the directory server may have received.
    pub(crate) delivered: u32,
    /// The phase that was visible, once it was final.
    pub(crate) final_phase: Option<ThreeDsPhase>,
}

impl ModelSession {
    pub(crate) fn ids(&self) -> [String; 3] {
        let id = self.id.to_string();
        let with_first_digit = |first: &str| format!("{first}{}", &id[1..]);
        [id.clone(), with_first_digit("a"), with_first_digit("d")]
    }

    /// The session as clients see it now.
    pub(crate) fn visible(&self, now: i64) -> Option<ThreeDsSession> {
        let row = self.row.as_ref().filter(|it| expiry(it).is_none_or(|it| now < it))?;
        let state = apply_timeouts(row, now);
        (state.phase != ThreeDsPhase::Expired).then_some(state)
    }

    /// A response of the directory server for this session.
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

/// The time when the row can be deleted.
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

/// Applies timeouts, independently of the state machine: a response must arrive within a minute,
/// and a decoupled challenge within its granted time.
fn apply_timeouts(state: &ThreeDsSession, now: i64) -> ThreeDsSession {
    let with_phase = |phase| ThreeDsSession { phase, ..state.clone() };
    if let ThreeDsPhase::Authenticating { started_at, .. } = &state.phase
        && now >= started_at.0 + 60
    {
        return with_phase(ThreeDsPhase::Failed {
            failure: ThreeDsFailure::OutcomeUnknown,
            authentication: None,
        });
    }
    if let ThreeDsPhase::Decoupled { challenge, deadline } = &state.phase
        && now >= deadline.0
    {
        let authentication = Some(Box::new(challenge.authentication.clone()));
        return with_phase(ThreeDsPhase::Failed {
            failure: ThreeDsFailure::ResultNotReceived,
            authentication,
        });
    }
    let is_expired = state.method_state().is_some() && now >= state.expires_at.0;
    if is_expired { with_phase(ThreeDsPhase::Expired) } else { state.clone() }
}

/// The next write of an operation.
#[derive(Debug)]
pub(crate) struct PlannedWrite {
    pub(crate) state: ThreeDsSession,
    pub(crate) effects: Vec<StateMachineEffect>,
    pub(crate) operation: &'static str,
    pub(crate) outcome: &'static str,
    /// The outcome of the operation after the write.
    pub(crate) end: &'static str,
}

#[derive(Debug)]
pub(crate) enum ModelOutcome {
    /// The outcome without a write.
    Nothing(String),
    Write(Box<PlannedWrite>),
}

/// An event, its notification, and its audit records.
pub(crate) struct ModelEvent {
    pub(crate) event: StateMachineEvent,
    pub(crate) operation: &'static str,
    pub(crate) outcome: &'static str,
    /// The outcome of a rejection for the caller.
    pub(crate) refusal_result: fn(&ThreeDsRejection) -> String,
    /// The outcome for a missing session.
    pub(crate) missing_result: &'static str,
    /// Whether a step without a change is written too.
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
    pub(crate) fn create(&mut self, id: ThreeDsSessionId, kind: ModelDevice, created_at: i64) {
        let trans_id = TransId::parse(&id.to_string()).unwrap();
        let channel = DeviceChannel::for_session(kind.session_type(), kind.device());
        let expires_at = UnixSeconds(created_at + HOUR_SECONDS);
        let state = ThreeDsSession::new(trans_id, kind.session_type(), channel, expires_at);
        let row =
            Some(if kind == ModelDevice::BrowserWithMethod { state.with_method() } else { state });
        let (secret, final_phase) = (None, None);
        let session =
            ModelSession { id, kind, row, revision: 1, secret, delivered: 0, final_phase };
        self.sessions.push(session);
        self.events.push((id.to_string(), "3ds.session.created", None));
        self.record("create_threeds_session", id, "created");
    }

    fn record(&mut self, operation: &str, id: ThreeDsSessionId, outcome: &str) {
        self.records.push([operation.to_owned(), id.to_string(), outcome.to_owned()]);
        // Decrypting the card number adds an audit record.
        if matches!(outcome, "created" | "authentication_requested") {
            self.records.push(["use_token".to_owned(), "a card".to_owned(), "used".to_owned()]);
        }
    }

    pub(crate) fn plan(&self, session: usize, model_event: &ModelEvent) -> ModelOutcome {
        let model_session = &self.sessions[session];
        let Some(state) = model_session.visible(self.now) else {
            return ModelOutcome::Nothing(model_event.missing_result.to_owned());
        };
        let (next, effects) = match state.step(&model_event.event, UnixSeconds(self.now)) {
            Ok(step) => step,
            Err(rejection) => {
                return ModelOutcome::Nothing((model_event.refusal_result)(&rejection));
            }
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
        let model_session = &mut self.sessions[session];
        let id = model_session.id;
        model_session.row = Some(planned.state);
        model_session.revision += 1;
        for effect in &planned.effects {
            if let StateMachineEffect::Emit { event, status } = effect {
                let status = status.map(scrip_threeds::code::Status::name);
                self.events.push((id.to_string(), event.name(), status));
            }
        }
        self.record(planned.operation, id, planned.outcome);
    }

    /// Plans the write after a response of the directory server.
    pub(crate) fn conclude(
        &self,
        state: &ThreeDsSession,
        response: &Result<Vec<u8>, DirectoryServerError>,
    ) -> PlannedWrite {
        let now = UnixSeconds(self.now);
        let is_timed_out = apply_timeouts(state, self.now) != *state;
        let parse_response = |bytes: &[u8]| -> Result<StateMachineEvent, Fault> {
            let context = state.transaction_context().unwrap();
            let ares = Document::parse(bytes)?.parse_as::<ARes>(&context)?;
            Ok(StateMachineEvent::Response { ares: Box::new(ares) })
        };
        let event = match response {
            _ if is_timed_out => StateMachineEvent::Timeout,
            Err(DirectoryServerError::NotSent) => StateMachineEvent::RequestNotSent,
            Err(DirectoryServerError::TimedOut | DirectoryServerError::Broken) => {
                StateMachineEvent::Timeout
            }
            Ok(bytes) => parse_response(bytes).unwrap_or(StateMachineEvent::Error),
        };
        let step = state.step(&event, now);
        let step = step.or_else(|_| state.step(&StateMachineEvent::Error, now));
        let (state, effects) = step.unwrap();
        let status = state.authentication().map(|it| it.status.name());
        let (outcome, end) = match status {
            Some(status) => (status, "done"),
            None => ("failed", "service"),
        };
        PlannedWrite { state, effects, operation: "authenticate_threeds_session", outcome, end }
    }

    /// Plans the write for a posted result. The outcome of a rejection is its error code.
    pub(crate) fn plan_result(
        &self,
        session: usize,
        secret: &str,
        message: &Value,
    ) -> ModelOutcome {
        let model_session = &self.sessions[session];
        let reject = |code: &str| ModelOutcome::Nothing(code.to_owned());
        let fault_code = |fault: &Fault| fault.code.code().to_owned();
        let Some(state) = model_session.visible(self.now) else { return reject("301") };
        if model_session.secret.as_deref() != Some(secret) {
            return reject("301");
        }
        let Some(context) = state.transaction_context() else { return reject("301") };
        let document = Document::parse(message.to_string().as_bytes()).unwrap();
        let result = match document.parse_as::<RReq>(&context) {
            Ok(result) => Box::new(result),
            Err(fault) => return reject(&fault_code(&fault)),
        };
        let is_decoupled =
            matches!(model_session.row.as_ref().unwrap().phase, ThreeDsPhase::Decoupled { .. });
        if is_decoupled && state.is_final() && result.server_trans_id.eq_ignore_case(&state.id) {
            return reject("402");
        }
        let model_event = ModelEvent {
            event: StateMachineEvent::Result { result, secret: SecretCheck::Matches },
            operation: "receive_result",
            outcome: "done",
            refusal_result: |it| it.fault().code.code().to_owned(),
            missing_result: "301",
            writes_without_change: false,
        };
        self.plan(session, &model_event)
    }

    /// Deletes expired sessions, in order of expiry.
    pub(crate) fn sweep(&mut self) {
        let mut expired: Vec<_> = (0..self.sessions.len())
            .filter_map(|index| Some((expiry(self.sessions[index].row.as_ref()?)?, index)))
            .filter(|(expires_at, _)| *expires_at <= self.now)
            .collect();
        expired.sort_unstable();
        for (_, index) in expired {
            self.sessions[index].row = None;
            self.record("expire_threeds_session", self.sessions[index].id, "expired");
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
