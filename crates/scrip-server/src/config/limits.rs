//! Creates the rate limiter from its settings.

use anyhow::Context;
use scrip_api::{app::trusted_proxies::TrustedProxies, limiter::Limiter};
use scrip_core::policy::rate_limit::{EffectiveRates, RateLimitName};

use crate::{
    config::{
        table::RateLimitSettings,
        value::{Switch, limits::RateSetting},
    },
    rate_limit::RedisCounters,
};

impl RateLimitSettings {
    /// Errors: the password file cannot be read.
    pub async fn limiter(&self) -> anyhow::Result<Limiter> {
        if self.mode == Switch::Off {
            return Ok(Limiter::disabled());
        }
        let limiter = Limiter::new(self.rates(), self.counters_max.get());
        let Some(url) = &self.redis_url else { return Ok(limiter) };
        let client = url.client(self.redis_password_file.as_deref()).context("limits.redis_url")?;
        let counters = RedisCounters::start(client, self.redis_deadline_ms.milliseconds()).await;
        Ok(limiter.with_shared_counters(counters, self.redis_outage))
    }

    pub fn trusted_proxies(&self) -> TrustedProxies {
        TrustedProxies(self.trusted_proxies.0.clone())
    }

    fn rates(&self) -> EffectiveRates {
        let rates = EffectiveRates::default();
        RateLimitName::ALL
            .iter()
            .fold(rates, |rates, limit| rates.with_rate(*limit, self.rate(*limit).0))
    }

    fn rate(&self, limit: RateLimitName) -> RateSetting {
        match limit {
            RateLimitName::TestTenant => self.test_tenant,
            RateLimitName::SearchTokens => self.search_tokens,
            RateLimitName::ListTokens => self.list_tokens,
            RateLimitName::CreateTokens => self.create_tokens,
            RateLimitName::UpdateToken => self.update_token,
            RateLimitName::DeleteToken => self.delete_token,
            RateLimitName::AccountUpdater => self.account_updater,
            RateLimitName::PrivateApplication => self.private_application,
            RateLimitName::PublicApplication => self.public_application,
            RateLimitName::ManagementApplication => self.management_application,
            RateLimitName::KeylessProxy => self.keyless_proxy,
            RateLimitName::ProxyHostname => self.proxy_hostname,
            RateLimitName::Address => self.address,
            RateLimitName::LegacyKey => self.legacy_key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{
        Environment, Settings,
        load::setting_names,
        value::{
            SettingValue,
            limits::{NetworkList, RedisUrl},
        },
    };

    fn settings(flags: &[(&'static str, &str)]) -> Settings {
        let flags: Vec<_> = flags.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
        Settings::without_file(&flags, &Environment::default()).unwrap()
    }

    #[test]
    fn default_rates_match_the_rate_limit_table() {
        let (rates, table) = (settings(&[]).limits.rates(), EffectiveRates::default());
        let names: Vec<_> = setting_names().map(|it| it.0).collect();
        for limit in RateLimitName::ALL {
            assert_eq!(rates.rate(limit), table.rate(limit), "{}", limit.as_str());
            assert!(names.contains(&format!("limits.{}", limit.as_str())), "{}", limit.as_str());
        }
    }

    #[test]
    fn each_rate_setting_changes_only_its_own_limit() {
        for (index, limit) in RateLimitName::ALL.iter().enumerate() {
            let name: &'static str =
                Box::leak(format!("limits.{}", limit.as_str()).into_boxed_str());
            let rates = settings(&[(name, "7/3s block 2m")]).limits.rates();
            for (other_index, other_limit) in RateLimitName::ALL.iter().enumerate() {
                let rate = rates.rate(*other_limit).unwrap();
                assert_eq!(
                    rate.requests.get() == 7,
                    index == other_index,
                    "{name} {}",
                    other_limit.as_str()
                );
            }
            let rate = rates.rate(*limit).unwrap();
            assert_eq!((rate.window.as_secs(), rate.block_duration().unwrap().as_secs()), (3, 120));
            assert!(settings(&[(name, "off")]).limits.rates().rate(*limit).is_none());
        }
    }

    #[test]
    fn rate_settings_are_parsed_and_bounded() {
        for text in ["1/100ms", "1000000/1h", "50/1m block 24h", "50/60s block 100ms"] {
            assert!(RateSetting::parse(text).is_ok(), "{text}");
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
            assert!(RateSetting::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn network_lists_are_parsed() {
        let parse = |text| NetworkList::parse(text).map(|it| it.0);
        assert_eq!(parse("").unwrap(), []);
        let mixed = ["10.0.0.0/8", "::1/128", "192.0.2.1/32"].map(|it| it.parse().unwrap());
        assert_eq!(parse("10.0.0.0/8, ::1 ,192.0.2.1").unwrap(), mixed);
        assert_eq!(parse("::ffff:192.0.2.1").unwrap(), [mixed[2]]);
        for text in [",", "10.0.0.0/8,", "10.0.0.0/33", "proxy.internal", "10.0.0.0-10.0.0.9"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn redis_urls_are_validated() {
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
