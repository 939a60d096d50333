//! Certificates of a scheme: its own authority, and whom that vouches for.

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
    /// Its files are in that folder, and begin with its name.
    pub fn new(folder: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(DnType::CommonName, format!("{name} root"));
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let created = Self { issuer, folder: folder.to_owned(), name: name.to_owned() };
        fs::write(created.roots_file(), created.issuer.pem()).unwrap();
        created
    }

    pub fn roots_file(&self) -> PathBuf {
        self.folder.join(format!("{}-roots.pem", self.name))
    }

    /// For whoever has these names.
    pub fn issue(&self, common_name: &str, names: &[&str]) -> IssuedCertificate {
        let names: Vec<_> = names.iter().map(|it| (*it).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = |kind| self.folder.join(format!("{}-{common_name}-{kind}.pem", self.name));
        let issued = IssuedCertificate { certificate: file("certificate"), key: file("key") };
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

    /// A server that this authority vouches for, and that wants the same of its clients.
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

    /// A client that believes this authority, and shows this certificate or none.
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
