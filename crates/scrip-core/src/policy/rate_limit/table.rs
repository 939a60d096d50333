//! The table of rate limits, the rates that an operator can configure instead, and the counters that a
//! request increments.

use std::{net::IpAddr, num::NonZeroU32, time::Duration};

use self::{
    CounterGrouping::{
        Address, ApiKey, ApiKeyAndAddress, ApiKeyOrAddress, HostnameAndAddress, ProxyKeyAndAddress,
    },
    LimitAction::{Block, Throttle},
};
use crate::{
    policy::tenant::quota::RateLimitShare,
    types::{ApplicationKind, Operation, TenantKind},
};

const LIST_OPERATIONS: RateLimitScope =
    RateLimitScope::Operations(&[Operation::ListTokens, Operation::ListTokensV1]);
const SEARCH_OPERATIONS: RateLimitScope =
    RateLimitScope::Operations(&[Operation::SearchTokens, Operation::SearchTokensV1]);
const CREATE_OPERATIONS: RateLimitScope =
    RateLimitScope::Operations(&[Operation::CreateToken, Operation::Tokenize]);
const UPDATE_OPERATIONS: RateLimitScope = RateLimitScope::Operations(&[Operation::UpdateToken]);
const DELETE_OPERATIONS: RateLimitScope = RateLimitScope::Operations(&[Operation::DeleteToken]);
const PRIVATE_APPLICATIONS: RateLimitScope = RateLimitScope::Kind(ApplicationKind::Private);
const PUBLIC_APPLICATIONS: RateLimitScope = RateLimitScope::Kind(ApplicationKind::Public);
const MANAGEMENT_APPLICATIONS: RateLimitScope = RateLimitScope::Kind(ApplicationKind::Management);

/// The default rate limits, in the order of [`RateLimitName::ALL`].
#[rustfmt::skip]
pub const RATE_LIMITS: &[RateLimitRule] = &[
    limit(RateLimitName::TestTenant, RateLimitScope::TestTenant, ApiKeyAndAddress, 50, 10, Throttle),
    limit(RateLimitName::SearchTokens, SEARCH_OPERATIONS, ApiKeyAndAddress, 50, 10, Throttle),
    limit(RateLimitName::ListTokens, LIST_OPERATIONS, ApiKeyAndAddress, 100, 10, Throttle),
    limit(RateLimitName::CreateTokens, CREATE_OPERATIONS, ApiKeyAndAddress, 200, 10, Throttle),
    limit(RateLimitName::UpdateToken, UPDATE_OPERATIONS, ApiKeyAndAddress, 200, 10, Throttle),
    limit(RateLimitName::DeleteToken, DELETE_OPERATIONS, ApiKeyAndAddress, 200, 10, Throttle),
    limit(RateLimitName::AccountUpdater, RateLimitScope::AccountUpdater, ApiKeyAndAddress, 10, 10, Throttle),
    limit(RateLimitName::PrivateApplication, PRIVATE_APPLICATIONS, ApiKeyOrAddress, 2000, 10, Throttle),
    limit(RateLimitName::PublicApplication, PUBLIC_APPLICATIONS, ApiKeyAndAddress, 50, 60, Block(seconds(10))),
    limit(RateLimitName::ManagementApplication, MANAGEMENT_APPLICATIONS, ApiKey, 200, 60, Block(seconds(60))),
    limit(RateLimitName::KeylessProxy, RateLimitScope::KeylessProxy, ProxyKeyAndAddress, 50, 10, Throttle),
    limit(RateLimitName::ProxyHostname, RateLimitScope::ProxyHostname, HostnameAndAddress, 50, 10, Throttle),
    limit(RateLimitName::Address, RateLimitScope::Any, Address, 2000, 10, Block(seconds(30))),
    limit(RateLimitName::LegacyKey, RateLimitScope::LegacyKey, ApiKeyAndAddress, 100, 60, Throttle),
];

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn limit(
    name: RateLimitName,
    scope: RateLimitScope,
    grouping: CounterGrouping,
    requests: u32,
    window_seconds: u64,
    action: LimitAction,
) -> RateLimitRule {
    let requests = match NonZeroU32::new(requests) {
        Some(requests) => requests,
        None => NonZeroU32::MIN,
    };
    RateLimitRule {
        name,
        scope,
        grouping,
        rate: Rate { requests, window: seconds(window_seconds), action },
    }
}

/// The rate of each limit in force; `None` where the operator turned the limit off.
#[derive(Debug, Clone)]
pub struct EffectiveRates(Vec<Option<Rate>>);

