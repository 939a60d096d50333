//! Where a request meets the limits: by its address before anything is looked up, and on everything
//! else once it is known who asks.

use std::{net::IpAddr, time::Duration};

use scrip_core::{
    audit::Operation,
    error::{Error, RateLimitExceeded},
    policy::{
        ApplicationKind, Caller,
        rate_limit::{
            ClientNetwork, CounterDigest, RateLimitCaller, RateLimitRequest, RateLimitTarget,
            counters::RateLimitRejection,
        },
    },
    time::Timestamp,
};

use crate::{
    app::App, limiter::RateLimitError, middleware::authenticate::AuthenticatedCaller,
    problem::Problem,
};

/// Whether the address may ask at all. It is counted later, when all there is to count is known.
pub(crate) fn check_address(app: &App, address: IpAddr) -> Result<(), Problem> {
    let now = app.vault.clock.now();
    app.limiter
        .check_address(now, ClientNetwork::from_address(address))
        .map_err(|it| too_many_requests(now, it))
}

/// Counts a request of somebody who is known.
pub(crate) async fn count_caller(
    app: &App,
    operation: Operation,
    authenticated: AuthenticatedCaller,
) -> Result<Caller, Problem> {
    let AuthenticatedCaller { caller, api_key_digest: api_key, is_legacy } = authenticated;
    let (tenant, principal) = (caller.tenant(), caller.principal());
    let request = RateLimitCaller {
        api_key,
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
    let target = RateLimitTarget::Operation(operation);
    count_request(app, &RateLimitRequest { address, target, caller: Some(request) }).await?;
    Ok(caller)
}

/// Counts a request of nobody in particular: its key is not known, or none is asked for.
pub async fn count_anonymous(app: &App, client: IpAddr) -> Result<(), Problem> {
    check_address(app, client)?;
    let address = ClientNetwork::from_address(client);
    count_request(app, &RateLimitRequest { address, target: RateLimitTarget::Other, caller: None })
        .await
}

async fn count_request(app: &App, request: &RateLimitRequest) -> Result<(), Problem> {
    let pepper = app.pepper().map_err(|_| Problem::Sealed)?;
    let counted = app.limiter.count_request(&*app.vault.clock, &pepper, request).await;
    counted.map_err(|stopped| match stopped {
        RateLimitError::Rejected(refused) => too_many_requests(app.vault.clock.now(), refused),
        RateLimitError::Unavailable => Problem::RateLimiterUnavailable,
    })
}

fn too_many_requests(now: Timestamp, rejection: RateLimitRejection) -> Problem {
    let RateLimitRejection { limit: row, rate, retry_after: wait } = rejection;
    // Not a fraction of a millisecond too early.
    let until = now.plus(wait.saturating_add(Duration::from_micros(999)));
    let limit = row.as_str();
    let excess = RateLimitExceeded {
        limit,
        requests: rate.requests.get(),
        retry_after: wait,
        retry_at: until,
    };
    Problem::Failed(Error::RateLimited(excess))
}
