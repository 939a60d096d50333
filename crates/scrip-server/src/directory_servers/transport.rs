//! Transports to a directory server. Production tenants use mTLS only.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context;
use rustls::{
    ClientConfig,
    crypto::aws_lc_rs,
    version::{TLS12, TLS13},
};
use scrip_core::types::TenantKind;
use scrip_egress::configured::{ConnectOptions, ServerAddress};
use scrip_threeds::code::Scheme;

use crate::{
    directory_servers::address::{LoopbackUrl, SecureUrl},
    tls::{Reloadable, read_certificate_and_key, read_roots},
};

pub(crate) trait Transport: fmt::Debug + Send + Sync + 'static {
    /// Addresses in the order in which they are tried.
    fn addresses(&self) -> &[ServerAddress];

    /// How to connect to them.
    fn connect_options(&self, timeout: Duration) -> ConnectOptions;
}

/// TLS with the client certificate issued by the scheme; only the roots of the scheme are trusted.
#[derive(Debug)]
pub(crate) struct MutualTlsTransport {
    addresses: Vec<ServerAddress>,
    pub(super) credentials: Arc<Reloadable<ClientConfig>>,
}

/// Plain HTTP to the simulator on this machine. It is unrelated to [`MutualTlsTransport`]; only
/// [`TestTenantTransport`] can contain it.
#[derive(Debug)]
pub(crate) struct SimulatorTransport {
    addresses: Vec<ServerAddress>,
}

/// Transport of test tenants.
#[derive(Debug)]
pub(crate) enum TestTenantTransport {
    MutualTls(MutualTlsTransport),
    Simulator(SimulatorTransport),
}

/// The kind of tenants that use a transport.
pub(crate) trait TenantTransport: Transport {
    const KIND: TenantKind;
}

impl TenantTransport for MutualTlsTransport {
    const KIND: TenantKind = TenantKind::Production;
}

impl TenantTransport for TestTenantTransport {
    const KIND: TenantKind = TenantKind::Test;
}

/// Name of a tenant kind in settings and labels.
pub(crate) fn tenant_kind_name(kind: TenantKind) -> &'static str {
    match kind {
        TenantKind::Test => "test",
        TenantKind::Production => "production",
    }
}

/// Settings of the connection to one scheme.
#[derive(Debug, Clone)]
pub struct MutualTlsSettings {
    /// Section of the settings, for error messages: `threeds.production.visa`.
    pub section: String,
    pub urls: Vec<SecureUrl>,
    pub client_certificate: PathBuf,
    pub client_key: PathBuf,
    pub roots: PathBuf,
}

impl MutualTlsTransport {
    /// Errors: a file is missing or damaged, or the key does not match the certificate.
    pub(crate) fn new(settings: &MutualTlsSettings) -> anyhow::Result<Self> {
        let addresses = settings.urls.iter().map(|it| it.0.clone()).collect();
        let files =
            [&settings.client_certificate, &settings.client_key, &settings.roots].map(Clone::clone);
        let section = settings.section.clone();
        let read = move |files: &[PathBuf]| client_config(&section, files);
        let credentials =
            Reloadable::load(settings.section.clone(), files.to_vec(), Box::new(read))?;
        Ok(Self { addresses, credentials: Arc::new(credentials) })
    }
}

fn client_config(section: &str, files: &[PathBuf]) -> anyhow::Result<Arc<ClientConfig>> {
    let [certificate, key, roots] = files else { anyhow::bail!("{section}: expected three files") };
    let setting_name = |it: &str| format!("{section}.{it}");
    let (chain, private_key) = read_certificate_and_key(
        (&setting_name("client_certificate"), certificate),
        (&setting_name("client_key"), key),
    )?;
    let roots = read_roots(&setting_name("roots"), roots)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, private_key);
    let mismatch = || format!("{section}.client_certificate and client_key do not match");
    Ok(Arc::new(config.with_context(mismatch)?))
}

impl Transport for MutualTlsTransport {
    fn addresses(&self) -> &[ServerAddress] {
        &self.addresses
    }

    fn connect_options(&self, timeout: Duration) -> ConnectOptions {
        let tls = Some(self.credentials.current());
        ConnectOptions { tls, is_allowed: |_| true, address_timeout: timeout }
    }
}

impl SimulatorTransport {
    pub(crate) fn new(url: &LoopbackUrl, scheme: Scheme) -> Self {
        Self { addresses: vec![url.with_path(format!("/sim/ds/{}", scheme.slug()))] }
    }
}

impl Transport for SimulatorTransport {
    fn addresses(&self) -> &[ServerAddress] {
        &self.addresses
    }

    /// A loopback address only. The system resolves `localhost`, possibly to another address.
    fn connect_options(&self, timeout: Duration) -> ConnectOptions {
        ConnectOptions { tls: None, is_allowed: |it| it.is_loopback(), address_timeout: timeout }
    }
}

impl Transport for TestTenantTransport {
    fn addresses(&self) -> &[ServerAddress] {
        match self {
            Self::MutualTls(it) => it.addresses(),
            Self::Simulator(it) => it.addresses(),
        }
    }

    fn connect_options(&self, timeout: Duration) -> ConnectOptions {
        match self {
            Self::MutualTls(it) => it.connect_options(timeout),
            Self::Simulator(it) => it.connect_options(timeout),
        }
    }
}
