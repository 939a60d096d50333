//! The limiter that the settings of rate limits make.

use anyhow::Context;
use scrip_api::{limiter::Limiter, middleware::client_address::TrustedProxies};
use scrip_core::policy::rate_limit::{Figures, Row};

use crate::{
    config::{
        table::RateLimits,
        value::{Switch, limits::RateText},
    },
    rate_limit::Shared,
};

impl RateLimits {
    /// # Errors
    /// The password cannot be read.
    pub async fn limiter(&self) -> anyhow::Result<Limiter> {
        if self.mode == Switch::Off {
            return Ok(Limiter::off());
        }
        let limiter = Limiter::new(self.figures(), self.counters_max.get());
        let Some(url) = &self.redis_url else { return Ok(limiter) };
        let client = url.client(self.redis_password_file.as_deref()).context("limits.redis_url")?;
        let shared = Shared::start(client, self.redis_deadline_ms.milliseconds()).await;
        Ok(limiter.sharing(shared, self.redis_away))
    }

    pub fn proxies(&self) -> TrustedProxies {
        TrustedProxies(self.trusted_proxies.0.clone())
    }

    fn figures(&self) -> Figures {
        let figures = Figures::default();
        Row::ALL.iter().fold(figures, |figures, row| figures.with(*row, self.rate(*row).0))
    }

    fn rate(&self, row: Row) -> RateText {
        match row {
            Row::TestTenant => self.test_tenant,
            Row::SearchTokens => self.search_tokens,
            Row::ListTokens => self.list_tokens,
            Row::CreateTokens => self.create_tokens,
            Row::UpdateToken => self.update_token,
            Row::DeleteToken => self.delete_token,
            Row::AccountUpdater => self.account_updater,
            Row::PrivateApplication => self.private_application,
            Row::PublicApplication => self.public_application,
            Row::ManagementApplication => self.management_application,
            Row::KeylessProxy => self.keyless_proxy,
            Row::ProxyHostname => self.proxy_hostname,
            Row::Address => self.address,
            Row::LegacyKey => self.legacy_key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{
        Environment, Settings, setting_names,
        value::{
            Value,
            limits::{Networks, RedisUrl},
        },
    };

    fn settings(flags: &[(&'static str, &str)]) -> Settings {
        let flags: Vec<_> = flags.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
        Settings::without_file(&flags, &Environment::default()).unwrap()
    }

    #[test]
    fn the_defaults_are_the_table() {
        let (figures, table) = (settings(&[]).limits.figures(), Figures::default());
        let names: Vec<_> = setting_names().map(|it| it.0).collect();
        for row in Row::ALL {
            assert_eq!(figures.rate(row), table.rate(row), "{}", row.as_str());
            assert!(names.contains(&format!("limits.{}", row.as_str())), "{}", row.as_str());
        }
    }

    #[test]
    fn each_setting_is_of_its_own_row() {
        for (at, row) in Row::ALL.iter().enumerate() {
            let name: &'static str = Box::leak(format!("limits.{}", row.as_str()).into_boxed_str());
            let figures = settings(&[(name, "7/3s block 2m")]).limits.figures();
            for (other_at, other) in Row::ALL.iter().enumerate() {
                let rate = figures.rate(*other).unwrap();
                assert_eq!(rate.requests.get() == 7, at == other_at, "{name} {}", other.as_str());
            }
            let rate = figures.rate(*row).unwrap();
            assert_eq!((rate.window.as_secs(), rate.block().unwrap().as_secs()), (3, 120));
            assert!(settings(&[(name, "off")]).limits.figures().rate(*row).is_none());
        }
    }

    #[test]
    fn rates() {
        for text in ["1/100ms", "1000000/1h", "50/1m block 24h", "50/60s block 100ms"] {
            assert!(RateText::parse(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "50",
            "50/",
            "/10s",
            "0/10s",
            "-1/10s",
            "50/10",
            "50/0s",
            "50/2h",
            "50/99ms",
            "1000001/1s",
            "50/10s block",
            "50/10s block 25h",
            "50/10s  block 1s",
            "50/10s throttle",
            "50/1d",
            "+5/1s",
            "5 0/1s",
            "50/99999999999999999999h",
        ] {
            assert!(RateText::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn networks() {
        let parse = |text| Networks::parse(text).map(|it| it.0);
        assert_eq!(parse("").unwrap(), []);
        let mixed = ["10.0.0.0/8", "::1/128", "192.0.2.1/32"].map(|it| it.parse().unwrap());
        assert_eq!(parse("10.0.0.0/8, ::1 ,192.0.2.1").unwrap(), mixed);
        assert_eq!(parse("::ffff:192.0.2.1").unwrap(), [mixed[2]]);
        for text in [",", "10.0.0.0/8,", "10.0.0.0/33", "proxy.internal", "10.0.0.0-10.0.0.9"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_of_redis() {
        for text in ["redis://127.0.0.1", "rediss://user@redis.internal:6380/3", "redis://[::1]:1/"]
        {
            assert!(RedisUrl::parse(text).is_ok(), "{text}");
        }
        let insecure = "rediss://127.0.0.1/#insecure";
        for text in
            ["127.0.0.1:6379", "http://x", "redis://", "unix:///tmp/x", "redis+unix:///x", insecure]
        {
            assert!(RedisUrl::parse(text).is_err(), "{text}");
        }
        let rule = RedisUrl::parse("redis://:4242@127.0.0.1/").unwrap_err();
        assert!(rule.contains("password") && !rule.contains("4242"), "{rule}");
    }
}
