//! A challenge in an app: encrypted messages to and fro, each with its number.

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
    message::{About, CReq, CRes, Document, Erro, Message, MessageType},
};

use crate::{
    acs::{
        finish::{End, bare_cres, finish, last_cres},
        page::{CODE, TRIES_MAX},
        sealed::Envelope,
        timer,
    },
    card::Means,
    transaction::{Course, Phase, Transaction, Visit},
    world::World,
};

/// `POST /sim/acs/app`.
pub(crate) async fn receive(State(world): State<Arc<World>>, body: Bytes) -> Response {
    let envelope = std::str::from_utf8(&body).ok().and_then(|it| Envelope::read(it.trim()));
    let Some(envelope) = envelope else {
        return refuse(&Fault::of(ErrorCode::MessageInvalid), None);
    };
    let found = world.transactions.find(&envelope.acs_trans_id);
    let found = found.filter(|it| it.facts.course == Course::App);
    let Some((transaction, keys)) =
        found.as_ref().and_then(|it| Some((it, it.facts.app.as_ref()?)))
    else {
        return refuse(&Fault::of(ErrorCode::TransactionUnknown), None);
    };
    let Some(opened) = keys.open(&envelope) else {
        return refuse(&Fault::of(ErrorCode::DecryptionFailure), None);
    };
    let document = match Document::read(&opened) {
        Ok(document) => document,
        Err(fault) => return refuse(&fault, None),
    };
    let answer = match converse(&world, transaction, &document).await {
        Ok(answer) => answer,
        Err(fault) => return refuse(&fault, Some(&document)),
    };
    let id = &transaction.facts.acs_trans_id;
    match keys.seal(&answer.to_json(), id, envelope.encryption) {
        Some(sealed) => {
            ([(header::CONTENT_TYPE, "application/jose; charset=utf-8")], sealed).into_response()
        }
        None => refuse(&Fault::of(ErrorCode::TransientFailure), Some(&document)),
    }
}

fn refuse(fault: &Fault, document: Option<&Document>) -> Response {
    let about = About { document, expected: Some(MessageType::CReq) };
    let erro = Erro::answering(fault, Component::AccessControlServer, &about);
    let kind = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
    (kind, erro.to_json().to_vec()).into_response()
}

async fn converse(
    world: &Arc<World>,
    transaction: &Arc<Transaction>,
    document: &Document,
) -> Result<CRes, Fault> {
    let facts = &transaction.facts;
    let request: CReq = document.read_as(&facts.scene())?;
    let sdk = request.sdk_trans_id.as_ref().zip(facts.sdk_trans_id.as_ref());
    let same = request.server_trans_id.is_same(&facts.server_trans_id)
        && request.acs_trans_id.is_same(&facts.acs_trans_id)
        && sdk.is_some_and(|(told, known)| told.is_same(known));
    if !same {
        return Err(Fault::of(ErrorCode::TransactionUnknown));
    }
    let counter = count(transaction, &request)?;
    let visit = transaction.progress.begin();
    let typed = act(world, transaction, &request, visit);
    let status = if transaction.progress.phase() == Phase::Shown {
        timer::await_step(world, transaction);
        None
    } else {
        let ended = transaction.progress.ended().await;
        Some(ended.ok_or(Fault::of(ErrorCode::TransientFailure))?)
    };
    let answer = match status {
        Some(status) => last_cres(facts, status),
        None => prompt(transaction, typed),
    };
    Ok(CRes { acs_counter: Some(counter), ..answer })
}

/// Each message has the next number, and its answer the same.
fn count(transaction: &Transaction, request: &CReq) -> Result<Digits<3, 3>, Fault> {
    let invalid = || Fault::at(ErrorCode::DecryptionFailure, "sdkCounterStoA");
    let told = request.sdk_counter.clone().ok_or_else(invalid)?;
    let mut next = transaction.messages.lock().unwrap_or_else(PoisonError::into_inner);
    if told.expose() != format!("{:03}", *next) {
        return Err(invalid());
    }
    *next = next.saturating_add(1);
    Ok(told)
}

/// Whether a wrong code was typed is all that is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Typed {
    Wrong,
    Otherwise,
}

fn act(world: &Arc<World>, transaction: &Arc<Transaction>, request: &CReq, visit: Visit) -> Typed {
    let end = |end| finish(world, transaction, Phase::Shown, end);
    if request.cancel.is_some() {
        let late = request.cancel == Some(ChallengeCancel::SdkTimeout);
        end(if late { End::TooSlow } else { End::Canceled });
        return Typed::Otherwise;
    }
    if visit == Visit::First || request.resend == Some(YesNo::Yes) {
        return Typed::Otherwise;
    }
    let tries = transaction.count_try();
    match transaction.facts.challenge.means {
        Means::OutOfBand => end(End::Scripted),
        Means::Code => {
            let typed = request.data_entry.as_ref().map(|it| it.expose().trim() == CODE);
            let html = request.html_data_entry.as_ref().map(|it| it.expose().contains(CODE));
            if typed.or(html) == Some(true) {
                end(End::Scripted);
            } else if tries >= TRIES_MAX {
                end(End::TooManyTries);
            } else {
                return Typed::Wrong;
            }
        }
    }
    Typed::Otherwise
}

fn prompt(transaction: &Transaction, typed: Typed) -> CRes {
    let facts = &transaction.facts;
    let text = match (facts.challenge.means, typed) {
        (Means::Code, Typed::Wrong) => "That code is not right. Try again: it is 1234.",
        (Means::Code, Typed::Otherwise) => "Type the code from your bank. For testing, it is 1234.",
        (Means::OutOfBand, _) => "Approve this request in your bank's app, then go on.",
    };
    let label = |text| Text::parse(text).ok();
    let code = facts.challenge.means == Means::Code;
    CRes {
        ui_type: Some(if code { UiType::Text } else { UiType::OutOfBand }),
        info_header: label("Confirm your payment"),
        info_label: label("Code").filter(|_| code),
        info_text: Text::parse(text).ok(),
        info_text_warning: (typed == Typed::Wrong).then_some(YesNo::Yes),
        submit_label: label("Submit").filter(|_| code),
        resend_label: label("Resend code").filter(|_| code),
        oob_continue_label: label("Continue").filter(|_| !code),
        ..bare_cres(facts)
    }
}
