//! Answers that are remembered for a repeated request with the same idempotency key.
//!
//! A remembered answer has a sealed head, which is all but the data of the tokens it shows, and a
//! sealed part for the data of each. When a token goes, the store drops its part without any key.
//! None of them ever holds a cvc: a replay equals the first answer without any `data.cvc`.

use std::{collections::BTreeMap, fmt, sync::Arc};

use scrip_seal::{Place, Purpose, Sealed, Secret};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Error, Timestamp,
    id::{SessionId, TokenId},
    idempotency::{AnswerKey, Claim, StoredAnswer, StoredPart},
    policy::{Caller, DeduplicationBehavior, Needs, Permission, Permit, Subject, Transform},
    token::{Containers, Plain, Shown, Written},
};

/// An answer as the edge renders it: its status and its body without the data of tokens.
pub struct Rendered {
    pub status: u16,
    pub body: String,
    /// The tokens that it shows, in the order of the body.
    pub tokens: Vec<Span>,
}

/// Where a token's object stands in a body. Its data goes before the closing brace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Which of those that were written.
    pub token: usize,
    pub start: usize,
    pub end: usize,
}

impl Rendered {
    /// Not about a token.
    #[must_use]
    pub fn plain(status: u16, body: String) -> Self {
        Self { status, body, tokens: Vec::new() }
    }

    /// The body is one token's object.
    #[must_use]
    pub fn of_token(status: u16, body: String) -> Self {
        let whole = Span { token: 0, start: 0, end: body.len() };
        Self { status, body, tokens: vec![whole] }
    }
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
pub struct Remember<T: ?Sized> {
    pub claim: Claim,
    pub render: RenderAnswer<T>,
}

pub type RenderAnswer<T> = Arc<dyn Fn(&T) -> Rendered + Send + Sync>;

impl<T: ?Sized> Remember<T> {
    pub fn new(claim: Claim, render: impl Fn(&T) -> Rendered + Send + Sync + 'static) -> Self {
        Self { claim, render: Arc::new(render) }
    }
}

impl Remember<Written> {
    /// For a batch of one.
    pub(crate) fn for_single_token(self) -> Remember<[Written]> {
        let render = self.render;
        let none = || Rendered::plain(500, String::new());
        Remember::new(self.claim, move |all: &[Written]| {
            all.first().map_or_else(none, |it| render(it))
        })
    }
}

impl<T: ?Sized> fmt::Debug for Remember<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Remember")
    }
}

/// As the store keeps it.
#[derive(Debug, Clone)]
pub struct AnswerRecord {
    pub digest: [u8; 32],
    pub created_at: Timestamp,
    pub head: Sealed,
    pub parts: Vec<AnswerPart>,
}

/// What an answer shows of one token, and is lost with it.
#[derive(Debug, Clone)]
pub struct AnswerPart {
    /// Which of the writes made or found the token.
    pub at: usize,
    pub sealed: Sealed,
}

/// A remembered answer, cut to what its caller may see now.
pub struct Replay {
    pub status: u16,
    pub body: String,
    /// The tokens that it shows, in the order of the body.
    pub tokens: Vec<Replayed>,
    /// The 3-D Secure session whose outcome it shows.
    pub(crate) outcome_of: Option<SessionId>,
}

#[derive(Debug)]
pub struct Replayed {
    pub span: Span,
    pub sight: Sight,
}

/// What is left to see of a token in a remembered answer.
#[derive(Debug)]
pub enum Sight {
    /// As it was shown, with or without its data.
    Whole(Option<Plain>),
    /// Only that it is there.
    Outline,
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tokens: Vec<HeadToken>,
    /// Digest of the request, where only an equal one is answered with this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request: Option<[u8; 32]>,
    /// The 3-D Secure session whose outcome the body shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome_of: Option<String>,
    body: String,
}

impl Head {
    /// An answer without parts.
    fn seal(
        &self,
        caller: &Caller,
        digest: [u8; 32],
        at: Timestamp,
    ) -> Result<AnswerRecord, Error> {
        let place = head_place(caller, &digest, at);
        let secret = Secret::new(json_bytes(self)?);
        let head = caller.tenant().keys.seal(Purpose::Answer, &place, &secret);
        Ok(AnswerRecord { digest, created_at: at, head, parts: Vec::new() })
    }
}

/// By which rights one token of an answer was written and shown.
#[derive(Serialize, Deserialize, PartialEq, Eq)]
struct HeadToken {
    /// Nothing when only its id is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    span: Option<Span>,
    containers: String,
    /// The token, for a session whose rules may be about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// What the answer shows of it beyond what the permission lets one see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    also: Vec<String>,
    /// Likewise the one that was found and is shown by `also`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    also_id: Option<String>,
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
    data: Plain,
    masked: Option<Plain>,
}

/// Whose answer is remembered, and under which claim.
pub(crate) struct Answering<'a> {
    pub(crate) caller: &'a Caller,
    /// What the request needed.
    pub(crate) permission: Permission,
    pub(crate) digest: AnswerKey,
    pub(crate) now: Timestamp,
}

