//! Verification of client certificates on the results listener, with the roots of each scheme.

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
use scrip_core::Timestamp;
use scrip_threeds::code::Scheme;

use crate::tls::{
    HTTP_1_1, Reloadable, read_certificate_and_key, read_roots, server_config_builder,
};

/// Settings of the results listener.
#[derive(Debug, Clone)]
pub struct ResultsListenerSettings {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub schemes: Vec<TrustedScheme>,
}

/// Rules for the client certificates of one scheme.
#[derive(Debug, Clone)]
pub struct TrustedScheme {
    pub scheme: Scheme,
    /// Section of the settings, for error messages.
    pub section: String,
    pub roots: PathBuf,
    /// DNS name that the certificate must contain. `None` accepts every certificate signed by the
    /// roots.
    pub required_dns_name: Option<ServerName<'static>>,
}

/// TLS configuration of the results listener, with the verifier of its client certificates.
#[derive(Debug)]
pub struct ResultsTls {
    pub config: Arc<ServerConfig>,
    verifier: Arc<AnySchemeCertVerifier>,
}

impl ResultsTls {
    /// Errors: a file is missing or damaged, or the key does not match the certificate.
    pub fn load_reloadable(settings: ResultsListenerSettings) -> anyhow::Result<Reloadable<Self>> {
        let mut files = vec![settings.certificate.clone(), settings.key.clone()];
        files.extend(settings.schemes.iter().map(|it| it.roots.clone()));
        let read = move |_: &[PathBuf]| Ok(Arc::new(Self::read(&settings)?));
        Reloadable::load("threeds.results".to_owned(), files, Box::new(read))
    }

    fn read(settings: &ResultsListenerSettings) -> anyhow::Result<Self> {
        let (chain, key) = read_certificate_and_key(
            ("threeds.results_certificate", &settings.certificate),
            ("threeds.results_key", &settings.key),
        )?;
        let mut scheme_verifiers = Vec::new();
        for TrustedScheme { scheme, section, roots, required_dns_name } in &settings.schemes {
            let roots = Arc::new(read_roots(&format!("{section}.roots"), roots)?);
            let provider = Arc::new(aws_lc_rs::default_provider());
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            let verifier = verifier.with_context(|| format!("{section}.roots"))?;
            scheme_verifiers.push(SchemeCertVerifier {
                scheme: *scheme,
                verifier,
                required_dns_name: required_dns_name.clone(),
            });
        }
        let verifier = Arc::new(AnySchemeCertVerifier::new(scheme_verifiers)?);
        let mut config = server_config_builder()?
            .with_client_cert_verifier(Arc::<AnySchemeCertVerifier>::clone(&verifier))
            .with_single_cert(chain, key)
            .context("threeds.results_certificate and threeds.results_key do not match")?;
        config.alpn_protocols = vec![HTTP_1_1.to_vec()];
        Ok(Self { config: Arc::new(config), verifier })
    }

    /// Returns the schemes that trust this certificate chain. Call it for every request: a
    /// connection or a resumed TLS session may have a certificate that is no longer trusted.
    pub fn schemes_that_trust(
        &self,
        certificates: &[CertificateDer<'_>],
        now: Timestamp,
    ) -> Vec<Scheme> {
        let now = Duration::from_millis(u64::try_from(now.unix_ms).unwrap_or_default());
        let now = UnixTime::since_unix_epoch(now);
        let Some((end_entity, intermediates)) = certificates.split_first() else {
            return Vec::new();
        };
        let trusts = |it: &&SchemeCertVerifier| it.verify(end_entity, intermediates, now).is_ok();
        self.verifier.scheme_verifiers.iter().filter(trusts).map(|it| it.scheme).collect()
    }
}

type CertVerifierRef = Arc<dyn ClientCertVerifier>;

/// Verifies certificates with the roots of one scheme and its required DNS name.
#[derive(Debug)]
struct SchemeCertVerifier {
    scheme: Scheme,
    verifier: CertVerifierRef,
    required_dns_name: Option<ServerName<'static>>,
}

impl SchemeCertVerifier {
    fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.verifier.verify_client_cert(end_entity, intermediates, now)?;
        if let Some(name) = &self.required_dns_name {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
        }
        Ok(verified)
    }
}

/// Accepts a certificate chain if the roots of one scheme verify it completely. Roots of several
/// schemes are never combined.
#[derive(Debug)]
struct AnySchemeCertVerifier {
    scheme_verifiers: Vec<SchemeCertVerifier>,
    /// Verifies handshake signatures, in the same way for all schemes.
    signature_verifier: CertVerifierRef,
    /// Subjects of the roots of all schemes.
    root_subjects: Vec<DistinguishedName>,
}

