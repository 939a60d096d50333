//! The end of a challenge: told by the directory server, which decides, and by the browser, which
//! only says that it is over.

use super::{
    Effect, Failure, Moment, Phase, Refusal, Session, Waiting,
    step::{Stepped, emit, emit_status},
};
use crate::{
    authentication::Authentication,
    code::{Status, YesNo},
    fault::{ErrorCode, Fault},
    message::{CRes, RReq, RRes},
    webhook::EventType,
};

impl Session {
    pub(super) fn result(&self, result: &RReq, now: Moment) -> Stepped {
        self.is_about(&result.server_trans_id)?;
        // A challenge has one result. A second one, and one for no challenge, is for nobody.
        let (waiting, until) = self.waiting().ok_or_else(|| self.without_challenge())?;
        fits(waiting, result)?;
        if until.is_some_and(|it| now >= it) {
            return Err(Refusal::TooLate);
        }
        let authentication = waiting.authentication.after(result);
        let (session, _) = self.to(Phase::Authenticated {
            authentication: Box::new(authentication),
            was_challenged: true,
            was_told: false,
        })?;
        let mut effects = vec![Effect::AnswerResult { answer: Box::new(RRes::answering(result)) }];
        if until.is_some() {
            effects.push(emit(EventType::DecoupledChallengeNotification));
        }
        Ok((session, effects))
    }

    /// A decoupled challenge that was given up had a result, which comes too late.
    fn without_challenge(&self) -> Refusal {
        let late = matches!(self.phase, Phase::Failed { failure: Failure::ResultNotReceived, .. });
        if late { Refusal::TooLate } else { Refusal::NoChallenge }
    }

    /// Told once, and not before there is a result: whoever is told acts on it, and a browser can say
    /// anything. So what is told is the result's, and a browser that comes back twice is shown the same
    /// page.
    pub(super) fn challenge_told(&self, response: &CRes) -> Stepped {
        self.is_about(&response.server_trans_id)?;
        let known = self.authentication().ok_or(Refusal::NoChallenge)?;
        if !known.acs_transaction_id.is_same(&response.acs_trans_id) {
            let fault = Fault::at(ErrorCode::TransactionUnknown, "acsTransID");
            return Err(Refusal::OtherSession(fault));
        }
        let Phase::Authenticated { authentication, was_challenged: true, was_told } = &self.phase
        else {
            let challenged = matches!(self.phase, Phase::Challenged { .. });
            return if challenged { self.as_before() } else { Err(Refusal::NoChallenge) };
        };
        if *was_told || response.completed == YesNo::No {
            return self.as_before();
        }
        let passed = matches!(authentication.status, Status::Successful | Status::Attempted);
        let status = if passed { Status::Successful } else { Status::Failed };
        let authentication = authentication.clone();
        let told = Phase::Authenticated { authentication, was_challenged: true, was_told: true };
        let (session, _) = self.to(told)?;
        Ok((session, vec![emit_status(EventType::ChallengeCompleted, status)]))
    }

    /// The result of a challenge, if there is one.
    pub fn challenge_result(&self) -> Result<&Authentication, Refusal> {
        if let Phase::Authenticated { authentication, was_challenged: true, .. } = &self.phase {
            return Ok(authentication);
        }
        Err(Refusal::NoResultYet)
    }

    pub(super) fn result_asked(&self) -> Stepped {
        self.challenge_result()?;
        Ok((self.clone(), vec![emit(EventType::ChallengeResultRetrieved)]))
    }
}

/// A browser knows two of the ids; the directory server knows all three.
fn fits(waiting: &Waiting, result: &RReq) -> Result<(), Refusal> {
    let of = &waiting.authentication;
    let other = |name| Err(Refusal::OtherSession(Fault::at(ErrorCode::TransactionUnknown, name)));
    let unfitting = |code, name| Err(Refusal::Unfitting(Fault::at(code, name)));
    if !of.acs_transaction_id.is_same(&result.acs_trans_id) {
        return other("acsTransID");
    }
    if !of.ds_transaction_id.is_same(&result.ds_trans_id) {
        return other("dsTransID");
    }
    if of.asked.version != result.message_version {
        return unfitting(ErrorCode::FormatInvalid, "messageVersion");
    }
    if of.asked.category != result.category {
        return unfitting(ErrorCode::TransactionDataInvalid, "messageCategory");
    }
    if !result.status.is_result() {
        return unfitting(ErrorCode::FormatInvalid, "transStatus");
    }
    Ok(())
}
