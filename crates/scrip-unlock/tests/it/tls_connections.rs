//! TLS: the certificate of a source is verified with the authorities of the system or of a file.

use std::{fs, sync::Arc};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use scrip_unlock::{Transit, TransitSettings, UnlockSource};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    support::{assert_error, context, vault_key},
    transit,
};

fn create_authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A server with a certificate for this name. It answers every request with 503.
async fn start_server(authority: &CertifiedIssuer<'_, KeyPair>, name: &str) -> u16 {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut buffer = vec![0; 65_536];
                if stream.read(&mut buffer).await.is_ok_and(|it| it > 0) {
                    let answer = b"HTTP/1.1 503 Unavailable\r\ncontent-length: 0\r\n\r\n";
                    stream.write_all(answer).await.unwrap();
                }
            });
        }
    });
    port
}

fn source(address: &str, ca_pem: Option<&str>, folder: &TempDir) -> Transit {
    let ca_file = ca_pem.map(|pem| {
        let path = folder.path().join("ca.pem");
        fs::write(&path, pem).unwrap();
        path
    });
    Transit::new(TransitSettings { ca_file, ..transit::settings(address) }).unwrap()
}

#[tokio::test]
async fn certificate_is_verified_with_the_ca_file() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, other_authority) = (create_authority(), create_authority());
    let address = format!("https://localhost:{}", start_server(&authority, "localhost").await);
    let trusted = authority.pem();
    let other = other_authority.pem();
    for (ca_pem, expected) in [
        (Some(trusted.as_str()), "the server answered 503"),
        (Some(other.as_str()), "not issued by a trusted authority"),
        (None, "not issued by a trusted authority"),
    ] {
        let source = source(&address, ca_pem, &folder);
        let result = source.wrap(&context(Transit::KIND), &vault_key()).await;
        assert_error(result, "Unavailable", &[expected]);
    }
}

#[tokio::test]
async fn certificate_of_another_name_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let authority = create_authority();
    let port = start_server(&authority, "other.example").await;
    let source = source(&format!("https://localhost:{port}"), Some(&authority.pem()), &folder);
    let result = source.wrap(&context(Transit::KIND), &vault_key()).await;
    assert_error(result, "Unavailable", &["not valid for this name"]);
}

#[tokio::test]
async fn ca_file_without_certificates_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    for text in ["", "text", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        fs::write(&path, text).unwrap();
        let settings = TransitSettings {
            ca_file: Some(path.clone()),
            ..transit::settings("https://localhost")
        };
        assert_error(Transit::new(settings), "Settings", &["must have certificates in PEM"]);
    }
}
