//! The certificates of destinations: a certificate authority, the certificates it issues, and
//! certificates that a client must reject.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::WebPkiClientVerifier,
    version::{TLS12, TLS13},
};

/// The certificate of a host, and how its handshake goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostTls {
    /// A valid certificate of the authority.
    Trusted,
    /// A certificate of the authority for another name.
    OtherName,
    /// A certificate of an authority that no client trusts.
    UnknownAuthority,
    /// A certificate that expired long ago.
    Expired,
    /// A valid certificate, and the host requires a client certificate of the authority.
    ClientCertificate,
    /// A valid certificate and TLS 1.2 at most.
    Tls12,
    /// No handshake: plain text.
    Garbage,
    /// No handshake: the connection closes.
    Close,
}

/// The HTTP versions that a host offers in the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HttpVersions {
    Http1,
    Http2,
}

type Issuer = CertifiedIssuer<'static, KeyPair>;

pub struct DestinationAuthority {
    issuer: Issuer,
    unknown_issuer: Issuer,
    configs: Mutex<HashMap<String, Arc<ServerConfig>>>,
}

/// A certificate chain and its key as PEM text.
#[derive(Debug, Clone)]
pub struct PemCertificate {
    pub certificate: String,
    pub key: String,
    pub der: Vec<u8>,
}

impl DestinationAuthority {
    pub(super) fn new() -> Self {
        let (issuer, unknown_issuer) = (new_issuer("destination"), new_issuer("unknown"));
        Self { issuer, unknown_issuer, configs: Mutex::default() }
    }

    /// The root certificate as PEM text.
    pub fn root_pem(&self) -> String {
        self.issuer.pem()
    }

    /// The root certificate that no host uses, except the hosts with an unknown authority.
    pub fn unknown_root_pem(&self) -> String {
        self.unknown_issuer.pem()
    }

    /// Issues a client certificate that the hosts accept.
    pub fn issue_client_certificate(&self, common_name: &str) -> PemCertificate {
        let (certificate, key) = issue(&self.issuer, common_name, &[], |_| ());
        let der = certificate.der().to_vec();
        PemCertificate { certificate: certificate.pem(), key: key.serialize_pem(), der }
    }

    /// The configuration of a host, `None` if its handshake does not happen.
    pub(super) fn server_config(
        &self,
        name: &str,
        tls: HostTls,
        versions: HttpVersions,
    ) -> Option<Arc<ServerConfig>> {
        let mut configs = self.configs.lock().unwrap();
        if let Some(config) = configs.get(name) {
            return Some(Arc::clone(config));
        }
        let (certificate, key) = match tls {
            HostTls::Trusted | HostTls::ClientCertificate | HostTls::Tls12 => {
                issue(&self.issuer, name, &[name], |_| ())
            }
            HostTls::OtherName => issue(&self.issuer, name, &["other.destination.test"], |_| ()),
            HostTls::UnknownAuthority => issue(&self.unknown_issuer, name, &[name], |_| ()),
            HostTls::Expired => issue(&self.issuer, name, &[name], |params| {
                params.not_before = date_time_ymd(2001, 1, 1);
                params.not_after = date_time_ymd(2002, 1, 1);
            }),
            HostTls::Garbage | HostTls::Close => return None,
        };
        let config = Arc::new(self.build_config(tls, versions, &certificate, &key));
        configs.insert(name.to_owned(), Arc::clone(&config));
        Some(config)
    }

    fn build_config(
        &self,
        tls: HostTls,
        versions: HttpVersions,
        certificate: &rcgen::Certificate,
        key: &KeyPair,
    ) -> ServerConfig {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let protocols = if tls == HostTls::Tls12 { vec![&TLS12] } else { vec![&TLS12, &TLS13] };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_protocol_versions(&protocols).unwrap();
        let builder = if tls == HostTls::ClientCertificate {
            let mut roots = RootCertStore::empty();
            roots.add(self.issuer.der().clone()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = match versions {
            HttpVersions::Http1 => vec![b"http/1.1".to_vec()],
            HttpVersions::Http2 => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        };
        config
    }
}

fn new_issuer(name: &str) -> Issuer {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params.distinguished_name.push(DnType::CommonName, format!("{name} root"));
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn issue(
    issuer: &Issuer,
    common_name: &str,
    names: &[&str],
    change: impl FnOnce(&mut CertificateParams),
) -> (rcgen::Certificate, KeyPair) {
    let names: Vec<_> = names.iter().map(|it| (*it).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, issuer).unwrap(), key)
}
