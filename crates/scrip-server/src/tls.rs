//! TLS: the certificate, and new ones while the server runs.

use std::{
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context;
use arc_swap::ArcSwap;
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    version::{TLS12, TLS13},
};
use tokio_rustls::TlsAcceptor;

pub(crate) const H2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";

/// What a handshake takes. Connections keep what they began with.
#[derive(Debug)]
pub(crate) struct Certificates {
    certificate: PathBuf,
    key: PathBuf,
    current: ArcSwap<ServerConfig>,
    /// The files as they were when last read, good or not: a bad one is complained about once.
    seen: Mutex<Stamps>,
}

/// A file that was replaced or written has another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

type Stamps = [Option<Stamp>; 2];

impl Certificates {
    /// # Errors
    /// A file is missing or damaged, or the key is not the certificate's.
    pub(crate) fn load(certificate: &Path, key: &Path) -> anyhow::Result<Self> {
        let seen = Mutex::new(stamps(certificate, key));
        let current = ArcSwap::from(read(certificate, key)?);
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        Ok(Self { certificate, key, current, seen })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.load_full())
    }

    /// Reads the files again; whatever is wrong with them, the old ones stay in force.
    pub(crate) fn reload(&self) {
        // Before reading: a file that changes meanwhile is read again.
        let now = stamps(&self.certificate, &self.key);
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = now;
        match read(&self.certificate, &self.key) {
            Ok(config) => {
                self.current.store(config);
                tracing::info!("the certificate was read again");
            }
            Err(error) => {
                let cause = format!("{error:#}");
                tracing::error!(cause, "the new certificate cannot be used; the old one stays");
            }
        }
    }

    /// Looks every so often; ends with the runtime.
    pub(crate) async fn watch(self: Arc<Self>, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            let now = stamps(&self.certificate, &self.key);
            let changed = *self.seen.lock().unwrap_or_else(PoisonError::into_inner) != now;
            if changed {
                self.reload();
            }
        }
    }
}

fn stamps(certificate: &Path, key: &Path) -> Stamps {
    let stamp = |it: Metadata| Stamp {
        inode: it.ino(),
        bytes: it.size(),
        modified: (it.mtime(), it.mtime_nsec()),
    };
    [certificate, key].map(|it| fs::metadata(it).ok().map(stamp))
}

fn read(certificate: &Path, key: &Path) -> anyhow::Result<Arc<ServerConfig>> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("tls.certificate: {} cannot be read", certificate.display()))?;
    let private = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("tls.key: {} cannot be read", key.display()))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .context("tls.certificate and tls.key cannot be used together")?;
    config.alpn_protocols = vec![H2.to_vec(), HTTP_1_1.to_vec()];
    Ok(Arc::new(config))
}
