//! The certificate authorities that a source is verified with.

use std::{
    fmt, fs,
    path::Path,
    sync::{Arc, OnceLock},
};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
    version::{TLS12, TLS13},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::source::UnlockError;

/// A connection, with or without TLS.
pub(crate) trait SourceStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> SourceStream for S {}

/// The authorities of a file, or those of the system. The authorities of the system are loaded for
/// the first connection with TLS.
#[derive(Default)]
pub(crate) struct TlsTrust(OnceLock<Arc<ClientConfig>>);

impl TlsTrust {
    /// The authorities of the file replace those of the system.
    pub(crate) fn from_ca_file(path: Option<&Path>) -> Result<Self, UnlockError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let name = path.display();
        let pem = fs::read(path).map_err(|error| {
            UnlockError::Settings(format!("cannot read the CA file {name}: {}", error.kind()))
        })?;
        let not_pem =
            || UnlockError::Settings(format!("the CA file {name} must have certificates in PEM"));
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            roots.add(certificate.map_err(|_| not_pem())?).map_err(|_| not_pem())?;
        }
        if roots.is_empty() {
            return Err(not_pem());
        }
        Ok(Self(OnceLock::from(build_config(roots)?)))
    }

    pub(super) async fn handshake(
        &self,
        name: ServerName<'static>,
        stream: TcpStream,
        authority: &str,
    ) -> Result<Box<dyn SourceStream>, UnlockError> {
        let connector = TlsConnector::from(self.config()?);
        let stream = connector.connect(name, stream).await.map_err(|error| {
            let rustls_error = error.get_ref().and_then(|it| it.downcast_ref::<rustls::Error>());
            let cause = match rustls_error {
                Some(rustls::Error::InvalidCertificate(_)) => {
                    "its certificate is not valid for this name, expired, or not issued by a \
                     trusted authority: set a CA file, or correct the address"
                        .to_owned()
                }
                _ => error.kind().to_string(),
            };
            UnlockError::Unavailable(format!("no TLS connection to {authority}: {cause}"))
        })?;
        Ok(Box::new(stream))
    }

    fn config(&self) -> Result<Arc<ClientConfig>, UnlockError> {
        if let Some(config) = self.0.get() {
            return Ok(Arc::clone(config));
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(UnlockError::Settings(
                "the system trusts no certificate authority: install ca-certificates, or set a CA \
                 file"
                    .to_owned(),
            ));
        }
        let config = build_config(roots)?;
        Ok(Arc::clone(self.0.get_or_init(|| config)))
    }
}

impl fmt::Debug for TlsTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsTrust")
    }
}

fn build_config(roots: RootCertStore) -> Result<Arc<ClientConfig>, UnlockError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|_| UnlockError::Settings("TLS 1.2 and 1.3 are not available".to_owned()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
