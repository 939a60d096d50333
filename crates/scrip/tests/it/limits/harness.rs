//! A server with rate limits and a clock that tests advance.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use scrip_api::{
    app::{App, trusted_proxies::TrustedProxies},
    limiter::Limiter,
};
use scrip_core::{
    Timestamp,
    policy::{
        Quotas, TenantSettings,
        rate_limit::{EffectiveRates, RATE_LIMITS, Rate, RateLimitName},
        tenant::quota::RateLimitShare,
    },
    types::{TenantKind, time::Clock},
};
use scrip_server::clock::SystemClock;
use scrip_testing::clock::StoppedClock;

use crate::harness::server::{TenantApiKeys, TestRequest, TestResponse, TestServer};

pub(crate) struct RateLimitHarness {
    pub(crate) server: TestServer,
    pub(crate) clock: Arc<StoppedClock>,
    pub(crate) keys: TenantApiKeys,
}

impl RateLimitHarness {
    pub(crate) fn new(kind: TenantKind, rates: EffectiveRates) -> Self {
        Self::start_with(kind, |app| app.limiter = Limiter::new(rates, 10_000))
    }

    /// Starts a server that trusts the loopback address as a proxy, so that a test can set the
    /// client address.
    pub(crate) fn start_with(kind: TenantKind, configure: impl FnOnce(&mut App)) -> Self {
        let clock = Arc::new(StoppedClock::at(SystemClock.now()));
        let server = TestServer::start_with(|app| {
            app.vault.clock = Arc::<StoppedClock>::clone(&clock);
            app.settings.trusted_proxies = TrustedProxies(vec!["127.0.0.1/32".parse().unwrap()]);
            configure(app);
        });
        let keys = server.create_tenant_of_kind(kind, TenantSettings::default());
        Self { server, clock, keys }
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now().unix_ms
    }

    pub(crate) fn advance_ms(&self, ms: i64) {
        self.clock.set(Timestamp { unix_ms: self.now_ms() + ms });
    }

    /// Builds a request from this client address.
    pub(crate) fn request(&self, client: &str, method: &str, path: &str) -> TestRequest {
        self.server.request(method, path).header("X-Forwarded-For", client)
    }

    pub(crate) fn get(&self, client: &str, key: &str, path: &str) -> TestResponse {
        self.request(client, "GET", path).key(key).send()
    }

    pub(crate) fn set_share(&self, share: RateLimitShare) {
        self.server.set_quotas(&self.keys.tenant, move |it| Quotas { rate_limit: share, ..it });
    }
}

/// Returns the rate of this limit in the rate table.
pub(crate) fn default_rate(name: RateLimitName) -> Rate {
    RATE_LIMITS.iter().find(|it| it.name == name).unwrap().rate
}

/// The default rate with another number of requests.
pub(crate) fn rate_with_requests(rate: Rate, count: u32) -> Rate {
    Rate { requests: NonZeroU32::new(count).unwrap(), ..rate }
}

pub(crate) fn rates_with_address_limit(count: u32) -> EffectiveRates {
    let rate = rate_with_requests(default_rate(RateLimitName::Address), count);
    EffectiveRates::default().with_rate(RateLimitName::Address, Some(rate))
}

pub(crate) fn to_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap()
}

impl TestResponse {
    /// Expects that no rate limit rejected the request.
    #[track_caller]
    pub(crate) fn expect_not_limited(&self) {
        assert_ne!(self.status, 429, "{}", self.text);
    }

    /// Expects a rejection by this rate limit with the right rate-limit headers.
    #[track_caller]
    pub(crate) fn expect_rate_limited(
        &self,
        now_ms: i64,
        name: RateLimitName,
        limit: u32,
        wait_ms: i64,
    ) {
        self.expect_problem(429, name.as_str());
        let seconds = (wait_ms + 999) / 1000;
        let header = |name: &str| self.headers[name].parse::<i64>().unwrap();
        assert_eq!(header("retry-after"), seconds, "{}", self.text);
        assert_eq!(header("ratelimit-reset"), seconds);
        assert_eq!(header("ratelimit-limit"), i64::from(limit));
        assert_eq!(header("ratelimit-remaining"), 0);
        assert_eq!(header("x-ratelimit-reset"), (now_ms + wait_ms + 999) / 1000);
        let exposed = &self.headers["access-control-expose-headers"];
        for name in ["retry-after", "ratelimit-limit", "ratelimit-reset", "x-ratelimit-reset"] {
            assert!(exposed.contains(name), "{exposed}");
        }
    }
}
