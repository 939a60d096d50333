//! The parts of a rate limit rule: its name, scope, rate, and what happens when it is exceeded.

use std::{num::NonZeroU32, time::Duration};

use crate::types::{ApplicationKind, Operation};

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
            LimitAction::Throttle => None,
            LimitAction::Block(duration) => Some(duration),
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
