//! The settings of rate limits: their kinds of values, and the limiter made of them.

use std::{fs, num::NonZeroU32, path::Path, time::Duration};

use anyhow::Context;
use ipnet::{IpNet, Ipv4Net};
use redis::{Client, ConnectionInfo, IntoConnectionInfo};
use scrip_api::{
    limiter::{Limiter, WhenAway},
    middleware::client_address::TrustedProxies,
};
use scrip_core::rate_limit::{Action, Figures, Rate, Row};
use zeroize::Zeroizing;

use crate::{
    config::{
        RateLimits, Switch,
        value::{Form, Value},
    },
    rate_limit::Shared,
};

/// `200/10s`, `50/60s block 10s`, or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateText(Option<Rate>);

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const REQUESTS_MAX: u32 = 1_000_000;

impl Value for RateText {
    const FORM: Form = Form::Text;

    fn parse(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        let rule = "must be such as 50/10s or 50/60s block 10s, or off: at most 1000000 requests in \
                    100ms to 1h, blocked for 24h at most";
        rate(text).map(|it| Self(Some(it))).ok_or_else(|| rule.to_owned())
    }
}

fn rate(text: &str) -> Option<Rate> {
    let (rate, block) = match text.split_once(" block ") {
        Some((rate, block)) => (rate, Some(block)),
        None => (text, None),
    };
    let (requests, window) = rate.split_once('/')?;
    let requests = number(requests).filter(|it| *it <= u64::from(REQUESTS_MAX))?;
    let requests = NonZeroU32::new(u32::try_from(requests).ok()?)?;
    let least = Duration::from_millis(100);
    let within = |text, most| duration(text).filter(|it| (least..=most).contains(it));
    let window = within(window, HOUR)?;
    let action = match block {
        Some(block) => Action::Block(within(block, DAY)?),
        None => Action::Throttle,
    };
    Some(Rate { requests, window, action })
}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|it: char| it.is_ascii_lowercase());
    let unit_ms = match text.strip_prefix(digits)? {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some(Duration::from_millis(number(digits)?.checked_mul(unit_ms)?))
}

fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Networks or single addresses, between commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Networks(Vec<IpNet>);

impl Value for Networks {
    const FORM: Form = Form::Text;

    fn parse(text: &str) -> Result<Self, String> {
        let network = |it: &str| {
            let it = it.trim();
            let single =
                || it.parse().ok().map(|it: std::net::IpAddr| IpNet::from(it.to_canonical()));
            it.parse().ok().or_else(single).map(unmapped)
        };
        if text.trim().is_empty() {
            return Ok(Self(Vec::new()));
        }
        let networks: Option<_> = text.split(',').map(network).collect();
        let rule = "must be networks or addresses between commas, such as 10.0.0.0/8, 2001:db8::1";
        networks.map(Self).ok_or_else(|| rule.to_owned())
    }
}

/// Addresses are compared as IPv4 where they are IPv4, however they are written.
fn unmapped(network: IpNet) -> IpNet {
    const MAPPED: u8 = 96;
    let IpNet::V6(v6) = network else { return network };
    let v4 = v6.addr().to_ipv4_mapped().zip(v6.prefix_len().checked_sub(MAPPED));
    let v4 = v4.and_then(|(address, bits)| Ipv4Net::new(address, bits).ok());
    v4.map_or(network, IpNet::V4)
}

/// Where Redis is, without its password: this is printed.
#[derive(Debug, Clone)]
pub struct RedisUrl(ConnectionInfo);

impl Value for RedisUrl {
    const FORM: Form = Form::Text;

    fn parse(text: &str) -> Result<Self, String> {
        let rule = "must be such as redis://10.0.0.5:6379/0 or rediss://user@redis.internal/";
        let known = ["redis://", "rediss://"].iter().any(|it| text.starts_with(it));
        // An address that turns off the checks of a certificate has a fragment.
        let info = Some(text).filter(|it| known && !it.contains('#'));
        let info = info.and_then(|it| it.into_connection_info().ok());
        let info = info.ok_or_else(|| rule.to_owned())?;
        if info.redis_settings().password().is_some() {
            return Err(
                "must have no password; that goes into a file, which another setting names"
                    .to_owned(),
            );
        }
        Ok(Self(info))
    }
}

impl RedisUrl {
    /// # Errors
    /// The password cannot be read.
    pub fn client(&self, password_file: Option<&Path>) -> anyhow::Result<Client> {
        let mut info = self.0.clone();
        if let Some(file) = password_file {
            let cannot = || format!("{} cannot be read", file.display());
            let password = Zeroizing::new(fs::read_to_string(file).with_context(cannot)?);
            let settings = info.redis_settings().clone().set_password(password.trim_end());
            info = info.set_redis_settings(settings);
        }
        // Its own words could quote the address.
        Client::open(info).map_err(|_| anyhow::anyhow!("the address of Redis cannot be used"))
    }
}

impl Value for WhenAway {
    const FORM: Form = Form::Text;

    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "local" => Ok(Self::Local),
            "closed" => Ok(Self::Closed),
            _ => Err("must be local or closed".to_owned()),
        }
    }
}

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
    use crate::config::{Environment, Settings, setting_names};

    fn settings(flags: &[(&'static str, &str)]) -> Settings {
        let flags: Vec<_> = flags.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
        Settings::without_file(&flags, &Environment::default()).unwrap()
    }

    #[test]
    fn the_defaults_are_the_table() {
        let (figures, table) = (settings(&[]).limits.figures(), Figures::default());
        let names: Vec<_> = setting_names().map(|it| it.0).collect();
        for row in Row::ALL {
            assert_eq!(figures.rate(*row), table.rate(*row), "{}", row.as_str());
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
