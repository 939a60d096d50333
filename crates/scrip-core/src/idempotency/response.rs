//! Stored responses for repeated requests with the same idempotency key.
//!
//! A stored response has a sealed head, with everything except the data of tokens, and sealed token
//! data for each token. When a token is deleted, the store deletes its token data without any key.
//! A stored response never contains a CVC: a replay equals the first response without any
//! `data.cvc`.

pub mod replay;

use std::{any::Any, collections::BTreeMap, fmt, sync::Arc};

use scrip_seal::{Place, Purpose, Sealed, Secret};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Error, Timestamp,
    idempotency::IdempotencyDigests,
    policy::{Caller, CallerRequirement, Permit},
    token::{VisibleData, WrittenToken},
    types::{
        Containers, Permission, Plaintext,
        id::{TenantId, ThreeDsSessionId, TokenId},
    },
};

/// A rendered response: its status, and its body without the data of tokens.
pub struct RenderedResponse {
    pub status: u16,
    pub body: String,
    /// The tokens in the response, in the order of the body.
    pub tokens: Vec<TokenSpan>,
}

/// The position of a token's object in a body. The data is inserted before the closing brace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenSpan {
    /// The index of the write.
    pub write_index: usize,
    pub start: usize,
    pub end: usize,
}

impl RenderedResponse {
    /// A response without a token.
    pub fn without_tokens(status: u16, body: String) -> Self {
        Self { status, body, tokens: Vec::new() }
    }

    /// The body is the object of one token.
    pub fn for_token(status: u16, body: String) -> Self {
        let whole = TokenSpan { write_index: 0, start: 0, end: body.len() };
        Self { status, body, tokens: vec![whole] }
    }
}

/// `Debug` prints no body: it may contain an API key that is returned once.
impl fmt::Debug for RenderedResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RenderedResponse({})", self.status)
    }
}

/// Stores the response of an operation.
///
/// The API crate provides `render`. It runs before the response is stored, in the transaction of a
/// token and before the transaction of a policy change.
pub struct ResponseRecorder<T: ?Sized> {
    pub claim: IdempotencyClaim,
    pub render: RenderResponse<T>,
}

pub(crate) type RenderResponse<T> = Arc<dyn Fn(&T) -> RenderedResponse + Send + Sync>;

impl<T: ?Sized> ResponseRecorder<T> {
    pub fn new(
        claim: IdempotencyClaim,
        render: impl Fn(&T) -> RenderedResponse + Send + Sync + 'static,
    ) -> Self {
        Self { claim, render: Arc::new(render) }
    }
}

impl ResponseRecorder<WrittenToken> {
    /// For a batch of one token.
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
        f.write_str("ResponseRecorder")
    }
}

/// The stored form of a response.
#[derive(Debug, Clone)]
pub struct IdempotencyRecord {
    pub digest: [u8; 32],
    pub created_at: Timestamp,
    pub head: Sealed,
    pub token_data: Vec<ResponseTokenData>,
}

/// The data of one token in a response. It is deleted with the token.
#[derive(Debug, Clone)]
pub struct ResponseTokenData {
    /// The index of the write that created or found the token.
    pub write_index: usize,
    pub sealed: Sealed,
}

#[derive(Serialize, Deserialize)]
struct ResponseHead {
    status: u16,
    /// `None` when an API key of the right kind was sufficient.
    permission: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tokens: Vec<ResponseToken>,
    /// The digest of the request. Responses of backends from earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request: Option<[u8; 32]>,
    /// The 3-D Secure session with the outcome in this body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome_session: Option<String>,
    body: String,
}

