//! One step: how each event is handled in each phase.

use super::{
    PendingChallenge, SecretCheck, StateMachineEffect, StateMachineEvent, ThreeDsFailure,
    ThreeDsPhase, ThreeDsRejection, ThreeDsSession, UnixSeconds, WebhookEventType,
    state::MethodState,
};
use crate::{
    authentication::{Authentication, AuthenticationParameters},
    code::{DeviceChannel, Status, ThreeDsSessionType},
    fault::{ErrorCode, Fault},
    format::TransId,
    message::ARes,
};

/// The result of a step.
pub(super) type StepResult = Result<(ThreeDsSession, Vec<StateMachineEffect>), ThreeDsRejection>;

/// EMV adds this time to the time limit of a decoupled authentication.
const DECOUPLED_GRACE_SECONDS: i64 = 30;
/// Connection and response take at most 15 seconds. After this limit, the process that sent the
/// `AReq` must have died.
const AUTHENTICATING_SECONDS_MAX: i64 = 60;

impl ThreeDsSession {
    /// Returns the state after an event and the effects. A rejection changes nothing.
    pub fn step(&self, event: &StateMachineEvent, now: UnixSeconds) -> StepResult {
        if self.has_expired(now) {
            let is_expire = matches!(event, StateMachineEvent::Expire);
            return if is_expire {
                self.move_to(ThreeDsPhase::Expired)
            } else {
                Err(ThreeDsRejection::Expired)
            };
        }
        match event {
            StateMachineEvent::MethodNotification { server_trans_id } => {
                self.on_method_notification(server_trans_id)
            }
            StateMachineEvent::MethodTimeout => self.on_method_timeout(),
            StateMachineEvent::DeviceInfo => self.on_device_info(),
            StateMachineEvent::Authenticate { parameters } => {
                self.on_authenticate(*parameters, now)
            }
            StateMachineEvent::RequestNotSent => self.on_request_not_sent(),
            StateMachineEvent::Response { ares } => self.on_response(ares, now),
            StateMachineEvent::Error => self.on_error(),
            StateMachineEvent::Timeout => self.on_timeout(now),
            StateMachineEvent::Result { result, secret } => match secret {
                SecretCheck::Matches => self.on_result(result, now),
                SecretCheck::Differs => Err(ThreeDsRejection::Unexpected),
            },
            StateMachineEvent::ChallengeNotification { response } => {
                self.on_challenge_notification(response)
            }
            StateMachineEvent::ResultRequested => self.on_result_requested(),
            StateMachineEvent::Expire => self.on_expire(now),
        }
    }

    pub(super) fn move_to(&self, phase: ThreeDsPhase) -> StepResult {
        Ok((Self { phase, ..self.clone() }, Vec::new()))
    }

    /// Accepts the event without any effect.
    pub(super) fn unchanged(&self) -> StepResult {
        Ok((self.clone(), Vec::new()))
    }

    pub(super) fn check_transaction_id(&self, id: &TransId) -> Result<(), ThreeDsRejection> {
        let fault = Fault::for_element(ErrorCode::TransactionUnknown, "threeDSServerTransID");
        if self.id.eq_ignore_case(id) { Ok(()) } else { Err(ThreeDsRejection::OtherSession(fault)) }
    }

    /// Any client can call this page. Repeated notifications change nothing; late ones count until
    /// the `AReq` is sent.
    fn on_method_notification(&self, id: &TransId) -> StepResult {
        self.check_transaction_id(id)?;
        match self.method_state() {
            Some(MethodState::Pending | MethodState::TimedOut) => {
                let (session, _) = self.move_to(ThreeDsPhase::MethodCompleted)?;
                Ok((session, vec![emit(WebhookEventType::MethodCompleted)]))
            }
            Some(MethodState::Created | MethodState::Completed) | None => self.unchanged(),
        }
    }

    fn on_method_timeout(&self) -> StepResult {
        match self.method_state() {
            Some(MethodState::Pending) => self.move_to(ThreeDsPhase::MethodTimedOut),
            Some(MethodState::Created | MethodState::Completed | MethodState::TimedOut) | None => {
                self.unchanged()
            }
        }
    }

    fn on_device_info(&self) -> StepResult {
        if self.method_state().is_none() {
            return Err(ThreeDsRejection::DeviceInfoTooLate);
        }
        Ok((Self { has_device_info: true, ..self.clone() }, Vec::new()))
    }

    fn on_authenticate(
        &self,
        parameters: AuthenticationParameters,
        now: UnixSeconds,
    ) -> StepResult {
        let method_state = self.method_state().ok_or(ThreeDsRejection::AlreadyAuthenticated)?;
        if !self.has_device_info {
            return Err(ThreeDsRejection::DeviceInfoMissing);
        }
        let (session, _) = self.move_to(ThreeDsPhase::Authenticating {
            parameters,
            started_at: now,
            method_state,
        })?;
        Ok((session, vec![StateMachineEffect::SendAReq { method: method_state.to_completion() }]))
    }

