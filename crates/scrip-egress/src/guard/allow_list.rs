//! The operator's list of allowed names and networks.

use std::{fmt, net::IpAddr, str::FromStr};

use ipnet::IpNet;

use crate::destination::is_dns_name;

/// One entry of the list: a name (`api.example.com`), all names below one (`*.example.com`), all
/// names (`*`), a network (`10.1.0.0/16`) or an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowEntry {
    AnyName,
    Name(String),
    NamesBelow(String),
    Network(IpNet),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be a name such as api.example.com, *.example.com or *, or a network such as 10.1.0.0/16"
)]
pub struct AllowEntryError;

impl FromStr for AllowEntry {
    type Err = AllowEntryError;

    fn from_str(text: &str) -> Result<Self, AllowEntryError> {
        if text == "*" {
            return Ok(Self::AnyName);
        }
        if let Ok(network) = text.parse::<IpNet>() {
            return Ok(Self::Network(network.trunc()));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Network(address.into()));
        }
        let name = text.to_ascii_lowercase();
        let (pattern, is_below) = match name.strip_prefix("*.") {
            Some(it) => (it.to_owned(), true),
            None => (name, false),
        };
        // `*.internal` has one label; every allowed name has at least two.
        let is_valid =
            is_dns_name(&pattern) || (is_below && is_dns_name(&["a.", &pattern].concat()));
        match (is_valid, is_below) {
            (true, true) => Ok(Self::NamesBelow(pattern)),
            (true, false) => Ok(Self::Name(pattern)),
            (false, _) => Err(AllowEntryError),
        }
    }
}

impl fmt::Display for AllowEntry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AnyName => formatter.write_str("*"),
            Self::Name(name) => formatter.write_str(name),
            Self::NamesBelow(name) => write!(formatter, "*.{name}"),
            Self::Network(network) => network.fmt(formatter),
        }
    }
}

/// The list. An empty list allows every public destination.
///
/// Otherwise, a destination needs an entry for its name or for all of its addresses. An address that
/// is not public always needs an entry for its network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList {
    entries: Vec<AllowEntry>,
}

/// How the list matches a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameMatch {
    /// By an entry that names it.
    Explicit,
    /// By `*` or by an empty list.
    General,
    /// Only its addresses can still match.
    None,
}

impl AllowList {
    pub fn new(entries: Vec<AllowEntry>) -> Self {
        Self { entries }
    }

    /// Errors: an entry is neither a name nor a network.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, AllowEntryError> {
        entries.into_iter().map(str::parse).collect::<Result<_, _>>().map(Self::new)
    }

    /// Whether every public name is allowed.
    pub fn allows_any_name(&self) -> bool {
        self.entries.is_empty() || self.entries.contains(&AllowEntry::AnyName)
    }

    /// `name` is in lower case.
    pub(crate) fn match_name(&self, name: &str) -> NameMatch {
        let is_below = |parent: &str| {
            name.strip_suffix(parent).is_some_and(|it| it.len() > 1 && it.ends_with('.'))
        };
        let is_explicit = self.entries.iter().any(|entry| match entry {
            AllowEntry::Name(it) => it == name,
            AllowEntry::NamesBelow(it) => is_below(it),
            AllowEntry::AnyName | AllowEntry::Network(_) => false,
        });
        if is_explicit {
            return NameMatch::Explicit;
        }
        if self.allows_any_name() {
            return NameMatch::General;
        }
        NameMatch::None
    }

    /// Whether an entry can match an address.
    pub(crate) fn has_network(&self) -> bool {
        self.entries.iter().any(|it| matches!(it, AllowEntry::Network(_)))
    }

    /// `address` is canonical: no IPv4 address in the form of IPv6.
    pub(crate) fn has_address(&self, address: IpAddr) -> bool {
        self.entries.iter().any(|entry| match entry {
            AllowEntry::Network(network) => network.contains(&address),
            AllowEntry::AnyName | AllowEntry::Name(_) | AllowEntry::NamesBelow(_) => false,
        })
    }
}
