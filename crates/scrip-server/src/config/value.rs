//! Types of setting values. `parse` validates each value once.

pub mod epoch_keys;
pub mod limits;
pub mod threeds;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use scrip_api::limiter::OutagePolicy;
use scrip_core::{audit::ReadRecording, policy::application::web_origin::WebOrigin};
use scrip_egress::{AllowList, configured::ServerAddress};
use scrip_store::postgres::PostgresSettings;
use tracing_subscriber::filter::Targets;

use crate::clock::steady::StartTrust;

/// Type of a value in the file. Environment variables are always text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    Text,
    Number,
    Flag,
}

pub(crate) trait SettingValue: Sized {
    const KIND: ValueKind = ValueKind::Text;

    /// Returns the value, or the rule that the text violates. The rule never quotes the text.
    fn parse(text: &str) -> Result<Self, String>;

    /// Returns the text for printing, without secret parts. Most types have none.
    fn redact(text: &str) -> String {
        text.to_owned()
    }
}

/// A whole number within the declared bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundedNumber<const MIN: u32, const MAX: u32>(u32);

impl<const MIN: u32, const MAX: u32> BoundedNumber<MIN, MAX> {
    pub fn get(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    pub fn number(self) -> u32 {
        self.0
    }

    pub fn milliseconds(self) -> Duration {
        Duration::from_millis(self.0.into())
    }

    pub fn seconds(self) -> Duration {
        Duration::from_secs(self.0.into())
    }
}

impl<const MIN: u32, const MAX: u32> SettingValue for BoundedNumber<MIN, MAX> {
    const KIND: ValueKind = ValueKind::Number;

    fn parse(text: &str) -> Result<Self, String> {
        let number = text.parse().ok().filter(|it| (MIN..=MAX).contains(it));
        number.map(Self).ok_or_else(|| format!("must be a whole number from {MIN} to {MAX}"))
    }
}

impl SettingValue for bool {
    const KIND: ValueKind = ValueKind::Flag;

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "must be true or false".to_owned())
    }
}

impl SettingValue for SocketAddr {
    fn parse(text: &str) -> Result<Self, String> {
        parse_address(text).map_err(str::to_owned)
    }
}

/// Errors: the rule, which names examples.
pub fn parse_address(text: &str) -> Result<SocketAddr, &'static str> {
    let rule = "must be an address with a port, such as 127.0.0.1:4242 or [::1]:4242";
    text.parse().map_err(|_| rule)
}

impl SettingValue for PathBuf {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err("must not be empty".to_owned()) } else { Ok(text.into()) }
    }
}

impl SettingValue for String {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
}

/// Empty text means no value.
impl<T: SettingValue> SettingValue for Option<T> {
    const KIND: ValueKind = T::KIND;

    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() { Ok(None) } else { T::parse(text).map(Some) }
    }

    fn redact(text: &str) -> String {
        if text.is_empty() { String::new() } else { T::redact(text) }
    }
}

/// Implements a setting with a fixed set of keywords.
macro_rules! keyword_setting {
    ($Kind:ident, $rule:literal: $($text:literal => $variant:ident),+) => {
        impl SettingValue for $Kind {
            fn parse(text: &str) -> Result<Self, String> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err($rule.to_owned()),
                }
            }
        }
    };
}

/// Whether memory is locked, so that it is never written to swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMemory {
    /// Lock memory if the system allows it.
    Auto,
    /// Do not start if memory cannot be locked.
    On,
    Off,
}

keyword_setting! { LockMemory, "must be auto, on or off": "auto" => Auto, "on" => On, "off" => Off }

keyword_setting! { ReadRecording, "must be durable or off": "durable" => Durable, "off" => Off }

/// A setting that turns an optional feature on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    On,
    Off,
}

keyword_setting! { Switch, "must be on or off": "on" => On, "off" => Off }

/// Target of the audit sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditSinkTarget {
    File(PathBuf),
    /// Socket of a syslog daemon on this machine.
    Syslog(PathBuf),
}

impl SettingValue for AuditSinkTarget {
    fn parse(text: &str) -> Result<Self, String> {
        let parse_path = |prefix: &str| {
            let path = text.strip_prefix(prefix).map(PathBuf::from);
            path.filter(|it| it.is_absolute() && it.file_name().is_some())
        };
        let file = parse_path("file:").map(Self::File);
        let target = file.or_else(|| parse_path("syslog:").map(Self::Syslog));
        target.ok_or_else(|| "must be file: or syslog: with an absolute path".to_owned())
    }
}

/// Host names separated by commas, without ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostNames(pub Vec<String>);

impl SettingValue for HostNames {
    fn parse(text: &str) -> Result<Self, String> {
        let rule = "must be host names separated by commas, without ports, such as scrip.internal";
        let is_name_char = |it: char| it.is_ascii_alphanumeric() || ['-', '.', '_'].contains(&it);
        let names = text.split(',').map(str::trim).filter(|_| !text.trim().is_empty());
        let names: Vec<_> = names.map(str::to_owned).collect();
        let is_name = |it: &String| !it.is_empty() && it.chars().all(is_name_char);
        if names.iter().all(is_name) { Ok(Self(names)) } else { Err(rule.to_owned()) }
    }
}

keyword_setting! { OutagePolicy, "must be local or reject": "local" => CountLocally, "reject" => RejectAll }

