//! TLS certificates, with reload while the server runs.

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

/// A value loaded from files, such as a TLS configuration, and reloaded when they change. Existing
/// connections keep the old value.
pub struct Reloadable<T> {
    /// Name for the log.
    name: String,
    files: Vec<PathBuf>,
    read: ReadFiles<T>,
    current: ArcSwap<T>,
    /// Stamps of the files at the last attempt, successful or not: an invalid file is logged once.
    last_stamps: Mutex<FileStamps>,
}

/// Builds the value from its files.
pub(crate) type ReadFiles<T> = Box<dyn Fn(&[PathBuf]) -> anyhow::Result<Arc<T>> + Send + Sync>;

/// The certificate for clients.
pub type Certificates = Reloadable<ServerConfig>;

type FileStamps = Vec<Option<FileStamp>>;

impl Certificates {
    /// # Errors
    /// A file is missing or damaged, or the key does not match the certificate.
    pub fn for_clients(certificate: &Path, key: &Path) -> anyhow::Result<Self> {
        let files = vec![certificate.to_owned(), key.to_owned()];
        Self::load("tls".to_owned(), files, Box::new(read_server_config))
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current())
    }
}

impl<T: Send + Sync + 'static> Reloadable<T> {
    /// Returns the same value as a trait object, so that values of different types can be in one
    /// list.
    pub fn to_reload_files(self: &Arc<Self>) -> Arc<dyn ReloadFiles> {
        Arc::<Self>::clone(self)
    }
}

impl<T> Reloadable<T> {
    /// # Errors
    /// The error of `read`.
    pub(crate) fn load(
        name: String,
        files: Vec<PathBuf>,
        read: ReadFiles<T>,
    ) -> anyhow::Result<Self> {
        let last_stamps = Mutex::new(file_stamps(&files));
        let current = ArcSwap::from(read(&files)?);
        Ok(Self { name, files, read, current, last_stamps })
    }

    pub(crate) fn current(&self) -> Arc<T> {
        self.current.load_full()
    }
}

/// Files that can be reloaded while the server runs.
pub trait ReloadFiles: Send + Sync {
    /// Reloads the files; if they are invalid, the old value stays in force.
    fn reload(&self);

    /// Reloads the files if they have changed.
    fn reload_if_changed(&self);
}

impl<T: Send + Sync> ReloadFiles for Reloadable<T> {
    fn reload(&self) {
        // Before reading: a file that changes during the read is read again.
        let stamps = file_stamps(&self.files);
        *self.last_stamps.lock().unwrap_or_else(PoisonError::into_inner) = stamps;
        let name = &self.name;
        match (self.read)(&self.files) {
            Ok(value) => {
                self.current.store(value);
                tracing::info!(name, "reloaded the certificate");
            }
            Err(error) => {
                let cause = format!("{error:#}");
                tracing::error!(
                    name,
                    cause,
                    "reloading the certificate failed; the old one stays in force"
                );
            }
        }
    }

    fn reload_if_changed(&self) {
        let stamps = file_stamps(&self.files);
        let is_changed = *self.last_stamps.lock().unwrap_or_else(PoisonError::into_inner) != stamps;
        if is_changed {
            self.reload();
        }
    }
}

impl<T> fmt::Debug for Reloadable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloadable").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Checks all files periodically; ends with the runtime.
pub async fn reload_periodically(reloadables: Vec<Arc<dyn ReloadFiles>>, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        for it in &reloadables {
            it.reload_if_changed();
        }
    }
}

fn file_stamps(files: &[PathBuf]) -> FileStamps {
    files.iter().map(|it| FileStamp::for_path(it)).collect()
}

fn read_server_config(files: &[PathBuf]) -> anyhow::Result<Arc<ServerConfig>> {
    let [certificate, key] = files else { anyhow::bail!("tls: expected two files") };
    let (chain, private_key) =
        read_certificate_and_key(("tls.certificate", certificate), ("tls.key", key))?;
    let mut config = server_config_builder()?
        .with_no_client_auth()
        .with_single_cert(chain, private_key)
        .context("tls.certificate and tls.key do not match")?;
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

/// Reads a certificate chain and its private key. Errors name the settings.
///
/// # Errors
/// A file is missing or damaged.
pub(crate) fn read_certificate_and_key(
    certificate: NamedFile<'_>,
    key: NamedFile<'_>,
) -> anyhow::Result<CertificateAndKey> {
    let error_context =
        |(setting, file): NamedFile<'_>| format!("{setting}: {} cannot be read", file.display());
    let chain = CertificateDer::pem_file_iter(certificate.1)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| error_context(certificate))?;
    if chain.is_empty() {
        anyhow::bail!("{}: contains no certificate", error_context(certificate));
    }
    let private_key = PrivateKeyDer::from_pem_file(key.1).with_context(|| error_context(key))?;
    Ok((chain, private_key))
}

/// Reads root certificates from a file. Errors name `setting`.
///
/// # Errors
/// The file is missing or damaged, or contains no certificate.
pub(crate) fn read_roots(setting: &str, file: &Path) -> anyhow::Result<RootCertStore> {
    let error_context = || format!("{setting}: {} cannot be used", file.display());
    let certificates = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(error_context)?;
    let mut roots = RootCertStore::empty();
    for root in certificates {
        roots.add(root).with_context(error_context)?;
    }
    if roots.is_empty() {
        anyhow::bail!("{}: contains no certificate", error_context());
    }
    Ok(roots)
}
