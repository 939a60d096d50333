//! Opens connections: one lookup, the guard, TCP to a checked address, TLS.

pub(crate) mod forward_proxy;
pub(crate) mod stream;

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use crate::{
    connect::{
        forward_proxy::open_tunnel,
        stream::{CountedTcp, EgressStream},
    },
    destination::{Destination, DestinationHost, LoopbackHost},
    error::{CheckError, SendFailure},
    guard::{CheckedAddresses, EgressGuard},
    limiter::KeyedLimiter,
    resolve::Resolve,
    scope::TenantKey,
    settings::ForwardProxy,
};

/// With several addresses, each gets at least this time.
const ADDRESS_TIMEOUT_MIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) guard: EgressGuard,
    pub(crate) resolver: Arc<dyn Resolve>,
    /// A name server of an attacker can delay a lookup, so tenants share the lookups fairly.
    pub(crate) lookups: Arc<KeyedLimiter<TenantKey>>,
    pub(crate) lookup_count: AtomicU64,
    pub(crate) forward_proxy: Option<ForwardProxy>,
    pub(crate) connect_timeout: Duration,
}

impl Connector {
    /// Resolves and checks a destination.
    pub(crate) async fn check(
        &self,
        destination: &Destination,
        tenant: TenantKey,
    ) -> Result<CheckedAddresses, CheckError> {
        self.guard.check_name(destination)?;
        let addresses = match destination.kind() {
            DestinationHost::Loopback(host) => host.addresses(),
            DestinationHost::Name(name) => self.look_up(Arc::clone(name), tenant).await?,
        };
        Ok(self.guard.check_addresses(destination, &addresses)?)
    }

    /// The lookup is a task of its own: the system cannot cancel it, so its place is free only when
    /// it ends.
    async fn look_up(
        &self,
        name: Arc<str>,
        tenant: TenantKey,
    ) -> Result<Vec<std::net::IpAddr>, CheckError> {
        let permit = self.lookups.acquire(&tenant).await.map_err(|_| CheckError::Overloaded)?;
        self.lookup_count.fetch_add(1, Ordering::Relaxed);
        let resolver = Arc::clone(&self.resolver);
        let lookup = tokio::spawn(async move {
            let addresses = resolver.lookup(&name).await;
            drop(permit);
            addresses
        });
        let addresses = lookup.await.map_err(|_| CheckError::Lookup)?;
        let addresses = addresses.map_err(|_| CheckError::Lookup)?;
        if addresses.is_empty() { Err(CheckError::Lookup) } else { Ok(addresses) }
    }

    /// Connects within the connect timeout. `tls` is present for https.
    pub(crate) async fn connect(
        &self,
        destination: &Destination,
        tenant: TenantKey,
        tls: Option<Arc<ClientConfig>>,
    ) -> Result<EgressStream, SendFailure> {
        let connect = self.connect_without_timeout(destination, tenant, tls);
        timeout(self.connect_timeout, connect).await.map_err(|_| SendFailure::ConnectTimeout)?
    }

    async fn connect_without_timeout(
        &self,
        destination: &Destination,
        tenant: TenantKey,
        tls: Option<Arc<ClientConfig>>,
    ) -> Result<EgressStream, SendFailure> {
        let checked = self.check(destination, tenant).await?;
        let is_loopback = matches!(destination.kind(), DestinationHost::Loopback(_));
        let proxy = self.forward_proxy.as_ref().filter(|_| !is_loopback);
        let stream = CountedTcp::new(self.connect_to_any(&checked, proxy).await?);
        let Some(config) = tls else { return Ok(EgressStream::Plain(stream)) };
        let name = server_name(destination).ok_or(SendFailure::InvalidRequest)?;
        let handshake = TlsConnector::from(config).connect(name, stream).await;
        let stream = handshake.map_err(|error| SendFailure::from_connect_error(&error))?;
        Ok(EgressStream::Tls(Box::new(stream)))
    }

    /// Tries the addresses in order.
    async fn connect_to_any(
        &self,
        checked: &CheckedAddresses,
        proxy: Option<&ForwardProxy>,
    ) -> Result<TcpStream, SendFailure> {
        let addresses = checked.as_slice();
        let divisor = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let address_timeout = (self.connect_timeout / divisor).max(ADDRESS_TIMEOUT_MIN);
        let mut failure = SendFailure::Lookup;
        for address in addresses {
            let attempt = connect_to_address(*address, proxy);
            failure = match timeout(address_timeout, attempt).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(failure)) => failure,
                Err(_) => SendFailure::Connect(io::ErrorKind::TimedOut),
            };
        }
        Err(failure)
    }
}

async fn connect_to_address(
    address: SocketAddr,
    proxy: Option<&ForwardProxy>,
) -> Result<TcpStream, SendFailure> {
    if let Some(proxy) = proxy {
        return open_tunnel(proxy, address).await;
    }
    let connect = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    connect.await.map_err(|error: io::Error| SendFailure::Connect(error.kind()))
}

/// The name in SNI and in the certificate: always that of the URL, never that of an address.
fn server_name(destination: &Destination) -> Option<ServerName<'static>> {
    match destination.kind() {
        DestinationHost::Name(name) => ServerName::try_from(name.to_string()).ok(),
        DestinationHost::Loopback(LoopbackHost::Localhost) => {
            ServerName::try_from("localhost").ok()
        }
        DestinationHost::Loopback(LoopbackHost::Address(it)) => {
            Some(ServerName::IpAddress((*it).into()))
        }
    }
}