impl ResponseHead {
    /// Seals a response without token data.
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

/// The rights by which one token of a response was written and shown.
#[derive(Serialize, Deserialize, PartialEq, Eq)]
struct ResponseToken {
    /// `None` when the response contains only the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    span: Option<TokenSpan>,
    containers: String,
    /// The token id, for an access session with conditions on ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// Further permissions that the response needs for what it shows of the token. Their transforms
    /// limit the data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    extra_permissions: Vec<String>,
    /// Further permissions that the response needs, with any transform.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    required_permissions: Vec<String>,
    /// The id of the token that is shown by these permissions.
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

/// Seals the response of one caller under its claim.
pub(crate) struct ResponseSealer<'a> {
    pub(crate) caller: &'a Caller,
    /// The permission that the request required.
    pub(crate) permission: Permission,
    pub(crate) digest: IdempotencyDigests,
    pub(crate) now: Timestamp,
}

impl ResponseSealer<'_> {
    /// The record of the response for these written tokens, each with its permit.
    /// Errors: the response cannot be sealed.
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
            let token = response_token(permit, self.permission, written, span);
            // Of tokens that are shown only by id, one entry for each container set is enough.
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

/// A replay needs the permissions by which the view was built, as the view names them.
fn response_token(
    permit: &Permit,
    request_permission: Permission,
    written: &WrittenToken,
    span: Option<TokenSpan>,
) -> ResponseToken {
    let is_shown = span.is_some() && written.token.detail.is_some();
    let shown_by = Some(&written.token.shown_by).filter(|_| is_shown);
    // Every replay checks the permission of the request.
    let list_names = |permissions: &[Permission]| -> Vec<String> {
        let further = permissions.iter().filter(|it| **it != request_permission);
        further.map(|it| it.as_str().to_owned()).collect()
    };
    let extra_permissions = shown_by.map(|it| list_names(&it.limiting)).unwrap_or_default();
    let required_permissions = shown_by.map(|it| list_names(&it.required)).unwrap_or_default();
    let needs_none = extra_permissions.is_empty() && required_permissions.is_empty();
    let session = permit.caller().access_session().filter(|_| !needs_none);
    ResponseToken {
        span,
        containers: permit.containers().to_text(),
        id: permit.id().map(|it| it.as_str().to_owned()),
        extra_permissions,
        required_permissions,
        extra_id: session.map(|_| written.token.id.as_str().to_owned()),
    }
}

/// The response of a request without a token, sealed under its claim.
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

/// The response of a request for an entity with the containers of a token. A replay needs the
/// permission in these containers. If the response has the outcome of a 3-D Secure session, a
/// replay also needs the session, and the card must have the same number.
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
        required_permissions: Vec::new(),
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

fn head_place(caller: &Caller, digest: &[u8; 32], at: Timestamp) -> Place {
    place(caller, "head", digest, at)
}

/// Bound to its token: it cannot be opened for another token.
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

/// The place of a part of the record of an idempotency key.
pub(super) fn place(
    caller: &Caller,
    part: &'static str,
    digest: &[u8; 32],
    at: Timestamp,
) -> Place {
    let tenant = caller.tenant().id.0;
    let application = caller.application().0;
    Place::new("idempotency")
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

fn unreadable() -> Error {
    Error::Internal("a stored response cannot be parsed".into())
}

/// The lookup of a stored response.
#[derive(Debug, Clone, Copy)]
pub struct IdempotencyLookup {
    pub tenant: TenantId,
    pub digest: [u8; 32],
    pub now: Timestamp,
    /// Older responses have expired.
    pub since: Timestamp,
}

#[derive(Debug)]
pub enum ClaimOutcome {
    /// There is no response yet; the claim blocks other requests until it is dropped.
    Claimed(IdempotencyClaim),
    Completed(StoredResponse),
    InFlight,
}

/// A stored response, with the data of tokens that still exist.
#[derive(Debug)]
pub struct StoredResponse {
    pub digest: [u8; 32],
    pub created_at: Timestamp,
    pub head: Sealed,
    pub token_data: Vec<StoredTokenData>,
}

/// The data of one token in a response.
#[derive(Debug)]
pub struct StoredTokenData {
    /// The index of the write.
    pub write_index: usize,
    pub token: TokenId,
    /// The current containers of the token.
    pub containers: Containers,
    pub sealed: Sealed,
}

/// Locks an idempotency key while a request is in flight.
#[derive(Debug)]
pub struct IdempotencyClaim {
    pub digests: IdempotencyDigests,
    _guard: Box<dyn Any + Send + Sync>,
}

impl IdempotencyClaim {
    /// `guard` releases the engine's claim when it is dropped.
    pub fn new(digest: [u8; 32], guard: Box<dyn Any + Send + Sync>) -> Self {
        Self { digests: IdempotencyDigests { key: digest, request: None }, _guard: guard }
    }
}
