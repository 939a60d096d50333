//! The end of a challenge: sends the result to the 3DS server, then lets the browser return.

use std::sync::Arc;

use scrip_threeds::{
    code::{ChallengeCancel, ChallengeType, Status, StatusReason, YesNo},
    format::{Alphanumeric, Digits},
    message::{CRes, Document, Message, RReq, RRes},
};

use crate::{
    acs::cryptogram::authentication_value,
    behavior::{ResultBehavior, bounded_delay, replace_id},
    card::{ChallengeKind, ChallengeScenario},
    outgoing_client::OutgoingError,
    state::{SimulatorState, new_id},
    transaction::{ChallengeFlow, ChallengePhase, Transaction, TransactionDetails},
};

/// Why a challenge ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndReason {
    /// The cardholder completed the challenge; the outcome depends on the card.
    Completed,
    Canceled,
    TooManyAttempts,
    /// No `CReq` arrived in time.
    NoChallengeRequest,
    /// The cardholder started the challenge but did not act in time.
    InteractionTimeout,
    DecoupledTimeout,
}

struct ChallengeOutcome {
    status: Status,
    reason: Option<StatusReason>,
    cancel: Option<ChallengeCancel>,
}

fn challenge_outcome(challenge: ChallengeScenario, reason: EndReason) -> ChallengeOutcome {
    let failed =
        |reason, cancel| ChallengeOutcome { status: Status::Failed, reason: Some(reason), cancel };
    match reason {
        EndReason::Completed => {
            let outcome = challenge.outcome;
            ChallengeOutcome { status: outcome.status(), reason: outcome.reason(), cancel: None }
        }
        EndReason::Canceled => {
            let cancel = ChallengeCancel::CardholderCanceled;
            failed(StatusReason::CardAuthenticationFailed, Some(cancel))
        }
        EndReason::TooManyAttempts => failed(StatusReason::MaxChallengesExceeded, None),
        EndReason::NoChallengeRequest => {
            failed(StatusReason::TimeoutAtAcs, Some(ChallengeCancel::RequestNotReceived))
        }
        EndReason::InteractionTimeout => {
            failed(StatusReason::TimeoutAtAcs, Some(ChallengeCancel::AcsTimeout))
        }
        EndReason::DecoupledTimeout => {
            let cancel = ChallengeCancel::TransactionAbandoned;
            failed(StatusReason::DecoupledTimeout, Some(cancel))
        }
    }
}

/// Ends a challenge if it is still in `phase`. Runs in a separate task, so the result is sent even
/// if the browser disconnects.
pub(super) fn finish_challenge(
    state: &Arc<SimulatorState>,
    transaction: &Arc<Transaction>,
    phase: ChallengePhase,
    reason: EndReason,
) {
    if !transaction.progress.claim_finish(phase) {
        return;
    }
    let (state, transaction) = (Arc::clone(state), Arc::clone(transaction));
    tokio::spawn(async move {
        let details = &transaction.details;
        let outcome = challenge_outcome(details.challenge, reason);
        // The `CRes` contains less than the result: an attempt is reported as a success.
        let passed = matches!(outcome.status, Status::Successful | Status::Attempted);
        let cres_status = if passed { Status::Successful } else { Status::Failed };
        let rreq = build_rreq(details, &outcome, transaction.attempt_count());
        let behavior = state.behavior(details.scheme).rreq;
        let mark_finished = || transaction.progress.finish(cres_status);
        if matches!(behavior, ResultBehavior::Late | ResultBehavior::Never) {
            mark_finished();
            send_result(&state, details, &rreq, behavior).await;
        } else {
            send_result(&state, details, &rreq, behavior).await;
            mark_finished();
        }
    });
}

fn build_rreq(details: &TransactionDetails, outcome: &ChallengeOutcome, attempts: u8) -> RReq {
    let status = outcome.status;
    let is_interactive = details.flow != ChallengeFlow::Decoupled;
    RReq {
        message_version: details.version,
        server_trans_id: details.server_trans_id.clone(),
        acs_trans_id: details.acs_trans_id.clone(),
        ds_trans_id: details.ds_trans_id.clone(),
        category: details.category,
        status,
        status_reason: outcome.reason,
        authentication_value: authentication_value(&details.server_trans_id, status),
        eci: Alphanumeric::parse(details.scheme.eci(status, details.category)).ok(),
        authentication_method: None,
        challenge_type: Some(challenge_type(details)),
        challenge_cancel: outcome.cancel,
        attempts: Digits::parse(&format!("{attempts:02}")).ok().filter(|_| is_interactive),
        acs_rendering: details.rendering.clone(),
        sdk_trans_id: details.sdk_trans_id.clone(),
        whitelist_status: None,
        whitelist_source: None,
        extensions: None,
    }
}

