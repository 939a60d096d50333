//! Classes of IP addresses, after the registries of special-purpose addresses of IANA.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// The class of an address. Only `Public` addresses are destinations without a permission of the
/// operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressClass {
    Public,
    /// `0.0.0.0/8` and `::`; systems connect them to themselves.
    Unspecified,
    Loopback,
    /// Networks of organisations: RFC 1918, and unique local addresses.
    Private,
    LinkLocal,
    /// Services of cloud providers that give credentials to every caller.
    Metadata,
    /// Behind the NAT of a provider.
    CarrierGradeNat,
    Multicast,
    Documentation,
    Benchmark,
    Reserved,
    /// IPv6 forms of IPv4 addresses that only tunnels use.
    Transition,
}

impl AddressClass {
    /// Whether the operator may permit addresses of this class.
    pub(crate) fn can_be_permitted(self) -> bool {
        match self {
            Self::Unspecified | Self::Metadata | Self::Multicast => false,
            Self::Public
            | Self::Loopback
            | Self::Private
            | Self::LinkLocal
            | Self::CarrierGradeNat
            | Self::Documentation
            | Self::Benchmark
            | Self::Reserved
            | Self::Transition => true,
        }
    }
}

const fn ipv4(octets: [u8; 4], length: u8) -> Ipv4Net {
    let [a, b, c, d] = octets;
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

const fn ipv6(first_segments: [u16; 4], length: u8) -> Ipv6Net {
    let [a, b, c, d] = first_segments;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0), length)
}

/// The first network that contains the address decides.
const IPV4_CLASSES: &[(Ipv4Net, AddressClass)] = &[
    // AWS, Azure, Google and most others; AWS for containers.
    (ipv4([169, 254, 169, 254], 32), AddressClass::Metadata),
    (ipv4([169, 254, 170, 0], 24), AddressClass::Metadata),
    // Alibaba, Oracle, Azure.
    (ipv4([100, 100, 100, 200], 32), AddressClass::Metadata),
    (ipv4([192, 0, 0, 192], 32), AddressClass::Metadata),
    (ipv4([168, 63, 129, 16], 32), AddressClass::Metadata),
    (ipv4([0, 0, 0, 0], 8), AddressClass::Unspecified),
    (ipv4([10, 0, 0, 0], 8), AddressClass::Private),
    (ipv4([100, 64, 0, 0], 10), AddressClass::CarrierGradeNat),
    (ipv4([127, 0, 0, 0], 8), AddressClass::Loopback),
    (ipv4([169, 254, 0, 0], 16), AddressClass::LinkLocal),
    (ipv4([172, 16, 0, 0], 12), AddressClass::Private),
    (ipv4([192, 0, 0, 0], 24), AddressClass::Reserved),
    (ipv4([192, 0, 2, 0], 24), AddressClass::Documentation),
    (ipv4([192, 88, 99, 0], 24), AddressClass::Transition),
    (ipv4([192, 168, 0, 0], 16), AddressClass::Private),
    (ipv4([198, 18, 0, 0], 15), AddressClass::Benchmark),
    (ipv4([198, 51, 100, 0], 24), AddressClass::Documentation),
    (ipv4([203, 0, 113, 0], 24), AddressClass::Documentation),
    (ipv4([224, 0, 0, 0], 4), AddressClass::Multicast),
    (ipv4([240, 0, 0, 0], 4), AddressClass::Reserved),
];

/// Metadata service of AWS; `fd00:ec2::254` and its neighbours.
const AWS_METADATA: Ipv6Net = ipv6([0xfd00, 0x0ec2, 0, 0], 32);
/// Metadata service of Google: `fd20:ce::254`.
const GOOGLE_METADATA: Ipv6Net = ipv6([0xfd20, 0x00ce, 0, 0], 32);

