//! Certificates of a scheme: its certificate authority and the certificates it issues.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};

pub struct CertificateAuthority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
    name: String,
}

/// A certificate and its key, in files.
#[derive(Debug, Clone)]
pub struct IssuedCertificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl CertificateAuthority {
    /// Creates an authority with files in this folder. The file names begin with `name`.
    pub fn new(folder: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(DnType::CommonName, format!("{name} root"));
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let authority = Self { issuer, folder: folder.to_owned(), name: name.to_owned() };
        fs::write(authority.roots_file(), authority.issuer.pem()).unwrap();
        authority
    }

    pub fn roots_file(&self) -> PathBuf {
        self.folder.join(format!("{}-roots.pem", self.name))
    }

    /// Issues a certificate for these names.
    pub fn issue(&self, common_name: &str, names: &[&str]) -> IssuedCertificate {
        let names: Vec<_> = names.iter().map(|it| (*it).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file_path = |kind| self.folder.join(format!("{}-{common_name}-{kind}.pem", self.name));
        let issued =
            IssuedCertificate { certificate: file_path("certificate"), key: file_path("key") };
        fs::write(&issued.certificate, certificate.pem()).unwrap();
        fs::write(&issued.key, key.serialize_pem()).unwrap();
        fs::set_permissions(&issued.key, fs::Permissions::from_mode(0o600)).unwrap();
        issued
    }

    fn root_store(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        Arc::new(roots)
    }

    /// The configuration of a server with a certificate of this authority. The server requires
    /// client certificates of the same authority.
    pub fn server_config(&self, names: &[&str]) -> Arc<ServerConfig> {
        let (chain, key) = self.issue("server", names).read();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(self.root_store(), Arc::clone(&provider));
        let config = ServerConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_client_cert_verifier(verifier.build().unwrap());
        Arc::new(config.with_single_cert(chain, key).unwrap())
    }

    /// The configuration of a client that trusts this authority and presents this certificate or
    /// none.
    pub fn client_config(
        &self,
        client_certificate: Option<&IssuedCertificate>,
    ) -> Arc<ClientConfig> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(self.root_store());
        Arc::new(match client_certificate.map(IssuedCertificate::read) {
            Some((chain, key)) => config.with_client_auth_cert(chain, key).unwrap(),
            None => config.with_no_client_auth(),
        })
    }
}

impl IssuedCertificate {
    fn read(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let chain = CertificateDer::pem_file_iter(&self.certificate).unwrap();
        let chain = chain.collect::<Result<_, _>>().unwrap();
        (chain, PrivateKeyDer::from_pem_file(&self.key).unwrap())
    }
}
