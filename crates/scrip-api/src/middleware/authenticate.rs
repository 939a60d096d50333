//! Authenticates a request by its `BT-API-KEY` header.

pub(crate) mod field_application;

use std::sync::Arc;

use hyper::{HeaderMap, header::HeaderName};
use scrip_core::{
    operations::access_sessions::resume_access_session::resume_access_session,
    policy::{
        ApiKeyLookup, ApiKeyText, Caller, Principal, RequestOrigin, rate_limit::CounterDigest,
    },
    types::id::ApiKeyId,
};

use crate::{
    app::{App, long_evaluation},
    metrics::AuthenticationFailure,
    middleware::request_head::single_header,
    problem::{InvalidApiKey, Problem, not_ready::not_ready},
};

pub(crate) const HEADER: &str = "bt-api-key";

/// A caller, and the properties of its key that rate limits use.
pub(crate) struct AuthenticatedCaller {
    pub(crate) caller: Caller,
    pub(crate) api_key_digest: CounterDigest,
    pub(crate) is_legacy: bool,
}

pub(crate) async fn authenticate(
    app: &App,
    headers: &HeaderMap,
    origin: RequestOrigin,
) -> Result<AuthenticatedCaller, Problem> {
    let result = find_caller(app, headers, origin).await;
    if let Err(problem) = &result {
        count_failure(app, problem);
    }
    result
}

async fn find_caller(
    app: &App,
    headers: &HeaderMap,
    origin: RequestOrigin,
) -> Result<AuthenticatedCaller, Problem> {
    let key = single_header(headers, HEADER, "BT-API-KEY")?.filter(|it| !it.is_empty());
    let key = key.ok_or(Problem::Unauthorized(InvalidApiKey::Missing))?;
    let key = key.to_str().map_err(|_| Problem::Unauthorized(InvalidApiKey::Malformed))?;
    let (digest, found_key) = look_up_key(app, key)?;
    let (principal, api_key_id) = match found_key {
        Some((principal, api_key_id)) => (principal, Some(api_key_id)),
        None if ApiKeyText::is_session_key(key) => {
            let directory = app.directory.load_full().ok_or_else(|| not_ready(app))?;
            let session_principal = resume_access_session(&app.vault, &directory, key).await?;
            (Arc::new(session_principal.ok_or_else(|| reject_key(key))?), None)
        }
        None => return Err(reject_key(key)),
    };
    let (api_key_digest, is_legacy) =
        (CounterDigest::from_digest(&digest), ApiKeyText::is_legacy(key));
    let caller = Caller::new(principal, origin)
        .with_api_key(api_key_id)
        .with_field_mark(has_field_mark(headers))
        .with_field_values(field_application::has_field_values(headers))
        .with_field_kinds(field_application::field_kinds(headers)?)
        .with_long_evaluations(long_evaluation::run_in_slot);
    Ok(AuthenticatedCaller { caller, api_key_digest, is_legacy })
}

/// The header with which a frame of the hosted fields marks data that the page must not read. Any
/// value marks: an unknown one must not show more.
const FIELD_MARK_HEADER: HeaderName = HeaderName::from_static("scrip-field-mark");

pub(crate) fn has_field_mark(headers: &HeaderMap) -> bool {
    headers.contains_key(FIELD_MARK_HEADER)
}

/// Rejects a key that no lookup found.
fn reject_key(key: &str) -> Problem {
    let has_form = ApiKeyText::has_key_form(key);
    Problem::Unauthorized(if has_form { InvalidApiKey::Unknown } else { InvalidApiKey::Malformed })
}

/// Counts why there is no caller, if the request or its tenant's policy is the reason.
fn count_failure(app: &App, problem: &Problem) {
    let reason = match problem {
        Problem::Unauthorized(InvalidApiKey::Missing) => AuthenticationFailure::Missing,
        Problem::Unauthorized(InvalidApiKey::Malformed | InvalidApiKey::Unknown) => {
            AuthenticationFailure::Unknown
        }
        Problem::BadHeader(_) => AuthenticationFailure::Malformed,
        Problem::TenantPolicyAltered => AuthenticationFailure::PolicyAltered,
        Problem::NoRoute
        | Problem::FieldHost(_)
        | Problem::MissingFeature(_)
        | Problem::MethodNotAllowed
        | Problem::UntrustedCertificate
        | Problem::MissingMetricsKey
        | Problem::UnsupportedMediaType(_)
        | Problem::Gone(_)
        | Problem::TooLarge
        | Problem::LengthRequired
        | Problem::Misdirected
        | Problem::NotReady(_)
        | Problem::NoBodyMemory
        | Problem::NoResponseMemory
        | Problem::BodyTimeout
        | Problem::Malformed(_)
        | Problem::Overloaded
        | Problem::RateLimiterUnavailable
        | Problem::Failed(_) => return,
    };
    app.metrics.authentication_failures.increment(reason);
}

/// The digest of a key, and the principal and id of the API key with that digest.
type KeyLookup = ([u8; 32], Option<(Arc<Principal>, ApiKeyId)>);

/// Finds an application's key in memory by its digest.
fn look_up_key(app: &App, key: &str) -> Result<KeyLookup, Problem> {
    // Checked when the head arrived, but the state can change while the body arrives.
    if let Some(reason) = app.rejection_reason() {
        return Err(Problem::NotReady(reason));
    }
    let directory = app.directory.load();
    let directory = directory.as_ref().ok_or_else(|| not_ready(app))?;
    let digest = directory.digest(key);
    match directory.find_by_digest(&digest) {
        Some(ApiKeyLookup::Found { principal, api_key }) => {
            Ok((digest, Some((Arc::clone(principal), *api_key))))
        }
        Some(ApiKeyLookup::PolicyAltered) => Err(Problem::TenantPolicyAltered),
        None => Ok((digest, None)),
    }
}