    fn on_request_not_sent(&self) -> StepResult {
        let ThreeDsPhase::Authenticating { method_state, .. } = &self.phase else {
            return Err(ThreeDsRejection::Unexpected);
        };
        self.move_to(method_state.to_phase())
    }

    fn on_response(&self, ares: &ARes, now: UnixSeconds) -> StepResult {
        let ThreeDsPhase::Authenticating { parameters, .. } = &self.phase else {
            return Err(ThreeDsRejection::Unexpected);
        };
        self.check_transaction_id(&ares.server_trans_id)?;
        self.check_response(ares, parameters)?;
        let authentication = Authentication::from_ares(ares, *parameters);
        let status = ares.status;
        let phase = match (status, parameters.decoupled_minutes) {
            (Status::Challenge, _) => {
                ThreeDsPhase::Challenged { challenge: pending_challenge(authentication) }
            }
            (Status::DecoupledChallenge, Some(minutes)) => {
                let seconds = i64::from(minutes).saturating_mul(60);
                let deadline = now.plus_seconds(seconds).plus_seconds(DECOUPLED_GRACE_SECONDS);
                ThreeDsPhase::Decoupled { challenge: pending_challenge(authentication), deadline }
            }
            _ => ThreeDsPhase::Authenticated {
                authentication: Box::new(authentication),
                was_challenged: false,
                completion_reported: false,
            },
        };
        let (session, _) = self.move_to(phase)?;
        Ok((session, vec![emit_status(WebhookEventType::Authenticated, status)]))
    }

    /// Checks the response against the request.
    fn check_response(
        &self,
        ares: &ARes,
        parameters: &AuthenticationParameters,
    ) -> Result<(), ThreeDsRejection> {
        let mismatch = |code, name| Err(ThreeDsRejection::Mismatch(Fault::for_element(code, name)));
        let is_requestor_initiated =
            self.channel == DeviceChannel::Requestor || self.kind == ThreeDsSessionType::Merchant;
        if ares.message_version != parameters.version {
            return mismatch(ErrorCode::FormatInvalid, "messageVersion");
        }
        if ares.status == Status::Challenge && is_requestor_initiated {
            return mismatch(ErrorCode::FormatInvalid, "transStatus");
        }
        // The request did not allow a decoupled challenge.
        if ares.status == Status::DecoupledChallenge && parameters.decoupled_minutes.is_none() {
            return mismatch(ErrorCode::TransactionDataInvalid, "transStatus");
        }
        Ok(())
    }

    fn on_error(&self) -> StepResult {
        if self.is_authenticating() {
            self.move_to(failed_phase(ThreeDsFailure::InvalidResponse))
        } else {
            Err(ThreeDsRejection::Unexpected)
        }
    }

    fn on_timeout(&self, now: UnixSeconds) -> StepResult {
        if self.is_authenticating() {
            return self.move_to(failed_phase(ThreeDsFailure::OutcomeUnknown));
        }
        let ThreeDsPhase::Decoupled { challenge, deadline } = &self.phase else {
            return Err(ThreeDsRejection::Unexpected);
        };
        if now < *deadline {
            return self.unchanged();
        }
        let authentication = Some(Box::new(challenge.authentication.clone()));
        self.move_to(ThreeDsPhase::Failed {
            failure: ThreeDsFailure::ResultNotReceived,
            authentication,
        })
    }

    /// Only a session without an authentication request expires. If a process died while
    /// authenticating, the session fails instead.
    fn on_expire(&self, now: UnixSeconds) -> StepResult {
        let ThreeDsPhase::Authenticating { started_at, .. } = &self.phase else {
            return self.unchanged();
        };
        if now < started_at.plus_seconds(AUTHENTICATING_SECONDS_MAX) {
            return self.unchanged();
        }
        self.move_to(failed_phase(ThreeDsFailure::OutcomeUnknown))
    }

    fn is_authenticating(&self) -> bool {
        matches!(self.phase, ThreeDsPhase::Authenticating { .. })
    }
}

fn failed_phase(failure: ThreeDsFailure) -> ThreeDsPhase {
    ThreeDsPhase::Failed { failure, authentication: None }
}

fn pending_challenge(authentication: Authentication) -> Box<PendingChallenge> {
    Box::new(PendingChallenge { authentication })
}

pub(super) fn emit(event: WebhookEventType) -> StateMachineEffect {
    StateMachineEffect::Emit { event, status: None }
}

pub(super) fn emit_status(event: WebhookEventType, status: Status) -> StateMachineEffect {
    StateMachineEffect::Emit { event, status: Some(status) }
}
