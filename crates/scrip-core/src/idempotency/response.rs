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
    id::{ThreeDsSessionId, TokenId},
    idempotency::{IdempotencyClaim, IdempotencyDigests, StoredResponse, StoredTokenData},
    policy::{
        AccessTarget, Caller, CallerRequirement, DeduplicationBehavior, Permission, Permit,
        Transform,
    },
    token::{Containers, Plaintext, VisibleData, WrittenToken},
};

/// An answer as the edge renders it: its status and its body without the data of tokens.
pub struct RenderedResponse {
    pub status: u16,
    pub body: String,
    /// The tokens that it shows, in the order of the body.
    pub tokens: Vec<TokenSpan>,
}

/// Where a token's object stands in a body. Its data goes before the closing brace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenSpan {
    /// Which of those that were written.
    pub write_index: usize,
    pub start: usize,
    pub end: usize,
}

impl RenderedResponse {
    /// Not about a token.
    #[must_use]
    pub fn without_tokens(status: u16, body: String) -> Self {
        Self { status, body, tokens: Vec::new() }
    }

    /// The body is one token's object.
    #[must_use]
    pub fn for_token(status: u16, body: String) -> Self {
        let whole = TokenSpan { write_index: 0, start: 0, end: body.len() };
        Self { status, body, tokens: vec![whole] }
    }
}

/// A body may hold a key that is shown once.
impl fmt::Debug for RenderedResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rendered({})", self.status)
    }
}

/// What an operation needs to have its answer remembered.
///
/// `render` belongs to whoever knows the wire. It runs inside the transaction, because only there
/// is the outcome known.
pub struct ResponseRecorder<T: ?Sized> {
    pub claim: IdempotencyClaim,
    pub render: RenderResponse<T>,
}

pub type RenderResponse<T> = Arc<dyn Fn(&T) -> RenderedResponse + Send + Sync>;

impl<T: ?Sized> ResponseRecorder<T> {
    pub fn new(
        claim: IdempotencyClaim,
        render: impl Fn(&T) -> RenderedResponse + Send + Sync + 'static,
    ) -> Self {
        Self { claim, render: Arc::new(render) }
    }
}

impl ResponseRecorder<WrittenToken> {
    /// For a batch of one.
    pub(crate) fn for_single_token(self) -> ResponseRecorder<[WrittenToken]> {
        let render = self.render;
        let none = || RenderedResponse::without_tokens(500, String::new());
        ResponseRecorder::new(self.claim, move |all: &[WrittenToken]| {
            all.first().map_or_else(none, |it| render(it))
        })
    }
}

impl<T: ?Sized> fmt::Debug for ResponseRecorder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Remember")
    }
}

/// As the store keeps it.
#[derive(Debug, Clone)]
pub struct IdempotencyRecord {
    pub digest: [u8; 32],
    pub created_at: Timestamp,
    pub head: Sealed,
    pub token_data: Vec<ResponseTokenData>,
}

/// What an answer shows of one token, and is lost with it.
#[derive(Debug, Clone)]
pub struct ResponseTokenData {
    /// Which of the writes made or found the token.
    pub write_index: usize,
    pub sealed: Sealed,
}

/// A remembered answer, cut to what its caller may see now.
pub struct Replay {
    pub status: u16,
    pub body: String,
    /// The tokens that it shows, in the order of the body.
    pub tokens: Vec<ReplayedToken>,
    /// The 3-D Secure session whose outcome it shows.
    pub(crate) outcome_session: Option<ThreeDsSessionId>,
}

#[derive(Debug)]
pub struct ReplayedToken {
    pub span: TokenSpan,
    pub visibility: ReplayVisibility,
}

/// What is left to see of a token in a remembered answer.
#[derive(Debug)]
pub enum ReplayVisibility {
    /// As it was shown, with or without its data.
    Full(Option<Plaintext>),
    /// Only that it is there.
    Outline,
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replay({})", self.status)
    }
}

#[derive(Serialize, Deserialize)]
struct ResponseHead {
    status: u16,
    /// Nothing when a key of the right kind was all that was needed.
    permission: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tokens: Vec<ResponseToken>,
    /// Digest of the request, where only an equal one is answered with this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request: Option<[u8; 32]>,
    /// The 3-D Secure session whose outcome the body shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome_session: Option<String>,
    body: String,
}

