//! Answers that are remembered for a repeated request with the same idempotency key.
//!
//! A remembered answer has two sealed parts: the head, which is all but the token's data, and the
//! data. When the token goes, the store drops the second part without any key. Neither ever holds
//! a cvc: a replay equals the first answer without `data.cvc`.

use std::fmt;

use scrip_seal::{Place, Purpose, Sealed, Secret};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    access::Subject,
    caller::{Caller, Needs, Permit},
    container::Containers,
    error::Error,
    id::TokenId,
    permission::{Permission, Transform},
    plain::Plain,
    store::{Claim, StoredAnswer},
    time::Timestamp,
    token::Written,
};

/// An answer as the edge renders it: its status and its body without the token's data.
pub struct Rendered {
    pub status: u16,
    pub body: String,
}

/// A body may hold a key that is shown once.
impl fmt::Debug for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rendered({})", self.status)
    }
}

/// What an operation needs to have its answer remembered.
///
/// `render` belongs to whoever knows the wire. It runs inside the transaction, because only there
/// is the outcome known.
#[derive(Debug)]
pub struct Remember<T> {
    pub claim: Claim,
    pub render: fn(&T) -> Rendered,
}

/// As the store keeps it.
#[derive(Debug, Clone)]
pub struct AnswerRecord {
    pub digest: [u8; 32],
    pub created_at: Timestamp,
    pub head: Sealed,
    pub data: Option<Sealed>,
}

/// A remembered answer, cut to what its caller may see now.
pub struct Replay {
    pub status: u16,
    pub body: String,
    pub data: Option<Plain>,
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replay({})", self.status)
    }
}

#[derive(Serialize, Deserialize)]
struct Head {
    status: u16,
    /// Nothing when a key of the right kind was all that was needed.
    permission: Option<String>,
    /// What the answer shows beyond what that permission lets one see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    also: Option<String>,
    /// Nothing when it is not about a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    containers: Option<String>,
    /// The token, for a session whose rules may be about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// Likewise the one that was found and is shown by `also`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    also_id: Option<String>,
    body: String,
}

#[derive(Serialize)]
struct DataRef<'a> {
    transform: &'a str,
    data: &'a Value,
    masked: Option<&'a Value>,
}

#[derive(Deserialize)]
struct Data {
    transform: String,
    data: Value,
    masked: Option<Value>,
}

/// The answer to remember of an outcome; nothing when it cannot be sealed, which then fails too.
pub(crate) fn remembered(
    permit: &Permit,
    digest: [u8; 32],
    written: &Written,
    render: fn(&Written) -> Rendered,
    now: Timestamp,
) -> Option<AnswerRecord> {
    seal_answer(permit, digest, render(written), written, now).ok()
}

/// Seals an answer under the claim that its request holds.
fn seal_answer(
    permit: &Permit,
    digest: [u8; 32],
    rendered: Rendered,
    written: &Written,
    now: Timestamp,
) -> Result<AnswerRecord, Error> {
    let keys = &permit.tenant().keys;
    let shown = written.token.detail.as_ref().map(|it| &it.shown);
    // A token that was there already is shown by the right to read it.
    let also = (written.deduplicated.is_some() && shown.is_some()).then_some(Permission::TokenRead);
    let also_id = also.and(permit.caller().session()).map(|_| written.token.id.as_str().to_owned());
    let head = Head {
        status: rendered.status,
        permission: Some(permit.permission().as_str().to_owned()),
        also: also.map(|it| it.as_str().to_owned()),
        containers: Some(permit.containers().text()),
        id: permit.id().map(|it| it.as_str().to_owned()),
        also_id,
        body: rendered.body,
    };
    let seal = |part, bytes: Vec<u8>| {
        let place = place(permit.caller(), part, &digest, now);
        keys.seal(Purpose::Answer, &place, &Secret::new(bytes))
    };
    let head = seal("head", json_bytes(&head)?);
    let shown = shown.and_then(|it| Some((it.transform, it.data.as_ref()?, it.masked.as_ref())));
    let data = match shown {
        None => None,
        Some((transform, data, masked)) => {
            let masked = masked.map(Plain::expose);
            let data = DataRef { transform: transform.as_str(), data: data.expose(), masked };
            Some(seal("data", json_bytes(&data)?))
        }
    };
    Ok(AnswerRecord { digest, created_at: now, head, data })
}

