//! Certificates of a proxy: the client certificate that it presents, and the authorities that it
//! trusts instead of the public ones.

use std::time::Duration;

use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use scrip_seal::{Checksum, Mac, PrivateKeyEncoding, is_key_of_certificate};
use serde::{Deserialize, Serialize};
use x509_cert::{Certificate, der::Decode};
use zeroize::Zeroizing;

use crate::{FieldError, Timestamp};

words! {
    /// The lowest TLS version that a proxy accepts.
    #[derive(Default, Serialize, Deserialize)]
    pub enum TlsMinimum {
        #[default]
        #[serde(rename = "1.2")]
        Tls12 = "1.2",
        #[serde(rename = "1.3")]
        Tls13 = "1.3",
    }
}

pub const PEM_BYTES_MAX: usize = 64 * 1024;
const CERTIFICATES_MAX: usize = 16;

/// One or more certificates of authorities, in PEM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorityCertificates(String);

impl AuthorityCertificates {
    /// Takes a text of an allowed length. [`AuthorityCertificates::check`] parses it.
    /// Errors: the text is too long.
    pub fn from_text(pem: String) -> Result<Self, FieldError> {
        if pem.len() > PEM_BYTES_MAX {
            return Err(FieldError::new("ca_pem", "must have at most 64 KiB"));
        }
        Ok(Self(pem))
    }

    /// Errors: the text has no certificate, too many, or one that cannot be parsed.
    pub(super) fn check(&self) -> Result<(), FieldError> {
        parse_chain(&self.0).map_err(|rule| FieldError::new("ca_pem", rule)).map(drop)
    }

    pub fn as_pem(&self) -> &str {
        &self.0
    }
}

/// A checked certificate chain with its private key.
pub struct ClientCertificate {
    pub certificate_pem: String,
    pub private_key_pem: Zeroizing<String>,
    pub summary: CertificateSummary,
}

/// What a response shows of a client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateSummary {
    pub subject: String,
    pub issuer: String,
    /// In lower-case hexadecimal.
    pub sha256: String,
    pub not_after: Timestamp,
}

impl ClientCertificate {
    /// Errors: the certificate or the key cannot be parsed, or they do not belong together.
    pub fn parse(
        certificate_pem: &str,
        private_key_pem: Zeroizing<String>,
    ) -> Result<Self, FieldError> {
        let chain = parse_chain(certificate_pem)
            .map_err(|rule| FieldError::new("certificate_pem", rule))?;
        let reject_key = |rule: &'static str| FieldError::new("private_key_pem", rule);
        if private_key_pem.len() > PEM_BYTES_MAX {
            return Err(reject_key("must have at most 64 KiB"));
        }
        let private_key = PrivateKeyDer::from_pem_slice(private_key_pem.as_bytes())
            .map_err(|_| reject_key("must be an unencrypted private key in PEM"))?;
        let encoding = match &private_key {
            PrivateKeyDer::Pkcs1(_) => PrivateKeyEncoding::Pkcs1,
            PrivateKeyDer::Sec1(_) => PrivateKeyEncoding::Sec1,
            PrivateKeyDer::Pkcs8(_) => PrivateKeyEncoding::Pkcs8,
            _ => return Err(reject_key("has an unknown encoding")),
        };
        let summary = chain
            .first()
            .and_then(|der| Certificate::from_der(der).ok().map(|it| (der, it)))
            .filter(|(_, certificate)| {
                let public_key = &certificate.tbs_certificate.subject_public_key_info;
                let public_key = public_key.subject_public_key.raw_bytes();
                is_key_of_certificate(private_key.secret_der(), encoding, public_key)
            })
            .map(|(der, certificate)| CertificateSummary::new(der, &certificate))
            .ok_or_else(|| reject_key("does not belong to the first certificate"))?;
        let certificate_pem = certificate_pem.to_owned();
        Ok(Self { certificate_pem, private_key_pem, summary })
    }
}