impl ResponseHead {
    /// An answer without parts.
    fn seal_record(
        &self,
        caller: &Caller,
        digest: [u8; 32],
        at: Timestamp,
    ) -> Result<IdempotencyRecord, Error> {
        let place = head_place(caller, &digest, at);
        let secret = Secret::new(json_bytes(self)?);
        let head = caller.tenant().keys.seal(Purpose::Response, &place, &secret);
        Ok(IdempotencyRecord { digest, created_at: at, head, token_data: Vec::new() })
    }
}

/// By which rights one token of an answer was written and shown.
#[derive(Serialize, Deserialize, PartialEq, Eq)]
struct ResponseToken {
    /// Nothing when only its id is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    span: Option<TokenSpan>,
    containers: String,
    /// The token, for a session whose rules may be about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// What the answer shows of it beyond what the permission lets one see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    extra_permissions: Vec<String>,
    /// Likewise the one that was found and is shown by `also`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    extra_id: Option<String>,
}

#[derive(Serialize)]
struct TokenDataRef<'a> {
    transform: &'a str,
    data: &'a Value,
    masked: Option<&'a Value>,
}

#[derive(Deserialize)]
struct TokenData {
    transform: String,
    data: Plaintext,
    masked: Option<Plaintext>,
}

/// Whose answer is remembered, and under which claim.
pub(crate) struct ResponseSealer<'a> {
    pub(crate) caller: &'a Caller,
    /// What the request needed.
    pub(crate) permission: Permission,
    pub(crate) digest: IdempotencyDigests,
    pub(crate) now: Timestamp,
}

impl ResponseSealer<'_> {
    /// The answer to remember of what was written, each by its permit.
    ///
    /// # Errors
    /// It cannot be sealed.
    pub(crate) fn seal_record(
        &self,
        permits: &[Permit],
        written: &[WrittenToken],
        rendered: RenderedResponse,
    ) -> Result<IdempotencyRecord, Error> {
        let mut spans: BTreeMap<_, _> =
            rendered.tokens.iter().map(|it| (it.write_index, *it)).collect();
        let mut tokens = Vec::with_capacity(written.len());
        let mut parts = Vec::new();
        for (at, (permit, written)) in permits.iter().zip(written).enumerate() {
            let span = spans.remove(&at);
            let token = response_token(permit, written, span);
            // Of those that show nothing but an id, one stands for all in the same place.
            if span.is_some() || !tokens.contains(&token) {
                tokens.push(token);
            }
            let shown = written.token.detail.as_ref().filter(|_| span.is_some());
            if let Some(sealed) =
                shown.map(|it| self.seal_token_data(at, written, &it.visible)).transpose()?
            {
                parts.extend(sealed.map(|sealed| ResponseTokenData { write_index: at, sealed }));
            }
        }
        let RenderedResponse { status, body, .. } = rendered;
        let permission = Some(self.permission.as_str().to_owned());
        let IdempotencyDigests { key: digest, request } = self.digest;
        let head =
            ResponseHead { status, permission, tokens, request, outcome_session: None, body };
        Ok(IdempotencyRecord {
            token_data: parts,
            ..head.seal_record(self.caller, digest, self.now)?
        })
    }

    fn seal_token_data(
        &self,
        at: usize,
        written: &WrittenToken,
        shown: &VisibleData,
    ) -> Result<Option<Sealed>, Error> {
        let Some(data) = &shown.data else { return Ok(None) };
        let masked = shown.masked.as_ref().map(Plaintext::expose);
        let data =
            TokenDataRef { transform: shown.transform.as_str(), data: data.expose(), masked };
        let place =
            token_data_place(self.caller, &self.digest.key, self.now, at, &written.token.id);
        let secret = Secret::new(json_bytes(&data)?);
        Ok(Some(self.caller.tenant().keys.seal(Purpose::Response, &place, &secret)))
    }
}