impl AnySchemeCertVerifier {
    fn new(scheme_verifiers: Vec<SchemeCertVerifier>) -> anyhow::Result<Self> {
        let signature_verifier = scheme_verifiers.first().map(|it| Arc::clone(&it.verifier));
        let signature_verifier = signature_verifier
            .context("threeds.results_listen: no production scheme is connected")?;
        let root_subjects = scheme_verifiers
            .iter()
            .flat_map(|it| it.verifier.root_hint_subjects().to_vec())
            .collect();
        Ok(Self { scheme_verifiers, signature_verifier, root_subjects })
    }
}

impl ClientCertVerifier for AnySchemeCertVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.root_subjects
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
        let mut first_error = None;
        for verifier in &self.scheme_verifiers {
            match verifier.verify(end_entity, intermediates, now) {
                Ok(verified) => return Ok(verified),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or(Error::NoCertificatesPresented))
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

    fn create_authority(name: &str) -> TestIssuer {
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

    fn load_tls(folder: &Path, roots: &[(Scheme, &[&TestIssuer])]) -> ResultsTls {
        load_tls_with_dns_name(folder, roots, None)
    }

    fn load_tls_with_dns_name(
        folder: &Path,
        roots: &[(Scheme, &[&TestIssuer])],
        dns_name: Option<&str>,
    ) -> ResultsTls {
        let write = |name: &str, text: String| {
            let file = folder.join(name);
            fs::write(&file, text).unwrap();
            file
        };
        let (certificate, key) = issue_certificate(&create_authority("vault"));
        let schemes = roots.iter().map(|(scheme, roots)| {
            let text = roots.iter().map(|it| it.pem()).collect();
            let roots = write(&format!("{scheme:?}.pem"), text);
            let required_dns_name = dns_name.map(|it| ServerName::try_from(it.to_owned()).unwrap());
            let section = "section".to_owned();
            TrustedScheme { scheme: *scheme, section, roots, required_dns_name }
        });
        let settings = ResultsListenerSettings {
            certificate: write("certificate.pem", certificate.pem()),
            key: write("key.pem", key.serialize_pem()),
            schemes: schemes.collect(),
        };
        ResultsTls::read(&settings).unwrap()
    }

    #[test]
    fn certificate_is_accepted_only_for_schemes_whose_roots_signed_it() {
        let folder = tempfile::tempdir().unwrap();
        let [visa, mastercard, shared, untrusted] =
            ["visa", "mastercard", "shared", "untrusted"].map(create_authority);
        let roots: [(Scheme, &[&TestIssuer]); 2] =
            [(Scheme::Visa, &[&visa, &shared]), (Scheme::Mastercard, &[&mastercard, &shared])];
        let tls = load_tls(folder.path(), &roots);
        let schemes_that_trust = |issuer: &TestIssuer| {
            tls.schemes_that_trust(&[issue_certificate(issuer).0.der().clone()], NOW)
        };
        assert_eq!(schemes_that_trust(&visa), [Scheme::Visa]);
        assert_eq!(schemes_that_trust(&mastercard), [Scheme::Mastercard]);
        assert_eq!(schemes_that_trust(&shared), [Scheme::Visa, Scheme::Mastercard]);
        assert_eq!(schemes_that_trust(&untrusted), []);
        assert_eq!(tls.schemes_that_trust(&[], NOW), []);
    }

    #[test]
    fn configured_dns_name_is_required_in_addition_to_the_roots() {
        let folder = tempfile::tempdir().unwrap();
        let [visa, mastercard] = ["visa", "mastercard"].map(create_authority);
        let roots: [(Scheme, &[&TestIssuer]); 1] = [(Scheme::Visa, &[&visa])];
        let tls = load_tls_with_dns_name(folder.path(), &roots, Some("ds.visa.example"));
        let schemes_that_trust = |issuer: &TestIssuer, names: &[&str]| {
            tls.schemes_that_trust(&[issue_certificate_for(issuer, names).0.der().clone()], NOW)
        };
        assert_eq!(schemes_that_trust(&visa, &["ds.visa.example"]), [Scheme::Visa]);
        let two_names = ["other.example", "ds.visa.example"];
        assert_eq!(schemes_that_trust(&visa, &two_names), [Scheme::Visa]);
        for names in [&["merchant.example"][..], &["visa.example"], &["x.ds.visa.example"], &[]] {
            assert_eq!(schemes_that_trust(&visa, names), [], "names in the certificate: {names:?}");
        }
        assert_eq!(schemes_that_trust(&mastercard, &["ds.visa.example"]), []);
    }

    #[test]
    fn expired_or_not_yet_valid_certificate_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let visa = create_authority("visa");
        let tls = load_tls(folder.path(), &[(Scheme::Visa, &[&visa])]);
        let certificates = [issue_certificate(&visa).0.der().clone()];
        let schemes_at = |unix_ms| tls.schemes_that_trust(&certificates, Timestamp { unix_ms });
        assert_eq!(schemes_at(NOW.unix_ms), [Scheme::Visa]);
        assert_eq!(schemes_at(1_900_000_000_000), []);
        assert_eq!(schemes_at(1_500_000_000_000), []);
    }
}
