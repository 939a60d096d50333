//! TLS: the certificate, and new ones while the server runs.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context;
use arc_swap::ArcSwap;
use rustls::{
    ConfigBuilder, RootCertStore, ServerConfig, WantsVerifier,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    version::{TLS12, TLS13},
};
use tokio_rustls::TlsAcceptor;

use crate::files::stamp::FileStamp;

pub(crate) const H2: &[u8] = b"h2";
pub(crate) const HTTP_1_1: &[u8] = b"http/1.1";

/// What a handshake takes, made of files, and made again when they change. Connections keep what
/// they began with.
pub struct Reloadable<T> {
    /// For the log.
    name: String,
    files: Vec<PathBuf>,
    read: ReadFiles<T>,
    current: ArcSwap<T>,
    /// The files as they were when last read, good or not: a bad one is complained about once.
    last_stamps: Mutex<FileStamps>,
}

/// Makes the value of its files.
pub(crate) type ReadFiles<T> = Box<dyn Fn(&[PathBuf]) -> anyhow::Result<Arc<T>> + Send + Sync>;

/// The certificate that clients are shown.
pub type Certificates = Reloadable<ServerConfig>;

type FileStamps = Vec<Option<FileStamp>>;

impl Certificates {
    /// # Errors
    /// A file is missing or damaged, or the key is not the certificate's.
    pub fn for_clients(certificate: &Path, key: &Path) -> anyhow::Result<Self> {
        let files = vec![certificate.to_owned(), key.to_owned()];
        Self::load("tls".to_owned(), files, Box::new(read_server_config))
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current())
    }
}

impl<T: Send + Sync + 'static> Reloadable<T> {
    /// The same, for whoever only reads it again.
    pub fn as_reload_files(self: &Arc<Self>) -> Arc<dyn ReloadFiles> {
        Arc::<Self>::clone(self)
    }
}

impl<T> Reloadable<T> {
    /// # Errors
    /// What `read` says of the files.
    pub(crate) fn load(
        name: String,
        files: Vec<PathBuf>,
        read: ReadFiles<T>,
    ) -> anyhow::Result<Self> {
        let seen = Mutex::new(file_stamps(&files));
        let current = ArcSwap::from(read(&files)?);
        Ok(Self { name, files, read, current, last_stamps: seen })
    }

    pub(crate) fn current(&self) -> Arc<T> {
        self.current.load_full()
    }
}

/// What can be read again while the server runs.
pub trait ReloadFiles: Send + Sync {
    /// Reads the files again; whatever is wrong with them, the old ones stay in force.
    fn reload(&self);

    /// The same, if they have changed.
    fn reload_if_changed(&self);
}

impl<T: Send + Sync> ReloadFiles for Reloadable<T> {
    fn reload(&self) {
        // Before reading: a file that changes meanwhile is read again.
        let now = file_stamps(&self.files);
        *self.last_stamps.lock().unwrap_or_else(PoisonError::into_inner) = now;
        let what = &self.name;
        match (self.read)(&self.files) {
            Ok(value) => {
                self.current.store(value);
                tracing::info!(what, "the certificate was read again");
            }
            Err(error) => {
                let cause = format!("{error:#}");
                tracing::error!(
                    what,
                    cause,
                    "the new certificate cannot be used; the old one stays"
                );
            }
        }
    }

    fn reload_if_changed(&self) {
        let now = file_stamps(&self.files);
        let changed = *self.last_stamps.lock().unwrap_or_else(PoisonError::into_inner) != now;
        if changed {
            self.reload();
        }
    }
}

impl<T> fmt::Debug for Reloadable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("what", &self.name).finish_non_exhaustive()
    }
}

/// Looks every so often; ends with the runtime.
pub async fn reload_periodically(all: Vec<Arc<dyn ReloadFiles>>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        for it in &all {
            it.reload_if_changed();
        }
    }
}

fn file_stamps(files: &[PathBuf]) -> FileStamps {
    files.iter().map(|it| FileStamp::for_path(it)).collect()
}

fn read_server_config(files: &[PathBuf]) -> anyhow::Result<Arc<ServerConfig>> {
    let [certificate, key] = files else { anyhow::bail!("tls: two files") };
    let (chain, private) =
        read_certificate_and_key(("tls.certificate", certificate), ("tls.key", key))?;
    let mut config = server_config_builder()?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .context("tls.certificate and tls.key cannot be used together")?;
    config.alpn_protocols = vec![H2.to_vec(), HTTP_1_1.to_vec()];
    Ok(Arc::new(config))
}

pub(crate) fn server_config_builder() -> anyhow::Result<ConfigBuilder<ServerConfig, WantsVerifier>>
{
    let provider = Arc::new(aws_lc_rs::default_provider());
    Ok(ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13, &TLS12])?)
}

/// A setting and the file that it names.
type NamedFile<'a> = (&'a str, &'a Path);
type CertificateAndKey = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// # Errors
/// A file is missing or damaged.
pub(crate) fn read_certificate_and_key(
    certificate: NamedFile<'_>,
    key: NamedFile<'_>,
) -> anyhow::Result<CertificateAndKey> {
    let cannot =
        |(setting, file): NamedFile<'_>| format!("{setting}: {} cannot be read", file.display());
    let chain = CertificateDer::pem_file_iter(certificate.1)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| cannot(certificate))?;
    if chain.is_empty() {
        anyhow::bail!("{}: there is no certificate in it", cannot(certificate));
    }
    let private = PrivateKeyDer::from_pem_file(key.1).with_context(|| cannot(key))?;
    Ok((chain, private))
}
/// The certificates in a file that a setting names: whom to believe.
///
/// # Errors
/// The file is missing or damaged, or has no certificate in it.
pub(crate) fn read_roots(setting: &str, file: &Path) -> anyhow::Result<RootCertStore> {
    let name = || format!("{setting}: {} cannot be used", file.display());
    let found = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(name)?;
    let mut roots = RootCertStore::empty();
    for root in found {
        roots.add(root).with_context(name)?;
    }
    if roots.is_empty() {
        anyhow::bail!("{}: there is no certificate in it", name());
    }
    Ok(roots)
}
