//! Opens connections: one lookup, the guard, TCP to a checked address, TLS.

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

use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use crate::{
    connect::stream::{CountedTcp, EgressStream},
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
        let addresses = match &destination.host {
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
        let is_loopback = matches!(destination.host, DestinationHost::Loopback(_));
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
    match &destination.host {
        DestinationHost::Name(name) => ServerName::try_from(name.to_string()).ok(),
        DestinationHost::Loopback(LoopbackHost::Localhost) => {
            ServerName::try_from("localhost").ok()
        }
        DestinationHost::Loopback(LoopbackHost::Address(it)) => {
            Some(ServerName::IpAddress((*it).into()))
        }
    }
}

const HEAD_BYTES_MAX: usize = 8 * 1024;
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Opens a tunnel to the checked address. The forward proxy does not see the name, so it cannot
/// look up another address.
pub(crate) async fn open_tunnel(
    proxy: &ForwardProxy,
    address: SocketAddr,
) -> Result<TcpStream, SendFailure> {
    exchange_connect(proxy, address).await.map_err(|_| SendFailure::ForwardProxy)
}

async fn exchange_connect(proxy: &ForwardProxy, address: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect((proxy.host.as_str(), proxy.port)).await?;
    stream.set_nodelay(true)?;
    stream.write_all(connect_head(proxy, address).as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(HEAD_END) {
        // The destination sends nothing before the TLS handshake, so no byte follows the head. A
        // byte at a time never reads too far.
        let byte = stream.read_u8().await?;
        head.push(byte);
        if head.len() > HEAD_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    let is_success = head.starts_with(b"HTTP/1.1 2") || head.starts_with(b"HTTP/1.0 2");
    if is_success { Ok(stream) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
}

fn connect_head(proxy: &ForwardProxy, address: SocketAddr) -> Zeroizing<String> {
    let authorization = proxy.credentials.as_ref().map(|it| {
        let pair = Zeroizing::new([&it.user, ":", it.password.as_str()].concat());
        let encoded = Zeroizing::new(STANDARD.encode(pair.as_bytes()));
        Zeroizing::new(["Proxy-Authorization: Basic ", &encoded, "\r\n"].concat())
    });
    let authorization = authorization.as_ref().map_or("", |it| it.as_str());
    Zeroizing::new(format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n{authorization}\r\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ForwardProxyCredentials;

    #[test]
    fn connect_request_names_the_address_and_the_credentials() {
        let credentials = ForwardProxyCredentials {
            user: "Aladdin".to_owned(),
            password: Zeroizing::new("open sesame".to_owned()),
        };
        let mut proxy =
            ForwardProxy { host: "proxy".to_owned(), port: 3128, credentials: Some(credentials) };
        let with_credentials = connect_head(&proxy, "[2001:db8::1]:443".parse().unwrap());
        assert_eq!(
            *with_credentials,
            "CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\n\
             Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n"
        );
        assert!(!format!("{proxy:?}").contains("sesame"));
        proxy.credentials = None;
        let without_credentials = connect_head(&proxy, "192.0.2.1:8443".parse().unwrap());
        assert_eq!(
            *without_credentials,
            "CONNECT 192.0.2.1:8443 HTTP/1.1\r\nHost: 192.0.2.1:8443\r\n\r\n"
        );
    }
}
