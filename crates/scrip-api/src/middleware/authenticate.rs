//! From a header to a caller.

use std::sync::Arc;

use hyper::{HeaderMap, header::HeaderValue};
use scrip_core::{
    id::ApiKeyId,
    operations::access_sessions::resume_access_session::resume_access_session,
    policy::{
        ApiKeyLookup, ApiKeyText, Caller, Principal, RequestOrigin, rate_limit::CounterDigest,
    },
};

use crate::{
    app::App, metrics::AuthenticationFailure, middleware::long_evaluation, problem::Problem,
};

const HEADER: &str = "bt-api-key";

/// A caller, and what its key tells beyond who it is.
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
    let found = find_caller(app, headers, origin).await;
    if let Err(problem) = &found {
        count_failure(app, headers, problem);
    }
    found
}

async fn find_caller(
    app: &App,
    headers: &HeaderMap,
    origin: RequestOrigin,
) -> Result<AuthenticatedCaller, Problem> {
    let key = single_header(headers, HEADER, "BT-API-KEY")?.ok_or(Problem::Unauthorized)?;
    let key = key.to_str().map_err(|_| Problem::Unauthorized)?;
    let (digest, known) = look_up_key(app, key)?;
    let (principal, api_key_id) = match known {
        Some((principal, api_key)) => (principal, Some(api_key)),
        None if ApiKeyText::is_session_key(key) => {
            let directory = app.directory.load_full().ok_or(Problem::Sealed)?;
            let resumed = resume_access_session(&app.vault, &directory, key).await?;
            (Arc::new(resumed.ok_or(Problem::Unauthorized)?), None)
        }
        None => return Err(Problem::Unauthorized),
    };
    let (api_key, is_legacy) = (CounterDigest::from_digest(&digest), ApiKeyText::is_legacy(key));
    let caller = Caller::new(principal, origin)
        .with_api_key(api_key_id)
        .with_long_evaluations(long_evaluation::run_in_slot);
    Ok(AuthenticatedCaller { caller, api_key_digest: api_key, is_legacy })
}

/// Why there is no caller, where that is the request's fault or its tenant's.
fn count_failure(app: &App, headers: &HeaderMap, problem: &Problem) {
    let why = match problem {
        Problem::Unauthorized if headers.contains_key(HEADER) => AuthenticationFailure::Unknown,
        Problem::Unauthorized => AuthenticationFailure::Missing,
        Problem::BadHeader(_) => AuthenticationFailure::Malformed,
        Problem::TenantPolicyAltered => AuthenticationFailure::PolicyAltered,
        Problem::NoRoute
        | Problem::MethodNotAllowed
        | Problem::MissingMetricsKey
        | Problem::UnsupportedMediaType(_)
        | Problem::Gone(_)
        | Problem::TooLarge
        | Problem::LengthRequired
        | Problem::Misdirected
        | Problem::NotReady
        | Problem::NoBodyMemory
        | Problem::NoResponseMemory
        | Problem::BodyTimeout
        | Problem::Malformed(_)
        | Problem::Sealed
        | Problem::RateLimiterUnavailable
        | Problem::Failed(_) => return,
    };
    app.metrics.authentication_failures.increment(why);
}

/// A key's digest, and the application and id of the key that has it.
type KeyLookup = ([u8; 32], Option<(Arc<Principal>, ApiKeyId)>);

/// An application's key, found in memory by its digest.
fn look_up_key(app: &App, key: &str) -> Result<KeyLookup, Problem> {
    // Asked when the head arrived too; but a body may have taken its time since.
    if app.is_sealed() {
        return Err(Problem::Sealed);
    }
    let directory = app.directory.load();
    let directory = directory.as_ref().ok_or(Problem::Sealed)?;
    let digest = directory.digest(key);
    match directory.find_by_digest(&digest) {
        Some(ApiKeyLookup::Found { principal, api_key }) => {
            Ok((digest, Some((Arc::clone(principal), *api_key))))
        }
        Some(ApiKeyLookup::PolicyAltered) => Err(Problem::TenantPolicyAltered),
        None => Ok((digest, None)),
    }
}

/// A header that decides something must not be two: which of them counts is a guess, and a proxy
/// in front may guess otherwise.
pub fn single_header<'a>(
    headers: &'a HeaderMap,
    name: &str,
    display_name: &'static str,
) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (first, None) => Ok(first),
        (_, Some(_)) => Err(Problem::BadHeader(display_name)),
    }
}