/// The answer to something that is not about a token, sealed under the claim of its request.
pub(crate) fn seal_plain_answer(
    caller: &Caller,
    digest: [u8; 32],
    rendered: Rendered,
    needs: Needs,
    now: Timestamp,
) -> Result<AnswerRecord, Error> {
    let permission = match needs {
        Needs::Permission(permission) => Some(permission.as_str().to_owned()),
        Needs::Key | Needs::Kind(_) => None,
    };
    let Rendered { status, body } = rendered;
    let (also, also_id, containers, id) = (None, None, None, None);
    let head = Head { status, permission, also, containers, id, also_id, body };
    let place = place(caller, "head", &digest, now);
    let head = Secret::new(json_bytes(&head)?);
    let head = caller.tenant().keys.seal(Purpose::Answer, &place, &head);
    Ok(AnswerRecord { digest, created_at: now, head, data: None })
}

/// Opens a remembered answer for a caller that must still hold the permission, and shows its data
/// at the weaker of the transforms then and now.
pub(crate) fn open_answer(caller: &Caller, answer: &StoredAnswer) -> Result<Replay, Error> {
    let keys = &caller.tenant().keys;
    let open = |part, sealed| {
        let place = place(caller, part, &answer.digest, answer.created_at);
        keys.open(Purpose::Answer, &place, sealed)
    };
    let head: Head = from_json(&open("head", &answer.head)?)?;
    let permission = |text: &str| Permission::parse(text).ok_or_else(unreadable);
    let asked = head.permission.as_deref().map(permission).transpose()?;
    let (asked, containers) = match (asked, &head.containers) {
        (Some(asked), Some(containers)) => (asked, containers),
        // Not about a token: the caller must still be what it was then.
        (asked, _) => {
            asked.map(|it| caller.meets(Needs::Permission(it))).transpose()?;
            return Ok(Replay { status: head.status, body: head.body, data: None });
        }
    };
    let containers = Containers::parse(containers.split(',')).map_err(|_| unreadable())?;
    let id = |it: Option<&str>| it.map(TokenId::parse).transpose().map_err(|_| unreadable());
    let allowed = |permission: Permission, id: Option<TokenId>| -> Result<Transform, Error> {
        let subject = |containers| Subject { containers, id: id.as_ref() };
        let then = caller.permit(permission, subject(&containers))?.transform();
        // The token may have moved since: what its caller sees there counts too.
        let moved = answer.containers.as_ref().map(|it| caller.permit(permission, subject(it)));
        Ok(moved.transpose()?.map_or(then, |it| it.transform().min(then)))
    };
    let mut now = allowed(asked, id(head.id.as_deref())?)?;
    if let Some(also) = &head.also {
        now = now.min(allowed(permission(also)?, id(head.also_id.as_deref())?)?);
    }

    let data = match &answer.data {
        None => None,
        Some(sealed) => {
            let Data { transform, data, masked } = from_json(&open("data", sealed)?)?;
            let (data, masked) = (Plain::new(data), masked.map(Plain::new));
            let then = Transform::parse(&transform).ok_or_else(unreadable)?;
            match (then, now) {
                (Transform::Redact, _) | (_, Transform::Redact) => None,
                (Transform::Reveal, Transform::Mask) => masked,
                (Transform::Mask, Transform::Mask | Transform::Reveal)
                | (Transform::Reveal, Transform::Reveal) => Some(data),
            }
        }
    };
    Ok(Replay { status: head.status, body: head.body, data })
}

fn place(caller: &Caller, part: &'static str, digest: &[u8; 32], at: Timestamp) -> Place {
    let tenant = caller.tenant().id.0;
    let application = caller.application().0;
    Place::new("answer")
        .text(part)
        .bytes(tenant.as_bytes())
        .bytes(application.as_bytes())
        .bytes(digest)
        .number(at.unix_ms)
}

fn json_bytes(value: &impl Serialize) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::with_capacity(2048);
    serde_json::to_writer(&mut bytes, value).map_err(|_| unreadable())?;
    Ok(bytes)
}

fn from_json<T: for<'a> Deserialize<'a>>(secret: &Secret) -> Result<T, Error> {
    serde_json::from_slice(secret.expose()).map_err(|_| unreadable())
}

fn unreadable() -> Error {
    Error::Internal("a remembered answer is not one of ours".into())
}
