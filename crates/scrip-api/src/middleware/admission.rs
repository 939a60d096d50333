//! Admits a request: rate limits, caller, page and rights.
//!
//! The limit of the client address is checked before any lookup; all other limits are counted when the
//! caller of the `BT-API-KEY` header is known.

use std::{net::IpAddr, sync::Arc, time::Duration};

use hyper::{
    HeaderMap, StatusCode,
    header::{HOST, HeaderName, HeaderValue, ORIGIN},
    http::request::Parts,
};
use scrip_core::{
    Error, Timestamp,
    operations::access_sessions::resume_access_session::resume_access_session,
    policy::{
        ApiKeyLookup, ApiKeyText, Caller, CallerRequirement, Directory, FieldKinds, Principal,
        RequestOrigin,
        application::web_origin::WebOrigin,
        rate_limit::{
            ClientNetwork, CounterDigest, RateLimitCaller, RateLimitRequest, RateLimitTarget,
            counters::RateLimitRejection,
        },
    },
    types::{
        ApplicationKind,
        error::{Denial, RateLimitExceeded},
        id::{ApiKeyId, ApplicationId},
    },
};

use crate::{
    app::{App, long_evaluation},
    limiter::RateLimitError,
    metrics::AuthenticationFailure,
    problem::{InvalidApiKey, Problem, not_ready::not_ready},
    route::{request_host, single_header},
};

pub(crate) const HEADER: &str = "bt-api-key";

/// The header with which a frame of the hosted fields marks data that the page must not read. Any
/// value marks: an unknown one must not show more.
const FIELD_MARK_HEADER: HeaderName = HeaderName::from_static("scrip-field-mark");

/// The header with which a frame names its public application. A page chooses the key of a call, and
/// the frame adds what the payer typed. With a key of another application, the owner of that
/// application could read the value. Scripts of the page cannot change this header, and the vault
/// accepts only keys that belong to the application.
const FIELD_APPLICATION_HEADER: HeaderName = HeaderName::from_static("scrip-field-application");
const FIELD_KINDS_HEADER: HeaderName = HeaderName::from_static("scrip-field-kinds");

/// A caller, and the properties of its key that rate limits use.
pub(crate) struct AuthenticatedCaller {
    pub(crate) caller: Caller,
    api_key_digest: CounterDigest,
    is_legacy: bool,
}

/// Checks the host of a request of any kind. Another server could use another one of two hosts
/// (RFC 9112, section 3.2).
/// Errors: the request has several `Host` headers.
pub(crate) async fn check_host(app: &App, head: &Parts, address: IpAddr) -> Result<(), Problem> {
    if head.headers.get_all(HOST).iter().nth(1).is_none() {
        return Ok(());
    }
    count_anonymous(app, address).await?;
    Err(Problem::BadHeader("Host"))
}

/// Checks the limit of the address without counting. The request is counted later, when all of its
/// counters are known.
pub(crate) fn check_address(app: &App, address: IpAddr) -> Result<(), Problem> {
    let now = app.vault.clock.now();
    app.limiter
        .check_address(now, ClientNetwork::from_address(address))
        .map_err(|it| too_many_requests(now, it))
}

/// Finds the caller of a request, and counts the request.
/// Errors: a rate limit is full, or the API key is missing or invalid.
pub(crate) async fn admit_caller(
    app: &App,
    headers: &HeaderMap,
    origin: RequestOrigin,
    target: RateLimitTarget,
) -> Result<Caller, Problem> {
    let address = origin.address;
    check_address(app, address)?;
    match authenticate(app, headers, origin).await {
        Ok(authenticated) => count_caller(app, target, authenticated).await,
        Err(problem) => {
            if problem.status() == StatusCode::UNAUTHORIZED {
                app.auth_failures.record(address);
            }
            count_anonymous(app, address).await?;
            Err(problem)
        }
    }
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
        .with_field_values(has_field_values(headers))
        .with_field_kinds(field_kinds(headers)?)
        .with_long_evaluations(long_evaluation::run_in_slot);
    Ok(AuthenticatedCaller { caller, api_key_digest, is_legacy })
}

