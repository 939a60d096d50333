//! The base URL of a destination, and how the path and query of a request are appended to it.
//!
//! The parser is strict: parsers that repair URLs disagree with each other, and an attacker would
//! use the difference. A pre-configured destination is a permission boundary, so a request cannot
//! leave the base path.

use std::{borrow::Cow, net::IpAddr};

use crate::{error::FieldError, proxy::HostName};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopbackDestinations {
    Allowed,
    Rejected,
}

/// The path or query of a request that cannot be appended to a base URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("the path must not contain .. segments")]
    LeavesBasePath,
    #[error("the path and the query must consist of visible ASCII characters without #")]
    InvalidCharacter,
}

pub const URL_CHARS_MAX: usize = 2048;
/// The query parameter that names a proxy. It is a secret of the vault.
pub const PROXY_KEY_PARAMETER: &str = "bt-proxy-key";

impl DestinationUrl {
    /// # Errors
    /// The URL is not an absolute https URL with a DNS name.
    pub fn parse(text: &str, loopback: LoopbackDestinations) -> Result<Self, FieldError> {
        let reject = |rule: &'static str| FieldError::new("destination_url", rule);
        if text.is_empty() || text.chars().count() > URL_CHARS_MAX {
            return Err(reject("must have 1 to 2048 characters"));
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
            return Err(reject("must not contain .. segments"));
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
    #[must_use]
    pub fn from_stored(text: &str) -> Option<Self> {
        Self::parse(text, LoopbackDestinations::Allowed).ok()
    }

    /// The URL as the client wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The host in lower case, without the port.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Appends a path (empty, or with a slash at its start) and a query. The parameter
    /// `bt-proxy-key` is dropped.
    ///
    /// # Errors
    /// The path would leave the base path, or a character is not allowed in a URL.
    pub fn join(&self, path: &str, query: Option<&str>) -> Result<String, PathError> {
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

/// Destinations decode paths in different ways, some more than once. A segment that is `..` after
/// any number of decodings is rejected, with every separator that some server accepts.
fn check_path(path: &str) -> Result<(), PathError> {
    if !path.contains('.') && !path.contains('%') {
        return Ok(());
    }
    let mut decoded = Cow::Borrowed(path.as_bytes());
    loop {
        // Some servers ignore what follows a semicolon in a segment.
        let is_separator = |it: &u8| matches!(it, b'/' | b'\\' | b';' | 0);
        if decoded.split(is_separator).any(|it| it == b"..") {
            return Err(PathError::LeavesBasePath);
        }
        match percent_decode(&decoded) {
            Some(bytes) => decoded = Cow::Owned(bytes),
            None => return Ok(()),
        }
    }
}

/// Decodes once. `None` if no character was encoded. The result is shorter than the input.
fn percent_decode(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut remaining = bytes;
    while let [first, tail @ ..] = remaining {
        let byte = match (first, tail) {
            (b'%', [high, low, ..]) => hex_digit(*high).zip(hex_digit(*low)),
            (_, _) => None,
        };
        match byte {
            Some((high, low)) => {
                decoded.push((high << 4) | low);
                remaining = tail.get(2..).unwrap_or_default();
            }
            None => {
                decoded.push(*first);
                remaining = tail;
            }
        }
    }
    (decoded.len() < bytes.len()).then_some(decoded)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|it| u8::try_from(it).ok())
}

/// Removes the parameter that names the proxy, in any case and encoding of its name.
fn drop_proxy_key(query: &str) -> Cow<'_, str> {
    let is_proxy_key = |parameter: &&str| {
        let name = parameter.split('=').next().unwrap_or_default().as_bytes();
        let name = percent_decode(name).map_or(Cow::Borrowed(name), Cow::Owned);
        name.eq_ignore_ascii_case(PROXY_KEY_PARAMETER.as_bytes())
    };
    if !query.split('&').any(|it| is_proxy_key(&it)) {
        return Cow::Borrowed(query);
    }
    let parameters: Vec<_> = query.split('&').filter(|it| !is_proxy_key(it)).collect();
    Cow::Owned(parameters.join("&"))
}

#[cfg(test)]
mod tests;
