//! Determines the client's address behind proxies.

use std::net::{IpAddr, SocketAddr};

use hyper::HeaderMap;
use ipnet::IpNet;

const HEADER: &str = "x-forwarded-for";

/// Networks of trusted proxies. `X-Forwarded-For` from any other peer is ignored, because anyone
/// can write the header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies(pub Vec<IpNet>);

impl TrustedProxies {
    /// Returns the peer, unless it is a trusted proxy; then the last hop that is not one. Every
    /// proxy appends the address of its peer, so only the entries to the right of the first
    /// untrusted address were written by trusted proxies.
    pub fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        // Repeated headers form one list.
        let values = headers.get_all(HEADER).iter().rev();
        let hops = values.flat_map(|it| it.as_bytes().rsplit(|it| *it == b','));
        for hop in hops {
            if !self.contains(client) {
                return client;
            }
            // The entries to the left of an unreadable entry cannot be trusted.
            let Some(hop) = parse_hop(hop) else { return client };
            client = hop.to_canonical();
        }
        client
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|it| it.contains(&address))
    }
}

/// Parses one entry of the header. Some proxies add a port, and brackets around an IPv6 address.
fn parse_hop(hop: &[u8]) -> Option<IpAddr> {
    let hop = std::str::from_utf8(hop).ok()?.trim();
    let unbracketed = hop.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(hop);
    unbracketed.parse().ok().or_else(|| hop.parse::<SocketAddr>().ok().map(|it| it.ip()))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[track_caller]
    fn check(peer: &str, forwarded: &[&str], expected: &str) {
        let trusted = ["10.0.0.0/8", "192.0.2.7/32", "2001:db8:ff::/48", "127.0.0.1/32"];
        let proxies = TrustedProxies(trusted.map(|it| it.parse().unwrap()).to_vec());
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(HEADER, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let client = proxies.client_address(peer.parse().unwrap(), &headers);
        assert_eq!(
            client,
            expected.parse::<IpAddr>().unwrap(),
            "peer {peer}, forwarded for {forwarded:?}"
        );
    }

    #[test]
    fn forwarded_header_of_an_untrusted_peer_is_ignored() {
        check("203.0.113.9", &[], "203.0.113.9");
        check("203.0.113.9", &["198.51.100.1"], "203.0.113.9");
        check("203.0.113.9", &["10.0.0.1", "127.0.0.1"], "203.0.113.9");
        check("2001:db8::1", &["198.51.100.1"], "2001:db8::1");
        check("::ffff:203.0.113.9", &["198.51.100.1"], "203.0.113.9");
    }

    #[test]
    fn client_behind_trusted_proxies_is_the_last_untrusted_hop() {
        check("10.0.0.1", &["198.51.100.1"], "198.51.100.1");
        check("::ffff:10.0.0.1", &["198.51.100.1"], "198.51.100.1");
        check("10.0.0.1", &["1.1.1.1, 198.51.100.1, 10.2.0.1"], "198.51.100.1");
        check("10.0.0.1", &["1.1.1.1", "198.51.100.1", "10.2.0.1,192.0.2.7"], "198.51.100.1");
        check("10.0.0.1", &["2001:db8::5"], "2001:db8::5");
        check("2001:db8:ff::1", &["[2001:db8::5]:4711"], "2001:db8::5");
        check("2001:db8:ff::1", &["[2001:db8::5]"], "2001:db8::5");
        check("10.0.0.1", &["198.51.100.1:4711"], "198.51.100.1");
        check("10.0.0.1", &["::ffff:198.51.100.1"], "198.51.100.1");
        // An IPv4-mapped address of a trusted proxy is trusted.
        check("10.0.0.1", &["198.51.100.1, ::ffff:10.9.9.9"], "198.51.100.1");
        // All hops are trusted: the first one is the client.
        check("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3");
        check("10.0.0.1", &[], "10.0.0.1");
    }

    #[test]
    fn unreadable_hop_ends_the_search() {
        check("10.0.0.1", &["198.51.100.1, nonsense"], "10.0.0.1");
        check("10.0.0.1", &["198.51.100.1, nonsense, 10.0.0.2"], "10.0.0.2");
        check("10.0.0.1", &["198.51.100.1,"], "10.0.0.1");
        check("10.0.0.1", &["198.51.100.1", ""], "10.0.0.1");
        check("10.0.0.1", &["198.51.100.1, 10.0.0.256"], "10.0.0.1");
        check("10.0.0.1", &["198.51.100.1 198.51.100.2"], "10.0.0.1");
        check("10.0.0.1", &["fe80::1%eth0"], "10.0.0.1");
        check("10.0.0.1", &["198.51.100.1, \u{e9}"], "10.0.0.1");
        check("10.0.0.1", &["unknown"], "10.0.0.1");
    }
}