impl Answering<'_> {
    /// The answer to remember of what was written, each by its permit.
    ///
    /// # Errors
    /// It cannot be sealed.
    pub(crate) fn seal(
        &self,
        permits: &[Permit],
        written: &[Written],
        rendered: Rendered,
    ) -> Result<AnswerRecord, Error> {
        let mut spans: BTreeMap<_, _> = rendered.tokens.iter().map(|it| (it.token, *it)).collect();
        let mut tokens = Vec::with_capacity(written.len());
        let mut parts = Vec::new();
        for (at, (permit, written)) in permits.iter().zip(written).enumerate() {
            let span = spans.remove(&at);
            let token = head_token(permit, written, span);
            // Of those that show nothing but an id, one stands for all in the same place.
            if span.is_some() || !tokens.contains(&token) {
                tokens.push(token);
            }
            let shown = written.token.detail.as_ref().filter(|_| span.is_some());
            if let Some(sealed) = shown.map(|it| self.part(at, written, &it.shown)).transpose()? {
                parts.extend(sealed.map(|sealed| AnswerPart { at, sealed }));
            }
        }
        let Rendered { status, body, .. } = rendered;
        let permission = Some(self.permission.as_str().to_owned());
        let AnswerKey { digest, request } = self.digest;
        let head = Head { status, permission, tokens, request, outcome_of: None, body };
        Ok(AnswerRecord { parts, ..head.seal(self.caller, digest, self.now)? })
    }

    fn part(&self, at: usize, written: &Written, shown: &Shown) -> Result<Option<Sealed>, Error> {
        let Some(data) = &shown.data else { return Ok(None) };
        let masked = shown.masked.as_ref().map(Plain::expose);
        let data = DataRef { transform: shown.transform.as_str(), data: data.expose(), masked };
        let place = part_place(self.caller, &self.digest.digest, self.now, at, &written.token.id);
        let secret = Secret::new(json_bytes(&data)?);
        Ok(Some(self.caller.tenant().keys.seal(Purpose::Answer, &place, &secret)))
    }
}

fn head_token(permit: &Permit, written: &Written, span: Option<Span>) -> HeadToken {
    // A token that was there already is shown by the right to read it; and when it was updated,
    // by the right to do that too.
    let detail = written.token.detail.as_ref().filter(|_| span.is_some());
    let has_data = detail.is_some_and(|it| it.shown.data.is_some());
    let also: &[Permission] = match written.deduplicated.filter(|_| detail.is_some()) {
        None if permit.is_as_reader() && has_data => &[Permission::TokenRead],
        None => &[],
        Some(DeduplicationBehavior::ReadExisting) => &[Permission::TokenRead],
        Some(DeduplicationBehavior::UpdateExisting) => {
            &[Permission::TokenUpdate, Permission::TokenRead]
        }
    };
    let session = permit.caller().session().filter(|_| !also.is_empty());
    HeadToken {
        span,
        containers: permit.containers().text(),
        id: permit.id().map(|it| it.as_str().to_owned()),
        also: also.iter().map(|it| it.as_str().to_owned()).collect(),
        also_id: session.map(|_| written.token.id.as_str().to_owned()),
    }
}

/// The answer to something that is not about a token, sealed under the claim of its request.
pub(crate) fn seal_plain_answer(
    caller: &Caller,
    digest: AnswerKey,
    rendered: Rendered,
    needs: Needs,
    now: Timestamp,
) -> Result<AnswerRecord, Error> {
    let permission = match needs {
        Needs::Permission(permission) => Some(permission.as_str().to_owned()),
        Needs::Key | Needs::Kind(_) => None,
    };
    let Rendered { status, body, .. } = rendered;
    let AnswerKey { digest, request } = digest;
    let head = Head { status, permission, tokens: Vec::new(), request, outcome_of: None, body };
    head.seal(caller, digest, now)
}

/// The answer to a request about something that has the containers of a token. A replay needs the
/// permission in these containers. With the outcome of a 3-D Secure session, a replay needs the
/// session as well, and the card as it was.
pub(crate) fn seal_permitted_answer(
    permit: &Permit,
    key: AnswerKey,
    rendered: Rendered,
    outcome_of: Option<SessionId>,
    now: Timestamp,
) -> Result<AnswerRecord, Error> {
    let Rendered { status, body, .. } = rendered;
    let token = HeadToken {
        span: None,
        containers: permit.containers().text(),
        id: permit.id().map(|it| it.as_str().to_owned()),
        also: Vec::new(),
        also_id: None,
    };
    let permission = Some(permit.permission().as_str().to_owned());
    let AnswerKey { digest, request } = key;
    let outcome_of = outcome_of.map(|it| it.to_string());
    let head = Head { status, permission, tokens: vec![token], request, outcome_of, body };
    head.seal(permit.caller(), digest, now)
}

/// The 422 of a public key or access session that uses an idempotency key for a second request.
pub(crate) const OTHER_REQUEST: &str =
    "this idempotency key was used with another request; use a new random key for each request";

