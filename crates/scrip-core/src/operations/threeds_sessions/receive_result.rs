//! Receive Result: a directory server reports the result of a challenge.
//!
//! The response is always a message, also when the result is rejected. A sender with a wrong
//! secret, on the wrong endpoint or with an unknown transaction gets the same response, and
//! learns nothing from it.

use scrip_seal::Secret;
use scrip_threeds::{
    code::Scheme,
    fault::{Component, ErrorCode, Fault},
    message::{Document, Erro, ErroSubject, Message, MessageType, RReq},
    session::{SecretCheck, StateMachineEffect, StateMachineEvent, ThreeDsRejection},
};
use zeroize::Zeroizing;

use crate::{
    Error, Vault,
    policy::{Directory, RequestOrigin},
    threeds_session::{apply_notification, load_notified_session},
    types::{Operation, TenantKind, id::ThreeDsSessionId},
};

/// The channel of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultChannel {
    /// An endpoint without authentication.
    Unauthenticated,
    /// mTLS with a certificate that the trust anchors of these schemes verified.
    Verified(Vec<Scheme>),
}

impl ResultChannel {
    /// Whether a result is accepted on this channel. Results for production tenants need a client
    /// certificate of the scheme.
    fn accepts(&self, kind: TenantKind, scheme: Option<Scheme>) -> bool {
        match (kind, self) {
            (TenantKind::Test, _) => true,
            (TenantKind::Production, Self::Unauthenticated) => false,
            (TenantKind::Production, Self::Verified(schemes)) => {
                scheme.is_some_and(|it| schemes.contains(&it))
            }
        }
    }
}

/// A posted result, and its URL.
#[derive(Debug)]
pub struct PostedResult<'a> {
    pub id: ThreeDsSessionId,
    pub secret: &'a str,
    pub message: &'a [u8],
    pub channel: ResultChannel,
}

/// Applies a posted result, and returns the response message.
/// Errors: the store is unavailable. Every other failure is a message.
pub async fn receive_result(
    vault: &Vault,
    directory: &Directory,
    origin: &RequestOrigin,
    posted: PostedResult<'_>,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let document = match Document::parse(posted.message) {
        Ok(document) => document,
        Err(fault) => return Ok(error_message(&fault, None)),
    };
    let (tenant, session) = match load_notified_session(vault, directory, posted.id).await {
        Ok(found) => found,
        Err(Error::NotFound) => {
            return Ok(error_message(&unknown_transaction_fault(), Some(&document)));
        }
        Err(error) => return Err(error),
    };
    let secret = Secret::new(session.body.secret.clone().into_bytes());
    let is_secret_valid = secret.constant_time_eq(posted.secret.as_bytes());
    let scheme = session.body.state.authentication().map(|it| it.parameters.scheme);
    if !is_secret_valid || !posted.channel.accepts(tenant.kind, scheme) {
        return Ok(error_message(&unknown_transaction_fault(), Some(&document)));
    }
    let Some(context) = session.body.state.transaction_context() else {
        return Ok(error_message(&unknown_transaction_fault(), Some(&document)));
    };
    let result = match document.parse_as::<RReq>(&context) {
        Ok(result) => Box::new(result),
        Err(fault) => return Ok(error_message(&fault, Some(&document))),
    };
    let event = StateMachineEvent::Result { result, secret: SecretCheck::Matches };
    let operation = Operation::ReceiveResult;
    match apply_notification(vault, directory, operation, origin, posted.id, &event).await {
        Ok(Ok((_, effects))) => Ok(result_response(&effects, &document)),
        Ok(Err(rejection)) => {
            Ok(error_message(&ThreeDsRejection::fault(&rejection), Some(&document)))
        }
        // The session was deleted between the two reads.
        Err(Error::NotFound) => Ok(error_message(&unknown_transaction_fault(), Some(&document))),
        Err(error) => Err(error),
    }
}

fn result_response(effects: &[StateMachineEffect], document: &Document) -> Zeroizing<Vec<u8>> {
    let message = effects.iter().find_map(|it| match it {
        StateMachineEffect::RespondToResult { response } => Some(response.to_json()),
        StateMachineEffect::SendAReq { .. } | StateMachineEffect::Emit { .. } => None,
    });
    message.unwrap_or_else(|| error_message(&unknown_transaction_fault(), Some(document)))
}

fn unknown_transaction_fault() -> Fault {
    Fault::for_element(ErrorCode::TransactionUnknown, "threeDSServerTransID")
}

fn error_message(fault: &Fault, document: Option<&Document>) -> Zeroizing<Vec<u8>> {
    let subject = ErroSubject { document, expected: Some(MessageType::RReq) };
    Erro::for_fault(fault, Component::Server, &subject).to_json()
}
