//! Where a request meets the limits: by its address before anything is looked up, and on everything
//! else once it is known who asks.

use std::{net::IpAddr, time::Duration};

use scrip_core::{
    audit::Operation,
    error::{Error, Excess},
    policy::{
        ApplicationKind, Caller,
        rate_limit::{CallerFacts, Facts, Mark, Network, Target, counters::Refused},
    },
    time::Timestamp,
};

use crate::{
    app::App, limiter::Stopped, middleware::authenticate::Authenticated, problem::Problem,
};

/// Whether the address may ask at all. It is counted later, when all there is to count is known.
pub(crate) fn address(app: &App, address: IpAddr) -> Result<(), Problem> {
    let now = app.vault.clock.now();
    app.limiter.ask_address(now, Network::of(address)).map_err(|it| too_many(now, it))
}

/// Counts a request of somebody who is known.
pub(crate) async fn caller(
    app: &App,
    operation: Operation,
    known: Authenticated,
) -> Result<Caller, Problem> {
    let Authenticated { caller, api_key, is_legacy } = known;
    let (tenant, principal) = (caller.tenant(), caller.principal());
    let facts = CallerFacts {
        api_key,
        kind: if caller.session().is_some() { ApplicationKind::Public } else { principal.kind() },
        is_legacy,
        tenant: Mark(*tenant.id.0.as_bytes()),
        tenant_kind: tenant.kind,
        share: tenant.quotas.rate_limit,
    };
    let address = Network::of(caller.origin().address);
    let target = Target::Operation(operation);
    count(app, &Facts { address, target, caller: Some(facts) }).await?;
    Ok(caller)
}

/// Counts a request of nobody in particular: its key is not known, or none is asked for.
pub async fn stranger(app: &App, from: IpAddr) -> Result<(), Problem> {
    address(app, from)?;
    let address = Network::of(from);
    count(app, &Facts { address, target: Target::Elsewhere, caller: None }).await
}

async fn count(app: &App, facts: &Facts) -> Result<(), Problem> {
    let pepper = app.pepper().map_err(|_| Problem::Sealed)?;
    let counted = app.limiter.count(&*app.vault.clock, &pepper, facts).await;
    counted.map_err(|stopped| match stopped {
        Stopped::Refused(refused) => too_many(app.vault.clock.now(), refused),
        Stopped::Away => Problem::Uncounted,
    })
}

fn too_many(now: Timestamp, refused: Refused) -> Problem {
    let Refused { row, rate, wait } = refused;
    // Not a fraction of a millisecond too early.
    let until = now.after(wait.saturating_add(Duration::from_micros(999)));
    let limit = row.as_str();
    let excess = Excess { limit, requests: rate.requests.get(), wait, until };
    Problem::Failed(Error::TooMany(excess))
}
