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

use crate::listen::tls::{
    HTTP_1_1, Reloadable, read_certificate_and_key, read_roots, server_config_builder,
};

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
pub struct ResultsClientCertVerifier {
    pub config: Arc<ServerConfig>,
    verifiers: Arc<AnySchemeCertVerifier>,
}

impl ResultsClientCertVerifier {
    /// # Errors
    /// A file is missing or damaged, or the key is not the certificate's.
    pub fn load_reloadable(plan: ResultsPlan) -> anyhow::Result<Reloadable<Self>> {
        let mut files = vec![plan.certificate.clone(), plan.key.clone()];
        files.extend(plan.schemes.iter().map(|it| it.roots.clone()));
        let read = move |_: &[PathBuf]| Ok(Arc::new(Self::read(&plan)?));
        Reloadable::load("threeds.results".to_owned(), files, Box::new(read))
    }

    fn read(plan: &ResultsPlan) -> anyhow::Result<Self> {
        let (chain, key) = read_certificate_and_key(
            ("threeds.results_certificate", &plan.certificate),
            ("threeds.results_key", &plan.key),
        )?;
        let mut each = Vec::new();
        for TrustedScheme { scheme, section, roots, subject } in &plan.schemes {
            let roots = Arc::new(read_roots(&format!("{section}.roots"), roots)?);
            let provider = Arc::new(aws_lc_rs::default_provider());
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            let verifier = verifier.with_context(|| format!("{section}.roots"))?;
            each.push(SchemeCertVerifier { scheme: *scheme, verifier, subject: subject.clone() });
        }
        let vouchers = Arc::new(AnySchemeCertVerifier::new(each)?);
        let verifier = Arc::<AnySchemeCertVerifier>::clone(&vouchers);
        let mut config = server_config_builder()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .context(
                "threeds.results_certificate and threeds.results_key do not belong together",
            )?;
        config.alpn_protocols = vec![HTTP_1_1.to_vec()];
        Ok(Self { config: Arc::new(config), verifiers: vouchers })
    }

    /// Every scheme whose roots vouch for what was shown. One that vouched when the session of TLS
    /// began may not any more when it is taken up again, so it is asked anew.
    pub fn schemes(&self, certificates: &[CertificateDer<'_>], now: Timestamp) -> Vec<Scheme> {
        let now = Duration::from_millis(u64::try_from(now.unix_ms).unwrap_or_default());
        let now = UnixTime::since_unix_epoch(now);
        let Some((end, between)) = certificates.split_first() else { return Vec::new() };
        let vouches = |it: &&SchemeCertVerifier| it.verify(end, between, now).is_ok();
        self.verifiers.schemes.iter().filter(vouches).map(|it| it.scheme).collect()
    }
}

type CertVerifierRef = Arc<dyn ClientCertVerifier>;

/// The roots of one scheme, and the name that its certificate must have.
#[derive(Debug)]
struct SchemeCertVerifier {
    scheme: Scheme,
    verifier: CertVerifierRef,
    subject: Option<ServerName<'static>>,
}

impl SchemeCertVerifier {
    fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.verifier.verify_client_cert(end_entity, intermediates, now)?;
        if let Some(subject) = &self.subject {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, subject)?;
        }
        Ok(verified)
    }
}

/// The roots of all schemes; each certificate is believed by those of one of them, never by a chain
/// that is put together of several.
#[derive(Debug)]
struct AnySchemeCertVerifier {
    schemes: Vec<SchemeCertVerifier>,
    /// By whom signatures are checked, which is the same for all.
    signature_verifier: CertVerifierRef,
    hints: Vec<DistinguishedName>,
}

impl AnySchemeCertVerifier {
    fn new(schemes: Vec<SchemeCertVerifier>) -> anyhow::Result<Self> {
        let first = schemes.first().map(|it| Arc::clone(&it.verifier));
        let first =
            first.context("threeds.results_listen: no scheme of production is connected")?;
        let hints =
            schemes.iter().flat_map(|it| it.verifier.root_hint_subjects().to_vec()).collect();
        Ok(Self { schemes, signature_verifier: first, hints })
    }
}

