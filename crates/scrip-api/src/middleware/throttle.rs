//! Applies the rate limits: by client address before any lookup, by all other limits when the
//! caller is known.

use std::{net::IpAddr, time::Duration};

use scrip_core::{
    Error, Timestamp,
    policy::{
        Caller,
        rate_limit::{
            ClientNetwork, CounterDigest, RateLimitCaller, RateLimitRequest, RateLimitTarget,
            counters::RateLimitRejection,
        },
    },
    types::{ApplicationKind, error::RateLimitExceeded},
};

use crate::{
    app::App,
    limiter::RateLimitError,
    middleware::authenticate::AuthenticatedCaller,
    problem::{Problem, not_ready::not_ready},
};

/// Checks the limit of the address without counting. The request is counted later, when all of its
/// counters are known.
pub(crate) fn check_address(app: &App, address: IpAddr) -> Result<(), Problem> {
    let now = app.vault.clock.now();
    app.limiter
        .check_address(now, ClientNetwork::from_address(address))
        .map_err(|it| too_many_requests(now, it))
}

/// Counts the request of an authenticated caller.
pub(crate) async fn count_caller(
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
