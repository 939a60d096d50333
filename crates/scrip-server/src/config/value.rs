//! The kinds of values a setting can have: each is checked once, by `parse`.

pub mod limits;
pub mod storage;
pub mod threeds;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use hyper::Uri;
use scrip_api::limiter::OutagePolicy;
use scrip_core::audit::ReadRecording;
use tracing_subscriber::EnvFilter;

use crate::{config::value::limits::RedisUrl, process::clock::steady::StartTrust};

/// How a value is written in the file. A variable is always text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    Text,
    Number,
    Flag,
}

pub(crate) trait SettingValue: Sized {
    const KIND: ValueKind = ValueKind::Text;

    /// The value, or the rule that the text broke. The rule never quotes the text.
    fn parse(text: &str) -> Result<Self, String>;

    /// What may be printed of it. Only few have something that may not.
    fn redact(text: &str) -> String {
        text.to_owned()
    }
}

/// A whole number between two bounds, which are part of its declaration.
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
        let rule = "must be an address with a port, such as 127.0.0.1:4242 or [::1]:4242";
        text.parse().map_err(|_| rule.to_owned())
    }
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

/// Empty means that there is none.
impl<T: SettingValue> SettingValue for Option<T> {
    const KIND: ValueKind = T::KIND;

    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() { Ok(None) } else { T::parse(text).map(Some) }
    }

    fn redact(text: &str) -> String {
        if text.is_empty() { String::new() } else { T::redact(text) }
    }
}

/// A setting that is one of a few words.
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

/// Whether memory is kept out of swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMemory {
    /// Where the system allows it.
    Auto,
    /// Or do not start.
    On,
    Off,
}

keyword_setting! { LockMemory, "must be auto, on or off": "auto" => Auto, "on" => On, "off" => Off }

keyword_setting! { ReadRecording, "must be durable or off": "durable" => Durable, "off" => Off }

/// Whether something works that could be done without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    On,
    Off,
}

keyword_setting! { Switch, "must be on or off": "on" => On, "off" => Off }

/// Where the keys of card verification codes are. A token of PKCS#11 would be another place.
#[derive(Debug, Clone)]
pub enum EpochKeyLocation {
    Memory,
    File(PathBuf),
    /// Where other servers of the vault find them.
    Redis(Box<RedisUrl>),
}

impl SettingValue for EpochKeyLocation {
    fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with("redis") {
            return RedisUrl::parse(text).map(|it| Self::Redis(Box::new(it)));
        }
        let file = text.strip_prefix("file:").map(PathBuf::from);
        match file.filter(|it| it.is_absolute() && it.file_name().is_some()) {
            Some(path) => Ok(Self::File(path)),
            None if text == "memory" => Ok(Self::Memory),
            None => {
                Err("must be memory, or file: and an absolute path, or the address of a Redis \
                         such as redis://10.0.0.5:6379/0"
                    .to_owned())
            }
        }
    }
}

/// Who else is told of the audit trail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditSinkTarget {
    File(PathBuf),
    /// The socket of a daemon on this machine.
    Syslog(PathBuf),
}

impl SettingValue for AuditSinkTarget {
    fn parse(text: &str) -> Result<Self, String> {
        let path = |it: &str| {
            let path = text.strip_prefix(it).map(PathBuf::from);
            path.filter(|it| it.is_absolute() && it.file_name().is_some())
        };
        let file = path("file:").map(Self::File);
        let parsed = file.or_else(|| path("syslog:").map(Self::Syslog));
        parsed.ok_or_else(|| "must be file: or syslog: and an absolute path".to_owned())
    }
}

/// Host names between commas, without ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostNames(pub Vec<String>);

impl SettingValue for HostNames {
    fn parse(text: &str) -> Result<Self, String> {
        let rule = "must be host names between commas, without ports, such as scrip.internal";
        let is_plain = |it: char| it.is_ascii_alphanumeric() || ['-', '.', '_'].contains(&it);
        let names = text.split(',').map(str::trim).filter(|_| !text.trim().is_empty());
        let names: Vec<_> = names.map(str::to_owned).collect();
        let is_name = |it: &String| !it.is_empty() && it.chars().all(is_plain);
        if names.iter().all(is_name) { Ok(Self(names)) } else { Err(rule.to_owned()) }
    }
}

keyword_setting! { OutagePolicy, "must be local or closed": "local" => CountLocally, "closed" => RejectAll }

keyword_setting! { StartTrust, "must be cautious or wall": "cautious" => Cautious, "wall" => Wall }

/// Where a collector of traces is: the whole address to post to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectorUrl(pub(crate) String);

impl SettingValue for CollectorUrl {
    fn parse(text: &str) -> Result<Self, String> {
        let rule = "must be an address in plain HTTP such as http://127.0.0.1:4318; for TLS, run a \
                    collector beside the server";
        let uri: Uri = text.parse().map_err(|_| rule.to_owned())?;
        let plain = uri.scheme_str() == Some("http") && uri.query().is_none();
        let named = uri.authority().is_some_and(|it| !it.as_str().contains('@'));
        if !plain || !named {
            return Err(rule.to_owned());
        }
        let base = text.trim_end_matches('/');
        let base = base.strip_suffix(TRACES_PATH).unwrap_or(base);
        Ok(Self(format!("{base}{TRACES_PATH}")))
    }
}

/// As the protocol has it.
const TRACES_PATH: &str = "/v1/traces";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, else JSON.
    Auto,
    /// One JSON object a line, for machines.
    Json,
    Text,
}

keyword_setting! { LogFormat, "must be auto, json or text": "auto" => Auto, "json" => Json, "text" => Text }

/// A filter that was seen to parse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilter(pub(crate) String);

impl SettingValue for LogFilter {
    fn parse(text: &str) -> Result<Self, String> {
        let rule = "must be a filter such as info or scrip_server=debug";
        EnvFilter::try_new(text).map_err(|_| rule.to_owned())?;
        Ok(Self(text.to_owned()))
    }
}
