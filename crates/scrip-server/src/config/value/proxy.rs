//! Types of the settings of proxied calls.

use scrip_egress::AllowList;

use crate::{config::value::SettingValue, directory_servers::address::HttpAddress};

/// Names and networks of destinations, separated by commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedDestinations(pub(crate) AllowList);

impl SettingValue for AllowedDestinations {
    fn parse(text: &str) -> Result<Self, String> {
        let entries = text.split(',').map(str::trim).filter(|_| !text.trim().is_empty());
        AllowList::parse(entries).map(Self).map_err(|_| {
            "must be names such as api.example.com and *.example.com, or networks such as \
             10.1.0.0/16, separated by commas"
                .to_owned()
        })
    }
}

/// Port numbers, separated by commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortList(pub(crate) Vec<u16>);

impl SettingValue for PortList {
    fn parse(text: &str) -> Result<Self, String> {
        let ports: Option<Vec<_>> =
            text.split(',').map(|it| it.trim().parse().ok().filter(|it| *it > 0)).collect();
        ports.map(Self).ok_or_else(|| {
            "must be port numbers from 1 to 65535, separated by commas, such as 443, 8443"
                .to_owned()
        })
    }
}

/// URL of a forward proxy, without a password, because settings are printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardProxyUrl(pub(crate) HttpAddress);

impl SettingValue for ForwardProxyUrl {
    fn parse(text: &str) -> Result<Self, String> {
        let address = HttpAddress::parse(text, "http", 3128).filter(|it| it.path == "/");
        address.map(Self).ok_or_else(|| {
            "must be a URL such as http://proxy.internal:3128, without a path and a password"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_settings_accept_lists_and_reject_malformed_entries() {
        assert_eq!(PortList::parse("443, 8443"), Ok(PortList(vec![443, 8443])));
        for text in ["", "0", "65536", "443,", "+443x"] {
            assert!(PortList::parse(text).is_err(), "{text}");
        }
        let allow = AllowedDestinations::parse(" *.example.com,10.1.0.0/16 ").unwrap();
        assert_eq!(allow.0, AllowList::parse(["*.example.com", "10.1.0.0/16"]).unwrap());
        assert_eq!(AllowedDestinations::parse(" ").unwrap().0, AllowList::default());
        for text in ["https://example.com", "example", "a.b,,c.d"] {
            assert!(AllowedDestinations::parse(text).is_err(), "{text}");
        }
        assert!(ForwardProxyUrl::parse("http://proxy.internal:8080").is_ok());
        for text in ["https://proxy.internal", "http://user@proxy.internal", "http://proxy/x"] {
            assert!(ForwardProxyUrl::parse(text).is_err(), "{text}");
        }
    }
}