impl CertificateSummary {
    /// The summary of a stored chain. `None` if it cannot be parsed.
    pub fn from_pem(certificate_pem: &str) -> Option<Self> {
        let chain = parse_chain(certificate_pem).ok()?;
        let der = chain.first()?;
        Some(Self::new(der, &Certificate::from_der(der).ok()?))
    }

    fn new(der: &CertificateDer<'_>, certificate: &Certificate) -> Self {
        let mut checksum = Checksum::new();
        checksum.add(der);
        let content = &certificate.tbs_certificate;
        let not_after: Duration = content.validity.not_after.to_unix_duration();
        Self {
            subject: content.subject.to_string(),
            issuer: content.issuer.to_string(),
            sha256: Mac(checksum.finish()).to_hex(),
            not_after: Timestamp { unix_ms: 0 }.plus(not_after),
        }
    }
}

fn parse_chain(pem: &str) -> Result<Vec<CertificateDer<'_>>, &'static str> {
    if pem.len() > PEM_BYTES_MAX {
        return Err("must have at most 64 KiB");
    }
    if pem.contains("PRIVATE KEY") {
        return Err("must contain certificates only, and no private key");
    }
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let certificates = certificates.map_err(|_| "must be certificates in PEM")?;
    if certificates.is_empty() || certificates.len() > CERTIFICATES_MAX {
        return Err("must be 1 to 16 certificates in PEM");
    }
    if certificates.iter().any(|it| Certificate::from_der(it).is_err()) {
        return Err("has a certificate that cannot be parsed");
    }
    Ok(certificates)
}

hide_in_debug! { ClientCertificate }

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    use super::*;

    fn create(name: &str) -> (String, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_after = date_time_ymd(2040, 1, 2);
        (params.self_signed(&key).unwrap().pem(), key)
    }

    fn parse(certificate: &str, key: &str) -> Result<ClientCertificate, FieldError> {
        ClientCertificate::parse(certificate, Zeroizing::new(key.to_owned()))
    }

    #[test]
    fn client_certificate_is_summarized_and_its_key_is_not_printed() {
        let (pem, key) = create("shop");
        let certificate = parse(&pem, &key.serialize_pem()).unwrap();
        let summary = &certificate.summary;
        assert!(summary.subject.contains("CN=shop"), "{}", summary.subject);
        assert_eq!(summary.issuer, summary.subject);
        assert_eq!(summary.sha256.len(), 64);
        assert_eq!(summary.not_after.to_string(), "2040-01-02T00:00:00+00:00");
        assert_eq!(CertificateSummary::from_pem(&pem).as_ref(), Some(summary));
        assert_eq!(format!("{certificate:?}"), "ClientCertificate");
    }

    #[test]
    fn private_key_must_belong_to_the_certificate() {
        let ((pem, key), (_, other_key)) = (create("shop"), create("other"));
        let key = key.serialize_pem();
        let field = |certificate: &str, key: &str| parse(certificate, key).unwrap_err().field;
        assert_eq!(field(&pem, &other_key.serialize_pem()), "private_key_pem");
        assert_eq!(field(&pem, ""), "private_key_pem");
        assert_eq!(field(&pem, &pem), "private_key_pem");
        assert_eq!(field("", &key), "certificate_pem");
        assert_eq!(field(&(pem.clone() + &key), &key), "certificate_pem");
        assert_eq!(field(&pem.repeat(17), &key), "certificate_pem");
        assert_eq!(field(&pem.replace("MII", "MIJ"), &key), "certificate_pem");
    }

    #[test]
    fn authorities_are_certificates_only() {
        let (pem, key) = create("authority");
        let parse = |text: &str| {
            let authorities = AuthorityCertificates::from_text(text.to_owned())?;
            authorities.check().map(|()| authorities)
        };
        assert_eq!(parse(&pem).unwrap().as_pem(), pem);
        let key = key.serialize_pem();
        for text in ["", "text", key.as_str(), (pem.clone() + &key).as_str()] {
            assert!(parse(text).is_err());
        }
    }
}
