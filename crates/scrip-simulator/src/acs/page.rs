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
    encoding::{decode, encode, write},
    fault::{Component, ErrorCode, Fault},
    format::{Text, TransId},
    message::{About, CReq, Document, Erro, Message},
};

use crate::{
    acs::{
        field,
        finish::{End, finish, last_cres},
        timer,
    },
    card::Means,
    knob::Returning,
    page::{Complaint, Prompt, challenge, error, go_back},
    transaction::{Course, Phase, Transaction, Visit},
    world::{World, new_id},
};

/// What is right, on every card: what comes of it is the card's matter.
pub(super) const CODE: &str = "1234";
/// Wrong codes, and then it is over.
pub(super) const TRIES_MAX: u8 = 3;

/// `POST /sim/acs/challenge`: the browser comes with its `creq`, perhaps again.
pub(crate) async fn receive_creq(State(world): State<Arc<World>>, body: Bytes) -> Response {
    let Some((document, transaction)) = find(&world, &body) else {
        return error(StatusCode::BAD_REQUEST, "This challenge is not known, or has gone.");
    };
    let facts = &transaction.facts;
    let request = match document.read_as::<CReq>(&facts.scene()) {
        Ok(request) => request,
        Err(fault) => return complain(&transaction, &fault, &document),
    };
    if !request.server_trans_id.is_same(&facts.server_trans_id) {
        return complain(&transaction, &Fault::of(ErrorCode::TransactionUnknown), &document);
    }
    if transaction.progress.begin() == Visit::First {
        let data = field(&body, "threeDSSessionData").and_then(|it| Text::parse(&it).ok());
        *transaction.session_data.lock().unwrap_or_else(PoisonError::into_inner) = data;
    }
    proceed(&world, &transaction, Complaint::None).await
}

/// `POST /sim/acs/challenge/{acsTransID}`: the cardholder has pressed a button.
pub(crate) async fn receive_answer(
    State(world): State<Arc<World>>,
    Path(id): Path<String>,
    body: Bytes,
) -> Response {
    let found = TransId::parse(&id).ok().and_then(|it| world.transactions.find(&it));
    let shown = |it: &Arc<Transaction>| {
        it.facts.course == Course::Page && it.progress.phase() != Phase::Waiting
    };
    let Some(transaction) = found.filter(shown) else {
        return error(StatusCode::BAD_REQUEST, "This challenge is not known, or has gone.");
    };
    let complaint = act(&world, &transaction, &body);
    proceed(&world, &transaction, complaint).await
}

/// What the button does. One that comes after the end does nothing.
fn act(world: &Arc<World>, transaction: &Arc<Transaction>, body: &Bytes) -> Complaint {
    if transaction.progress.phase() != Phase::Shown {
        return Complaint::None;
    }
    let end = |end| finish(world, transaction, Phase::Shown, end);
    let action = field(body, "action").unwrap_or_default();
    match (action.as_str(), transaction.facts.challenge.means) {
        ("cancel", _) => end(End::Canceled),
        ("resend", Means::Code) => return Complaint::Resent,
        ("continue", Means::OutOfBand) => {
            transaction.count_try();
            end(End::Scripted);
        }
        ("submit", Means::Code) => {
            let tries = transaction.count_try();
            if field(body, "code").is_some_and(|it| it.trim() == CODE) {
                end(End::Scripted);
            } else if tries >= TRIES_MAX {
                end(End::TooManyTries);
            } else {
                return Complaint::WrongCode { tries_left: TRIES_MAX.saturating_sub(tries) };
            }
        }
        _ => (),
    }
    Complaint::None
}

/// The page that belongs to where the challenge stands now.
async fn proceed(
    world: &Arc<World>,
    transaction: &Arc<Transaction>,
    complaint: Complaint,
) -> Response {
    let facts = &transaction.facts;
    if transaction.progress.phase() == Phase::Shown {
        timer::await_step(world, transaction);
        let action =
            format!("{}/sim/acs/challenge/{}", world.base_url, facts.acs_trans_id.expose());
        let (purchase, means) = (&facts.purchase, facts.challenge.means);
        let ending = facts.challenge.ending;
        return challenge(&Prompt { purchase, means, ending, action: &action, complaint });
    }
    let Some(status) = transaction.progress.ended().await else {
        return error(StatusCode::INTERNAL_SERVER_ERROR, "The challenge has no end.");
    };
    bring_back(world, transaction, status)
}

/// Sends the browser to the 3DS server, with the last word as the knob has it.
fn bring_back(world: &World, transaction: &Transaction, status: Status) -> Response {
    let facts = &transaction.facts;
    let Some(address) = &facts.notification_url else {
        return error(StatusCode::BAD_REQUEST, "There is no way back.");
    };
    let mut last = last_cres(facts, status);
    let (name, value) = match world.knobs(facts.scheme).cres {
        Returning::Normal => ("cres", write(&last)),
        Returning::Malformed => {
            let bytes = last.to_json();
            ("cres", encode(bytes.get(..bytes.len() / 2).unwrap_or_default()))
        }
        Returning::WrongTransId => {
            last.server_trans_id = new_id();
            ("cres", write(&last))
        }
        Returning::Erro => {
            let fault = Fault::of(ErrorCode::TransientFailure);
            ("erro", write(&about(transaction, &fault, None)))
        }
    };
    let data = transaction.session_data.lock().unwrap_or_else(PoisonError::into_inner);
    let data = data.as_ref().map(|it| ("threeDSSessionData", it.expose().to_owned()));
    let mut fields = vec![(name, value.as_str())];
    fields.extend(data.as_ref().map(|(name, value)| (*name, value.as_str())));
    go_back(address.expose(), &fields)
}

/// A `creq` that is wrong ends nothing: the browser brings back that it was.
fn complain(transaction: &Transaction, fault: &Fault, document: &Document) -> Response {
    let Some(address) = &transaction.facts.notification_url else {
        return error(StatusCode::BAD_REQUEST, "There is no way back.");
    };
    let erro = about(transaction, fault, Some(document));
    go_back(address.expose(), &[("erro", &write(&erro))])
}

/// An error about this transaction, whatever the browser has said of it.
fn about(transaction: &Transaction, fault: &Fault, document: Option<&Document>) -> Erro {
    let facts = &transaction.facts;
    let about = About { document, expected: None };
    Erro {
        message_version: facts.version.number(),
        server_trans_id: Some(facts.server_trans_id.clone()),
        acs_trans_id: Some(facts.acs_trans_id.clone()),
        ds_trans_id: Some(facts.ds_trans_id.clone()),
        ..Erro::answering(fault, Component::AccessControlServer, &about)
    }
}

fn find(world: &World, body: &Bytes) -> Option<(Document, Arc<Transaction>)> {
    let document = Document::read(&decode(&field(body, "creq")?).ok()?).ok()?;
    let transaction = world.transactions.find(&document.trans_id("acsTransID")?)?;
    (transaction.facts.course == Course::Page).then_some((document, transaction))
}
