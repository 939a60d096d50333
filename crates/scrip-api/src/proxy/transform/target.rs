//! The message that a transform changes: a request on its way out, or an answer.

use hyper::StatusCode;

use crate::proxy::{
    edits::{TransformKind, TransformMessage},
    outgoing::OutgoingMessage,
};

/// The message that a transform changes.
#[derive(Debug)]
pub enum TransformTarget<'m> {
    Request(&'m mut OutgoingMessage),
    /// The destination answered with this status.
    Response {
        message: &'m mut TransformMessage,
        status: StatusCode,
    },
}

impl TransformTarget<'_> {
    pub(super) fn is_encoded(&self) -> bool {
        match self {
            Self::Request(message) => message.is_encoded(),
            Self::Response { message, .. } => message.is_encoded(),
        }
    }

    pub(super) fn body_length(&self) -> usize {
        match self {
            Self::Request(message) => message.body_length(),
            Self::Response { message, .. } => message.body.len(),
        }
    }

    pub(super) fn response(&self) -> Option<&TransformMessage> {
        match self {
            Self::Request(_) => None,
            Self::Response { message, .. } => Some(message),
        }
    }

    pub(super) fn kind(&self) -> TransformKind {
        match self {
            Self::Request(_) => TransformKind::Request,
            Self::Response { status, .. } => TransformKind::Answer(*status),
        }
    }
}
