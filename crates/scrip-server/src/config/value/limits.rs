//! Types of rate limit settings, and the address of Redis.

use std::{fs, num::NonZeroU32, path::Path, time::Duration};

use anyhow::Context;
use ipnet::{IpNet, Ipv4Net};
use redis::{Client, ConnectionInfo, IntoConnectionInfo};
use scrip_core::policy::rate_limit::{LimitAction, Rate};
use scrip_types::duration::{parse_digits, parse_duration};
use zeroize::Zeroizing;

use crate::config::value::SettingValue;

/// `200/10s`, `50/60s block 10s`, or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateSetting(pub(crate) Option<Rate>);

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const REQUESTS_MAX: u32 = 1_000_000;

impl SettingValue for RateSetting {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        let rule = "must be a rate such as 50/10s or 50/60s block 10s, or off: at most 1000000 \
                    requests in 100ms to 1h, blocked for at most 24h";
        parse_rate(text).map(|it| Self(Some(it))).ok_or_else(|| rule.to_owned())
    }
}

fn parse_rate(text: &str) -> Option<Rate> {
    let (rate, block) = match text.split_once(" block ") {
        Some((rate, block)) => (rate, Some(block)),
        None => (text, None),
    };
    let (requests, window) = rate.split_once('/')?;
    let requests = parse_digits(requests).filter(|it| *it <= u64::from(REQUESTS_MAX))?;
    let requests = NonZeroU32::new(u32::try_from(requests).ok()?)?;
    let minimum = Duration::from_millis(100);
    let parse_within =
        |text, maximum| parse_duration(text).filter(|it| (minimum..=maximum).contains(it));
    let window = parse_within(window, HOUR)?;
    let action = match block {
        Some(block) => LimitAction::Block(parse_within(block, DAY)?),
        None => LimitAction::Throttle,
    };
    Some(Rate { requests, window, action })
}

/// Networks or single addresses, separated by commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkList(pub(crate) Vec<IpNet>);

impl NetworkList {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl SettingValue for NetworkList {
    fn parse(text: &str) -> Result<Self, String> {
        let parse_network = |entry: &str| {
            let entry = entry.trim();
            let parse_address =
                || entry.parse().ok().map(|it: std::net::IpAddr| IpNet::from(it.to_canonical()));
            entry.parse().ok().or_else(parse_address).map(unmap_ipv4)
        };
        if text.trim().is_empty() {
            return Ok(Self(Vec::new()));
        }
        let networks: Option<_> = text.split(',').map(parse_network).collect();
        let rule = "must be networks or addresses separated by commas, such as 10.0.0.0/8, \
                    2001:db8::1";
        networks.map(Self).ok_or_else(|| rule.to_owned())
    }
}

/// Converts IPv4-mapped IPv6 networks to IPv4, so that addresses compare as IPv4.
fn unmap_ipv4(network: IpNet) -> IpNet {
    const MAPPED_PREFIX_BITS: u8 = 96;
    let IpNet::V6(v6) = network else { return network };
    let v4 = v6.addr().to_ipv4_mapped().zip(v6.prefix_len().checked_sub(MAPPED_PREFIX_BITS));
    let v4 = v4.and_then(|(address, bits)| Ipv4Net::new(address, bits).ok());
    v4.map_or(network, IpNet::V4)
}

/// Address of Redis without a password, because settings are printed.
#[derive(Debug, Clone)]
pub struct RedisUrl(ConnectionInfo);

impl SettingValue for RedisUrl {
    fn parse(text: &str) -> Result<Self, String> {
        let rule = "must be an address such as redis://10.0.0.5:6379/0 or \
                    rediss://user@redis.internal/";
        let has_redis_scheme = ["redis://", "rediss://"].iter().any(|it| text.starts_with(it));
        // A fragment (`#insecure`) would turn off certificate verification.
        let info = Some(text).filter(|it| has_redis_scheme && !it.contains('#'));
        let info = info.and_then(|it| it.into_connection_info().ok());
        let info = info.ok_or_else(|| rule.to_owned())?;
        if info.redis_settings().password().is_some() {
            return Err(
                "must not contain a password; put the password into a file and set the password \
                 file setting"
                    .to_owned(),
            );
        }
        Ok(Self(info))
    }
}

impl RedisUrl {
    /// Errors: the password file cannot be read.
    pub fn client(&self, password_file: Option<&Path>) -> anyhow::Result<Client> {
        let mut info = self.0.clone();
        if let Some(file) = password_file {
            let error_context = || format!("{} cannot be read", file.display());
            let password = Zeroizing::new(fs::read_to_string(file).with_context(error_context)?);
            let settings = info.redis_settings().clone().set_password(password.trim_end());
            info = info.set_redis_settings(settings);
        }
        // The original error could quote the address.
        Client::open(info).map_err(|_| anyhow::anyhow!("the address of Redis cannot be used"))
    }
}
