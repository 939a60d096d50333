//! The shop: its keys and addresses, and the hosts that belong to it.

use std::net::IpAddr;

use hyper::{header::HeaderValue, http::uri::Authority};
use scrip_seal::Secret;
use tokio::sync::OnceCell;

use crate::provider::Provider;

/// The keys and addresses of the shop.
#[derive(Debug)]
pub struct Demo {
    /// For the page.
    pub public_key: String,
    /// For the backend only.
    pub private_key: Secret,
    /// For the proxy of the backend only.
    pub management_key: Secret,
    /// The authorities of the vault's configured URLs.
    pub own_authorities: Vec<String>,
    /// The destination of the charges.
    pub provider: Provider,
    /// The key of the proxy to the provider, from the first charge on.
    pub(crate) proxy_key: OnceCell<String>,
}

/// The API keys of the tenant in which the shop works.
#[derive(Debug)]
pub struct ShopKeys {
    pub public: String,
    pub private: Secret,
    pub management: Secret,
}

impl Demo {
    pub fn new(keys: ShopKeys, own_authorities: Vec<String>, provider: Provider) -> Self {
        let ShopKeys { public: public_key, private: private_key, management: management_key } =
            keys;
        let proxy_key = OnceCell::new();
        Self { public_key, private_key, management_key, own_authorities, provider, proxy_key }
    }

    /// The page loads only its own files and the script of the hosted fields. Its frames are its
    /// own, the hosted fields and the page of the provider. The pages in the frames have their own
    /// policy. No other site can put the shop into a frame.
    pub(crate) fn content_security_policy(&self, fields_origin: &str) -> Option<HeaderValue> {
        let policy = format!(
            "default-src 'none'; script-src 'self' {fields_origin}; style-src 'self'; \
             img-src 'self'; connect-src 'self'; frame-src 'self' {fields_origin} {}; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            self.provider.url
        );
        HeaderValue::try_from(policy).ok()
    }

    /// The origin of the hosted fields, for a shop at `authority`. The shop and the fields must have
    /// different origins, or the page could read the frames. So a shop at `127.0.0.1` uses the fields
    /// at `localhost`, and the reverse: both names are this server.
    pub(crate) fn fields_origin(authority: &str) -> String {
        let parsed = authority.parse::<Authority>().ok();
        let host = parsed.as_ref().map_or("", Authority::host);
        let port = parsed.as_ref().and_then(Authority::port_u16);
        let port = port.map(|it| format!(":{it}")).unwrap_or_default();
        let other = if host.eq_ignore_ascii_case("localhost") { "127.0.0.1" } else { "localhost" };
        format!("http://{other}{port}")
    }

    /// Whether the `Host` of a request is this machine. Protects against DNS rebinding: a foreign
    /// page can make its name resolve to this address, but the browser still sends that name.
    pub(crate) fn is_own_host(&self, authority: &str) -> bool {
        let host = authority.parse::<Authority>().map(|it| it.host().to_owned());
        let host = host.unwrap_or_default().to_ascii_lowercase();
        let unbracketed = host.trim_start_matches('[').trim_end_matches(']');
        let is_loopback =
            unbracketed.parse::<IpAddr>().is_ok_and(|it| it.to_canonical().is_loopback());
        is_loopback
            || host == "localhost"
            || self.own_authorities.iter().any(|it| it.eq_ignore_ascii_case(authority))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_and_configured_hosts_are_accepted() {
        let own_authorities = vec!["vault.example:4242".to_owned()];
        let secret = || Secret::new(Vec::new());
        let keys = ShopKeys { public: String::new(), private: secret(), management: secret() };
        let provider = Provider { url: "http://127.0.0.1:1".to_owned(), api_key: String::new() };
        let demo = Demo::new(keys, own_authorities, provider);
        for authority in [
            "127.0.0.1:4242",
            "127.0.0.1",
            "127.8.9.1:1",
            "[::1]:4242",
            "[::ffff:127.0.0.1]:1",
            "localhost",
            "LocalHost:4242",
            "vault.example:4242",
        ] {
            assert!(demo.is_own_host(authority), "{authority}");
        }
        for authority in [
            "",
            "vault.example",
            "vault.example:1",
            "evil.example:4242",
            "127.0.0.1.evil.example:4242",
            "localhost.evil.example",
            "192.0.2.1:4242",
            "0.0.0.0:4242",
            "a b",
        ] {
            assert!(!demo.is_own_host(authority), "{authority}");
        }
    }

    #[test]
    fn hosted_fields_have_another_origin_than_the_shop() {
        for (shop, fields) in [
            ("127.0.0.1:4242", "http://localhost:4242"),
            ("localhost:4242", "http://127.0.0.1:4242"),
            ("LocalHost:1", "http://127.0.0.1:1"),
            ("[::1]:4242", "http://localhost:4242"),
            ("127.0.0.1", "http://localhost"),
        ] {
            assert_eq!(Demo::fields_origin(shop), fields, "{shop}");
        }
    }
}
