//! Receive Result: a directory server says how a challenge ended.
//!
//! The answer is a message too, also when nothing is accepted. Whoever has the wrong secret, comes
//! through the wrong door or names another transaction learns nothing by the difference.

use scrip_seal::Secret;
use scrip_threeds::{
    code::Scheme,
    fault::{Component, ErrorCode, Fault},
    message::{About, Document, Erro, Message, MessageType, RReq},
    session::{Effect, Event, Refusal, SecretFact},
};
use zeroize::Zeroizing;

use crate::{
    Error, Vault,
    audit::Operation,
    id::SessionId,
    policy::{Directory, Origin, TenantKind},
    threeds::{find_notified, notify},
};

/// How the result came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Door {
    /// Where anybody can come.
    Open,
    /// By a certificate that the trust anchors of these schemes vouch for.
    Verified(Vec<Scheme>),
}

impl Door {
    /// Results of production come by the certificate of the scheme, and not otherwise.
    fn lets_in(&self, kind: TenantKind, scheme: Option<Scheme>) -> bool {
        match (kind, self) {
            (TenantKind::Test, _) => true,
            (TenantKind::Production, Self::Open) => false,
            (TenantKind::Production, Self::Verified(schemes)) => {
                scheme.is_some_and(|it| schemes.contains(&it))
            }
        }
    }
}

/// What somebody posted, and where.
#[derive(Debug)]
pub struct Posted<'a> {
    pub id: SessionId,
    pub secret: &'a str,
    pub message: &'a [u8],
    pub door: Door,
}

/// # Errors
/// The store did not answer. Everything else is a message.
pub async fn receive_result(
    vault: &Vault,
    directory: &Directory,
    origin: &Origin,
    posted: Posted<'_>,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let document = match Document::read(posted.message) {
        Ok(document) => document,
        Err(fault) => return Ok(refuse(&fault, None)),
    };
    let (tenant, held) = match find_notified(vault, directory, posted.id).await {
        Ok(found) => found,
        Err(Error::NotFound) => return Ok(refuse(&unknown(), Some(&document))),
        Err(error) => return Err(error),
    };
    let secret = Secret::new(held.body.secret.clone().into_bytes());
    let known = secret.is(posted.secret.as_bytes());
    let scheme = held.body.state.authentication().map(|it| it.asked.scheme);
    if !known || !posted.door.lets_in(tenant.kind, scheme) {
        return Ok(refuse(&unknown(), Some(&document)));
    }
    let Some(scene) = held.body.state.scene() else {
        return Ok(refuse(&unknown(), Some(&document)));
    };
    let result = match document.read_as::<RReq>(&scene) {
        Ok(result) => Box::new(result),
        Err(fault) => return Ok(refuse(&fault, Some(&document))),
    };
    let event = Event::Result { result, secret: SecretFact::Matches };
    let operation = Operation::ReceiveResult;
    match notify(vault, directory, operation, origin, posted.id, &event).await {
        Ok(Ok((_, effects))) => Ok(answer(&effects, &document)),
        Ok(Err(refusal)) => Ok(refuse(&Refusal::fault(&refusal), Some(&document))),
        // It went between the two looks.
        Err(Error::NotFound) => Ok(refuse(&unknown(), Some(&document))),
        Err(error) => Err(error),
    }
}

fn answer(effects: &[Effect], document: &Document) -> Zeroizing<Vec<u8>> {
    let answer = effects.iter().find_map(|it| match it {
        Effect::AnswerResult { answer } => Some(answer.to_json()),
        Effect::SendRequest { .. } | Effect::Emit { .. } => None,
    });
    answer.unwrap_or_else(|| refuse(&unknown(), Some(document)))
}

fn unknown() -> Fault {
    Fault::at(ErrorCode::TransactionUnknown, "threeDSServerTransID")
}

fn refuse(fault: &Fault, document: Option<&Document>) -> Zeroizing<Vec<u8>> {
    let about = About { document, expected: Some(MessageType::RReq) };
    Erro::answering(fault, Component::Server, &about).to_json()
}
