//! One step: which event is heard in which state.

use super::{
    Effect, Event, Failure, Moment, Phase, Refusal, SecretFact, Session, Waiting, state::Method,
};
use crate::{
    authentication::{Asked, Authentication},
    code::{DeviceChannel, SessionType, Status},
    fault::{ErrorCode, Fault},
    format::TransId,
    message::ARes,
    webhook::EventType,
};

/// What comes of a step.
pub(super) type Stepped = Result<(Session, Vec<Effect>), Refusal>;

/// EMV grants a decoupled authentication so much more than it asked for.
const DECOUPLED_GRACE_SECONDS: i64 = 30;
/// A connection and an answer take 15 seconds at most; a process that is gone takes forever.
const AUTHENTICATING_SECONDS_MAX: i64 = 60;

impl Session {
    /// The state after an event, and what is to be done. On a refusal nothing has changed.
    pub fn step(&self, event: &Event, now: Moment) -> Stepped {
        if self.has_expired(now) {
            let closing = matches!(event, Event::Expire);
            return if closing { self.to(Phase::Expired) } else { Err(Refusal::Expired) };
        }
        match event {
            Event::MethodNotification { server_trans_id } => self.method_notified(server_trans_id),
            Event::MethodTimeout => self.method_timed_out(),
            Event::DeviceInfo => self.device_told(),
            Event::Authenticate { asked } => self.authenticate(*asked, now),
            Event::RequestNotSent => self.not_sent(),
            Event::Response { answer } => self.answered(answer, now),
            Event::Error => self.failed(),
            Event::Timeout => self.timed_out(now),
            Event::Result { result, secret } => match secret {
                SecretFact::Matches => self.result(result, now),
                SecretFact::Differs => Err(Refusal::Unexpected),
            },
            Event::ChallengeNotification { response } => self.challenge_told(response),
            Event::ResultAsked => self.result_asked(),
            Event::Expire => self.expire(now),
        }
    }

    pub(super) fn to(&self, phase: Phase) -> Stepped {
        Ok((Self { phase, ..self.clone() }, Vec::new()))
    }

    /// Heard, and nothing comes of it.
    pub(super) fn as_before(&self) -> Stepped {
        Ok((self.clone(), Vec::new()))
    }

    pub(super) fn is_about(&self, id: &TransId) -> Result<(), Refusal> {
        let fault = Fault::at(ErrorCode::TransactionUnknown, "threeDSServerTransID");
        if self.id.is_same(id) { Ok(()) } else { Err(Refusal::OtherSession(fault)) }
    }

    /// A page that anybody can ask for: twice is as good as once, and late is too late for nothing.
    fn method_notified(&self, id: &TransId) -> Stepped {
        self.is_about(id)?;
        match self.method() {
            Some(Method::Pending | Method::TimedOut) => {
                let (session, _) = self.to(Phase::MethodCompleted)?;
                Ok((session, vec![emit(EventType::MethodCompleted)]))
            }
            Some(Method::Created | Method::Completed) | None => self.as_before(),
        }
    }

    fn method_timed_out(&self) -> Stepped {
        match self.method() {
            Some(Method::Pending) => self.to(Phase::MethodTimedOut),
            Some(Method::Created | Method::Completed | Method::TimedOut) | None => self.as_before(),
        }
    }

    fn device_told(&self) -> Stepped {
        if self.method().is_none() {
            return Err(Refusal::TooLateForDevice);
        }
        Ok((Self { has_device: true, ..self.clone() }, Vec::new()))
    }

    fn authenticate(&self, asked: Asked, now: Moment) -> Stepped {
        let before = self.method().ok_or(Refusal::AlreadyAuthenticated)?;
        if !self.has_device {
            return Err(Refusal::DeviceMissing);
        }
        let (session, _) = self.to(Phase::Authenticating { asked, since: now, before })?;
        Ok((session, vec![Effect::SendRequest { method: before.completion() }]))
    }

    fn not_sent(&self) -> Stepped {
        let Phase::Authenticating { before, .. } = &self.phase else {
            return Err(Refusal::Unexpected);
        };
        self.to(before.phase())
    }

    fn answered(&self, answer: &ARes, now: Moment) -> Stepped {
        let Phase::Authenticating { asked, .. } = &self.phase else {
            return Err(Refusal::Unexpected);
        };
        self.is_about(&answer.server_trans_id)?;
        self.fits(answer, asked)?;
        let authentication = Authentication::of(answer, *asked);
        let status = answer.status;
        let phase = match (status, asked.decoupled_minutes) {
            (Status::Challenge, _) => Phase::Challenged { waiting: waiting(authentication) },
            (Status::DecoupledChallenge, Some(minutes)) => {
                let seconds = i64::from(minutes).saturating_mul(60);
                let until = now.after_seconds(seconds).after_seconds(DECOUPLED_GRACE_SECONDS);
                Phase::Decoupled { waiting: waiting(authentication), until }
            }
            _ => Phase::Authenticated {
                authentication: Box::new(authentication),
                was_challenged: false,
                was_told: false,
            },
        };
        let (session, _) = self.to(phase)?;
        Ok((session, vec![emit_status(EventType::Authenticated, status)]))
    }

    /// What an answer may say depends on the question.
    fn fits(&self, answer: &ARes, asked: &Asked) -> Result<(), Refusal> {
        let unfitting = |code, name| Err(Refusal::Unfitting(Fault::at(code, name)));
        let alone = self.channel == DeviceChannel::Requestor || self.kind == SessionType::Merchant;
        if answer.message_version != asked.version {
            return unfitting(ErrorCode::FormatInvalid, "messageVersion");
        }
        if answer.status == Status::Challenge && alone {
            return unfitting(ErrorCode::FormatInvalid, "transStatus");
        }
        // Nobody asked the issuer to do it alone.
        if answer.status == Status::DecoupledChallenge && asked.decoupled_minutes.is_none() {
            return unfitting(ErrorCode::TransactionDataInvalid, "transStatus");
        }
        Ok(())
    }

    fn failed(&self) -> Stepped {
        if self.is_authenticating() {
            self.to(gone(Failure::Refused))
        } else {
            Err(Refusal::Unexpected)
        }
    }

    fn timed_out(&self, now: Moment) -> Stepped {
        if self.is_authenticating() {
            return self.to(gone(Failure::FateUnknown));
        }
        let Phase::Decoupled { waiting, until } = &self.phase else {
            return Err(Refusal::Unexpected);
        };
        if now < *until {
            return self.as_before();
        }
        let authentication = Some(Box::new(waiting.authentication.clone()));
        self.to(Phase::Failed { failure: Failure::ResultNotReceived, authentication })
    }

    /// Only a session that nobody asked for expires. One whose process died while it asked is given
    /// up instead.
    fn expire(&self, now: Moment) -> Stepped {
        let Phase::Authenticating { since, .. } = &self.phase else { return self.as_before() };
        if now < since.after_seconds(AUTHENTICATING_SECONDS_MAX) {
            return self.as_before();
        }
        self.to(gone(Failure::FateUnknown))
    }

    fn is_authenticating(&self) -> bool {
        matches!(self.phase, Phase::Authenticating { .. })
    }
}

fn gone(failure: Failure) -> Phase {
    Phase::Failed { failure, authentication: None }
}

fn waiting(authentication: Authentication) -> Box<Waiting> {
    Box::new(Waiting { authentication })
}

pub(super) fn emit(event: EventType) -> Effect {
    Effect::Emit { event, status: None }
}

pub(super) fn emit_status(event: EventType, status: Status) -> Effect {
    Effect::Emit { event, status: Some(status) }
}
