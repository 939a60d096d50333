//! The certificate authorities that a source is verified with.

use std::{
    fmt, fs,
    path::Path,
    sync::{Arc, OnceLock},
};

use rustls::ClientConfig;
use scrip_egress::{TlsOptionsError, TrustedRoots};

use crate::source::UnlockError;

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
        let roots = TrustedRoots::from_pem(&String::from_utf8_lossy(&pem)).map_err(|_| {
            UnlockError::Settings(format!("the CA file {name} must have certificates in PEM"))
        })?;
        Ok(Self(OnceLock::from(build_config(&roots)?)))
    }

    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, UnlockError> {
        if let Some(config) = self.0.get() {
            return Ok(Arc::clone(config));
        }
        let roots = TrustedRoots::load_from_system().map_err(|_| {
            UnlockError::Settings(
                "the system trusts no certificate authority: install ca-certificates, or set a CA \
                 file"
                    .to_owned(),
            )
        })?;
        let config = build_config(&roots)?;
        Ok(Arc::clone(self.0.get_or_init(|| config)))
    }
}

impl fmt::Debug for TlsTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsTrust")
    }
}

fn build_config(roots: &TrustedRoots) -> Result<Arc<ClientConfig>, UnlockError> {
    let unavailable =
        |_: TlsOptionsError| UnlockError::Settings("TLS 1.2 and 1.3 are not available".to_owned());
    roots.client_config().map_err(unavailable)
}
