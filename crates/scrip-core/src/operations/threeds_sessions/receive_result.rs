//! Receive Result: a directory server says how a challenge ended.
//!
//! The answer is a message too, also when nothing is accepted. Whoever has the wrong secret, comes
//! through the wrong door or names another transaction learns nothing by the difference.

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
    audit::Operation,
    id::ThreeDsSessionId,
    policy::{Directory, RequestOrigin, TenantKind},
    threeds::{apply_notification, load_notified_session},
};

/// How the result came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultChannel {
    /// Where anybody can come.
    Unauthenticated,
    /// By a certificate that the trust anchors of these schemes vouch for.
    Verified(Vec<Scheme>),
}

impl ResultChannel {
    /// Results of production come by the certificate of the scheme, and not otherwise.
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

/// What somebody posted, and where.
#[derive(Debug)]
pub struct PostedResult<'a> {
    pub id: ThreeDsSessionId,
    pub secret: &'a str,
    pub message: &'a [u8],
    pub channel: ResultChannel,
}

/// # Errors
/// The store did not answer. Everything else is a message.
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
        Err(Error::NotFound) => return Ok(error_message(&unknown(), Some(&document))),
        Err(error) => return Err(error),
    };
    let secret = Secret::new(session.body.secret.clone().into_bytes());
    let known = secret.constant_time_eq(posted.secret.as_bytes());
    let scheme = session.body.state.authentication().map(|it| it.parameters.scheme);
    if !known || !posted.channel.accepts(tenant.kind, scheme) {
        return Ok(error_message(&unknown(), Some(&document)));
    }
    let Some(scene) = session.body.state.transaction_context() else {
        return Ok(error_message(&unknown(), Some(&document)));
    };
    let result = match document.parse_as::<RReq>(&scene) {
        Ok(result) => Box::new(result),
        Err(fault) => return Ok(error_message(&fault, Some(&document))),
    };
    let event = StateMachineEvent::Result { result, secret: SecretCheck::Matches };
    let operation = Operation::ReceiveResult;
    match apply_notification(vault, directory, operation, origin, posted.id, &event).await {
        Ok(Ok((_, effects))) => Ok(result_response(&effects, &document)),
        Ok(Err(refusal)) => Ok(error_message(&ThreeDsRejection::fault(&refusal), Some(&document))),
        // It went between the two looks.
        Err(Error::NotFound) => Ok(error_message(&unknown(), Some(&document))),
        Err(error) => Err(error),
    }
}

fn result_response(effects: &[StateMachineEffect], document: &Document) -> Zeroizing<Vec<u8>> {
    let message = effects.iter().find_map(|it| match it {
        StateMachineEffect::RespondToResult { response: answer } => Some(answer.to_json()),
        StateMachineEffect::SendAReq { .. } | StateMachineEffect::Emit { .. } => None,
    });
    message.unwrap_or_else(|| error_message(&unknown(), Some(document)))
}

fn unknown() -> Fault {
    Fault::for_element(ErrorCode::TransactionUnknown, "threeDSServerTransID")
}

fn error_message(fault: &Fault, document: Option<&Document>) -> Zeroizing<Vec<u8>> {
    let about = ErroSubject { document, expected: Some(MessageType::RReq) };
    Erro::for_fault(fault, Component::Server, &about).to_json()
}
