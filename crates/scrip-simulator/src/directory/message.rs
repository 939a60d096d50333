//! Receives messages of a 3DS server and responds to them.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use scrip_threeds::{
    code::Scheme,
    fault::{Component, ErrorCode, Fault},
    format::{Url, Version},
    message::{
        AReq, Document, Erro, ErroSubject, Message, MessageType, PReq, PRes, TransactionContext,
    },
};

use crate::{
    acs,
    behavior::{ResponseBehavior, SimulatedBehavior, bounded_delay, replace_id},
    card::{CardScenario, scenario_for_number},
    page::policy_origin,
    state::{SimulatorState, new_id},
};

/// `POST /sim/ds/{scheme}`.
pub(crate) async fn receive(
    State(state): State<Arc<SimulatorState>>,
    Path(path): Path<String>,
    body: Bytes,
) -> Response {
    let Some(scheme) = Scheme::from_slug(&path) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let document = match Document::parse(&body) {
        Ok(document) => document,
        Err(fault) => {
            return DirectoryResponse::from_fault(&fault, Component::DirectoryServer, None)
                .into_http();
        }
    };
    let behavior = state.behavior(scheme);
    let response_behavior = match document.message_type() {
        MessageType::PReq => behavior.preq,
        MessageType::AReq => behavior.areq,
        MessageType::PRes
        | MessageType::ARes
        | MessageType::CReq
        | MessageType::CRes
        | MessageType::RReq
        | MessageType::RRes
        | MessageType::Erro => {
            let fault = Fault::for_element(ErrorCode::MessageInvalid, "messageType");
            let component = Component::DirectoryServer;
            return DirectoryResponse::from_fault(&fault, component, Some(&document)).into_http();
        }
    };
    if let Some(error) = injected_error(response_behavior, &document) {
        return error;
    }
    let response = if document.message_type() == MessageType::PReq {
        build_pres(&state, scheme, &behavior, &document)
    } else {
        forward_areq(&state, scheme, &behavior, &document)
    };
    let response = response.unwrap_or_else(|(component, fault)| {
        tracing::info!(scheme = path, code = fault.code.code(), "message rejected");
        DirectoryResponse::from_fault(&fault, component, Some(&document))
    });
    response.respond_with(response_behavior, &state, &document).await
}

/// The rejecting component and the fault.
type MessageRejection = (Component, Fault);

fn directory_rejection(fault: Fault) -> MessageRejection {
    (Component::DirectoryServer, fault)
}

fn build_pres(
    state: &SimulatorState,
    scheme: Scheme,
    behavior: &SimulatedBehavior,
    document: &Document,
) -> Result<DirectoryResponse, MessageRejection> {
    let version = document.version().map_err(directory_rejection)?;
    let request: PReq = document
        .parse_as(&TransactionContext::for_version(version))
        .map_err(directory_rejection)?;
    let ranges =
        state.ranges(scheme).ok_or(directory_rejection(Fault::new(ErrorCode::TransientFailure)))?;
    let update = ranges.update_since(behavior.ranges, request.serial_number.as_ref());
    let update = update.ok_or(directory_rejection(Fault::for_element(
        ErrorCode::SerialNumberInvalid,
        "serialNum",
    )))?;
    Ok(DirectoryResponse::from_message(&PRes {
        message_version: version,
        server_trans_id: request.server_trans_id,
        ds_trans_id: new_id(),
        ds_start: Version::V210.number(),
        ds_end: Version::V220.number(),
        serial_number: Some(update.serial_number),
        ranges: update.ranges,
        extensions: None,
    }))
}

fn forward_areq(
    state: &Arc<SimulatorState>,
    scheme: Scheme,
    behavior: &SimulatedBehavior,
    document: &Document,
) -> Result<DirectoryResponse, MessageRejection> {
    let version = document.version().map_err(directory_rejection)?;
    let mut request: AReq = document
        .parse_as(&TransactionContext::for_version(version))
        .map_err(directory_rejection)?;
    // The issuer's page names this host in its Content-Security-Policy, where some characters have
    // a special meaning.
    let notification_origin =
        request.notification_url.as_ref().map(|it| policy_origin(it.expose()));
    if notification_origin == Some(None) {
        return Err(directory_rejection(Fault::for_element(
            ErrorCode::FormatInvalid,
            "notificationURL",
        )));
    }
    let number = request.card_number.expose();
    if !state.ranges(scheme).is_some_and(|it| it.contains_card(behavior.ranges, number)) {
        return Err(directory_rejection(Fault::for_element(
            ErrorCode::TransactionDataInvalid,
            "acctNumber",
        )));
    }
    if scenario_for_number(number) == CardScenario::DirectoryError {
        return Err(directory_rejection(Fault::new(ErrorCode::PermanentFailure)));
    }
    let url = format!("{}/sim/ds/{}", state.base_url, scheme.slug());
    request.ds_reference_number = Some(state.texts.ds_reference.clone());
    request.ds_trans_id = Some(new_id());
    request.ds_url = Url::parse(&url).ok();
    let response = acs::authenticate(state, scheme, &request);
    response
        .map(|it| DirectoryResponse::from_message(&it))
        .map_err(|it| (Component::AccessControlServer, it))
}

/// The bytes of a response message.
#[derive(Debug)]
pub(super) struct DirectoryResponse(pub(super) Vec<u8>);

impl DirectoryResponse {
    pub(super) fn from_message<M: Message>(message: &M) -> Self {
        Self(message.to_json().to_vec())
    }

    pub(super) fn from_fault(
        fault: &Fault,
        component: Component,
        document: Option<&Document>,
    ) -> Self {
        let context = ErroSubject { document, expected: None };
        Self::from_message(&Erro::for_fault(fault, component, &context))
    }

    pub(super) fn into_http(self) -> Response {
        let content_type = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
        (content_type, self.0).into_response()
    }

    /// Sends the response as `behavior` says. `document` is the request.
    pub(super) async fn respond_with(
        mut self,
        behavior: ResponseBehavior,
        state: &SimulatorState,
        document: &Document,
    ) -> Response {
        match behavior {
            ResponseBehavior::Normal | ResponseBehavior::Http500 | ResponseBehavior::Erro(_) => (),
            ResponseBehavior::Silence => {
                tokio::time::sleep(state.timers.silence).await;
                return StatusCode::GATEWAY_TIMEOUT.into_response();
            }
            ResponseBehavior::DelayMs(milliseconds) => {
                tokio::time::sleep(bounded_delay(milliseconds)).await
            }
            ResponseBehavior::Malformed => self.0.truncate(self.0.len() / 2),
            ResponseBehavior::WrongTransId => {
                if let Some(id) = document.trans_id("threeDSServerTransID") {
                    self.0 = replace_id(&self.0, id.expose(), new_id().expose());
                }
            }
        }
        self.into_http()
    }
}

/// The error response that `behavior` requests, sent before the message is processed.
pub(super) fn injected_error(behavior: ResponseBehavior, document: &Document) -> Option<Response> {
    match behavior {
        ResponseBehavior::Http500 => Some(StatusCode::INTERNAL_SERVER_ERROR.into_response()),
        ResponseBehavior::Erro(code) => {
            let fault = Fault::new(code);
            Some(
                DirectoryResponse::from_fault(&fault, Component::DirectoryServer, Some(document))
                    .into_http(),
            )
        }
        ResponseBehavior::Normal
        | ResponseBehavior::Silence
        | ResponseBehavior::DelayMs(_)
        | ResponseBehavior::Malformed
        | ResponseBehavior::WrongTransId => None,
    }
}
