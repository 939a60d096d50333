//! Origins of web pages, as browsers send them in the `Origin` header.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::policy::destination::HostName;

/// Scheme, host and port of a web page, in the form of the `Origin` header: lower case, without the
/// default port of the scheme.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WebOrigin(String);

const RULE: &str = "must be an origin such as https://shop.example: a scheme, a host and optionally \
                    a port, without a path; http only for localhost and loopback addresses";

impl WebOrigin {
    /// Parses an origin and normalises it.
    /// Errors: the text is not an origin. The error is the rule.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.to_ascii_lowercase();
        let (scheme, rest) = text.split_once("://").ok_or(RULE)?;
        let (name, port) = split_port(rest).ok_or(RULE)?;
        let host = normalize_host(name).ok_or(RULE)?;
        let default_port = match scheme {
            "https" => 443,
            "http" if is_loopback_host(&host) => 80,
            _ => return Err(RULE),
        };
        let port = port.filter(|it| *it != default_port);
        let port = port.map(|it| format!(":{it}")).unwrap_or_default();
        Ok(Self(format!("{scheme}://{host}{port}")))
    }

    /// Parses a stored origin. `None` if [`WebOrigin::parse`] would change it.
    pub fn from_stored(text: &str) -> Option<Self> {
        Self::parse(text).ok().filter(|it| it.0 == text)
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    pub fn is_https(&self) -> bool {
        self.0.starts_with("https:")
    }

    /// The name or address, without the port. An IPv6 address is in brackets.
    pub fn host(&self) -> &str {
        let authority = self.0.split_once("://").map_or("", |(_, it)| it);
        host_without_port(authority)
    }
}

/// Removes the port of a `Host` header or of an authority.
pub fn host_without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|it| it.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// Whether a host name or address, without a port, always means the machine of the client.
pub fn is_loopback_host(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    host == "localhost"
        || host.ends_with(".localhost")
        || host == "[::1]"
        || host.parse::<Ipv4Addr>().is_ok_and(|it| it.is_loopback())
}

/// Splits a port from its host. `None` if the port is not a number that a browser would write.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let host = host_without_port(authority);
    if host.len() == authority.len() {
        return Some((host, None));
    }
    let port = authority.get(host.len()..)?.strip_prefix(':')?;
    let number: u16 = port.parse().ok()?;
    (number > 0 && number.to_string() == port).then_some((host, Some(number)))
}

fn normalize_host(name: &str) -> Option<String> {
    if let Some(address) = name.strip_prefix('[') {
        let address: Ipv6Addr = address.strip_suffix(']')?.parse().ok()?;
        return Some(format!("[{address}]"));
    }
    let is_known = name == "localhost" || name.parse::<Ipv4Addr>().is_ok();
    (is_known || HostName::parse(name).is_ok()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_is_normalised_to_the_form_of_browsers() {
        let cases = [
            ("https://shop.example", "https://shop.example", "shop.example"),
            ("HTTPS://Shop.Example:443", "https://shop.example", "shop.example"),
            ("https://shop.example:8443", "https://shop.example:8443", "shop.example"),
            ("http://localhost:3000", "http://localhost:3000", "localhost"),
            ("http://shop.localhost:80", "http://shop.localhost", "shop.localhost"),
            ("http://127.0.0.1:5173", "http://127.0.0.1:5173", "127.0.0.1"),
            ("http://[::1]:3000", "http://[::1]:3000", "[::1]"),
            ("https://[2001:DB8:0:0::1]", "https://[2001:db8::1]", "[2001:db8::1]"),
            ("https://192.0.2.7", "https://192.0.2.7", "192.0.2.7"),
            (
                "https://xn--bcher-kva.example",
                "https://xn--bcher-kva.example",
                "xn--bcher-kva.example",
            ),
        ];
        for (text, expected, host) in cases {
            let origin = WebOrigin::parse(text).unwrap();
            assert_eq!((origin.text(), origin.host()), (expected, host), "{text}");
            assert_eq!(WebOrigin::from_stored(expected), Some(origin), "{text}");
        }
        assert_eq!(WebOrigin::from_stored("https://Shop.example"), None);
    }

    #[test]
    fn texts_that_are_not_origins_are_rejected() {
        for text in [
            "",
            "*",
            "null",
            "shop.example",
            "https://",
            "https://*",
            "https://*.shop.example",
            "https://shop.example/",
            "https://shop.example/cart",
            "https://shop.example?x",
            "https://shop.example#x",
            "https://user@shop.example",
            "https://shop.example:",
            "https://shop.example:0",
            "https://shop.example:0443",
            "https://shop.example:65536",
            "https://shop.example.",
            "https://shop example",
            "https://shop.example; script-src *",
            "https://bücher.example",
            "https://intranet",
            "https://127.1",
            "https://[::1",
            "https://[::1]x",
            "http://shop.example",
            "http://localhost.shop.example",
            "http://127.0.0.1.shop.example",
            "http://192.0.2.7",
            "ftp://shop.example",
            "file://",
            "javascript:alert(1)",
        ] {
            assert_eq!(WebOrigin::parse(text), Err(RULE), "{text}");
        }
    }
}
