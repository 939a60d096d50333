//! URLs of destinations. Only one strict form is accepted, so that no other program reads a URL
//! differently than the guard.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use hyper::{
    header::HeaderValue,
    http::uri::{Authority, PathAndQuery},
};

const URL_BYTES_MAX: usize = 16 * 1024;
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;
const HTTPS_PORT: u16 = 443;
const HTTP_PORT: u16 = 80;

/// A URL that is a valid destination by its syntax. The guard decides whether it is allowed.
#[derive(Clone, PartialEq, Eq)]
pub struct Destination {
    is_https: bool,
    pub(crate) host: DestinationHost,
    port: u16,
    pub(crate) authority: Authority,
    pub(crate) host_header: HeaderValue,
    pub(crate) path_and_query: PathAndQuery,
}

/// The host of a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DestinationHost {
    /// A DNS name of at least two labels, in lower case.
    Name(Arc<str>),
    /// `localhost` or a loopback address: only in development.
    Loopback(LoopbackHost),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopbackHost {
    Localhost,
    Address(IpAddr),
}

/// Why a text is not a destination. Contains no part of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DestinationError {
    #[error("the URL is longer than 16384 bytes")]
    TooLong,
    #[error("the URL must begin with https://")]
    Scheme,
    #[error("the URL contains a character that is not allowed; encode it as %XX")]
    Character,
    #[error("the URL must not contain a fragment")]
    Fragment,
    #[error("the URL must not contain a user name or password")]
    UserInfo,
    #[error("the host must be a DNS name of at least two labels")]
    Host,
    #[error("the host must be a DNS name, not an address")]
    AddressLiteral,
    #[error("the port must be a number from 1 to 65535 without leading zeros")]
    Port,
    #[error("the path must begin with a slash")]
    Path,
}

impl Destination {
    /// Errors: the rule that the text violates.
    pub fn parse(text: &str) -> Result<Self, DestinationError> {
        check_characters(text)?;
        let (scheme, rest) = text.split_once("://").ok_or(DestinationError::Scheme)?;
        let is_https = scheme.eq_ignore_ascii_case("https");
        if !is_https && !scheme.eq_ignore_ascii_case("http") {
            return Err(DestinationError::Scheme);
        }
        let authority_end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(authority_end).unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err(DestinationError::UserInfo);
        }
        let (host_text, port_text) = split_port(authority)?;
        let host = parse_host(host_text)?;
        // Plain HTTP to a name would show the request to every network on the path.
        if !is_https && matches!(host, DestinationHost::Name(_)) {
            return Err(DestinationError::Scheme);
        }
        let default_port = if is_https { HTTPS_PORT } else { HTTP_PORT };
        let port = port_text.map_or(Ok(default_port), parse_port)?;
        let mut authority = host.to_string();
        if port != default_port {
            authority.push(':');
            authority.push_str(&port.to_string());
        }
        Ok(Self {
            is_https,
            host,
            port,
            host_header: HeaderValue::from_str(&authority).map_err(|_| DestinationError::Host)?,
            authority: Authority::try_from(authority).map_err(|_| DestinationError::Host)?,
            path_and_query: parse_path_and_query(path)?,
        })
    }

    pub fn is_https(&self) -> bool {
        self.is_https
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The name in lower case, or a loopback address (IPv6 in brackets).
    pub fn host(&self) -> &str {
        self.authority.host()
    }

    /// The path and the query as they are sent.
    pub fn path_and_query(&self) -> &str {
        self.path_and_query.as_str()
    }

    pub(crate) fn shared_host(&self) -> Arc<str> {
        match &self.host {
            DestinationHost::Name(name) => Arc::clone(name),
            DestinationHost::Loopback(_) => self.host.to_string().into(),
        }
    }
}

