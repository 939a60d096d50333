//! Responses of a directory server, normal or changed by the simulated behavior.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use scrip_threeds::{
    fault::{Component, Fault},
    message::{Document, Erro, ErroSubject, Message},
};

use crate::{
    behavior::{ResponseBehavior, bounded_delay, replace_id},
    state::{SimulatorState, new_id},
};

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
