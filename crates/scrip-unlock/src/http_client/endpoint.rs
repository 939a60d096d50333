//! The address of a source.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hyper::Uri;
use rustls::pki_types::ServerName;

use crate::source::UnlockError;

/// The metadata services of instances, which have no TLS. Packets to them do not leave the machine.
const METADATA_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));
const METADATA_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254));

/// A host and a port, with TLS unless the host is this machine.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    /// A host name or an IP address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The value of the header `Host`.
    pub(crate) authority: String,
    /// The name in the certificate of the server. None for http.
    pub(crate) tls_name: Option<ServerName<'static>>,
}

impl Endpoint {
    /// `setting` is the name of the setting in an error.
    pub(crate) fn parse(setting: &str, text: &str) -> Result<Self, UnlockError> {
        let not_url = || {
            UnlockError::Settings(format!(
                "{setting} must be a URL such as https://host.example:8200, without a path"
            ))
        };
        let uri: Uri = text.parse().map_err(|_| not_url())?;
        let authority =
            uri.authority().filter(|it| !it.as_str().contains('@')).ok_or_else(not_url)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port_text = authority.as_str().rsplit_once(':').filter(|(_, it)| !it.ends_with(']'));
        let is_port_valid = port_text.is_none() || authority.port_u16().is_some();
        let has_path = uri.path_and_query().is_some_and(|it| it.as_str() != "/");
        if host.is_empty() || !is_port_valid || has_path || text.contains('#') {
            return Err(not_url());
        }
        let (default_port, tls_name) = match uri.scheme_str() {
            Some("https") => {
                let name = ServerName::try_from(host.clone()).map_err(|_| not_url())?;
                (443, Some(name))
            }
            Some("http") if is_host_of_plain_http(&host) => (80, None),
            Some("http") => {
                return Err(UnlockError::Settings(format!(
                    "{setting} must begin with https://; http is for this machine only"
                )));
            }
            _ => return Err(not_url()),
        };
        let port = authority.port_u16().unwrap_or(default_port);
        Ok(Self { host, port, authority: authority.as_str().to_owned(), tls_name })
    }
}

/// Whether a request without TLS may be sent to this address.
pub(crate) fn is_plain_http_allowed(address: IpAddr) -> bool {
    address.is_loopback() || [METADATA_V4, METADATA_V6].contains(&address)
}

fn is_host_of_plain_http(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(is_plain_http_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_urls_have_their_default_port() {
        for (text, host, port, is_tls) in [
            ("https://kms.eu-west-1.amazonaws.com", "kms.eu-west-1.amazonaws.com", 443, true),
            ("https://bao.example:8200/", "bao.example", 8200, true),
            ("https://10.1.2.3:8200", "10.1.2.3", 8200, true),
            ("https://[fd00::1]", "fd00::1", 443, true),
            ("http://127.0.0.1:8200", "127.0.0.1", 8200, false),
            ("http://[::1]:8200", "::1", 8200, false),
            ("http://localhost", "localhost", 80, false),
            ("http://169.254.169.254", "169.254.169.254", 80, false),
            ("http://[fd00:ec2::254]", "fd00:ec2::254", 80, false),
        ] {
            let endpoint = Endpoint::parse("address", text).unwrap();
            assert_eq!((endpoint.host.as_str(), endpoint.port), (host, port), "{text}");
            assert_eq!(endpoint.tls_name.is_some(), is_tls, "{text}");
        }
    }

    #[test]
    fn plain_http_to_another_machine_and_malformed_urls_are_rejected() {
        for text in [
            "",
            "bao.example",
            "http://bao.example",
            "http://10.1.2.3",
            "http://169.254.169.253",
            "http://127.0.0.1.example",
            "ftp://bao.example",
            "https://user@bao.example",
            "https://bao.example/v1",
            "https://bao.example?a=b",
            "https://bao.example#a",
            "https://bao.example:",
            "https://bao.example:99999",
            "https://bao example",
        ] {
            let error = Endpoint::parse("address", text).unwrap_err();
            assert!(matches!(error, UnlockError::Settings(_)), "{text}");
        }
    }
}
