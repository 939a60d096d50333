//! The challenge pages of a browser, from the first `creq` to the `cres`.

use std::sync::{Arc, PoisonError};

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::Response,
};
use bytes::Bytes;
use scrip_threeds::{
    code::Status,
    encoding::{decode, encode, encode_message},
    fault::{Component, ErrorCode, Fault},
    format::{Text, TransId},
    message::{CReq, Document, Erro, ErroSubject, Message},
};

use crate::{
    acs::{
        challenge_result::{EndReason, final_cres, finish_challenge},
        form_field, timers,
    },
    behavior::BrowserReturnBehavior,
    card::ChallengeKind,
    page::{ChallengePrompt, PromptNotice, challenge_page, error_page, return_page},
    state::{SimulatorState, new_id},
    transaction::{ChallengeFlow, ChallengePhase, ChallengeStart, Transaction},
};

/// The correct code, the same for all cards. The outcome of a challenge with the correct code
/// depends on the card.
pub(super) const CORRECT_CODE: &str = "1234";
/// The number of wrong codes after which the challenge fails.
pub(super) const ATTEMPTS_MAX: u8 = 3;

/// `POST /sim/acs/challenge`: the browser sends its `creq`, possibly more than once.
pub(crate) async fn receive_creq(
    State(state): State<Arc<SimulatorState>>,
    body: Bytes,
) -> Response {
    let Some((document, transaction)) = find_transaction(&state, &body) else {
        return error_page(StatusCode::BAD_REQUEST, "Unknown or expired challenge.");
    };
    let details = &transaction.details;
    let request = match document.parse_as::<CReq>(&details.transaction_context()) {
        Ok(request) => request,
        Err(fault) => return return_with_erro(&transaction, &fault, &document),
    };
    if !request.server_trans_id.eq_ignore_case(&details.server_trans_id) {
        let fault = Fault::new(ErrorCode::TransactionUnknown);
        return return_with_erro(&transaction, &fault, &document);
    }
    if transaction.progress.start() == ChallengeStart::First {
        let data = form_field(&body, "threeDSSessionData").and_then(|it| Text::parse(&it).ok());
        *transaction.session_data.lock().unwrap_or_else(PoisonError::into_inner) = data;
    }
    next_page(&state, &transaction, PromptNotice::None).await
}

/// `POST /sim/acs/challenge/{acsTransID}`: the cardholder pressed a button.
pub(crate) async fn receive_action(
    State(state): State<Arc<SimulatorState>>,
    Path(id): Path<String>,
    body: Bytes,
) -> Response {
    let transaction = TransId::parse(&id).ok().and_then(|it| state.transactions.find(&it));
    let is_started_browser_challenge = |it: &Arc<Transaction>| {
        it.details.flow == ChallengeFlow::Browser
            && it.progress.phase() != ChallengePhase::AwaitingRequest
    };
    let Some(transaction) = transaction.filter(is_started_browser_challenge) else {
        return error_page(StatusCode::BAD_REQUEST, "Unknown or expired challenge.");
    };
    let notice = apply_action(&state, &transaction, &body);
    next_page(&state, &transaction, notice).await
}

/// Applies the pressed button. Ignores buttons after the end of the challenge.
fn apply_action(
    state: &Arc<SimulatorState>,
    transaction: &Arc<Transaction>,
    body: &Bytes,
) -> PromptNotice {
    if transaction.progress.phase() != ChallengePhase::InProgress {
        return PromptNotice::None;
    }
    let finish_with =
        |reason| finish_challenge(state, transaction, ChallengePhase::InProgress, reason);
    let action = form_field(body, "action").unwrap_or_default();
    match (action.as_str(), transaction.details.challenge.kind) {
        ("cancel", _) => finish_with(EndReason::Canceled),
        ("resend", ChallengeKind::Code) => return PromptNotice::Resent,
        ("continue", ChallengeKind::OutOfBand) => {
            transaction.count_attempt();
            finish_with(EndReason::Completed);
        }
        ("submit", ChallengeKind::Code) => {
            let attempts = transaction.count_attempt();
            if form_field(body, "code").is_some_and(|it| it.trim() == CORRECT_CODE) {
                finish_with(EndReason::Completed);
            } else if attempts >= ATTEMPTS_MAX {
                finish_with(EndReason::TooManyAttempts);
            } else {
                return PromptNotice::WrongCode {
                    attempts_left: ATTEMPTS_MAX.saturating_sub(attempts),
                };
            }
        }
        _ => (),
    }
    PromptNotice::None
}

