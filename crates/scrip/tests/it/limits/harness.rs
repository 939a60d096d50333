//! A server that counts, with a clock that stands still until it is moved.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use scrip_api::{app::App, limiter::Limiter, middleware::client_address::TrustedProxies};
use scrip_core::{
    operations::tenants::update_tenant::set_tenant_quotas,
    policy::{
        Mandate, Quotas, Settings, TenantKind,
        rate_limit::{Figures, Rate, Row, TABLE},
        tenant::quota::RateLimit,
    },
    time::{Clock, Timestamp},
};
use scrip_server::process::clock::SystemClock;
use scrip_testing::clock::StoppedClock;

use crate::harness::server::{Ask, Keys, Reply, Server};

pub(crate) struct LimitsHarness {
    pub(crate) server: Server,
    pub(crate) clock: Arc<StoppedClock>,
    pub(crate) keys: Keys,
}

impl LimitsHarness {
    pub(crate) fn new(kind: TenantKind, figures: Figures) -> Self {
        Self::with(kind, |app| app.limiter = Limiter::new(figures, 10_000))
    }

    /// This machine is a trusted proxy there, so that a test can say whose address it has.
    pub(crate) fn with(kind: TenantKind, adjust: impl FnOnce(&mut App)) -> Self {
        let clock = Arc::new(StoppedClock::at(SystemClock.now()));
        let server = Server::with(|app| {
            app.vault.clock = Arc::<StoppedClock>::clone(&clock);
            app.proxies = TrustedProxies(vec!["127.0.0.1/32".parse().unwrap()]);
            adjust(app);
        });
        let keys = server.tenant_of(kind, Settings::default());
        Self { server, clock, keys }
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now().unix_ms
    }

    pub(crate) fn advance_ms(&self, ms: i64) {
        self.clock.set(Timestamp { unix_ms: self.now_ms() + ms });
    }

    /// From another machine.
    pub(crate) fn ask(&self, from: &str, method: &str, path: &str) -> Ask<'_> {
        self.server.ask(method, path).header("X-Forwarded-For", from)
    }

    pub(crate) fn get(&self, from: &str, key: &str, path: &str) -> Reply {
        self.ask(from, "GET", path).key(key).send()
    }

    pub(crate) fn set_share(&self, share: RateLimit) {
        let edit = move |quotas| Quotas { rate_limit: share, ..quotas };
        let mandate = Mandate::of_operator(Arc::clone(&self.keys.tenant));
        let app = &self.server.app;
        self.server.runtime.block_on(async {
            set_tenant_quotas(&app.vault, mandate, Box::new(edit)).await.unwrap();
            app.reload().await.unwrap();
        });
    }
}

/// What the table has.
pub(crate) fn published(row: Row) -> Rate {
    TABLE.iter().find(|it| it.row == row).unwrap().rate
}

pub(crate) fn requests(count: u32) -> Figures {
    let rate = Rate { requests: NonZeroU32::new(count).unwrap(), ..published(Row::Address) };
    Figures::default().with(Row::Address, Some(rate))
}

pub(crate) fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap()
}

impl Reply {
    /// Not a refusal by a limit, whatever else it is.
    #[track_caller]
    pub(crate) fn counted(&self) {
        assert_ne!(self.status, 429, "{}", self.text);
    }

    /// A refusal by this row, with all that it says about time.
    #[track_caller]
    pub(crate) fn throttled(&self, now_ms: i64, row: Row, limit: u32, wait_ms: i64) {
        self.refused(429, row.as_str());
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
