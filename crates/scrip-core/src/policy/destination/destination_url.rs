//! The base URL of a destination, and how the path and query of a request are appended to it.
//!
//! The parser is strict: parsers that repair URLs disagree with each other, and an attacker would
//! use the difference. A pre-configured destination is a permission boundary, so a request cannot
//! leave the base path.

mod path;
mod query;

pub use self::{
    path::PathError,
    query::{FieldNames, PROXY_KEY_PARAMETER},
};

use std::net::IpAddr;

use serde::{Deserialize, Deserializer, Serializer, de};

use crate::{
    FieldError,
    policy::destination::{
        HostName,
        destination_url::{
            path::check_path,
            query::{drop_proxy_key, repeats_parameter},
        },
    },
};

/// A base URL such as `https://api.example.com/v1?mode=live`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationUrl {
    text: String,
    /// Scheme, host and port: `https://api.example.com:8443`.
    origin: String,
    host: String,
    /// Without slashes at the end; empty for the root.
    path: String,
    query: Option<String>,
}

/// Whether a URL may have a loopback host: only a server for development allows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoopbackDestinations {
    Allowed,
    #[default]
    Rejected,
}

pub const URL_CHARS_MAX: usize = 2048;
/// The client for destinations has the same limit for a URL.
const TARGET_BYTES_MAX: usize = 16 * 1024;

impl DestinationUrl {
    /// Errors: the URL is not an absolute https URL with a DNS name.
    pub fn parse(text: &str, loopback: LoopbackDestinations) -> Result<Self, FieldError> {
        let reject = |rule: &'static str| FieldError::new("destination_url", rule);
        if text.is_empty() || text.chars().count() > URL_CHARS_MAX {
            return Err(reject("must have 1 to 2048 characters"));
        }
        if text.contains('#') {
            return Err(reject("must not contain a fragment, the part that begins with '#'"));
        }
        if !text.bytes().all(is_url_byte) {
            return Err(reject("must be a URL in ASCII, with other characters percent-encoded"));
        }
        let (scheme, remaining) = text.split_once("://").ok_or_else(|| reject(NO_SCHEME))?;
        let is_https = scheme.eq_ignore_ascii_case("https");
        let authority_end = remaining.find(['/', '?']).unwrap_or(remaining.len());
        let (authority, target) = remaining.split_at(authority_end);
        if authority.contains('@') {
            return Err(reject("must not contain a user name or a password"));
        }
        let (host, port) = split_port(authority).ok_or_else(|| reject("has an invalid port"))?;
        let is_loopback = is_loopback_host(host);
        if is_loopback && loopback == LoopbackDestinations::Rejected {
            return Err(reject("must have a DNS name with a dot as its host"));
        }
        let is_loopback_http = is_loopback && scheme.eq_ignore_ascii_case("http");
        if !is_https && !is_loopback_http {
            return Err(reject(NO_SCHEME));
        }
        let host = match is_loopback {
            true => host.to_ascii_lowercase(),
            false => match HostName::parse(host) {
                Ok(name) => name.as_str().to_owned(),
                Err(error) => return Err(FieldError { field: "destination_url".into(), ..error }),
            },
        };
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        if check_path(path).is_err() {
            return Err(reject(
                "must not contain .. segments, control characters or invalid UTF-8 text",
            ));
        }
        let scheme = if is_https { "https" } else { "http" };
        let port = port.map(|it| format!(":{it}")).unwrap_or_default();
        Ok(Self {
            text: text.to_owned(),
            origin: format!("{scheme}://{host}{port}"),
            host,
            path: path.trim_end_matches('/').to_owned(),
            query: query.filter(|it| !it.is_empty()).map(str::to_owned),
        })
    }

    /// Parses a stored URL. It may have a loopback host, if the server allowed that earlier. The
    /// guard of outgoing connections decides again.
    pub fn from_stored(text: &str) -> Option<Self> {
        Self::parse(text, LoopbackDestinations::Allowed).ok()
    }

    /// The URL as the client wrote it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The host in lower case, without the port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Appends a path (empty, or with a slash at its start) and a query. The parameter
    /// `bt-proxy-key` is dropped.
    ///
    /// Errors: the path would leave the base path, a character is not allowed in a URL, or the path
    /// and the query are too long.
    pub fn join(&self, path: &str, query: Option<&str>) -> Result<String, PathError> {
        // First: the other checks take time for each byte.
        if path.len().saturating_add(query.map_or(0, str::len)) > TARGET_BYTES_MAX {
            return Err(PathError::TooLong);
        }
        let is_valid = |it: &str| it.bytes().all(|it| it.is_ascii_graphic() && it != b'#');
        if !is_valid(path) || !query.is_none_or(is_valid) || path.contains('?') {
            return Err(PathError::InvalidCharacter);
        }
        check_path(path)?;
        let query = query.map(drop_proxy_key).unwrap_or_default();
        let base_query = self.query.as_deref().unwrap_or_default();
        let capacity = [&self.origin, &self.path, path, base_query, &query]
            .iter()
            .map(|it| it.len())
            .fold(3, usize::saturating_add);
        let mut url = String::with_capacity(capacity);
        url.push_str(&self.origin);
        url.push_str(&self.path);
        if !path.is_empty() && !path.starts_with('/') {
            url.push('/');
        }
        url.push_str(path);
        if self.path.is_empty() && path.is_empty() {
            url.push('/');
        }
        let mut separator = '?';
        for part in [base_query, &query].into_iter().filter(|it| !it.is_empty()) {
            url.push(separator);
            url.push_str(part);
            separator = '&';
        }
        Ok(url)
    }

    /// Whether the query has a parameter of the base query, in any encoding of its name. Servers
    /// differ in which one of two they use, so a request could replace a parameter of the base.
    pub fn repeats_base_parameter(&self, query: Option<&str>) -> bool {
        match (&self.query, query) {
            (Some(base_query), Some(query)) => repeats_parameter(base_query, query),
            (_, _) => false,
        }
    }
}

/// The text of a stored URL. [`DestinationUrl`] itself cannot be deserialized, because a request must
/// state which hosts are allowed.
pub(crate) mod stored_url {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(url: &DestinationUrl, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(url.as_str())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<DestinationUrl, D::Error> {
        let text = String::deserialize(from)?;
        DestinationUrl::from_stored(&text).ok_or_else(|| de::Error::custom("no URL"))
    }
}

const NO_SCHEME: &str = "must begin with https://";

/// The characters of RFC 3986 except `#`. A backslash or a brace is none of them.
fn is_url_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:/?[]@!$&'()*+,;=%".contains(&byte)
}

/// Splits host and port. `None` for a port that is no number.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    // The colons of an IPv6 address are in brackets.
    let port_start =
        authority.rfind(':').filter(|it| !authority.get(*it..).is_some_and(|it| it.contains(']')));
    let Some(port_start) = port_start else { return Some((authority, None)) };
    let (host, port) = authority.split_at(port_start);
    let digits = port.strip_prefix(':')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
    let port = digits.parse::<u16>().ok().filter(|it| is_number && *it > 0)?;
    Some((host, Some(port)))
}

fn is_loopback_host(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
}

#[cfg(test)]
mod tests;