/// Opens a remembered answer for a caller that must still hold the permission, and shows the data
/// of each token at the weaker of the transforms then and now. A token that the caller may not see
/// any more is cut to its outline; when that is so of all, there is nothing to answer with.
///
/// Given a request digest, only the response to an equal request is opened.
pub(crate) fn open_answer(
    caller: &Caller,
    answer: &StoredAnswer,
    request: Option<[u8; 32]>,
) -> Result<Replay, Error> {
    let place = head_place(caller, &answer.digest, answer.created_at);
    let keys = &caller.tenant().keys;
    let head: Head = from_json(&keys.open(Purpose::Answer, &place, &answer.head)?)?;
    if request.is_some() && head.request != request {
        return Err(Error::Unprocessable { reason: OTHER_REQUEST });
    }
    let asked = head.permission.as_deref().map(permission).transpose()?;
    let parts: BTreeMap<_, _> = answer.parts.iter().map(|it| (it.at, it)).collect();
    let mut tokens = Vec::with_capacity(head.tokens.len());
    let (mut seen, mut refused) = (false, None);
    match asked {
        // Not about a token: the caller must still be what it was then.
        Some(asked) if head.tokens.is_empty() => caller.meets(Needs::Permission(asked))?,
        Some(asked) => {
            for token in &head.tokens {
                let part = token.span.and_then(|it| parts.get(&it.token).copied());
                let sight = match token.sight(caller, asked, part)? {
                    Ok(now) => {
                        seen = true;
                        Sight::Whole(open_part(caller, answer, part, now)?)
                    }
                    Err(error) => {
                        refused = Some(error);
                        Sight::Outline
                    }
                };
                tokens.extend(token.span.map(|span| Replayed { span, sight }));
            }
        }
        None => (),
    }
    if let Some(error) = refused.filter(|_| !seen) {
        return Err(error);
    }
    tokens.sort_by_key(|it| it.span.start);
    let session = |it: &str| SessionId::parse(it).ok_or_else(unreadable);
    let outcome_of = head.outcome_of.as_deref().map(session).transpose()?;
    Ok(Replay { status: head.status, body: head.body, tokens, outcome_of })
}

impl HeadToken {
    /// How much of it the caller may see now, if anything; an outer error when the caller may not
    /// do any more what it did.
    fn sight(
        &self,
        caller: &Caller,
        asked: Permission,
        part: Option<&StoredPart>,
    ) -> Result<Result<Transform, Error>, Error> {
        let containers = Containers::parse(self.containers.split(',')).map_err(|_| unreadable())?;
        let id = |it: Option<&str>| it.map(TokenId::parse).transpose().map_err(|_| unreadable());
        let (own_id, also_id) = (id(self.id.as_deref())?, id(self.also_id.as_deref())?);
        let also: Result<Vec<_>, _> = self.also.iter().map(|it| permission(it)).collect();
        let then = Subject { containers: &containers, id: own_id.as_ref() };
        let mut sight = caller.permit(asked, then)?.transform();
        // The token may have moved since: what its caller sees there counts too.
        let moved = part.map(|it| &it.containers);
        let own = moved.map(|it| (asked, Subject { containers: it, id: own_id.as_ref() }));
        let found = also?.into_iter().flat_map(|permission| {
            let places = std::iter::once(&containers).chain(moved);
            let subject = |containers| Subject { containers, id: also_id.as_ref() };
            places.map(move |it| (permission, subject(it))).collect::<Vec<_>>()
        });
        for (permission, subject) in own.into_iter().chain(found) {
            match caller.permit(permission, subject) {
                Ok(permit) => sight = sight.min(permit.transform()),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(sight))
    }
}

fn open_part(
    caller: &Caller,
    answer: &StoredAnswer,
    part: Option<&StoredPart>,
    now: Transform,
) -> Result<Option<Plain>, Error> {
    let Some(part) = part else { return Ok(None) };
    let place = part_place(caller, &answer.digest, answer.created_at, part.at, &part.token);
    let secret = caller.tenant().keys.open(Purpose::Answer, &place, &part.sealed)?;
    let Data { transform, data, masked } = from_json(&secret)?;
    let then = Transform::parse(&transform).ok_or_else(unreadable)?;
    Ok(match (then, now) {
        (Transform::Redact, _) | (_, Transform::Redact) => None,
        (Transform::Reveal, Transform::Mask) => masked,
        (Transform::Mask, Transform::Mask | Transform::Reveal)
        | (Transform::Reveal, Transform::Reveal) => Some(data),
    })
}

fn permission(text: &str) -> Result<Permission, Error> {
    Permission::parse(text).ok_or_else(unreadable)
}

fn head_place(caller: &Caller, digest: &[u8; 32], at: Timestamp) -> Place {
    place(caller, "head", digest, at)
}

/// Bound to its token: tied to another one it does not open.
fn part_place(
    caller: &Caller,
    digest: &[u8; 32],
    at: Timestamp,
    index: usize,
    token: &TokenId,
) -> Place {
    let index = i64::try_from(index).unwrap_or(i64::MAX);
    place(caller, "data", digest, at).number(index).text(token.as_str())
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
