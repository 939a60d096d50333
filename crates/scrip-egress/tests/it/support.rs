//! Certificates, resolvers and clients for the tests.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use hyper::{Request, Response};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::{
    RootCertStore, ServerConfig, SupportedProtocolVersion,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
    version::{TLS12, TLS13},
};
use scrip_egress::{
    AllowList, ConnectionScope, Destination, EgressBody, EgressClient, EgressSettings,
    LookupFuture, Resolve, SendError, TrustedRoots,
};
use tokio::time::Instant;

/// The name of the peer in most tests.
pub(crate) const PEER_NAME: &str = "peer.example";

pub(crate) const SCOPE: ConnectionScope = ConnectionScope { tenant: [1; 16], part: [1; 16] };

pub(crate) fn scope(tenant: u8, part: u8) -> ConnectionScope {
    ConnectionScope { tenant: [tenant; 16], part: [part; 16] }
}

/// Long enough for a busy machine.
pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// A resolver with a table of names. Each lookup of a name takes the next row of its addresses; the
/// last one stays.
#[derive(Debug, Default)]
pub(crate) struct TableResolver {
    names: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    pub(crate) lookups: AtomicUsize,
}

impl TableResolver {
    pub(crate) fn new(rows: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let parse = |row: &&[&str]| row.iter().map(|it| it.parse().unwrap()).collect();
        let rows = rows.iter().map(|(name, rows)| {
            ((*name).to_owned(), rows.iter().map(parse).collect::<Vec<Vec<IpAddr>>>())
        });
        Arc::new(Self { names: Mutex::new(rows.collect()), lookups: AtomicUsize::new(0) })
    }

    /// Every name has this address.
    pub(crate) fn loopback() -> Arc<LoopbackResolver> {
        Arc::new(LoopbackResolver)
    }
}

impl Resolve for TableResolver {
    fn lookup<'a>(&'a self, name: &'a str) -> LookupFuture<'a> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        let mut names = self.names.lock().unwrap();
        let addresses = names.get_mut(name).map(|rows| {
            if rows.len() > 1 { rows.remove(0) } else { rows.first().cloned().unwrap() }
        });
        Box::pin(async { addresses.ok_or_else(|| io::ErrorKind::NotFound.into()) })
    }
}

#[derive(Debug)]
pub(crate) struct LoopbackResolver;

impl Resolve for LoopbackResolver {
    fn lookup<'a>(&'a self, _name: &'a str) -> LookupFuture<'a> {
        Box::pin(async { Ok(vec![Ipv4Addr::LOCALHOST.into()]) })
    }
}

/// A certificate authority of a test.
pub(crate) struct TestAuthority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
pub(crate) struct TestCertificate {
    pub(crate) chain_pem: String,
    pub(crate) key_pem: String,
}

impl TestAuthority {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(DnType::CommonName, format!("test root {number}"));
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    pub(crate) fn roots(&self) -> TrustedRoots {
        TrustedRoots::from_pem(&self.pem()).unwrap()
    }

    pub(crate) fn issue(&self, names: &[&str]) -> TestCertificate {
        self.issue_until(names, 2100)
    }

    pub(crate) fn issue_until(&self, names: &[&str], year: i32) -> TestCertificate {
        let names: Vec<_> = names.iter().map(|it| (*it).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        TestCertificate { chain_pem: certificate.pem(), key_pem: key.serialize_pem() }
    }

    pub(crate) fn server_config(&self) -> ServerConfig {
        server_config(&self.issue(&[PEER_NAME]), None, &[&TLS13, &TLS12])
    }

    /// A server that requires a certificate of this authority.
    pub(crate) fn mutual_server_config(
        &self,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ServerConfig {
        server_config(&self.issue(&[PEER_NAME]), Some(self), versions)
    }
}

pub(crate) fn server_config(
    certificate: &TestCertificate,
    client_authority: Option<&TestAuthority>,
    versions: &[&'static SupportedProtocolVersion],
) -> ServerConfig {
    let chain = CertificateDer::pem_slice_iter(certificate.chain_pem.as_bytes());
    let chain = chain.collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(certificate.key_pem.as_bytes()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let config = config.with_protocol_versions(versions).unwrap();
    let config = match client_authority {
        None => config.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority.issuer.der().clone()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            config.with_client_cert_verifier(verifier.unwrap())
        }
    };
    config.with_single_cert(chain, key).unwrap()
}

/// Settings with which every name is a permitted name of this machine, on this port.
pub(crate) fn permissive_settings(port: u16, roots: TrustedRoots) -> EgressSettings {
    let mut settings = EgressSettings::new(roots);
    settings.allow_list = AllowList::parse(["*", "127.0.0.0/8"]).unwrap();
    settings.allowed_ports = vec![port];
    settings.resolver = TableResolver::loopback();
    settings
}

pub(crate) fn client(settings: EgressSettings) -> EgressClient {
    EgressClient::new(settings).unwrap()
}

/// The URL of a path of the peer.
pub(crate) fn peer_url(port: u16, path: &str) -> Destination {
    Destination::parse(&format!("https://{PEER_NAME}:{port}{path}")).unwrap()
}

pub(crate) fn post(body: &'static str) -> Request<Bytes> {
    Request::post("/ignored").body(Bytes::from_static(body.as_bytes())).unwrap()
}

pub(crate) fn get() -> Request<Bytes> {
    Request::get("/ignored").body(Bytes::new()).unwrap()
}

/// Sends in the default scope.
pub(crate) async fn send(
    client: &EgressClient,
    destination: &Destination,
    request: Request<Bytes>,
) -> Result<Response<EgressBody>, SendError> {
    client.send(destination, SCOPE, None, request, soon()).await
}

/// Reads a response as text.
pub(crate) async fn text(response: Response<EgressBody>) -> String {
    let bytes = response.into_body().collect(1 << 20).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}
