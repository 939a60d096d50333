//! The ways to a directory server. A production tenant has but one: with certificates on both sides.

use std::{fmt, future::Future, io, path::PathBuf, sync::Arc};

use anyhow::Context;
use rustls::{
    ClientConfig,
    crypto::aws_lc_rs,
    pki_types::ServerName,
    version::{TLS12, TLS13},
};
use scrip_threeds::code::Scheme;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
};
use tokio_rustls::TlsConnector;

use crate::{
    directory_servers::address::{HttpAddress, LoopbackUrl, SecureUrl},
    listen::tls::{Reloadable, read_certificate_and_key, read_roots},
};

pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

pub(crate) trait Transport: fmt::Debug + Send + Sync + 'static {
    /// In the order in which they are tried.
    fn addresses(&self) -> &[HttpAddress];

    /// Up to where a message can be sent.
    fn connect(
        &self,
        address: &HttpAddress,
    ) -> impl Future<Output = io::Result<Box<dyn Duplex>>> + Send;
}

/// By TLS: we show the certificate that the scheme gave us, and believe its own roots only.
#[derive(Debug)]
pub(crate) struct MutualTlsTransport {
    addresses: Vec<HttpAddress>,
    pub(super) credentials: Arc<Reloadable<ClientConfig>>,
}

/// To the simulator, in clear and on this machine. It has nothing to do with [`Secured`], and only
/// [`ForTests`] has room for it.
#[derive(Debug)]
pub(crate) struct SimulatorTransport {
    addresses: Vec<HttpAddress>,
}

/// Of test tenants.
#[derive(Debug)]
pub(crate) enum TestTenantTransport {
    MutualTls(MutualTlsTransport),
    Simulator(SimulatorTransport),
}

/// What the settings say of the way to one scheme.
#[derive(Debug, Clone)]
pub struct MutualTlsPlan {
    /// How the settings are named, for complaints: `threeds.production.visa`.
    pub section: String,
    pub urls: Vec<SecureUrl>,
    pub client_certificate: PathBuf,
    pub client_key: PathBuf,
    pub roots: PathBuf,
}

impl MutualTlsTransport {
    /// # Errors
    /// A file is missing or damaged, or the key is not the certificate's.
    pub(crate) fn new(plan: &MutualTlsPlan) -> anyhow::Result<Self> {
        let addresses = plan.urls.iter().map(|it| it.0.clone()).collect();
        let files = [&plan.client_certificate, &plan.client_key, &plan.roots].map(Clone::clone);
        let section = plan.section.clone();
        let read = move |files: &[PathBuf]| client_config(&section, files);
        let credentials = Reloadable::load(plan.section.clone(), files.to_vec(), Box::new(read))?;
        Ok(Self { addresses, credentials: Arc::new(credentials) })
    }
}

fn client_config(section: &str, files: &[PathBuf]) -> anyhow::Result<Arc<ClientConfig>> {
    let [certificate, key, roots] = files else { anyhow::bail!("{section}: three files") };
    let named = |it: &str| format!("{section}.{it}");
    let (chain, private) = read_certificate_and_key(
        (&named("client_certificate"), certificate),
        (&named("client_key"), key),
    )?;
    let roots = read_roots(&named("roots"), roots)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, private);
    let apart = || format!("{section}.client_certificate and client_key cannot be used together");
    Ok(Arc::new(config.with_context(apart)?))
}

impl Transport for MutualTlsTransport {
    fn addresses(&self) -> &[HttpAddress] {
        &self.addresses
    }

    async fn connect(&self, address: &HttpAddress) -> io::Result<Box<dyn Duplex>> {
        let name = ServerName::try_from(address.host.clone()).map_err(io::Error::other)?;
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
        stream.set_nodelay(true)?;
        let connector = TlsConnector::from(self.credentials.current());
        Ok(Box::new(connector.connect(name, stream).await?))
    }
}

impl SimulatorTransport {
    pub(crate) fn new(url: &LoopbackUrl, scheme: Scheme) -> Self {
        Self { addresses: vec![url.with_path(format!("/sim/ds/{}", scheme.slug()))] }
    }
}

impl Transport for SimulatorTransport {
    fn addresses(&self) -> &[HttpAddress] {
        &self.addresses
    }

    /// `localhost` is what the machine says it is, and it must say this machine.
    async fn connect(&self, address: &HttpAddress) -> io::Result<Box<dyn Duplex>> {
        let found = lookup_host((address.host.as_str(), address.port)).await?;
        let near: Vec<_> = found.filter(|it| it.ip().is_loopback()).collect();
        let stream = TcpStream::connect(near.as_slice()).await?;
        stream.set_nodelay(true)?;
        Ok(Box::new(stream))
    }
}

impl Transport for TestTenantTransport {
    fn addresses(&self) -> &[HttpAddress] {
        match self {
            Self::MutualTls(it) => it.addresses(),
            Self::Simulator(it) => it.addresses(),
        }
    }

    async fn connect(&self, address: &HttpAddress) -> io::Result<Box<dyn Duplex>> {
        match self {
            Self::MutualTls(it) => it.connect(address).await,
            Self::Simulator(it) => it.connect(address).await,
        }
    }
}