impl fmt::Display for DestinationHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Loopback(LoopbackHost::Localhost) => formatter.write_str("localhost"),
            Self::Loopback(LoopbackHost::Address(IpAddr::V4(it))) => it.fmt(formatter),
            Self::Loopback(LoopbackHost::Address(IpAddr::V6(it))) => write!(formatter, "[{it}]"),
        }
    }
}

impl LoopbackHost {
    pub(crate) fn addresses(self) -> Vec<IpAddr> {
        match self {
            Self::Localhost => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
            Self::Address(it) => vec![it],
        }
    }
}

impl fmt::Debug for Destination {
    /// Without path and query: they may identify a customer.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(formatter, "{scheme}://{}", self.authority)
    }
}

/// Rejects every character outside of RFC 3986, except the brackets and bars that providers use in
/// queries. In particular control characters, spaces, backslashes and letters beyond ASCII, which
/// some URL parsers remove or convert.
fn check_characters(text: &str) -> Result<(), DestinationError> {
    if text.len() > URL_BYTES_MAX {
        return Err(DestinationError::TooLong);
    }
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let is_valid = match byte {
            b'#' => return Err(DestinationError::Fragment),
            b'%' => {
                let is_hex = |it: Option<u8>| it.is_some_and(|it| it.is_ascii_hexdigit());
                is_hex(bytes.next()) && is_hex(bytes.next())
            }
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'}' => false,
            _ => byte.is_ascii_graphic(),
        };
        if !is_valid {
            return Err(DestinationError::Character);
        }
    }
    Ok(())
}

fn split_port(authority: &str) -> Result<(&str, Option<&str>), DestinationError> {
    if authority.starts_with('[') {
        let end = authority.find(']').ok_or(DestinationError::Host)?;
        let (host, rest) = authority.split_at_checked(end + 1).ok_or(DestinationError::Host)?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(DestinationError::Host),
        };
    }
    Ok(authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))))
}

fn parse_port(text: &str) -> Result<u16, DestinationError> {
    let is_number = !text.starts_with('0') && text.bytes().all(|it| it.is_ascii_digit());
    let port = text.parse().ok().filter(|_| is_number);
    port.ok_or(DestinationError::Port)
}

fn parse_host(text: &str) -> Result<DestinationHost, DestinationError> {
    let bracketed = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let address = match bracketed {
        Some(it) => Some(IpAddr::V6(
            it.parse().map_err(|_: std::net::AddrParseError| DestinationError::Host)?,
        )),
        None => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    };
    if let Some(address) = address {
        if !address.is_loopback() {
            return Err(DestinationError::AddressLiteral);
        }
        return Ok(DestinationHost::Loopback(LoopbackHost::Address(address)));
    }
    let name = text.to_ascii_lowercase();
    if name == "localhost" {
        return Ok(DestinationHost::Loopback(LoopbackHost::Localhost));
    }
    if !is_dns_name(&name) {
        return Err(DestinationError::Host);
    }
    Ok(DestinationHost::Name(name.into()))
}

/// At least two labels of letters, digits and inner hyphens. The last label begins with a letter:
/// resolvers read names such as `127.1` and `0x7f.1` as IPv4 addresses.
pub(crate) fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_valid = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label.bytes().all(is_valid)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last_label = name.rsplit_once('.').map(|(_, it)| it);
    name.len() <= NAME_BYTES_MAX
        && last_label.is_some_and(|it| it.starts_with(|it: char| it.is_ascii_lowercase()))
        && name.split('.').all(is_label)
}

fn parse_path_and_query(text: &str) -> Result<PathAndQuery, DestinationError> {
    if text.is_empty() {
        return Ok(PathAndQuery::from_static("/"));
    }
    let parsed = if text.starts_with('?') {
        PathAndQuery::try_from(["/", text].concat())
    } else if text.starts_with('/') {
        PathAndQuery::try_from(text)
    } else {
        return Err(DestinationError::Path);
    };
    parsed.map_err(|_| DestinationError::Path)
}
