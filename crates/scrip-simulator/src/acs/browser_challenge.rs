//! A challenge in a browser: pages from the first `creq` to the `cres`.

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

/// What is right, on every card: what comes of it is the card's matter.
pub(super) const CORRECT_CODE: &str = "1234";
/// Wrong codes, and then it is over.
pub(super) const ATTEMPTS_MAX: u8 = 3;

/// `POST /sim/acs/challenge`: the browser comes with its `creq`, perhaps again.
pub(crate) async fn receive_creq(
    State(state): State<Arc<SimulatorState>>,
    body: Bytes,
) -> Response {
    let Some((document, transaction)) = find_transaction(&state, &body) else {
        return error_page(StatusCode::BAD_REQUEST, "This challenge is not known, or has gone.");
    };
    let details = &transaction.details;
    let request = match document.parse_as::<CReq>(&details.transaction_context()) {
        Ok(request) => request,
        Err(fault) => return return_error(&transaction, &fault, &document),
    };
    if !request.server_trans_id.eq_ignore_case(&details.server_trans_id) {
        return return_error(&transaction, &Fault::new(ErrorCode::TransactionUnknown), &document);
    }
    if transaction.progress.start() == ChallengeStart::First {
        let data = form_field(&body, "threeDSSessionData").and_then(|it| Text::parse(&it).ok());
        *transaction.session_data.lock().unwrap_or_else(PoisonError::into_inner) = data;
    }
    next_page(&state, &transaction, PromptNotice::None).await
}

/// `POST /sim/acs/challenge/{acsTransID}`: the cardholder has pressed a button.
pub(crate) async fn receive_action(
    State(state): State<Arc<SimulatorState>>,
    Path(id): Path<String>,
    body: Bytes,
) -> Response {
    let transaction = TransId::parse(&id).ok().and_then(|it| state.transactions.find(&it));
    let is_started_page = |it: &Arc<Transaction>| {
        it.details.flow == ChallengeFlow::Browser
            && it.progress.phase() != ChallengePhase::AwaitingRequest
    };
    let Some(transaction) = transaction.filter(is_started_page) else {
        return error_page(StatusCode::BAD_REQUEST, "This challenge is not known, or has gone.");
    };
    let notice = apply_action(&state, &transaction, &body);
    next_page(&state, &transaction, notice).await
}

/// What the button does. One that comes after the end does nothing.
fn apply_action(
    state: &Arc<SimulatorState>,
    transaction: &Arc<Transaction>,
    body: &Bytes,
) -> PromptNotice {
    if transaction.progress.phase() != ChallengePhase::InProgress {
        return PromptNotice::None;
    }
    let finish_with = |end| finish_challenge(state, transaction, ChallengePhase::InProgress, end);
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

/// The page that belongs to where the challenge stands now.
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
        return error_page(StatusCode::INTERNAL_SERVER_ERROR, "The challenge has no end.");
    };
    return_to_server(state, transaction, status)
}

/// Sends the browser to the 3DS server, with the last word as the knob has it.
fn return_to_server(state: &SimulatorState, transaction: &Transaction, status: Status) -> Response {
    let details = &transaction.details;
    let Some(address) = &details.notification_url else {
        return error_page(StatusCode::BAD_REQUEST, "There is no way back.");
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

/// A `creq` that is wrong ends nothing: the browser brings back that it was.
fn return_error(transaction: &Transaction, fault: &Fault, document: &Document) -> Response {
    let Some(address) = &transaction.details.notification_url else {
        return error_page(StatusCode::BAD_REQUEST, "There is no way back.");
    };
    let erro = transaction_error(transaction, fault, Some(document));
    return_page(address.expose(), &[("erro", &encode_message(&erro))])
}

/// An error about this transaction, whatever the browser has said of it.
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
