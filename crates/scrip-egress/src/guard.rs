//! Decides which destinations the vault connects to.

pub(crate) mod address;
pub(crate) mod allow_list;

use std::net::{IpAddr, SocketAddr, UdpSocket};

use crate::{
    destination::{Destination, DestinationHost},
    guard::{
        address::{AddressClass, classify_address},
        allow_list::{AllowList, NameMatch},
    },
};

/// Names that have a meaning on the local network only. An entry of the operator can allow them.
const LOCAL_SUFFIXES: &[&str] = &[
    ".localhost",
    ".localdomain",
    ".local",
    ".internal",
    ".intranet",
    ".private",
    ".corp",
    ".home",
    ".lan",
    ".home.arpa",
];

/// Addresses to try at most. More addresses are checked, but not used.
const ADDRESSES_MAX: usize = 6;

/// Why the guard rejects a destination. Contains no part of the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GuardRejection {
    #[error("the destination must use https and a public name")]
    LoopbackHost,
    #[error("the port of the destination is not allowed")]
    Port,
    #[error("the destination is not on the list of allowed destinations")]
    NotListed,
    #[error("the name of the destination belongs to a local network")]
    LocalName,
    #[error("{NO_USABLE_ADDRESS}")]
    Address(AddressClass),
    #[error("{NO_USABLE_ADDRESS}")]
    UnlistedAddress,
    #[error("{NO_USABLE_ADDRESS}")]
    OwnAddress,
}

/// The text of every rejection that depends on the addresses of a name, and of a failed lookup: a
/// caller that could distinguish them would learn which names the inner network has.
pub(crate) const NO_USABLE_ADDRESS: &str =
    "the name of the destination has no address that the vault may connect to";

impl GuardRejection {
    /// The reason for the operator, if the rejection depends on the addresses of the name. Callers
    /// must not learn it.
    pub fn address_reason(self) -> Option<&'static str> {
        match self {
            Self::LoopbackHost | Self::Port | Self::NotListed | Self::LocalName => None,
            Self::Address(_) => Some("an address of the destination is not public"),
            Self::UnlistedAddress => Some("an address of the destination is not on the list"),
            Self::OwnAddress => Some("the destination is the vault itself"),
        }
    }
}

/// Addresses that passed the guard. Connections go to these only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedAddresses {
    pub(crate) addresses: Vec<SocketAddr>,
}

impl CheckedAddresses {
    /// The addresses in the order in which they are tried.
    pub fn as_slice(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

#[derive(Debug)]
pub(crate) struct EgressGuard {
    pub(crate) allow_list: AllowList,
    pub(crate) allowed_ports: Vec<u16>,
    pub(crate) loopback_http: bool,
    pub(crate) own_addresses: Vec<SocketAddr>,
    /// Only control runs of tests disable the guard.
    pub(crate) is_enabled: bool,
}

impl EgressGuard {
    /// The part of the decision that needs no lookup.
    pub(crate) fn check_name(&self, destination: &Destination) -> Result<(), GuardRejection> {
        if !self.is_enabled {
            return Ok(());
        }
        let name = match &destination.host {
            DestinationHost::Loopback(_) if self.loopback_http => return Ok(()),
            DestinationHost::Loopback(_) => return Err(GuardRejection::LoopbackHost),
            DestinationHost::Name(name) => name,
        };
        if !self.allowed_ports.contains(&destination.port()) {
            return Err(GuardRejection::Port);
        }
        let is_local = LOCAL_SUFFIXES.iter().any(|it| name.ends_with(it));
        match self.allow_list.match_name(name) {
            NameMatch::Explicit => Ok(()),
            NameMatch::General | NameMatch::None if is_local => Err(GuardRejection::LocalName),
            NameMatch::General => Ok(()),
            // The addresses decide.
            NameMatch::None if self.allow_list.has_network() => Ok(()),
            NameMatch::None => Err(GuardRejection::NotListed),
        }
    }

    /// The decision about the addresses of the name: one rejected address rejects all, because an
    /// attacker can add public addresses.
    pub(crate) fn check_addresses(
        &self,
        destination: &Destination,
        addresses: &[IpAddr],
    ) -> Result<CheckedAddresses, GuardRejection> {
        let port = destination.port();
        // Systems connect IPv4-mapped addresses by IPv4.
        let addresses: Vec<_> =
            addresses.iter().map(|it| SocketAddr::new(it.to_canonical(), port)).collect();
        if self.is_enabled {
            self.check_each_address(destination, &addresses)?;
        }
        Ok(CheckedAddresses { addresses: addresses.into_iter().take(ADDRESSES_MAX).collect() })
    }

    fn check_each_address(
        &self,
        destination: &Destination,
        addresses: &[SocketAddr],
    ) -> Result<(), GuardRejection> {
        let (is_loopback_host, is_name_listed) = match &destination.host {
            DestinationHost::Loopback(_) => (true, self.loopback_http),
            DestinationHost::Name(name) => {
                (false, self.allow_list.match_name(name) != NameMatch::None)
            }
        };
        for address in addresses {
            let (ip, class) = (address.ip(), classify_address(address.ip()));
            let is_permitted = class.can_be_permitted() && self.allow_list.has_address(ip);
            let is_development =
                self.loopback_http && is_loopback_host && class == AddressClass::Loopback;
            if class != AddressClass::Public && !is_permitted && !is_development {
                return Err(GuardRejection::Address(class));
            }
            if !is_name_listed && !is_permitted {
                return Err(GuardRejection::UnlistedAddress);
            }
            if self.own_addresses.iter().any(|own| is_own(*own, *address)) {
                return Err(GuardRejection::OwnAddress);
            }
        }
        Ok(())
    }
}

/// Whether a connection to `address` reaches the listener `own`.
fn is_own(own: SocketAddr, address: SocketAddr) -> bool {
    if own.port() != address.port() {
        return false;
    }
    let own_ip = own.ip().to_canonical();
    own_ip == address.ip() || (own_ip.is_unspecified() && is_local(address.ip()))
}

/// Whether the address belongs to this machine. Only such an address can be bound.
fn is_local(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}