impl ClientCertVerifier for AnySchemeCertVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn client_auth_mandatory(&self) -> bool {
        true
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let mut rejected = None;
        for voucher in &self.schemes {
            match voucher.verify(end_entity, intermediates, now) {
                Ok(verified) => return Ok(verified),
                Err(error) => rejected = rejected.or(Some(error)),
            }
        }
        Err(rejected.unwrap_or(Error::NoCertificatesPresented))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature_verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature_verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signature_verifier.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

    use super::*;

    type TestIssuer = CertifiedIssuer<'static, KeyPair>;

    const NOW: Timestamp = Timestamp { unix_ms: 1_800_000_000_000 };

    fn authority(name: &str) -> TestIssuer {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    fn issue_certificate(issuer: &TestIssuer) -> (rcgen::Certificate, KeyPair) {
        issue_certificate_for(issuer, &["ds.example"])
    }

    fn issue_certificate_for(issuer: &TestIssuer, names: &[&str]) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<_> = names.iter().map(|it| (*it).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        (params.signed_by(&key, issuer).unwrap(), key)
    }

    fn verifier(folder: &Path, roots: &[(Scheme, &[&TestIssuer])]) -> ResultsClientCertVerifier {
        verifier_with_subject(folder, roots, None)
    }

    fn verifier_with_subject(
        folder: &Path,
        roots: &[(Scheme, &[&TestIssuer])],
        subject: Option<&str>,
    ) -> ResultsClientCertVerifier {
        let write = |name: &str, text: String| {
            let file = folder.join(name);
            fs::write(&file, text).unwrap();
            file
        };
        let (certificate, key) = issue_certificate(&authority("ours"));
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
        ResultsClientCertVerifier::read(&plan).unwrap()
    }

    #[test]
    fn certificate_is_accepted_only_for_schemes_whose_roots_signed_it() {
        let folder = tempfile::tempdir().unwrap();
        let [visa, other, shared, nobody] =
            ["visa", "mastercard", "shared", "nobody"].map(authority);
        let roots: [(Scheme, &[&TestIssuer]); 2] =
            [(Scheme::Visa, &[&visa, &shared]), (Scheme::Mastercard, &[&other, &shared])];
        let verifier = verifier(folder.path(), &roots);
        let of = |by: &TestIssuer| verifier.schemes(&[issue_certificate(by).0.der().clone()], NOW);
        assert_eq!(of(&visa), [Scheme::Visa]);
        assert_eq!(of(&other), [Scheme::Mastercard]);
        assert_eq!(of(&shared), [Scheme::Visa, Scheme::Mastercard]);
        assert_eq!(of(&nobody), []);
        assert_eq!(verifier.schemes(&[], NOW), []);
    }

    #[test]
    fn configured_subject_name_is_required_in_addition_to_the_roots() {
        let folder = tempfile::tempdir().unwrap();
        let [visa, other] = ["visa", "mastercard"].map(authority);
        let roots: [(Scheme, &[&TestIssuer]); 1] = [(Scheme::Visa, &[&visa])];
        let pinned = verifier_with_subject(folder.path(), &roots, Some("ds.visa.example"));
        let of = |by: &TestIssuer, names: &[&str]| {
            pinned.schemes(&[issue_certificate_for(by, names).0.der().clone()], NOW)
        };
        assert_eq!(of(&visa, &["ds.visa.example"]), [Scheme::Visa]);
        assert_eq!(of(&visa, &["other.example", "ds.visa.example"]), [Scheme::Visa]);
        for names in [&["merchant.example"][..], &["visa.example"], &["x.ds.visa.example"], &[]] {
            assert_eq!(of(&visa, names), [], "{names:?}");
        }
        assert_eq!(of(&other, &["ds.visa.example"]), []);
    }

    #[test]
    fn expired_or_not_yet_valid_certificate_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let visa = authority("visa");
        let verifier = verifier(folder.path(), &[(Scheme::Visa, &[&visa])]);
        let shown = [issue_certificate(&visa).0.der().clone()];
        let at = |unix_ms| verifier.schemes(&shown, Timestamp { unix_ms });
        assert_eq!(at(NOW.unix_ms), [Scheme::Visa]);
        assert_eq!(at(1_900_000_000_000), []);
        assert_eq!(at(1_500_000_000_000), []);
    }
}
