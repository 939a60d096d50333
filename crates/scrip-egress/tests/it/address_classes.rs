//! The first and the last address of each network, and their public neighbours.

use std::net::IpAddr;

use proptest::prelude::*;
use scrip_egress::{AddressClass, classify_address};

fn classify(text: &str) -> AddressClass {
    classify_address(text.parse().unwrap())
}

#[test]
fn networks_begin_and_end_at_their_registered_addresses() {
    let networks = [
        ("0.0.0.0", "0.255.255.255", "1.0.0.0"),
        ("10.0.0.0", "10.255.255.255", "11.0.0.0"),
        ("100.64.0.0", "100.127.255.255", "100.128.0.0"),
        ("127.0.0.0", "127.255.255.255", "128.0.0.0"),
        ("169.254.0.0", "169.254.255.255", "169.255.0.0"),
        ("172.16.0.0", "172.31.255.255", "172.32.0.0"),
        ("192.0.0.0", "192.0.0.255", "192.0.1.0"),
        ("192.0.2.0", "192.0.2.255", "192.0.3.0"),
        ("192.88.99.0", "192.88.99.255", "192.88.100.0"),
        ("192.168.0.0", "192.168.255.255", "192.169.0.0"),
        ("198.18.0.0", "198.19.255.255", "198.20.0.0"),
        ("198.51.100.0", "198.51.100.255", "198.51.101.0"),
        ("203.0.113.0", "203.0.113.255", "203.0.114.0"),
        ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::"),
        ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::"),
        ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::"),
        ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"),
    ];
    for (first, last, next) in networks {
        assert_ne!(classify(first), AddressClass::Public, "{first}");
        assert_ne!(classify(last), AddressClass::Public, "{last}");
        assert_eq!(classify(next), AddressClass::Public, "{next}");
    }
    for address in ["223.255.255.255", "9.255.255.255", "2000::", "3ffe:ffff::1", "100.63.255.255"]
    {
        assert_eq!(classify(address), AddressClass::Public, "{address}");
    }
    for address in ["224.0.0.0", "255.255.255.255", "1fff::1", "4000::", "ff00::"] {
        assert_ne!(classify(address), AddressClass::Public, "{address}");
    }
}

proptest! {
    #[test]
    fn embedded_forms_are_never_public_unless_the_ipv4_address_is(bits: u32) {
        let inner = std::net::Ipv4Addr::from(bits);
        let class = classify_address(IpAddr::V4(inner));
        let [a, b, c, d] = inner.octets();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let forms = [
            [0, 0, 0, 0, 0, 0xffff, high, low],
            [0, 0, 0, 0, 0, 0, high, low],
            [0, 0, 0, 0, 0xffff, 0, high, low],
            [0x64, 0xff9b, 0, 0, 0, 0, high, low],
            [0x64, 0xff9b, 1, 2, 3, 4, high, low],
            [0x2002, high, low, 1, 2, 3, 4, 5],
            [0x2001, 0, 0x808, 0x808, 0, 0, !high, !low],
            [0x2001, 0, high, low, 0, 0, 0xf7f7, 0xf7f7],
            [0x2606, 0x4700, 1, 2, 0, 0x5efe, high, low],
        ];
        for form in forms {
            let embedded = classify_address(std::net::Ipv6Addr::from(form).into());
            // `::` and `::1` have the form of `0.0.0.0` and `0.0.0.1`.
            let is_special = form == [0; 8] || form == [0, 0, 0, 0, 0, 0, 0, 1];
            if class != AddressClass::Public && !is_special {
                prop_assert_eq!(embedded, class, "{:x?}", form);
            }
        }
    }
}
