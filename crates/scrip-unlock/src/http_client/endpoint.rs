//! The address of a source.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use scrip_egress::configured::ServerAddress;

use crate::source::UnlockError;

/// The metadata services of instances, which have no TLS. Packets to them do not leave the machine.
const METADATA_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));
const METADATA_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254));

/// A host and a port, with TLS unless the host is this machine.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: ServerAddress,
}

impl Endpoint {
    /// `setting` is the name of the setting in an error.
    pub(crate) fn parse(setting: &str, text: &str) -> Result<Self, UnlockError> {
        let not_url = || {
            UnlockError::Settings(format!(
                "{setting} must be a URL such as https://host.example:8200, without a path"
            ))
        };
        let address = ServerAddress::parse(text).filter(|it| it.path == "/").ok_or_else(not_url)?;
        if !address.is_https && !is_host_of_plain_http(&address.host) {
            return Err(UnlockError::Settings(format!(
                "{setting} must begin with https://; http is for this machine only"
            )));
        }
        if address.is_https && address.server_name().is_none() {
            return Err(not_url());
        }
        Ok(Self { address })
    }

    /// The addresses that requests may go to.
    pub(crate) fn allowed_addresses(&self) -> fn(IpAddr) -> bool {
        if self.address.is_https { |_| true } else { is_plain_http_allowed }
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
            let address = endpoint.address;
            assert_eq!((address.host.as_str(), address.port_number()), (host, port), "{text}");
            assert_eq!(address.is_https, is_tls, "{text}");
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
