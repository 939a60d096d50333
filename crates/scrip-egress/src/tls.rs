//! TLS of connections to destinations. A configuration is built once and shared.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    client::Resumption,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    version::{TLS12, TLS13},
};

/// Resumable sessions for each destination of a scope.
const SESSIONS_MAX: usize = 16;

/// Certificate authorities that destinations are verified with.
#[derive(Clone)]
pub struct TrustedRoots(Arc<RootCertStore>);

impl TrustedRoots {
    /// The authorities that the system trusts. Unreadable certificates are skipped.
    /// Errors: the system has none.
    pub fn load_from_system() -> Result<Self, TlsOptionsError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() { Err(TlsOptionsError::NoRoots) } else { Ok(Self(Arc::new(roots))) }
    }

    /// Errors: the text is not a list of certificates.
    pub fn from_pem(pem: &str) -> Result<Self, TlsOptionsError> {
        let mut roots = RootCertStore::empty();
        for certificate in read_certificates(pem).ok_or(TlsOptionsError::PrivateCa)? {
            roots.add(certificate).map_err(|_| TlsOptionsError::PrivateCa)?;
        }
        Ok(Self(Arc::new(roots)))
    }

    /// The TLS configuration for servers that the operator configured.
    /// Errors: the TLS library rejects its own defaults.
    pub fn client_config(&self) -> Result<Arc<ClientConfig>, TlsOptionsError> {
        let builder = ClientConfig::builder_with_provider(Arc::new(provider()))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|_| TlsOptionsError::KeyMismatch)?;
        Ok(Arc::new(builder.with_root_certificates(Arc::clone(&self.0)).with_no_client_auth()))
    }

    /// No authority: every https destination without a private authority fails.
    pub fn none() -> Self {
        Self(Arc::new(RootCertStore::empty()))
    }
}

impl fmt::Debug for TrustedRoots {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TrustedRoots({})", self.0.len())
    }
}

/// The oldest version of TLS that is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMinimum {
    #[default]
    Tls12,
    Tls13,
}

/// A certificate chain and its private key, in PEM.
#[derive(Clone, Copy)]
pub struct ClientCertificate<'a> {
    pub chain_pem: &'a str,
    pub key_pem: &'a str,
}

impl fmt::Debug for ClientCertificate<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}

/// What a proxy configures about TLS.
#[derive(Debug, Clone, Copy, Default)]
pub struct TlsMaterial<'a> {
    /// Private authorities. They replace those of the system.
    pub ca_pem: Option<&'a str>,
    pub client_certificate: Option<ClientCertificate<'a>>,
    pub minimum: TlsMinimum,
}

/// Why TLS options are invalid. Contains no part of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TlsOptionsError {
    #[error("the system has no trusted root certificates")]
    NoRoots,
    #[error("must be one or more certificates in PEM")]
    PrivateCa,
    #[error("must be a certificate in PEM, followed by its intermediate certificates")]
    Certificate,
    #[error("must be a private key in PEM, without a password")]
    PrivateKey,
    #[error("the private key does not belong to the certificate")]
    KeyMismatch,
}

/// A verified TLS configuration. Connections with different options are never shared, also if the
/// options are equal: keep the `Arc` and use it again.
pub struct TlsOptions {
    id: u64,
    config: Arc<ClientConfig>,
}

impl TlsOptions {
    /// `roots` apply without private authorities.
    /// Errors: a certificate or the key is unreadable, or they do not match.
    pub fn new(material: &TlsMaterial<'_>, roots: &TrustedRoots) -> Result<Self, TlsOptionsError> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let private_roots = material.ca_pem.map(TrustedRoots::from_pem).transpose()?;
        let roots = private_roots.as_ref().unwrap_or(roots);
        let versions: &[&SupportedProtocolVersion] = match material.minimum {
            TlsMinimum::Tls12 => &[&TLS13, &TLS12],
            TlsMinimum::Tls13 => &[&TLS13],
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(provider()))
            .with_protocol_versions(versions)
            .map_err(|_| TlsOptionsError::KeyMismatch)?
            .with_root_certificates(Arc::clone(&roots.0));
        let mut config = match &material.client_certificate {
            None => builder.with_no_client_auth(),
            Some(it) => {
                let chain = read_certificates(it.chain_pem).ok_or(TlsOptionsError::Certificate)?;
                let key = PrivateKeyDer::from_pem_slice(it.key_pem.as_bytes())
                    .map_err(|_| TlsOptionsError::PrivateKey)?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| client_certificate_error(&error))?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Self { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), config: Arc::new(config) })
    }

    /// Identity of the options within this process.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The configuration with sessions of its own, so that scopes never resume each other's.
    pub(crate) fn config_with_sessions(&self) -> Arc<ClientConfig> {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
        Arc::new(config)
    }
}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TlsOptions").field("id", &self.id).finish_non_exhaustive()
    }
}

fn provider() -> CryptoProvider {
    aws_lc_rs::default_provider()
}

/// At least one certificate, and no unreadable one.
fn read_certificates(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    certificates.ok().filter(|it| !it.is_empty())
}

fn client_certificate_error(error: &rustls::Error) -> TlsOptionsError {
    if matches!(error, rustls::Error::InconsistentKeys(_)) {
        TlsOptionsError::KeyMismatch
    } else if matches!(error, rustls::Error::InvalidCertificate(_)) {
        TlsOptionsError::Certificate
    } else {
        TlsOptionsError::PrivateKey
    }
}
