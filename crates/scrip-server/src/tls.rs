//! TLS certificates, with reload while the server runs.

use std::{
    fmt, mem,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
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
use scrip_core::{Timestamp, types::time::Clock};
use tokio_rustls::TlsAcceptor;
use x509_cert::{Certificate, der::Decode};

use crate::{
    clock::SystemClock,
    files::{
        FileStamp,
        secret_file::{AllowedReaders, SecretFile},
    },
};

pub(crate) const H2: &[u8] = b"h2";
pub(crate) const HTTP_1_1: &[u8] = b"http/1.1";

/// A TLS configuration that is loaded from files, and reloaded when they change. Existing
/// connections keep the old value.
pub struct Reloadable<T> {
    /// Name for the log.
    name: String,
    /// The certificate with its chain first, then its key.
    files: Vec<PathBuf>,
    read: ReadFiles<T>,
    current: ArcSwap<T>,
    state: Mutex<ReloadState>,
}

#[derive(Debug)]
struct ReloadState {
    /// Stamps of the files at the last attempt, successful or not: an invalid file is logged once.
    last_stamps: FileStamps,
    /// Validity of the certificate in use, if it can be read.
    validity: Option<CertificateValidity>,
    /// The status that was logged last.
    logged_status: ValidityStatus,
    /// Validity of a new certificate that was rejected because it is not valid yet. Its files are
    /// read again when it is valid.
    future_validity: Option<CertificateValidity>,
}

/// Builds the value from its files.
pub(crate) type ReadFiles<T> = Box<dyn Fn(&[PathBuf]) -> anyhow::Result<Arc<T>> + Send + Sync>;

/// The certificate for clients.
pub type Certificates = Reloadable<ServerConfig>;

type FileStamps = Vec<Option<FileStamp>>;

impl Certificates {
    /// Errors: a file is missing or damaged, or the key does not match the certificate.
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
    /// Errors: the error of `read`.
    pub(crate) fn load(
        name: String,
        files: Vec<PathBuf>,
        read: ReadFiles<T>,
    ) -> anyhow::Result<Self> {
        let last_stamps = file_stamps(&files);
        let current = ArcSwap::from(read(&files)?);
        let state = Mutex::new(ReloadState {
            last_stamps,
            validity: read_validity(&files),
            logged_status: ValidityStatus::Valid,
            future_validity: None,
        });
        Ok(Self { name, files, read, current, state })
    }

    fn lock_state(&self) -> MutexGuard<'_, ReloadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Validity of the certificate in use; `None` if its dates cannot be read.
    pub fn validity(&self) -> Option<CertificateValidity> {
        self.lock_state().validity
    }

    /// The file of the certificate, for messages.
    fn certificate_file(&self) -> String {
        self.files.first().map(|it| it.display().to_string()).unwrap_or_default()
    }

    /// Reads the files. A certificate that clients would reject is an error, so that the old one
    /// stays in use.
    fn read_valid_files(&self) -> anyhow::Result<(Arc<T>, Option<CertificateValidity>)> {
        // The same check prevents a start.
        if let Some(key) = self.files.get(1) {
            SecretFile::new(&self.name, key, AllowedReaders::OwnerAndGroup).check()?;
        }
        let value = (self.read)(&self.files)?;
        let Some(validity) = read_validity(&self.files) else { return Ok((value, None)) };
        let file = self.certificate_file();
        match validity.status_at(SystemClock.now()) {
            ValidityStatus::Expired => anyhow::bail!(
                "{file} expired at {}; write a renewed certificate and its key to the files",
                validity.not_after
            ),
            ValidityStatus::NotYetValid => {
                self.lock_state().future_validity = Some(validity);
                anyhow::bail!(
                    "{file} is not valid before {}, when it will be loaded; check the clock of \
                     this machine",
                    validity.not_before
                )
            }
            ValidityStatus::Valid | ValidityStatus::ExpiresSoon => Ok((value, Some(validity))),
        }
    }

    pub(crate) fn current(&self) -> Arc<T> {
        self.current.load_full()
    }
}

/// Files that can be reloaded while the server runs.
pub trait ReloadFiles: Send + Sync {
    /// Reloads the files; if they are invalid or the certificate has expired, the old value stays
    /// in force.
    fn reload(&self);

    /// Reloads the files if they have changed.
    fn reload_if_changed(&self);

    /// Logs once that the certificate in use expires soon, or that it is not valid.
    fn log_validity(&self);
}

impl<T: Send + Sync> ReloadFiles for Reloadable<T> {
    fn reload(&self) {
        // Before reading: a file that changes during the read is read again.
        let stamps = file_stamps(&self.files);
        let mut state = self.lock_state();
        state.last_stamps = stamps;
        state.future_validity = None;
        drop(state);
        let name = &self.name;
        match self.read_valid_files() {
            Ok((value, validity)) => {
                self.current.store(value);
                let mut state = self.lock_state();
                state.validity = validity;
                state.logged_status = ValidityStatus::Valid;
                drop(state);
                let expires_at = validity.map(|it| it.not_after.to_string());
                tracing::info!(name, expires_at, "reloaded the certificate");
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
        let state = self.lock_state();
        let is_valid_now = |it: CertificateValidity| SystemClock.now() >= it.not_before;
        let is_changed =
            state.last_stamps != stamps || state.future_validity.is_some_and(is_valid_now);
        drop(state);
        if is_changed {
            self.reload();
        }
    }

    fn log_validity(&self) {
        let Some(validity) = self.validity() else { return };
        let status = validity.status_at(SystemClock.now());
        if mem::replace(&mut self.lock_state().logged_status, status) == status {
            return;
        }
        let (name, file) = (&self.name, self.certificate_file());
        let (expires_at, valid_from) = (validity.not_after, validity.not_before);
        match status {
            ValidityStatus::Valid => (),
            ValidityStatus::ExpiresSoon => tracing::warn!(
                name,
                file,
                %expires_at,
                "the certificate in use expires soon; write a renewed certificate and its key to \
                 the files"
            ),
            ValidityStatus::Expired => tracing::error!(
                name,
                file,
                %expires_at,
                "the certificate in use has expired, and others reject it; write a renewed \
                 certificate and its key to the files"
            ),
            ValidityStatus::NotYetValid => tracing::error!(
                name,
                file,
                %valid_from,
                "the certificate in use is not valid yet, and others reject it; check the clock of \
                 this machine"
            ),
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
            it.log_validity();
        }
    }
}

fn read_validity(files: &[PathBuf]) -> Option<CertificateValidity> {
    CertificateValidity::from_pem_file(files.first()?)
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
/// Errors: a file is missing or damaged.
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
/// Errors: the file is missing or damaged, or contains no certificate.
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

/// A certificate that expires within this time is reported.
const EXPIRES_SOON: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The first and the last moment at which a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CertificateValidity {
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

/// The validity of a certificate at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValidityStatus {
    Valid,
    ExpiresSoon,
    Expired,
    NotYetValid,
}

impl CertificateValidity {
    /// Reads the validity of the first certificate of a PEM file, which is the one of the server or
    /// client itself. Returns `None` if the file or its dates cannot be read.
    pub fn from_pem_file(path: &Path) -> Option<Self> {
        let certificate = CertificateDer::from_pem_file(path).ok()?;
        Self::from_der(&certificate)
    }

    fn from_der(der: &[u8]) -> Option<Self> {
        let validity = Certificate::from_der(der).ok()?.tbs_certificate.validity;
        let to_timestamp = |it: Duration| Timestamp { unix_ms: 0 }.plus(it);
        Some(Self {
            not_before: to_timestamp(validity.not_before.to_unix_duration()),
            not_after: to_timestamp(validity.not_after.to_unix_duration()),
        })
    }

    pub fn status_at(&self, now: Timestamp) -> ValidityStatus {
        if now > self.not_after {
            ValidityStatus::Expired
        } else if now < self.not_before {
            ValidityStatus::NotYetValid
        } else if now.plus(EXPIRES_SOON) > self.not_after {
            ValidityStatus::ExpiresSoon
        } else {
            ValidityStatus::Valid
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn validity(first_year: i32, last_year: i32) -> CertificateValidity {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = date_time_ymd(first_year, 1, 1);
        params.not_after = date_time_ymd(last_year, 1, 1);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        CertificateValidity::from_der(certificate.der()).unwrap()
    }

    #[test]
    fn validity_is_read_from_both_date_formats() {
        // Years from 2050 have another encoding.
        for (first, last) in [(1975, 2020), (2020, 2049), (2049, 2050), (2000, 4096)] {
            let validity = validity(first, last);
            assert_eq!(validity.not_before.to_string(), format!("{first}-01-01T00:00:00+00:00"));
            assert_eq!(validity.not_after.to_string(), format!("{last}-01-01T00:00:00+00:00"));
        }
    }

    #[test]
    fn status_follows_the_dates_to_the_second() {
        let validity = validity(2020, 2021);
        let at = |text: &str| validity.status_at(Timestamp::parse_expiry(text).unwrap());
        assert_eq!(at("2019-12-31T23:59:59Z"), ValidityStatus::NotYetValid);
        assert_eq!(at("2020-01-01T00:00:00Z"), ValidityStatus::Valid);
        assert_eq!(at("2020-12-02T00:00:00Z"), ValidityStatus::Valid);
        assert_eq!(at("2020-12-02T00:00:01Z"), ValidityStatus::ExpiresSoon);
        assert_eq!(at("2021-01-01T00:00:00Z"), ValidityStatus::ExpiresSoon);
        assert_eq!(at("2021-01-01T00:00:01Z"), ValidityStatus::Expired);
    }

    #[test]
    fn damaged_certificate_has_no_validity() {
        assert_eq!(CertificateValidity::from_der(b"nothing"), None);
        assert_eq!(CertificateValidity::from_pem_file(Path::new("/none")), None);
    }
}
