//! Who is let in with a result: whoever shows a certificate for which a scheme's own roots vouch.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context;
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
    client::{danger::HandshakeSignatureValid, verify_server_name},
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::{
        ParsedCertificate, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use scrip_core::time::Timestamp;
use scrip_threeds::code::Scheme;

use crate::listen::tls::{HTTP_1_1, Watched, read_pair, read_roots, server_config};

/// What the listener is made of.
#[derive(Debug, Clone)]
pub struct ResultsPlan {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub schemes: Vec<TrustedScheme>,
}

/// Whose certificates a scheme's results come with.
#[derive(Debug, Clone)]
pub struct TrustedScheme {
    pub scheme: Scheme,
    /// Of the settings.
    pub section: String,
    pub roots: PathBuf,
    /// The name that the certificate must have. Without one, any certificate under the roots opens
    /// the listener.
    pub subject: Option<ServerName<'static>>,
}

/// The certificate of the listener, and whose certificates open it.
#[derive(Debug)]
pub struct Doorkeeper {
    pub config: Arc<ServerConfig>,
    vouchers: Arc<Vouchers>,
}

impl Doorkeeper {
    /// # Errors
    /// A file is missing or damaged, or the key is not the certificate's.
    pub fn watched(plan: ResultsPlan) -> anyhow::Result<Watched<Self>> {
        let mut files = vec![plan.certificate.clone(), plan.key.clone()];
        files.extend(plan.schemes.iter().map(|it| it.roots.clone()));
        let read = move |_: &[PathBuf]| Ok(Arc::new(Self::read(&plan)?));
        Watched::load("threeds.results".to_owned(), files, Box::new(read))
    }

    fn read(plan: &ResultsPlan) -> anyhow::Result<Self> {
        let (chain, key) = read_pair(
            ("threeds.results_certificate", &plan.certificate),
            ("threeds.results_key", &plan.key),
        )?;
        let mut each = Vec::new();
        for TrustedScheme { scheme, section, roots, subject } in &plan.schemes {
            let roots = Arc::new(read_roots(&format!("{section}.roots"), roots)?);
            let provider = Arc::new(aws_lc_rs::default_provider());
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            let verifier = verifier.with_context(|| format!("{section}.roots"))?;
            each.push(Voucher { scheme: *scheme, verifier, subject: subject.clone() });
        }
        let vouchers = Arc::new(Vouchers::new(each)?);
        let verifier = Arc::<Vouchers>::clone(&vouchers);
        let mut config = server_config()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .context(
                "threeds.results_certificate and threeds.results_key do not belong together",
            )?;
        config.alpn_protocols = vec![HTTP_1_1.to_vec()];
        Ok(Self { config: Arc::new(config), vouchers })
    }

    /// Every scheme whose roots vouch for what was shown. One that vouched when the session of TLS
    /// began may not any more when it is taken up again, so it is asked anew.
    pub fn schemes(&self, shown: &[CertificateDer<'_>], now: Timestamp) -> Vec<Scheme> {
        let now = Duration::from_millis(u64::try_from(now.unix_ms).unwrap_or_default());
        let now = UnixTime::since_unix_epoch(now);
        let Some((end, between)) = shown.split_first() else { return Vec::new() };
        let vouches = |it: &&Voucher| it.verify(end, between, now).is_ok();
        self.vouchers.each.iter().filter(vouches).map(|it| it.scheme).collect()
    }
}

type Verifier = Arc<dyn ClientCertVerifier>;

/// The roots of one scheme, and the name that its certificate must have.
#[derive(Debug)]
struct Voucher {
    scheme: Scheme,
    verifier: Verifier,
    subject: Option<ServerName<'static>>,
}

impl Voucher {
    fn verify(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.verifier.verify_client_cert(end, between, now)?;
        if let Some(subject) = &self.subject {
            verify_server_name(&ParsedCertificate::try_from(end)?, subject)?;
        }
        Ok(verified)
    }
}

/// The roots of all schemes; each certificate is believed by those of one of them, never by a chain
/// that is put together of several.
#[derive(Debug)]
struct Vouchers {
    each: Vec<Voucher>,
    /// By whom signatures are checked, which is the same for all.
    first: Verifier,
    hints: Vec<DistinguishedName>,
}

impl Vouchers {
    fn new(each: Vec<Voucher>) -> anyhow::Result<Self> {
        let first = each.first().map(|it| Arc::clone(&it.verifier));
        let first =
            first.context("threeds.results_listen: no scheme of production is connected")?;
        let hints = each.iter().flat_map(|it| it.verifier.root_hint_subjects().to_vec()).collect();
        Ok(Self { each, first, hints })
    }
}

impl ClientCertVerifier for Vouchers {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn client_auth_mandatory(&self) -> bool {
        true
    }

    fn verify_client_cert(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let mut refused = None;
        for voucher in &self.each {
            match voucher.verify(end, between, now) {
                Ok(verified) => return Ok(verified),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or(Error::NoCertificatesPresented))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.first.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.first.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.first.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

    use super::*;

    type Issuer = CertifiedIssuer<'static, KeyPair>;

    const NOW: Timestamp = Timestamp { unix_ms: 1_800_000_000_000 };

    fn authority(name: &str) -> Issuer {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    fn issued(by: &Issuer) -> (rcgen::Certificate, KeyPair) {
        issued_to(by, &["ds.example"])
    }

    fn issued_to(by: &Issuer, names: &[&str]) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<_> = names.iter().map(|it| (*it).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        (params.signed_by(&key, by).unwrap(), key)
    }

    fn doorkeeper(folder: &Path, roots: &[(Scheme, &[&Issuer])]) -> Doorkeeper {
        pinned(folder, roots, None)
    }

    fn pinned(folder: &Path, roots: &[(Scheme, &[&Issuer])], subject: Option<&str>) -> Doorkeeper {
        let write = |name: &str, text: String| {
            let file = folder.join(name);
            fs::write(&file, text).unwrap();
            file
        };
        let (certificate, key) = issued(&authority("ours"));
        let schemes = roots.iter().map(|(scheme, roots)| {
            let text = roots.iter().map(|it| it.pem()).collect();
            let roots = write(&format!("{scheme:?}.pem"), text);
            let subject = subject.map(|it| ServerName::try_from(it.to_owned()).unwrap());
            TrustedScheme { scheme: *scheme, section: "section".to_owned(), roots, subject }
        });
        let plan = ResultsPlan {
            certificate: write("certificate.pem", certificate.pem()),
            key: write("key.pem", key.serialize_pem()),
            schemes: schemes.collect(),
        };
        Doorkeeper::read(&plan).unwrap()
    }

    #[test]
    fn a_scheme_vouches_for_its_own_and_for_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let [visa, other, shared, nobody] =
            ["visa", "mastercard", "shared", "nobody"].map(authority);
        let roots: [(Scheme, &[&Issuer]); 2] =
            [(Scheme::Visa, &[&visa, &shared]), (Scheme::Mastercard, &[&other, &shared])];
        let doorkeeper = doorkeeper(folder.path(), &roots);
        let of = |by: &Issuer| doorkeeper.schemes(&[issued(by).0.der().clone()], NOW);
        assert_eq!(of(&visa), [Scheme::Visa]);
        assert_eq!(of(&other), [Scheme::Mastercard]);
        assert_eq!(of(&shared), [Scheme::Visa, Scheme::Mastercard]);
        assert_eq!(of(&nobody), []);
        assert_eq!(doorkeeper.schemes(&[], NOW), []);
    }

    #[test]
    fn pinned_subject_name_is_needed_besides_the_roots() {
        let folder = tempfile::tempdir().unwrap();
        let [visa, other] = ["visa", "mastercard"].map(authority);
        let roots: [(Scheme, &[&Issuer]); 1] = [(Scheme::Visa, &[&visa])];
        let pinned = pinned(folder.path(), &roots, Some("ds.visa.example"));
        let of = |by: &Issuer, names: &[&str]| {
            pinned.schemes(&[issued_to(by, names).0.der().clone()], NOW)
        };
        assert_eq!(of(&visa, &["ds.visa.example"]), [Scheme::Visa]);
        assert_eq!(of(&visa, &["other.example", "ds.visa.example"]), [Scheme::Visa]);
        for names in [&["merchant.example"][..], &["visa.example"], &["x.ds.visa.example"], &[]] {
            assert_eq!(of(&visa, names), [], "{names:?}");
        }
        assert_eq!(of(&other, &["ds.visa.example"]), []);
    }

    #[test]
    fn and_not_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let visa = authority("visa");
        let doorkeeper = doorkeeper(folder.path(), &[(Scheme::Visa, &[&visa])]);
        let shown = [issued(&visa).0.der().clone()];
        let at = |unix_ms| doorkeeper.schemes(&shown, Timestamp { unix_ms });
        assert_eq!(at(NOW.unix_ms), [Scheme::Visa]);
        assert_eq!(at(1_900_000_000_000), []);
        assert_eq!(at(1_500_000_000_000), []);
    }
}