fn challenge_type(details: &TransactionDetails) -> ChallengeType {
    match (details.flow, details.challenge.kind) {
        (ChallengeFlow::Decoupled, _) => ChallengeType::Decoupled,
        (_, ChallengeKind::Code) => ChallengeType::Static,
        (_, ChallengeKind::OutOfBand) => ChallengeType::OutOfBand,
    }
}

/// The final `CRes` to a browser or an app.
pub(super) fn final_cres(details: &TransactionDetails, status: Status) -> CRes {
    CRes { completed: YesNo::Yes, status: Some(status), ..base_cres(details) }
}

/// A `CRes` without a status.
pub(super) fn base_cres(details: &TransactionDetails) -> CRes {
    CRes {
        message_version: details.version,
        server_trans_id: details.server_trans_id.clone(),
        acs_trans_id: details.acs_trans_id.clone(),
        completed: YesNo::No,
        status: None,
        acs_counter: None,
        sdk_trans_id: details.sdk_trans_id.clone(),
        ui_type: None,
        html: None,
        html_refresh: None,
        additional_info: None,
        info_header: None,
        info_label: None,
        info_text: None,
        info_text_warning: None,
        select_info: None,
        expand_info_label: None,
        expand_info_text: None,
        issuer_image: None,
        scheme_image: None,
        oob_app_url: None,
        oob_app_label: None,
        oob_continue_label: None,
        resend_label: None,
        submit_label: None,
        why_label: None,
        why_text: None,
        whitelisting_text: None,
        extensions: None,
    }
}

/// Posts the result to the address that the 3DS server gave, as `behavior` says. Logs the outcome;
/// the caller waits only for the attempt.
pub(super) async fn send_result(
    state: &SimulatorState,
    details: &TransactionDetails,
    result: &RReq,
    behavior: ResultBehavior,
) {
    let bytes = result.to_json().to_vec();
    match behavior {
        ResultBehavior::Never => (),
        ResultBehavior::Normal => post_result(state, details, bytes).await,
        ResultBehavior::DelayMs(milliseconds) => {
            tokio::time::sleep(bounded_delay(milliseconds)).await;
            post_result(state, details, bytes).await;
        }
        ResultBehavior::Twice => {
            post_result(state, details, bytes.clone()).await;
            post_result(state, details, bytes).await;
        }
        ResultBehavior::Late => {
            tokio::time::sleep(state.timers.late_result).await;
            post_result(state, details, bytes).await;
        }
        ResultBehavior::Malformed => {
            let half = bytes.len() / 2;
            post_result(state, details, bytes.into_iter().take(half).collect()).await;
        }
        ResultBehavior::WrongTransId => {
            let id = result.server_trans_id.expose();
            post_result(state, details, replace_id(&bytes, id, new_id().expose())).await;
        }
        ResultBehavior::WrongAcsTransId => {
            let id = result.acs_trans_id.expose();
            post_result(state, details, replace_id(&bytes, id, new_id().expose())).await;
        }
    }
}

async fn post_result(state: &SimulatorState, details: &TransactionDetails, bytes: Vec<u8>) {
    let id = details.server_trans_id.expose();
    match exchange_result(state, details, bytes).await {
        Ok(rres) => {
            tracing::info!(
                transaction = id,
                status = rres.results_status.code(),
                "result delivered to the 3DS server"
            );
        }
        Err(error) => tracing::warn!(transaction = id, %error, "result delivery failed"),
    }
}

async fn exchange_result(
    state: &SimulatorState,
    details: &TransactionDetails,
    bytes: Vec<u8>,
) -> Result<RRes, OutgoingError> {
    let response = state.outgoing_client.post(details.server_url.expose(), bytes).await?;
    let response = Document::parse(&response).map_err(|_| OutgoingError::InvalidResponse)?;
    let response: RRes = response
        .parse_as(&details.transaction_context())
        .map_err(|_| OutgoingError::InvalidResponse)?;
    let is_same_transaction = response.server_trans_id.eq_ignore_case(&details.server_trans_id)
        && response.acs_trans_id.eq_ignore_case(&details.acs_trans_id)
        && response.ds_trans_id.eq_ignore_case(&details.ds_trans_id);
    is_same_transaction.then_some(response).ok_or(OutgoingError::InvalidResponse)
}
