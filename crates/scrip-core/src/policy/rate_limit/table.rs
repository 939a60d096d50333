//! The table of rate limits, and the rates that an operator can configure instead.

use std::{num::NonZeroU32, time::Duration};

use crate::{
    policy::rate_limit::{
        CounterGrouping::{
            self, Address, ApiKey, ApiKeyAndAddress, ApiKeyOrAddress, HostnameAndAddress,
            ProxyKeyAndAddress,
        },
        LimitAction::{self, Block, Throttle},
        Rate, RateLimitName, RateLimitRule, RateLimitScope,
    },
    types::{ApplicationKind, Operation},
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
    pub(super) fn iter_rules(&self) -> impl Iterator<Item = (&'static RateLimitRule, Rate)> {
        RATE_LIMITS.iter().zip(&self.0).filter_map(|(limit, rate)| Some((limit, (*rate)?)))
    }
}
