//! The challenge of an app: an exchange of encrypted, numbered messages.

use std::sync::{Arc, PoisonError};

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use scrip_threeds::{
    code::{ChallengeCancel, UiType, YesNo},
    fault::{Component, ErrorCode, Fault},
    format::{Digits, Text},
    message::{CReq, CRes, Document, Erro, ErroSubject, Message, MessageType},
};

use crate::{
    acs::{
        browser_challenge::{ATTEMPTS_MAX, CORRECT_CODE},
        challenge_result::{EndReason, base_cres, final_cres, finish_challenge},
        timers,
    },
    app_encryption::JweEnvelope,
    card::ChallengeKind,
    state::SimulatorState,
    transaction::{ChallengeFlow, ChallengePhase, ChallengeStart, Transaction},
};

/// `POST /sim/acs/app`.
pub(crate) async fn receive_creq(
    State(state): State<Arc<SimulatorState>>,
    body: Bytes,
) -> Response {
    let envelope = std::str::from_utf8(&body).ok().and_then(|it| JweEnvelope::parse(it.trim()));
    let Some(envelope) = envelope else {
        return error_response(&Fault::new(ErrorCode::MessageInvalid), None);
    };
    let transaction = state.transactions.find(&envelope.acs_trans_id);
    let transaction = transaction.filter(|it| it.details.flow == ChallengeFlow::App);
    let Some((transaction, keys)) =
        transaction.as_ref().and_then(|it| Some((it, it.details.app_keys.as_ref()?)))
    else {
        return error_response(&Fault::new(ErrorCode::TransactionUnknown), None);
    };
    let Some(plaintext) = keys.open(&envelope) else {
        return error_response(&Fault::new(ErrorCode::DecryptionFailure), None);
    };
    let document = match Document::parse(&plaintext) {
        Ok(document) => document,
        Err(fault) => return error_response(&fault, None),
    };
    let response = match handle_creq(&state, transaction, &document).await {
        Ok(response) => response,
        Err(fault) => return error_response(&fault, Some(&document)),
    };
    let id = &transaction.details.acs_trans_id;
    match keys.seal(&response.to_json(), id, envelope.encryption) {
        Some(sealed) => {
            ([(header::CONTENT_TYPE, "application/jose; charset=utf-8")], sealed).into_response()
        }
        None => error_response(&Fault::new(ErrorCode::TransientFailure), Some(&document)),
    }
}

fn error_response(fault: &Fault, document: Option<&Document>) -> Response {
    let context = ErroSubject { document, expected: Some(MessageType::CReq) };
    let erro = Erro::for_fault(fault, Component::AccessControlServer, &context);
    let content_type = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
    (content_type, erro.to_json().to_vec()).into_response()
}

async fn handle_creq(
    state: &Arc<SimulatorState>,
    transaction: &Arc<Transaction>,
    document: &Document,
) -> Result<CRes, Fault> {
    let details = &transaction.details;
    let request: CReq = document.parse_as(&details.transaction_context())?;
    let sdk_ids = request.sdk_trans_id.as_ref().zip(details.sdk_trans_id.as_ref());
    let is_same_transaction = request.server_trans_id.eq_ignore_case(&details.server_trans_id)
        && request.acs_trans_id.eq_ignore_case(&details.acs_trans_id)
        && sdk_ids.is_some_and(|(received, expected)| received.eq_ignore_case(expected));
    if !is_same_transaction {
        return Err(Fault::new(ErrorCode::TransactionUnknown));
    }
    let counter = check_counter(transaction, &request)?;
    let start = transaction.progress.start();
    let code_entry = apply_creq(state, transaction, &request, start);
    let status = if transaction.progress.phase() == ChallengePhase::InProgress {
        timers::start_interaction_timer(state, transaction);
        None
    } else {
        let status = transaction.progress.wait_until_finished().await;
        Some(status.ok_or(Fault::new(ErrorCode::TransientFailure))?)
    };
    let response = match status {
        Some(status) => final_cres(details, status),
        None => prompt_cres(transaction, code_entry),
    };
    Ok(CRes { acs_counter: Some(counter), ..response })
}

/// Messages are numbered consecutively; a response has the number of its request.
fn check_counter(transaction: &Transaction, request: &CReq) -> Result<Digits<3, 3>, Fault> {
    let invalid = || Fault::for_element(ErrorCode::DecryptionFailure, "sdkCounterStoA");
    let counter = request.sdk_counter.clone().ok_or_else(invalid)?;
    let mut next = transaction.app_message_count.lock().unwrap_or_else(PoisonError::into_inner);
    if counter.expose() != format!("{:03}", *next) {
        return Err(invalid());
    }
    *next = next.saturating_add(1);
    Ok(counter)
}

/// Whether the cardholder entered a wrong code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CodeEntry {
    Wrong,
    Other,
}

fn apply_creq(
    state: &Arc<SimulatorState>,
    transaction: &Arc<Transaction>,
    request: &CReq,
    start: ChallengeStart,
) -> CodeEntry {
    let finish_with =
        |reason| finish_challenge(state, transaction, ChallengePhase::InProgress, reason);
    if request.cancel.is_some() {
        let is_timeout = request.cancel == Some(ChallengeCancel::SdkTimeout);
        finish_with(if is_timeout { EndReason::InteractionTimeout } else { EndReason::Canceled });
        return CodeEntry::Other;
    }
    if start == ChallengeStart::First || request.resend == Some(YesNo::Yes) {
        return CodeEntry::Other;
    }
    let attempts = transaction.count_attempt();
    match transaction.details.challenge.kind {
        ChallengeKind::OutOfBand => finish_with(EndReason::Completed),
        ChallengeKind::Code => {
            let native_entry =
                request.data_entry.as_ref().map(|it| it.expose().trim() == CORRECT_CODE);
            let html_entry =
                request.html_data_entry.as_ref().map(|it| it.expose().contains(CORRECT_CODE));
            if native_entry.or(html_entry) == Some(true) {
                finish_with(EndReason::Completed);
            } else if attempts >= ATTEMPTS_MAX {
                finish_with(EndReason::TooManyAttempts);
            } else {
                return CodeEntry::Wrong;
            }
        }
    }
    CodeEntry::Other
}

fn prompt_cres(transaction: &Transaction, code_entry: CodeEntry) -> CRes {
    let details = &transaction.details;
    let text = match (details.challenge.kind, code_entry) {
        (ChallengeKind::Code, CodeEntry::Wrong) => "Wrong code. Try again: the code is 1234.",
        (ChallengeKind::Code, CodeEntry::Other) => {
            "Enter the code from your bank. For testing, it is 1234."
        }
        (ChallengeKind::OutOfBand, _) => "Approve this request in your bank's app, then continue.",
    };
    let label = |text| Text::parse(text).ok();
    let code = details.challenge.kind == ChallengeKind::Code;
    CRes {
        ui_type: Some(if code { UiType::Text } else { UiType::OutOfBand }),
        info_header: label("Confirm your payment"),
        info_label: label("Code").filter(|_| code),
        info_text: Text::parse(text).ok(),
        info_text_warning: (code_entry == CodeEntry::Wrong).then_some(YesNo::Yes),
        submit_label: label("Submit").filter(|_| code),
        resend_label: label("Resend code").filter(|_| code),
        oob_continue_label: label("Continue").filter(|_| !code),
        ..base_cres(details)
    }
}
