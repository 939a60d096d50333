//! Addresses of directory servers, validated when the settings are read.

use scrip_egress::configured::ServerAddress;

/// URL of a directory server: TLS only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecureUrl(pub(crate) ServerAddress);

impl SecureUrl {
    /// Errors: the rule that the text violates.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rule = "must be a URL such as https://ds.example:443/path";
        let address = ServerAddress::parse(text);
        // The name is in the certificate.
        let address = address.filter(|it| it.is_https && it.server_name().is_some());
        address.map(Self).ok_or_else(|| rule.to_owned())
    }
}

/// URL of the simulator: plain HTTP, so on this machine only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopbackUrl(ServerAddress);

impl LoopbackUrl {
    /// Errors: the rule that the text violates.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rule = "must be a URL on this machine, such as http://127.0.0.1:4243, without a path";
        let address = ServerAddress::parse(text).filter(|it| {
            let is_loopback = it.host.parse().is_ok_and(|it: std::net::IpAddr| it.is_loopback());
            let is_root = it.path == "/" && !text.ends_with('/');
            !it.is_https && is_root && (is_loopback || it.host == "localhost")
        });
        address.map(Self).ok_or_else(|| rule.to_owned())
    }

    pub fn with_path(&self, path: String) -> ServerAddress {
        ServerAddress { path, ..self.0.clone() }
    }

    pub(crate) fn has_same_authority(&self, other: &SecureUrl) -> bool {
        self.0.host == other.0.host && self.0.port_number() == other.0.port_number()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_server_urls_must_use_https() {
        let valid_urls = [
            ("https://ds.example", "ds.example", 443, "/"),
            ("https://ds.example/a/b?c=d", "ds.example", 443, "/a/b?c=d"),
            ("https://127.0.0.1:8443/x", "127.0.0.1", 8443, "/x"),
            ("https://[::1]:8443/x", "::1", 8443, "/x"),
            ("https://[::1]/x", "::1", 443, "/x"),
        ];
        for (text, host, port, path) in valid_urls {
            let SecureUrl(it) = SecureUrl::parse(text).unwrap();
            assert_eq!(
                (it.host.as_str(), it.port_number(), it.path.as_str()),
                (host, port, path),
                "{text}"
            );
        }
        let invalid_urls =
            ["", "ds.example", "http://ds.example", "https://", "https://u@ds.example"];
        for text in
            invalid_urls.into_iter().chain(["https://a:99999/", "https://a:/", "https://a/#b"])
        {
            assert!(SecureUrl::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn simulator_url_must_be_loopback() {
        for text in
            ["http://127.0.0.1:1", "http://127.9.9.9:1", "http://[::1]:1", "http://localhost:1"]
        {
            assert!(LoopbackUrl::parse(text).is_ok(), "{text}");
        }
        let invalid_urls =
            ["https://127.0.0.1:1", "http://10.0.0.1:1", "http://example:1", "http://127.0.0.1:1/"];
        for text in invalid_urls.into_iter().chain([
            "http://127.0.0.1:1/a",
            "http://0.0.0.0:1",
            "127.0.0.1:1",
        ]) {
            assert!(LoopbackUrl::parse(text).is_err(), "{text}");
        }
    }
}