fn response_token(
    permit: &Permit,
    written: &WrittenToken,
    span: Option<TokenSpan>,
) -> ResponseToken {
    // A token that was there already is shown by the right to read it; and when it was updated,
    // by the right to do that too.
    let detail = written.token.detail.as_ref().filter(|_| span.is_some());
    let has_data = detail.is_some_and(|it| it.visible.data.is_some());
    let also: &[Permission] = match written.deduplicated.filter(|_| detail.is_some()) {
        None if permit.is_limited_to_read() && has_data => &[Permission::TokenRead],
        None => &[],
        Some(DeduplicationBehavior::ReadExisting) => &[Permission::TokenRead],
        Some(DeduplicationBehavior::UpdateExisting) => {
            &[Permission::TokenUpdate, Permission::TokenRead]
        }
    };
    let session = permit.caller().access_session().filter(|_| !also.is_empty());
    ResponseToken {
        span,
        containers: permit.containers().to_text(),
        id: permit.id().map(|it| it.as_str().to_owned()),
        extra_permissions: also.iter().map(|it| it.as_str().to_owned()).collect(),
        extra_id: session.map(|_| written.token.id.as_str().to_owned()),
    }
}

/// The answer to something that is not about a token, sealed under the claim of its request.
pub(crate) fn seal_response(
    caller: &Caller,
    digest: IdempotencyDigests,
    rendered: RenderedResponse,
    requirement: CallerRequirement,
    now: Timestamp,
) -> Result<IdempotencyRecord, Error> {
    let permission = match requirement {
        CallerRequirement::Permission(permission) => Some(permission.as_str().to_owned()),
        CallerRequirement::AnyKey | CallerRequirement::Kind(_) => None,
    };
    let RenderedResponse { status, body, .. } = rendered;
    let IdempotencyDigests { key: digest, request } = digest;
    let head = ResponseHead {
        status,
        permission,
        tokens: Vec::new(),
        request,
        outcome_session: None,
        body,
    };
    head.seal_record(caller, digest, now)
}

/// The answer to a request about something that has the containers of a token. A replay needs the
/// permission in these containers. With the outcome of a 3-D Secure session, a replay needs the
/// session as well, and the card as it was.
pub(crate) fn seal_permitted_response(
    permit: &Permit,
    key: IdempotencyDigests,
    rendered: RenderedResponse,
    outcome_session: Option<ThreeDsSessionId>,
    now: Timestamp,
) -> Result<IdempotencyRecord, Error> {
    let RenderedResponse { status, body, .. } = rendered;
    let token = ResponseToken {
        span: None,
        containers: permit.containers().to_text(),
        id: permit.id().map(|it| it.as_str().to_owned()),
        extra_permissions: Vec::new(),
        extra_id: None,
    };
    let permission = Some(permit.permission().as_str().to_owned());
    let IdempotencyDigests { key: digest, request } = key;
    let outcome_of = outcome_session.map(|it| it.to_string());
    let head = ResponseHead {
        status,
        permission,
        tokens: vec![token],
        request,
        outcome_session: outcome_of,
        body,
    };
    head.seal_record(permit.caller(), digest, now)
}

/// The 422 of a public key or access session that uses an idempotency key for a second request.
pub(crate) const KEY_REUSED: &str =
    "this idempotency key was used with another request; use a new random key for each request";