const IPV6_CLASSES: &[(Ipv6Net, AddressClass)] = &[
    (AWS_METADATA, AddressClass::Metadata),
    (GOOGLE_METADATA, AddressClass::Metadata),
    (ipv6([0xfc00, 0, 0, 0], 7), AddressClass::Private),
    (ipv6([0xfe80, 0, 0, 0], 10), AddressClass::LinkLocal),
    // Site-local addresses: deprecated, but some systems still route them.
    (ipv6([0xfec0, 0, 0, 0], 10), AddressClass::Private),
    (ipv6([0xff00, 0, 0, 0], 8), AddressClass::Multicast),
    (ipv6([0x0100, 0, 0, 0], 64), AddressClass::Reserved),
    (TEREDO, AddressClass::Transition),
    (ipv6([0x2001, 0x0002, 0, 0], 48), AddressClass::Benchmark),
    // Protocol assignments, such as ORCHID.
    (ipv6([0x2001, 0, 0, 0], 23), AddressClass::Reserved),
    (ipv6([0x2001, 0x0db8, 0, 0], 32), AddressClass::Documentation),
    (SIX_TO_FOUR, AddressClass::Transition),
    (ipv6([0x3fff, 0, 0, 0], 20), AddressClass::Documentation),
    // The only range with allocated addresses.
    (ipv6([0x2000, 0, 0, 0], 3), AddressClass::Public),
];

const TEREDO: Ipv6Net = ipv6([0x2001, 0, 0, 0], 32);
const SIX_TO_FOUR: Ipv6Net = ipv6([0x2002, 0, 0, 0], 16);
/// Networks without IPv4 reach public IPv4 addresses by this prefix.
const NAT64: Ipv6Net = ipv6([0x0064, 0xff9b, 0, 0], 96);
const LOCAL_NAT64: Ipv6Net = ipv6([0x0064, 0xff9b, 0x0001, 0], 48);
/// `::ffff:0:0:0/96` (SIIT).
const IPV4_TRANSLATED: Ipv6Net =
    Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96);
/// `::/96`, without `::` and `::1`.
const IPV4_COMPATIBLE: Ipv6Net = ipv6([0, 0, 0, 0], 96);

/// Returns the class of an address; IPv6 forms of an IPv4 address that is not public have the class
/// of the IPv4 address.
pub fn classify_address(address: IpAddr) -> AddressClass {
    match address.to_canonical() {
        IpAddr::V4(it) => classify_ipv4(it),
        IpAddr::V6(it) => classify_ipv6(it),
    }
}

fn classify_ipv4(address: Ipv4Addr) -> AddressClass {
    let entry = IPV4_CLASSES.iter().find(|(network, _)| network.contains(&address));
    entry.map_or(AddressClass::Public, |(_, class)| *class)
}

fn classify_ipv6(address: Ipv6Addr) -> AddressClass {
    if address.is_unspecified() {
        return AddressClass::Unspecified;
    }
    if address.is_loopback() {
        return AddressClass::Loopback;
    }
    for embedded in embedded_ipv4(address).into_iter().flatten() {
        let class = classify_ipv4(embedded);
        if class != AddressClass::Public {
            return class;
        }
    }
    if NAT64.contains(&address) {
        return AddressClass::Public;
    }
    let is_transition = [LOCAL_NAT64, IPV4_TRANSLATED, IPV4_COMPATIBLE];
    if is_transition.iter().any(|it| it.contains(&address)) {
        return AddressClass::Transition;
    }
    let entry = IPV6_CLASSES.iter().find(|(network, _)| network.contains(&address));
    entry.map_or(AddressClass::Reserved, |(_, class)| *class)
}

/// The IPv4 addresses in an IPv6 address: at most the endpoint and the relay of a tunnel.
fn embedded_ipv4(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let join = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    let [_, s1, s2, s3, s4, s5, s6, s7] = address.segments();
    let last = join(s6, s7);
    let has_last = [NAT64, LOCAL_NAT64, IPV4_TRANSLATED, IPV4_COMPATIBLE];
    if has_last.iter().any(|it| it.contains(&address)) {
        return [Some(last), None];
    }
    if SIX_TO_FOUR.contains(&address) {
        return [Some(join(s1, s2)), None];
    }
    if TEREDO.contains(&address) {
        return [Some(join(!s6, !s7)), Some(join(s2, s3))];
    }
    // ISATAP, below any prefix.
    if matches!(s4, 0 | 0x0200) && s5 == 0x5efe {
        return [Some(last), None];
    }
    [None, None]
}