keyword_setting! { StartTrust, "must be cautious or wall": "cautious" => Cautious, "wall" => Wall }

/// URL of the trace collector: the complete address for POST requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectorUrl(pub(crate) ServerAddress);

impl SettingValue for CollectorUrl {
    fn parse(text: &str) -> Result<Self, String> {
        let rule = "must be an address in plain HTTP such as http://127.0.0.1:4318; for TLS, run a \
                    local collector";
        let address = ServerAddress::parse(text);
        let address = address.filter(|it| !it.is_https && !it.path.contains('?'));
        let mut address = address.ok_or_else(|| rule.to_owned())?;
        let base = address.path.trim_end_matches('/');
        let base = base.strip_suffix(TRACES_PATH).unwrap_or(base);
        address.path = format!("{base}{TRACES_PATH}");
        Ok(Self(address))
    }
}

/// Path defined by OTLP over HTTP.
const TRACES_PATH: &str = "/v1/traces";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, else JSON.
    Auto,
    /// One JSON object per line.
    Json,
    Text,
}

keyword_setting! { LogFormat, "must be auto, json or text": "auto" => Auto, "json" => Json, "text" => Text }

/// A log filter that has been parsed successfully.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilter(pub(crate) String);

impl SettingValue for LogFilter {
    fn parse(text: &str) -> Result<Self, String> {
        let rule = "must be a filter such as info or scrip_server=debug";
        match text.parse::<Targets>() {
            Ok(_) if !text.is_empty() => Ok(Self(text.to_owned())),
            Ok(_) | Err(_) => Err(rule.to_owned()),
        }
    }
}

/// An origin with https: card numbers are typed there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldOrigin(pub WebOrigin);

impl SettingValue for FieldOrigin {
    fn parse(text: &str) -> Result<Self, String> {
        let origin = WebOrigin::parse(text).ok().filter(WebOrigin::is_https);
        origin.map(Self).ok_or_else(|| {
            "must be an origin such as https://fields.example, with https and without a path"
                .to_owned()
        })
    }
}

/// Address of PostgreSQL. It may contain a password, so it is printed only in redacted form.
#[derive(Debug, Clone)]
pub struct StorageUrl(pub(crate) PostgresSettings);

impl SettingValue for StorageUrl {
    fn parse(text: &str) -> Result<Self, String> {
        PostgresSettings::parse(text).map(Self).map_err(|it| it.to_string())
    }

    fn redact(text: &str) -> String {
        // An invalid URL is reported without quoting it.
        Self::parse(text).map(|it| it.0.redacted().to_owned()).unwrap_or_default()
    }
}

/// Names and networks of destinations, separated by commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedDestinations(pub(crate) AllowList);

impl SettingValue for AllowedDestinations {
    fn parse(text: &str) -> Result<Self, String> {
        let entries = text.split(',').map(str::trim).filter(|_| !text.trim().is_empty());
        AllowList::parse(entries).map(Self).map_err(|_| {
            "must be names such as api.example.com and *.example.com, or networks such as \
             10.1.0.0/16, separated by commas"
                .to_owned()
        })
    }
}

/// Port numbers, separated by commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortList(pub(crate) Vec<u16>);

impl SettingValue for PortList {
    fn parse(text: &str) -> Result<Self, String> {
        let ports: Option<Vec<_>> =
            text.split(',').map(|it| it.trim().parse().ok().filter(|it| *it > 0)).collect();
        ports.map(Self).ok_or_else(|| {
            "must be port numbers from 1 to 65535, separated by commas, such as 443, 8443"
                .to_owned()
        })
    }
}

/// URL of a forward proxy, without a password, because settings are printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardProxyUrl(pub(crate) ServerAddress);

/// The port of most forward proxies.
const FORWARD_PROXY_PORT: u16 = 3128;

impl ForwardProxyUrl {
    pub(crate) fn port(&self) -> u16 {
        self.0.port.unwrap_or(FORWARD_PROXY_PORT)
    }
}

impl SettingValue for ForwardProxyUrl {
    fn parse(text: &str) -> Result<Self, String> {
        let address = ServerAddress::parse(text).filter(|it| !it.is_https && it.path == "/");
        address.map(Self).ok_or_else(|| {
            "must be a URL such as http://proxy.internal:3128, without a path and a password"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_settings_accept_lists_and_reject_malformed_entries() {
        assert_eq!(PortList::parse("443, 8443"), Ok(PortList(vec![443, 8443])));
        for text in ["", "0", "65536", "443,", "+443x"] {
            assert!(PortList::parse(text).is_err(), "{text}");
        }
        let allow = AllowedDestinations::parse(" *.example.com,10.1.0.0/16 ").unwrap();
        assert_eq!(allow.0, AllowList::parse(["*.example.com", "10.1.0.0/16"]).unwrap());
        assert_eq!(AllowedDestinations::parse(" ").unwrap().0, AllowList::default());
        for text in ["https://example.com", "example", "a.b,,c.d"] {
            assert!(AllowedDestinations::parse(text).is_err(), "{text}");
        }
        assert!(ForwardProxyUrl::parse("http://proxy.internal:8080").is_ok());
        for text in ["https://proxy.internal", "http://user@proxy.internal", "http://proxy/x"] {
            assert!(ForwardProxyUrl::parse(text).is_err(), "{text}");
        }
    }
}