/// Opens a remembered answer for a caller that must still hold the permission, and shows the data
/// of each token at the weaker of the transforms then and now. A token that the caller may not see
/// any more is cut to its outline; when that is so of all, there is nothing to answer with.
///
/// Given a request digest, only the response to an equal request is opened.
pub(crate) fn open_response(
    caller: &Caller,
    response: &StoredResponse,
    request: Option<[u8; 32]>,
) -> Result<Replay, Error> {
    let place = head_place(caller, &response.digest, response.created_at);
    let keys = &caller.tenant().keys;
    let head: ResponseHead = from_json(&keys.open(Purpose::Response, &place, &response.head)?)?;
    if request.is_some() && head.request != request {
        return Err(Error::Unprocessable { reason: KEY_REUSED });
    }
    let required = head.permission.as_deref().map(parse_permission).transpose()?;
    let parts: BTreeMap<_, _> = response.token_data.iter().map(|it| (it.write_index, it)).collect();
    let mut tokens = Vec::with_capacity(head.tokens.len());
    let (mut any_visible, mut denial) = (false, None);
    match required {
        // Not about a token: the caller must still be what it was then.
        Some(required) if head.tokens.is_empty() => {
            caller.check_requirement(CallerRequirement::Permission(required))?
        }
        Some(required) => {
            for token in &head.tokens {
                let part = token.span.and_then(|it| parts.get(&it.write_index).copied());
                let visibility = match token.current_transform(caller, required, part)? {
                    Ok(now) => {
                        any_visible = true;
                        ReplayVisibility::Full(open_token_data(caller, response, part, now)?)
                    }
                    Err(error) => {
                        denial = Some(error);
                        ReplayVisibility::Outline
                    }
                };
                tokens.extend(token.span.map(|span| ReplayedToken { span, visibility }));
            }
        }
        None => (),
    }
    if let Some(error) = denial.filter(|_| !any_visible) {
        return Err(error);
    }
    tokens.sort_by_key(|it| it.span.start);
    let session = |it: &str| ThreeDsSessionId::parse(it).ok_or_else(unreadable);
    let outcome_of = head.outcome_session.as_deref().map(session).transpose()?;
    Ok(Replay { status: head.status, body: head.body, tokens, outcome_session: outcome_of })
}

impl ResponseToken {
    /// How much of it the caller may see now, if anything; an outer error when the caller may not
    /// do any more what it did.
    fn current_transform(
        &self,
        caller: &Caller,
        required: Permission,
        part: Option<&StoredTokenData>,
    ) -> Result<Result<Transform, Error>, Error> {
        let containers = Containers::parse(self.containers.split(',')).map_err(|_| unreadable())?;
        let id = |it: Option<&str>| it.map(TokenId::parse).transpose().map_err(|_| unreadable());
        let (own_id, also_id) = (id(self.id.as_deref())?, id(self.extra_id.as_deref())?);
        let also: Result<Vec<_>, _> =
            self.extra_permissions.iter().map(|it| parse_permission(it)).collect();
        let original = AccessTarget { containers: &containers, id: own_id.as_ref() };
        let mut transform = caller.permit(required, original)?.transform();
        // The token may have moved since: what its caller sees there counts too.
        let moved = part.map(|it| &it.containers);
        let own = moved.map(|it| (required, AccessTarget { containers: it, id: own_id.as_ref() }));
        let found = also?.into_iter().flat_map(|permission| {
            let places = std::iter::once(&containers).chain(moved);
            let subject = |containers| AccessTarget { containers, id: also_id.as_ref() };
            places.map(move |it| (permission, subject(it))).collect::<Vec<_>>()
        });
        for (permission, subject) in own.into_iter().chain(found) {
            match caller.permit(permission, subject) {
                Ok(permit) => transform = transform.min(permit.transform()),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(transform))
    }
}

fn open_token_data(
    caller: &Caller,
    response: &StoredResponse,
    part: Option<&StoredTokenData>,
    now: Transform,
) -> Result<Option<Plaintext>, Error> {
    let Some(part) = part else { return Ok(None) };
    let place = token_data_place(
        caller,
        &response.digest,
        response.created_at,
        part.write_index,
        &part.token,
    );
    let secret = caller.tenant().keys.open(Purpose::Response, &place, &part.sealed)?;
    let TokenData { transform, data, masked } = from_json(&secret)?;
    let then = Transform::parse(&transform).ok_or_else(unreadable)?;
    Ok(match (then, now) {
        (Transform::Redact, _) | (_, Transform::Redact) => None,
        (Transform::Reveal, Transform::Mask) => masked,
        (Transform::Mask, Transform::Mask | Transform::Reveal)
        | (Transform::Reveal, Transform::Reveal) => Some(data),
    })
}

fn parse_permission(text: &str) -> Result<Permission, Error> {
    Permission::parse(text).ok_or_else(unreadable)
}

fn head_place(caller: &Caller, digest: &[u8; 32], at: Timestamp) -> Place {
    place(caller, "head", digest, at)
}

/// Bound to its token: tied to another one it does not open.
fn token_data_place(
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
