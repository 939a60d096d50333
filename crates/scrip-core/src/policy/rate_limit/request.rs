//! The counters that a request increments, and the rate of each: the rules of the table applied to
//! one request.

use std::net::IpAddr;

use crate::{
    policy::{
        rate_limit::{CounterGrouping, EffectiveRates, Rate, RateLimitName, RateLimitScope},
        tenant::quota::RateLimitShare,
    },
    types::{ApplicationKind, Operation, TenantKind},
};

/// The unit in which client addresses are counted: a whole IPv4 address, or the first 64 bits of an
/// IPv6 address, because a provider assigns such a prefix to one customer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientNetwork(pub [u8; 16]);

impl ClientNetwork {
    pub fn from_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(address.to_ipv6_mapped().octets()),
            IpAddr::V6(address) => {
                Self((u128::from(address) & !u128::from(u64::MAX)).to_be_bytes())
            }
        }
    }
}

/// Half of the keyed digest of an API key, a proxy key or a hostname. Counters never contain the
/// value itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CounterDigest(pub [u8; 16]);

impl CounterDigest {
    pub fn from_digest(digest: &[u8; 32]) -> Self {
        let mut half = [0; 16];
        for (target, byte) in half.iter_mut().zip(digest) {
            *target = *byte;
        }
        Self(half)
    }
}

/// The key of a counter within its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CounterKey {
    Address(ClientNetwork),
    Digest(CounterDigest),
    Pair(CounterDigest, ClientNetwork),
}

/// One counter, and the rate that applies to this request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterCheck {
    pub limit: RateLimitName,
    pub key: CounterKey,
    pub rate: Rate,
}

/// The properties of a request that rate limits depend on.
#[derive(Debug, Clone, Copy)]
pub struct RateLimitRequest {
    pub address: ClientNetwork,
    pub target: RateLimitTarget,
    /// `None` for a request without a known API key.
    pub caller: Option<RateLimitCaller>,
}

/// The requested operation or resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimitTarget {
    Operation(Operation),
    AccountUpdater,
    /// A proxy that is called by its proxy key, without an API key.
    KeylessProxy(CounterDigest),
    /// A proxy that is called by its hostname.
    ProxyHostname(CounterDigest),
    /// A path without a resource, or the description of the API.
    Other,
}

/// The caller of a rate-limited request.
#[derive(Debug, Clone, Copy)]
pub struct RateLimitCaller {
    pub api_key: CounterDigest,
    /// For an access session: public, whichever application authorized it.
    pub kind: ApplicationKind,
    pub is_legacy: bool,
    pub tenant: CounterDigest,
    pub tenant_kind: TenantKind,
    pub share: RateLimitShare,
}

/// The counters of a request, in the order of the table.
pub fn counter_checks(rates: &EffectiveRates, request: &RateLimitRequest) -> Vec<CounterCheck> {
    let mut checks = Vec::with_capacity(CHECKS_EXPECTED);
    for (limit, rate) in rates.iter_rules() {
        if !limit.scope.matches(request) {
            continue;
        }
        let Some(rate) = scaled_rate(limit.scope, request, rate) else { continue };
        for key in counter_keys(limit.grouping, request).into_iter().flatten() {
            checks.push(CounterCheck { limit: limit.name, key, rate });
        }
    }
    checks
}

/// The counter that applies before the caller is known.
pub fn address_check(rates: &EffectiveRates, address: ClientNetwork) -> Option<CounterCheck> {
    let rate = rates.rate(RateLimitName::Address)?;
    Some(CounterCheck { limit: RateLimitName::Address, key: CounterKey::Address(address), rate })
}

/// The expected number of counters of a request. A private key of a test tenant has five counters;
/// a legacy key has six.
const CHECKS_EXPECTED: usize = 6;

/// The rate after the tenant's share. No tenant can change the limit for addresses.
fn scaled_rate(scope: RateLimitScope, request: &RateLimitRequest, rate: Rate) -> Option<Rate> {
    let share = match scope {
        RateLimitScope::Any => RateLimitShare::Default,
        RateLimitScope::TestTenant
        | RateLimitScope::Operations(_)
        | RateLimitScope::AccountUpdater
        | RateLimitScope::Kind(_)
        | RateLimitScope::KeylessProxy
        | RateLimitScope::ProxyHostname
        | RateLimitScope::LegacyKey => {
            request.caller.map_or(RateLimitShare::Default, |it| it.share)
        }
    };
    match share {
        RateLimitShare::Default => Some(rate),
        RateLimitShare::Percent(percent) => Some(rate.scaled(percent)),
        RateLimitShare::Off => None,
    }
}

fn counter_keys(grouping: CounterGrouping, request: &RateLimitRequest) -> [Option<CounterKey>; 2] {
    let address = request.address;
    let caller = request.caller.as_ref();
    let pair_key = |digest: CounterDigest| Some(CounterKey::Pair(digest, address));
    match grouping {
        CounterGrouping::Address => [Some(CounterKey::Address(address)), None],
        CounterGrouping::ApiKey => [caller.map(|it| CounterKey::Digest(it.api_key)), None],
        CounterGrouping::ApiKeyAndAddress => [caller.and_then(|it| pair_key(it.api_key)), None],
        CounterGrouping::ApiKeyOrAddress => [
            caller.map(|it| CounterKey::Digest(it.api_key)),
            caller.map(|it| tenant_address_key(it, address)),
        ],
        CounterGrouping::ProxyKeyAndAddress | CounterGrouping::HostnameAndAddress => {
            match request.target {
                RateLimitTarget::KeylessProxy(digest) | RateLimitTarget::ProxyHostname(digest) => {
                    [pair_key(digest), None]
                }
                RateLimitTarget::Operation(_)
                | RateLimitTarget::AccountUpdater
                | RateLimitTarget::Other => [None, None],
            }
        }
    }
}

/// Tenants share the counter of an address, except a tenant with a different rate: requests of
/// other tenants must not count against its rate, nor its requests against theirs.
fn tenant_address_key(caller: &RateLimitCaller, address: ClientNetwork) -> CounterKey {
    match caller.share {
        RateLimitShare::Default | RateLimitShare::Off => CounterKey::Address(address),
        RateLimitShare::Percent(_) => CounterKey::Pair(caller.tenant, address),
    }
}

impl RateLimitScope {
    fn matches(self, request: &RateLimitRequest) -> bool {
        let caller = request.caller.as_ref();
        match self {
            Self::Any => true,
            Self::TestTenant => caller.is_some_and(|it| it.tenant_kind == TenantKind::Test),
            Self::Kind(kind) => caller.is_some_and(|it| it.kind == kind),
            Self::LegacyKey => caller.is_some_and(|it| it.is_legacy),
            Self::Operations(operations) => {
                matches!(request.target, RateLimitTarget::Operation(it) if operations.contains(&it))
            }
            Self::AccountUpdater => request.target == RateLimitTarget::AccountUpdater,
            Self::KeylessProxy => matches!(request.target, RateLimitTarget::KeylessProxy(_)),
            Self::ProxyHostname => matches!(request.target, RateLimitTarget::ProxyHostname(_)),
        }
    }
}

#[cfg(test)]
mod tests;
