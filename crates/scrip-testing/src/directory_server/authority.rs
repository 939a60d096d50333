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

pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
    name: String,
}

/// A certificate and its key, in files.
#[derive(Debug, Clone)]
pub struct Issued {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    /// Its files are in that folder, and begin with its name.
    pub fn new(folder: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(DnType::CommonName, format!("{name} root"));
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let made = Self { issuer, folder: folder.to_owned(), name: name.to_owned() };
        fs::write(made.roots(), made.issuer.pem()).unwrap();
        made
    }

    pub fn roots(&self) -> PathBuf {
        self.folder.join(format!("{}-roots.pem", self.name))
    }

    /// For whoever has these names.
    pub fn issue(&self, whose: &str, names: &[&str]) -> Issued {
        let names: Vec<_> = names.iter().map(|it| (*it).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, whose);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = |kind| self.folder.join(format!("{}-{whose}-{kind}.pem", self.name));
        let issued = Issued { certificate: file("certificate"), key: file("key") };
        fs::write(&issued.certificate, certificate.pem()).unwrap();
        fs::write(&issued.key, key.serialize_pem()).unwrap();
        fs::set_permissions(&issued.key, fs::Permissions::from_mode(0o600)).unwrap();
        issued
    }

    fn store(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        Arc::new(roots)
    }

    /// A server that this authority vouches for, and that wants the same of its clients.
    pub fn server(&self, names: &[&str]) -> Arc<ServerConfig> {
        let (chain, key) = self.issue("server", names).read();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(self.store(), Arc::clone(&provider));
        let config = ServerConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_client_cert_verifier(verifier.build().unwrap());
        Arc::new(config.with_single_cert(chain, key).unwrap())
    }

    /// A client that believes this authority, and shows this certificate or none.
    pub fn client(&self, shown: Option<&Issued>) -> Arc<ClientConfig> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(self.store());
        Arc::new(match shown.map(Issued::read) {
            Some((chain, key)) => config.with_client_auth_cert(chain, key).unwrap(),
            None => config.with_no_client_auth(),
        })
    }
}

impl Issued {
    fn read(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let chain = CertificateDer::pem_file_iter(&self.certificate).unwrap();
        let chain = chain.collect::<Result<_, _>>().unwrap();
        (chain, PrivateKeyDer::from_pem_file(&self.key).unwrap())
    }
}
