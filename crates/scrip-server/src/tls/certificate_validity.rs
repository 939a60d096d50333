//! The period in which a certificate is valid, for warnings before it expires.

use std::{path::Path, time::Duration};

use rustls::pki_types::{CertificateDer, pem::PemObject};
use scrip_core::Timestamp;
use x509_cert::{Certificate, der::Decode};

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