impl Default for EffectiveRates {
    /// The rates of the table.
    fn default() -> Self {
        Self(RATE_LIMITS.iter().map(|it| Some(it.rate)).collect())
    }
}

impl EffectiveRates {
    #[must_use]
    pub fn with_rate(mut self, limit: RateLimitName, rate: Option<Rate>) -> Self {
        let index = RATE_LIMITS.iter().position(|it| it.name == limit);
        if let Some(configured) = index.and_then(|it| self.0.get_mut(it)) {
            *configured = rate;
        }
        self
    }

    pub fn rate(&self, limit: RateLimitName) -> Option<Rate> {
        self.iter_rules().find(|(it, _)| it.name == limit).map(|(_, rate)| rate)
    }

    /// The limits that are in force.
    fn iter_rules(&self) -> impl Iterator<Item = (&'static RateLimitRule, Rate)> {
        RATE_LIMITS.iter().zip(&self.0).filter_map(|(limit, rate)| Some((limit, (*rate)?)))
    }
}

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
        Address => [Some(CounterKey::Address(address)), None],
        ApiKey => [caller.map(|it| CounterKey::Digest(it.api_key)), None],
        ApiKeyAndAddress => [caller.and_then(|it| pair_key(it.api_key)), None],
        ApiKeyOrAddress => [
            caller.map(|it| CounterKey::Digest(it.api_key)),
            caller.map(|it| tenant_address_key(it, address)),
        ],
        ProxyKeyAndAddress | HostnameAndAddress => match request.target {
            RateLimitTarget::KeylessProxy(digest) | RateLimitTarget::ProxyHostname(digest) => {
                [pair_key(digest), None]
            }
            RateLimitTarget::Operation(_)
            | RateLimitTarget::AccountUpdater
            | RateLimitTarget::Other => [None, None],
        },
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

/// One row of the rate limit table.
#[derive(Debug, Clone, Copy)]
pub struct RateLimitRule {
    pub name: RateLimitName,
    pub scope: RateLimitScope,
    pub grouping: CounterGrouping,
    pub rate: Rate,
}

/// The requests that a limit applies to.
#[derive(Debug, Clone, Copy)]
pub enum RateLimitScope {
    Any,
    TestTenant,
    Operations(&'static [Operation]),
    AccountUpdater,
    Kind(ApplicationKind),
    /// A proxy that is called without an API key, or under its own hostname.
    KeylessProxy,
    ProxyHostname,
    LegacyKey,
}

/// The grouping of a limit's counters. *And* is one counter for each pair; *or* is one counter for
/// each of the two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterGrouping {
    Address,
    ApiKey,
    ApiKeyAndAddress,
    ApiKeyOrAddress,
    ProxyKeyAndAddress,
    HostnameAndAddress,
}

/// At most `requests` requests in any window of this length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub requests: NonZeroU32,
    pub window: Duration,
    pub action: LimitAction,
}

/// The action on a request that exceeds the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitAction {
    /// Rejects this request and all others while the window is full.
    Throttle,
    /// Rejects all requests of the counter for this long.
    Block(Duration),
}

impl Rate {
    /// The rate for a tenant with its own share. At least one request.
    #[must_use]
    pub(crate) fn scaled(self, percent: NonZeroU32) -> Self {
        let share = u64::from(self.requests.get()).saturating_mul(u64::from(percent.get())) / 100;
        let requests = u32::try_from(share).ok().and_then(NonZeroU32::new);
        let fallback = if share == 0 { NonZeroU32::MIN } else { NonZeroU32::MAX };
        Self { requests: requests.unwrap_or(fallback), ..self }
    }

    pub fn block_duration(self) -> Option<Duration> {
        match self.action {
            Throttle => None,
            Block(duration) => Some(duration),
        }
    }
}

words! {
    /// The names of the limits, used in settings, metrics and counters.
    pub enum RateLimitName {
        TestTenant = "test_tenant",
        SearchTokens = "search_tokens",
        ListTokens = "list_tokens",
        CreateTokens = "create_tokens",
        UpdateToken = "update_token",
        DeleteToken = "delete_token",
        AccountUpdater = "account_updater",
        PrivateApplication = "private_application",
        PublicApplication = "public_application",
        ManagementApplication = "management_application",
        KeylessProxy = "keyless_proxy",
        ProxyHostname = "proxy_hostname",
        Address = "address",
        LegacyKey = "legacy_key",
    }
}

impl RateLimitName {
    /// The index in [`RateLimitName::ALL`].
    pub fn index(self) -> usize {
        Self::ALL.iter().position(|it| *it == self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
