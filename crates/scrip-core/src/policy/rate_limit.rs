//! Who may ask how often: the table, and which of its counters a request counts on.
//!
//! Nothing here counts. A request is told which counters apply to it, each with its rate; all of
//! them have to have room, so the lowest rate decides.

pub mod counters;
mod sliding_window_log;
mod table;

use std::{net::IpAddr, num::NonZeroU32, time::Duration};

use crate::{
    audit::Operation,
    policy::{ApplicationKind, TenantKind, tenant::quota::RateLimitShare},
};

pub use self::table::{EffectiveRates, RATE_LIMITS, RateLimitName};

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct RateLimitRule {
    pub name: RateLimitName,
    pub scope: RateLimitScope,
    pub grouping: CounterGrouping,
    pub rate: Rate,
}

/// Which requests a row is about.
#[derive(Debug, Clone, Copy)]
pub enum RateLimitScope {
    Any,
    TestTenant,
    Operations(&'static [Operation]),
    AccountUpdater,
    Kind(ApplicationKind),
    /// A proxy that is called without an API key, or under a name of its own.
    KeylessProxy,
    ProxyHostname,
    LegacyKey,
}

/// By what a row tells counters apart. *And* is one counter for each pair, *or* one for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterGrouping {
    Address,
    ApiKey,
    ApiKeyAndAddress,
    ApiKeyOrAddress,
    ProxyKeyAndAddress,
    HostnameAndAddress,
}

/// At most so many requests in any window of this length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub requests: NonZeroU32,
    pub window: Duration,
    pub action: LimitAction,
}

/// What follows from a request too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitAction {
    /// It is refused, and so is every other while the window is full.
    Throttle,
    /// Everything on that counter is refused for this long.
    Block(Duration),
}

impl Rate {
    /// The rate for a tenant that has its own share of it. At least one request.
    #[must_use]
    pub fn scaled(self, percent: NonZeroU32) -> Self {
        let share = u64::from(self.requests.get()).saturating_mul(u64::from(percent.get())) / 100;
        let requests = u32::try_from(share).ok().and_then(NonZeroU32::new);
        let fallback = if share == 0 { NonZeroU32::MIN } else { NonZeroU32::MAX };
        Self { requests: requests.unwrap_or(fallback), ..self }
    }

    #[must_use]
    pub fn block_duration(self) -> Option<Duration> {
        match self.action {
            LimitAction::Throttle => None,
            LimitAction::Block(time) => Some(time),
        }
    }
}

/// An address as it is counted: an IPv4 address whole, an IPv6 address by its first 64 bits, which
/// one customer of a provider has all to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientNetwork(pub [u8; 16]);

impl ClientNetwork {
    #[must_use]
    pub fn from_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(address.to_ipv6_mapped().octets()),
            IpAddr::V6(address) => {
                Self((u128::from(address) & !u128::from(u64::MAX)).to_be_bytes())
            }
        }
    }
}

/// A key, a proxy or a name: half of its keyed digest, so that none of them stands in a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CounterDigest(pub [u8; 16]);

impl CounterDigest {
    #[must_use]
    pub fn from_digest(digest: &[u8; 32]) -> Self {
        let mut half = [0; 16];
        for (to, from) in half.iter_mut().zip(digest) {
            *to = *from;
        }
        Self(half)
    }
}

/// What a request is counted by, beside the row that counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CounterKey {
    Address(ClientNetwork),
    Digest(CounterDigest),
    Pair(CounterDigest, ClientNetwork),
}

/// One counter, and the rate that this request meets there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterCheck {
    pub limit: RateLimitName,
    pub key: CounterKey,
    pub rate: Rate,
}

/// What a request is, so far as limits care.
#[derive(Debug, Clone, Copy)]
pub struct RateLimitRequest {
    pub address: ClientNetwork,
    pub target: RateLimitTarget,
    /// Nobody, for a request without a key that is known.
    pub caller: Option<RateLimitCaller>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimitTarget {
    Operation(Operation),
    AccountUpdater,
    /// By its key, without one of ours.
    KeylessProxy(CounterDigest),
    /// By its name.
    ProxyHostname(CounterDigest),
    /// A path where nothing is, or what tells of the interface.
    Other,
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub struct RateLimitCaller {
    pub api_key: CounterDigest,
    /// Of an access session: public, whoever authorized it.
    pub kind: ApplicationKind,
    pub is_legacy: bool,
    pub tenant: CounterDigest,
    pub tenant_kind: TenantKind,
    pub share: RateLimitShare,
}

/// The counters of a request, in the order of the table.
#[must_use]
pub fn counter_checks(rates: &EffectiveRates, request: &RateLimitRequest) -> Vec<CounterCheck> {
    let mut checks = Vec::with_capacity(CHECKS_USUAL);
    for (limit, rate) in rates.iter_rules() {
        if !limit.scope.matches(request) {
            continue;
        }
        let Some(rate) = scaled_rate(limit.scope, request, rate) else { continue };
        for subject in counter_keys(limit.grouping, request).into_iter().flatten() {
            checks.push(CounterCheck { limit: limit.name, key: subject, rate });
        }
    }
    checks
}

/// The one counter that is known before the caller is.
#[must_use]
pub fn address_check(rates: &EffectiveRates, address: ClientNetwork) -> Option<CounterCheck> {
    let rate = rates.rate(RateLimitName::Address)?;
    Some(CounterCheck { limit: RateLimitName::Address, key: CounterKey::Address(address), rate })
}

/// A test tenant's private key has five; six with a legacy key.
const CHECKS_USUAL: usize = 6;

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

/// What a tenant may have of a rate. The row of every address is nobody's to adjust.
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
    let pair = |mark: CounterDigest| Some(CounterKey::Pair(mark, address));
    match grouping {
        CounterGrouping::Address => [Some(CounterKey::Address(address)), None],
        CounterGrouping::ApiKey => [caller.map(|it| CounterKey::Digest(it.api_key)), None],
        CounterGrouping::ApiKeyAndAddress => [caller.and_then(|it| pair(it.api_key)), None],
        CounterGrouping::ApiKeyOrAddress => [
            caller.map(|it| CounterKey::Digest(it.api_key)),
            caller.map(|it| tenant_address_key(it, address)),
        ],
        CounterGrouping::ProxyKeyAndAddress | CounterGrouping::HostnameAndAddress => {
            match request.target {
                RateLimitTarget::KeylessProxy(mark) | RateLimitTarget::ProxyHostname(mark) => {
                    [pair(mark), None]
                }
                RateLimitTarget::Operation(_)
                | RateLimitTarget::AccountUpdater
                | RateLimitTarget::Other => [None, None],
            }
        }
    }
}

/// Tenants share the counter of an address, but for one whose rate is another: what the others ask
/// for must not count against a smaller one, nor its own against theirs.
fn tenant_address_key(caller: &RateLimitCaller, address: ClientNetwork) -> CounterKey {
    match caller.share {
        RateLimitShare::Default | RateLimitShare::Off => CounterKey::Address(address),
        RateLimitShare::Percent(_) => CounterKey::Pair(caller.tenant, address),
    }
}

#[cfg(test)]
mod tests;