pub(crate) fn has_field_mark(headers: &HeaderMap) -> bool {
    headers.contains_key(FIELD_MARK_HEADER)
}

/// Whether the request has values of hosted fields.
pub(crate) fn has_field_values(headers: &HeaderMap) -> bool {
    headers.contains_key(FIELD_APPLICATION_HEADER)
}

/// The kinds of the values of hosted fields. Values without named kinds are texts.
pub(crate) fn field_kinds(headers: &HeaderMap) -> Result<FieldKinds, Problem> {
    let list = single_header(headers, FIELD_KINDS_HEADER, "Scrip-Field-Kinds")?;
    Ok(match list.map(HeaderValue::to_str) {
        Some(Ok(list)) => FieldKinds::parse(list),
        None if !has_field_values(headers) => FieldKinds::default(),
        Some(Err(_)) | None => FieldKinds::UNNAMED,
    })
}

/// Rejects a key that no lookup found.
fn reject_key(key: &str) -> Problem {
    let has_form = ApiKeyText::has_key_form(key);
    Problem::Unauthorized(if has_form { InvalidApiKey::Unknown } else { InvalidApiKey::Malformed })
}

/// Counts why there is no caller, if the request or its tenant's policy is the reason.
fn count_failure(app: &App, problem: &Problem) {
    let reason = if let Problem::Unauthorized(reason) = problem {
        match reason {
            InvalidApiKey::Missing => AuthenticationFailure::Missing,
            InvalidApiKey::Malformed | InvalidApiKey::Unknown => AuthenticationFailure::Unknown,
        }
    } else if matches!(problem, Problem::BadHeader(_)) {
        AuthenticationFailure::Malformed
    } else if matches!(problem, Problem::TenantPolicyAltered) {
        AuthenticationFailure::PolicyAltered
    } else {
        return;
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

/// Checks the page and the rights of a caller.
pub(crate) fn check_caller(
    app: &App,
    head: &Parts,
    caller: &Caller,
    requirement: CallerRequirement,
) -> Result<(), Problem> {
    check_origin(app, head, caller)?;
    check_field_key(app, &head.headers, Some(caller))?;
    Ok(caller.check_requirement(requirement)?)
}

/// Checks the origin of the page, if the application has origins. Servers and native programs send no
/// origin, and they could send any.
///
/// Errors: the page has another origin, or its origin is not known.
pub(crate) fn check_origin(app: &App, head: &Parts, caller: &Caller) -> Result<(), Error> {
    let (hosting, host) = (&app.settings.field_hosting, request_host(head).unwrap_or_default());
    let origins = caller.principal().origins();
    if origins.is_empty() {
        return Ok(());
    }
    let is_allowed = |value: &HeaderValue| {
        let origin = value.to_str().ok().and_then(|it| WebOrigin::parse(it).ok());
        origin.is_some_and(|it| origins.allow(&it) || hosting.is_own_origin(&it, host))
    };
    if head.headers.get_all(ORIGIN).iter().all(is_allowed) {
        return Ok(());
    }
    Err(Error::Forbidden(Denial::ForeignOrigin))
}

/// Checks that a request with values of hosted fields has a key of the frame's public application,
/// or of an access session that this application created. Other requests have no such rule.
///
/// Errors: the request has another key or no key, or the header names no public application.
pub(crate) fn check_field_key(
    app: &App,
    headers: &HeaderMap,
    caller: Option<&Caller>,
) -> Result<(), Problem> {
    let Some(value) = single_header(headers, FIELD_APPLICATION_HEADER, "Scrip-Field-Application")?
    else {
        return Ok(());
    };
    let key = value.to_str().map_err(|_| Problem::BadHeader("Scrip-Field-Application"))?;
    let application = find_public_application(app, key)?;
    // An access session has the application that created it.
    let is_same = caller.is_some_and(|it| Some(it.application()) == application);
    if is_same { Ok(()) } else { Err(Error::Forbidden(Denial::ForeignFieldKey).into()) }
}

fn find_public_application(app: &App, key: &str) -> Result<Option<ApplicationId>, Problem> {
    let directory = app.directory.load();
    let directory = directory.as_ref().ok_or_else(|| not_ready(app))?;
    match directory.authenticate(key) {
        Some(ApiKeyLookup::Found { principal, .. })
            if principal.kind() == ApplicationKind::Public =>
        {
            Ok(Some(principal.application()))
        }
        Some(ApiKeyLookup::Found { .. } | ApiKeyLookup::PolicyAltered) | None => Ok(None),
    }
}

/// Finds the caller again if the policy changed: while a body arrives, its sender can lose permissions.
/// `None` if the caller is the same.
pub(crate) async fn reauthenticate_if_changed(
    app: &App,
    directory_at_authentication: Option<&Arc<Directory>>,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<Option<Caller>, Problem> {
    let now = app.directory.load();
    let same = directory_at_authentication
        .zip(now.as_ref())
        .is_some_and(|(then, now)| Arc::ptr_eq(then, now));
    drop(now);
    if same && caller.access_session().is_none() && app.rejection_reason().is_none() {
        return Ok(None);
    }
    Ok(Some(authenticate(app, headers, caller.origin().clone()).await?.caller))
}

/// Counts the request of an authenticated caller.
async fn count_caller(
    app: &App,
    target: RateLimitTarget,
    authenticated: AuthenticatedCaller,
) -> Result<Caller, Problem> {
    let AuthenticatedCaller { caller, api_key_digest, is_legacy } = authenticated;
    let (tenant, principal) = (caller.tenant(), caller.principal());
    let rate_limit_caller = RateLimitCaller {
        api_key: api_key_digest,
        kind: if caller.access_session().is_some() {
            ApplicationKind::Public
        } else {
            principal.kind()
        },
        is_legacy,
        tenant: CounterDigest(*tenant.id.0.as_bytes()),
        tenant_kind: tenant.kind,
        share: tenant.quotas.rate_limit,
    };
    let address = ClientNetwork::from_address(caller.origin().address);
    count_request(app, &RateLimitRequest { address, target, caller: Some(rate_limit_caller) })
        .await?;
    Ok(caller)
}

/// Counts the request of an unauthenticated client: its key is unknown, or the route needs no key.
pub async fn count_anonymous(app: &App, client: IpAddr) -> Result<(), Problem> {
    check_address(app, client)?;
    let address = ClientNetwork::from_address(client);
    count_request(app, &RateLimitRequest { address, target: RateLimitTarget::Other, caller: None })
        .await
}

/// Counts the call of a proxy that needs no API key.
pub(crate) async fn count_keyless(
    app: &App,
    address: ClientNetwork,
    target: RateLimitTarget,
) -> Result<(), Problem> {
    count_request(app, &RateLimitRequest { address, target, caller: None }).await
}

async fn count_request(app: &App, request: &RateLimitRequest) -> Result<(), Problem> {
    let pepper = app.pepper().map_err(|_| not_ready(app))?;
    let decision = app.limiter.count_request(&*app.vault.clock, &pepper, request).await;
    decision.map_err(|error| match error {
        RateLimitError::Rejected(rejection) => too_many_requests(app.vault.clock.now(), rejection),
        RateLimitError::Unavailable => Problem::RateLimiterUnavailable,
    })
}

fn too_many_requests(now: Timestamp, rejection: RateLimitRejection) -> Problem {
    let RateLimitRejection { limit, rate, retry_after } = rejection;
    // Rounds up to a full millisecond, so that a retry is not too early.
    let retry_at = now.plus(retry_after.saturating_add(Duration::from_micros(999)));
    let excess = RateLimitExceeded {
        limit: limit.as_str(),
        requests: rate.requests.get(),
        retry_after,
        retry_at,
    };
    Problem::Failed(Error::RateLimited(excess))
}