/// The page for the current phase of the challenge.
async fn next_page(
    state: &Arc<SimulatorState>,
    transaction: &Arc<Transaction>,
    notice: PromptNotice,
) -> Response {
    let details = &transaction.details;
    if transaction.progress.phase() == ChallengePhase::InProgress {
        timers::start_interaction_timer(state, transaction);
        let action =
            format!("{}/sim/acs/challenge/{}", state.base_url, details.acs_trans_id.expose());
        let (purchase, kind) = (&details.purchase, details.challenge.kind);
        let outcome = details.challenge.outcome;
        return challenge_page(&ChallengePrompt {
            purchase,
            kind,
            outcome,
            action: &action,
            notice,
        });
    }
    let Some(status) = transaction.progress.wait_until_finished().await else {
        return error_page(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The challenge ended without a result.",
        );
    };
    return_to_server(state, transaction, status)
}

/// Returns the browser to the 3DS server with the final `cres`, changed as the simulated behavior
/// says.
fn return_to_server(state: &SimulatorState, transaction: &Transaction, status: Status) -> Response {
    let details = &transaction.details;
    let Some(address) = &details.notification_url else {
        return error_page(StatusCode::BAD_REQUEST, "The request has no notification URL.");
    };
    let mut cres = final_cres(details, status);
    let (name, value) = match state.behavior(details.scheme).cres {
        BrowserReturnBehavior::Normal => ("cres", encode_message(&cres)),
        BrowserReturnBehavior::Malformed => {
            let bytes = cres.to_json();
            ("cres", encode(bytes.get(..bytes.len() / 2).unwrap_or_default()))
        }
        BrowserReturnBehavior::WrongTransId => {
            cres.server_trans_id = new_id();
            ("cres", encode_message(&cres))
        }
        BrowserReturnBehavior::Erro => {
            let fault = Fault::new(ErrorCode::TransientFailure);
            ("erro", encode_message(&transaction_error(transaction, &fault, None)))
        }
    };
    let data = transaction.session_data.lock().unwrap_or_else(PoisonError::into_inner);
    let data = data.as_ref().map(|it| ("threeDSSessionData", it.expose().to_owned()));
    let mut fields = vec![(name, value.as_str())];
    fields.extend(data.as_ref().map(|(name, value)| (*name, value.as_str())));
    return_page(address.expose(), &fields)
}

/// Returns the browser to the 3DS server with an `Erro`. The challenge stays open, so a correct
/// `creq` can follow.
fn return_with_erro(transaction: &Transaction, fault: &Fault, document: &Document) -> Response {
    let Some(address) = &transaction.details.notification_url else {
        return error_page(StatusCode::BAD_REQUEST, "The request has no notification URL.");
    };
    let erro = transaction_error(transaction, fault, Some(document));
    return_page(address.expose(), &[("erro", &encode_message(&erro))])
}

/// An `Erro` with the stored ids of the transaction, not the ids that the browser sent.
fn transaction_error(
    transaction: &Transaction,
    fault: &Fault,
    document: Option<&Document>,
) -> Erro {
    let details = &transaction.details;
    let context = ErroSubject { document, expected: None };
    Erro {
        message_version: details.version.number(),
        server_trans_id: Some(details.server_trans_id.clone()),
        acs_trans_id: Some(details.acs_trans_id.clone()),
        ds_trans_id: Some(details.ds_trans_id.clone()),
        ..Erro::for_fault(fault, Component::AccessControlServer, &context)
    }
}

fn find_transaction(state: &SimulatorState, body: &Bytes) -> Option<(Document, Arc<Transaction>)> {
    let document = Document::parse(&decode(&form_field(body, "creq")?).ok()?).ok()?;
    let transaction = state.transactions.find(&document.trans_id("acsTransID")?)?;
    (transaction.details.flow == ChallengeFlow::Browser).then_some((document, transaction))
}
