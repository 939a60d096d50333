//! What leaves a directory server, right or as a knob has it.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use scrip_threeds::{
    fault::{Component, Fault},
    message::{About, Document, Erro, Message},
};

use crate::{
    knob::{Answering, delay},
    world::{World, new_id},
};

/// A message, as bytes that are sent.
#[derive(Debug)]
pub(super) struct Answer(pub(super) Vec<u8>);

impl Answer {
    pub(super) fn of<M: Message>(message: &M) -> Self {
        Self(message.to_json().to_vec())
    }

    pub(super) fn error(fault: &Fault, component: Component, document: Option<&Document>) -> Self {
        let about = About { document, expected: None };
        Self::of(&Erro::answering(fault, component, &about))
    }

    pub(super) fn respond(self) -> Response {
        let kind = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
        (kind, self.0).into_response()
    }

    /// As the knob says. `document` is the question.
    pub(super) async fn respond_as(
        mut self,
        knob: Answering,
        world: &World,
        document: &Document,
    ) -> Response {
        match knob {
            Answering::Normal | Answering::Http500 | Answering::Erro(_) => (),
            Answering::Silence => {
                tokio::time::sleep(world.timers.silence).await;
                return StatusCode::GATEWAY_TIMEOUT.into_response();
            }
            Answering::DelayMs(milliseconds) => tokio::time::sleep(delay(milliseconds)).await,
            Answering::Malformed => self.0.truncate(self.0.len() / 2),
            Answering::WrongTransId => {
                if let Some(id) = document.trans_id("threeDSServerTransID") {
                    self.0 = replaced(&self.0, id.expose(), new_id().expose());
                }
            }
        }
        self.respond()
    }
}

/// Refusals that a knob asks for: before anything has happened.
pub(super) fn refusal(knob: Answering, document: &Document) -> Option<Response> {
    match knob {
        Answering::Http500 => Some(StatusCode::INTERNAL_SERVER_ERROR.into_response()),
        Answering::Erro(code) => {
            let fault = Fault::of(code);
            Some(Answer::error(&fault, Component::DirectoryServer, Some(document)).respond())
        }
        Answering::Normal
        | Answering::Silence
        | Answering::DelayMs(_)
        | Answering::Malformed
        | Answering::WrongTransId => None,
    }
}

pub(super) fn replaced(bytes: &[u8], old: &str, new: &str) -> Vec<u8> {
    String::from_utf8_lossy(bytes).replace(old, new).into_bytes()
}
