//! Replays of stored responses: opened again for a caller with the rights that it has now.

use std::{collections::BTreeMap, fmt};

use scrip_seal::{Purpose, Secret};
use serde::Deserialize;

use crate::{
    Error,
    idempotency::{
        StoredResponse, StoredTokenData,
        request_digest::RepeatedRequest,
        response::{
            ResponseHead, ResponseToken, TokenData, TokenSpan, head_place, token_data_place,
            unreadable,
        },
    },
    policy::{AccessTarget, Caller, CallerRequirement},
    types::{
        Containers, Permission, Plaintext, Transform,
        id::{ThreeDsSessionId, TokenId},
    },
};

/// A stored response, limited to what its caller may see now.
pub struct Replay {
    pub status: u16,
    pub body: String,
    /// The tokens in the response, in the order of the body.
    pub tokens: Vec<ReplayedToken>,
    /// The 3-D Secure session with the outcome in this response.
    pub(crate) outcome_session: Option<ThreeDsSessionId>,
}

#[derive(Debug)]
pub struct ReplayedToken {
    pub span: TokenSpan,
    pub visibility: ReplayVisibility,
}

/// The visible part of a token in a replay.
#[derive(Debug)]
pub enum ReplayVisibility {
    /// As in the first response, with or without its data.
    Full(Option<Plaintext>),
    /// Only that the token exists.
    Outline,
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replay({})", self.status)
    }
}

/// The 422 detail for an idempotency key that is used for a second request.
pub(crate) const KEY_REUSED: &str =
    "this idempotency key was used with another request; use a new random key for each request";

/// Opens a stored response for a caller, who must still have the permission. The data of each token
/// is limited to the weaker of the transforms then and now. A token that the caller may no longer
/// read is reduced to its outline; if that applies to all tokens, the replay is denied.
///
/// Only the response to an equal request is opened.
pub(crate) fn open_response(
    caller: &Caller,
    response: &StoredResponse,
    request: RepeatedRequest,
) -> Result<Replay, Error> {
    let place = head_place(caller, &response.digest, response.created_at);
    let keys = &caller.tenant().keys;
    let head: ResponseHead = from_json(&keys.open(Purpose::Response, &place, &response.head)?)?;
    // Earlier versions of the vault stored no digest for the requests of backends.
    let is_comparable = head.request.is_some() || caller.is_browser();
    if is_comparable && !request.digest.equals(head.request, request.comparison) {
        return Err(Error::Unprocessable { reason: KEY_REUSED });
    }
    let required = head.permission.as_deref().map(parse_permission).transpose()?;
    let parts: BTreeMap<_, _> = response.token_data.iter().map(|it| (it.write_index, it)).collect();
    let mut tokens = Vec::with_capacity(head.tokens.len());
    let (mut any_visible, mut denial) = (false, None);
    match required {
        // Without tokens: the caller must still meet the requirement.
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
    /// The transform of the token for the caller now, if any. An outer error when the caller may no
    /// longer perform the operation.
    fn current_transform(
        &self,
        caller: &Caller,
        required: Permission,
        part: Option<&StoredTokenData>,
    ) -> Result<Result<Transform, Error>, Error> {
        let containers = Containers::parse(self.containers.split(',')).map_err(|_| unreadable())?;
        let id = |it: Option<&str>| it.map(TokenId::parse).transpose().map_err(|_| unreadable());
        let (own_id, also_id) = (id(self.id.as_deref())?, id(self.extra_id.as_deref())?);
        let limiting = parse_permissions(&self.extra_permissions)?;
        let required_too = parse_permissions(&self.required_permissions)?;
        let original = AccessTarget { containers: &containers, id: own_id.as_ref() };
        let mut transform = caller.permit(required, original)?.transform();
        // The token may have moved: the caller's transform in the new containers also applies.
        let moved = part.map(|it| &it.containers);
        if let Some(containers) = moved {
            match caller.permit(required, AccessTarget { containers, id: own_id.as_ref() }) {
                Ok(permit) => transform = transform.min(permit.transform()),
                Err(error) => return Ok(Err(error)),
            }
        }
        let places = || std::iter::once(&containers).chain(moved);
        let permit = |permission: Permission, containers| {
            caller.permit(permission, AccessTarget { containers, id: also_id.as_ref() })
        };
        for (permission, place) in limiting.iter().flat_map(|it| places().map(move |at| (it, at))) {
            match permit(*permission, place) {
                Ok(permit) => transform = transform.min(permit.transform()),
                Err(error) => return Ok(Err(error)),
            }
        }
        for (permission, place) in
            required_too.iter().flat_map(|it| places().map(move |at| (it, at)))
        {
            if let Err(error) = permit(*permission, place) {
                return Ok(Err(error));
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

fn parse_permissions(texts: &[String]) -> Result<Vec<Permission>, Error> {
    texts.iter().map(|it| parse_permission(it)).collect()
}

fn parse_permission(text: &str) -> Result<Permission, Error> {
    Permission::parse(text).ok_or_else(unreadable)
}

fn from_json<T: for<'a> Deserialize<'a>>(secret: &Secret) -> Result<T, Error> {
    serde_json::from_slice(secret.expose()).map_err(|_| unreadable())
}
