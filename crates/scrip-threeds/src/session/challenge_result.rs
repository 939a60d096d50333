//! The end of a challenge. The directory server's result decides; the browser only reports that the
//! challenge ended.

use super::{
    PendingChallenge, StateMachineEffect, ThreeDsFailure, ThreeDsPhase, ThreeDsRejection,
    ThreeDsSession, UnixSeconds, WebhookEventType,
    step::{StepResult, emit, emit_status},
};
use crate::{
    authentication::Authentication,
    code::{Status, YesNo},
    fault::{ErrorCode, Fault},
    message::{CRes, RReq, RRes},
};

impl ThreeDsSession {
    pub(super) fn on_result(&self, result: &RReq, now: UnixSeconds) -> StepResult {
        self.check_transaction_id(&result.server_trans_id)?;
        // A challenge has one result. A second result, or a result without a challenge, is
        // rejected.
        let (challenge, deadline) =
            self.pending_challenge().ok_or_else(|| self.no_challenge_rejection())?;
        check_result(challenge, result)?;
        if deadline.is_some_and(|it| now >= it) {
            return Err(ThreeDsRejection::ResultTooLate);
        }
        let authentication = challenge.authentication.with_result(result);
        let (session, _) = self.move_to(ThreeDsPhase::Authenticated {
            authentication: Box::new(authentication),
            was_challenged: true,
            completion_reported: false,
        })?;
        let mut effects = vec![StateMachineEffect::RespondToResult {
            response: Box::new(RRes::for_result(result)),
        }];
        if deadline.is_some() {
            effects.push(emit(WebhookEventType::DecoupledChallengeNotification));
        }
        Ok((session, effects))
    }

    /// If a decoupled challenge has timed out, its result is too late.
    fn no_challenge_rejection(&self) -> ThreeDsRejection {
        let late = matches!(
            self.phase,
            ThreeDsPhase::Failed { failure: ThreeDsFailure::ResultNotReceived, .. }
        );
        if late { ThreeDsRejection::ResultTooLate } else { ThreeDsRejection::NoChallenge }
    }

    /// Emits the completion once, and only after the result: receivers act on the event, and a
    /// browser can send anything. The event has the status of the result. If the browser returns
    /// twice, nothing changes.
    pub(super) fn on_challenge_notification(&self, response: &CRes) -> StepResult {
        self.check_transaction_id(&response.server_trans_id)?;
        let authentication = self.authentication().ok_or(ThreeDsRejection::NoChallenge)?;
        if !authentication.acs_transaction_id.eq_ignore_case(&response.acs_trans_id) {
            let fault = Fault::for_element(ErrorCode::TransactionUnknown, "acsTransID");
            return Err(ThreeDsRejection::OtherSession(fault));
        }
        let ThreeDsPhase::Authenticated {
            authentication,
            was_challenged: true,
            completion_reported,
        } = &self.phase
        else {
            let is_challenged = matches!(self.phase, ThreeDsPhase::Challenged { .. });
            return if is_challenged {
                self.unchanged()
            } else {
                Err(ThreeDsRejection::NoChallenge)
            };
        };
        if *completion_reported || response.completed == YesNo::No {
            return self.unchanged();
        }
        let passed = matches!(authentication.status, Status::Successful | Status::Attempted);
        let status = if passed { Status::Successful } else { Status::Failed };
        let authentication = authentication.clone();
        let phase = ThreeDsPhase::Authenticated {
            authentication,
            was_challenged: true,
            completion_reported: true,
        };
        let (session, _) = self.move_to(phase)?;
        Ok((session, vec![emit_status(WebhookEventType::ChallengeCompleted, status)]))
    }

    /// The result of a challenge, if there is one.
    pub fn challenge_result(&self) -> Result<&Authentication, ThreeDsRejection> {
        if let ThreeDsPhase::Authenticated { authentication, was_challenged: true, .. } =
            &self.phase
        {
            return Ok(authentication);
        }
        Err(ThreeDsRejection::ResultNotReady)
    }

    pub(super) fn on_result_requested(&self) -> StepResult {
        self.challenge_result()?;
        Ok((self.clone(), vec![emit(WebhookEventType::ChallengeResultRetrieved)]))
    }
}

/// Checks all three ids: a browser knows only two of them, the directory server knows all.
fn check_result(challenge: &PendingChallenge, result: &RReq) -> Result<(), ThreeDsRejection> {
    let authentication = &challenge.authentication;
    let other_session = |name| {
        Err(ThreeDsRejection::OtherSession(Fault::for_element(ErrorCode::TransactionUnknown, name)))
    };
    let mismatch = |code, name| Err(ThreeDsRejection::Mismatch(Fault::for_element(code, name)));
    if !authentication.acs_transaction_id.eq_ignore_case(&result.acs_trans_id) {
        return other_session("acsTransID");
    }
    if !authentication.ds_transaction_id.eq_ignore_case(&result.ds_trans_id) {
        return other_session("dsTransID");
    }
    if authentication.parameters.version != result.message_version {
        return mismatch(ErrorCode::FormatInvalid, "messageVersion");
    }
    if authentication.parameters.category != result.category {
        return mismatch(ErrorCode::TransactionDataInvalid, "messageCategory");
    }
    if !result.status.is_result_status() {
        return mismatch(ErrorCode::FormatInvalid, "transStatus");
    }
    Ok(())
}
