//! A message of a 3DS server, and its answer.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use scrip_threeds::{
    code::Scheme,
    fault::{Component, ErrorCode, Fault},
    format::{Url, Version},
    message::{AReq, Document, MessageType, PReq, PRes, Scene},
};

use crate::{
    acs,
    card::{Script, script_of},
    directory::answer::{Answer, refusal},
    knob::Knobs,
    page::origin,
    world::{World, new_id},
};

/// `POST /sim/ds/{scheme}`.
pub(crate) async fn receive(
    State(world): State<Arc<World>>,
    Path(path): Path<String>,
    body: Bytes,
) -> Response {
    let Some(scheme) = Scheme::from_slug(&path) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let document = match Document::read(&body) {
        Ok(document) => document,
        Err(fault) => return Answer::error(&fault, Component::DirectoryServer, None).respond(),
    };
    let knobs = world.knobs(scheme);
    let knob = match document.kind() {
        MessageType::PReq => knobs.preq,
        MessageType::AReq => knobs.areq,
        MessageType::PRes
        | MessageType::ARes
        | MessageType::CReq
        | MessageType::CRes
        | MessageType::RReq
        | MessageType::RRes
        | MessageType::Erro => {
            let fault = Fault::at(ErrorCode::MessageInvalid, "messageType");
            let component = Component::DirectoryServer;
            return Answer::error(&fault, component, Some(&document)).respond();
        }
    };
    if let Some(refusal) = refusal(knob, &document) {
        return refusal;
    }
    let answer = if document.kind() == MessageType::PReq {
        tell_ranges(&world, scheme, &knobs, &document)
    } else {
        authenticate(&world, scheme, &knobs, &document)
    };
    let answer = answer.unwrap_or_else(|(component, fault)| {
        tracing::info!(scheme = path, code = fault.code.code(), "message refused");
        Answer::error(&fault, component, Some(&document))
    });
    answer.respond_as(knob, &world, &document).await
}

/// Who refuses, and why.
type Refused = (Component, Fault);

fn refused(fault: Fault) -> Refused {
    (Component::DirectoryServer, fault)
}

fn tell_ranges(
    world: &World,
    scheme: Scheme,
    knobs: &Knobs,
    document: &Document,
) -> Result<Answer, Refused> {
    let version = document.version().map_err(refused)?;
    let request: PReq = document.read_as(&Scene::of(version)).map_err(refused)?;
    let ranges = world.ranges(scheme).ok_or(refused(Fault::of(ErrorCode::TransientFailure)))?;
    let told = ranges.tell(knobs.ranges, request.serial_number.as_ref());
    let told = told.ok_or(refused(Fault::at(ErrorCode::SerialNumberInvalid, "serialNum")))?;
    Ok(Answer::of(&PRes {
        message_version: version,
        server_trans_id: request.server_trans_id,
        ds_trans_id: new_id(),
        ds_start: Version::V210.number(),
        ds_end: Version::V220.number(),
        serial_number: Some(told.serial_number),
        ranges: told.ranges,
        extensions: None,
    }))
}

fn authenticate(
    world: &Arc<World>,
    scheme: Scheme,
    knobs: &Knobs,
    document: &Document,
) -> Result<Answer, Refused> {
    let version = document.version().map_err(refused)?;
    let mut request: AReq = document.read_as(&Scene::of(version)).map_err(refused)?;
    // A page of the issuer will name this host in its policy, where some signs mean more.
    let back = request.notification_url.as_ref().map(|it| origin(it.expose()));
    if back == Some(None) {
        return Err(refused(Fault::at(ErrorCode::FormatInvalid, "notificationURL")));
    }
    let number = request.card_number.expose();
    if !world.ranges(scheme).is_some_and(|it| it.has(knobs.ranges, number)) {
        return Err(refused(Fault::at(ErrorCode::TransactionDataInvalid, "acctNumber")));
    }
    if script_of(number) == Script::DirectoryError {
        return Err(refused(Fault::of(ErrorCode::PermanentFailure)));
    }
    let url = format!("{}/sim/ds/{}", world.base_url, scheme.slug());
    request.ds_reference_number = Some(world.names.ds_reference.clone());
    request.ds_trans_id = Some(new_id());
    request.ds_url = Url::parse(&url).ok();
    let answer = acs::authenticate(world, scheme, &request);
    answer.map(|it| Answer::of(&it)).map_err(|it| (Component::AccessControlServer, it))
}
