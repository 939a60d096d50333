//! Certificates, a runtime and the configuration of one connected scheme.

use std::{sync::Arc, time::Duration};

use rustls::ServerConfig;
use scrip_core::{
    threeds::{DirectoryServerError, DirectoryServers, SchemeConnection, ThreeDsSettings},
    types::TenantKind,
};
use scrip_server::directory_servers::{
    DirectoryServersSettings, ExchangeTimeouts, HttpDirectoryServers, MutualTlsSettings,
    SchemeClientSettings,
    address::{LoopbackUrl, SecureUrl},
};
use scrip_testing::directory_server::{
    DirectoryServer, ServerBehavior,
    authority::{CertificateAuthority, IssuedCertificate},
};
use scrip_threeds::code::Scheme;
use tokio::runtime::Runtime;
use zeroize::Zeroizing;

pub(crate) const SERVER_NAMES: &[&str] = &["127.0.0.1"];

pub(crate) struct SchemeHarness {
    pub(crate) runtime: Runtime,
    /// The certificate authority of the scheme. `other` is an unrelated authority.
    pub(crate) visa: CertificateAuthority,
    pub(crate) other: CertificateAuthority,
    pub(crate) ours: IssuedCertificate,
    _folder: tempfile::TempDir,
}

impl SchemeHarness {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let visa = CertificateAuthority::new(folder.path(), "visa");
        let ours = visa.issue("ours", &["vault.example"]);
        let other = CertificateAuthority::new(folder.path(), "other");
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        Self { runtime, visa, other, ours, _folder: folder }
    }

    /// Starts a directory server with a certificate of the scheme.
    pub(crate) fn server(&self, behaviors: &[ServerBehavior]) -> DirectoryServer {
        self.server_with(self.visa.server_config(SERVER_NAMES), behaviors)
    }

    pub(crate) fn server_with(
        &self,
        config: Arc<ServerConfig>,
        behaviors: &[ServerBehavior],
    ) -> DirectoryServer {
        DirectoryServer::start(self.runtime.handle(), Some(config), behaviors)
    }

    pub(crate) fn transport_plan(&self, urls: &[String]) -> MutualTlsSettings {
        MutualTlsSettings {
            section: "threeds.production.visa".to_owned(),
            urls: urls.iter().map(|it| SecureUrl::parse(it).unwrap()).collect(),
            client_certificate: self.ours.certificate.clone(),
            client_key: self.ours.key.clone(),
            roots: self.visa.roots_file(),
        }
    }

    /// Returns directory servers with Visa connected for production tenants through this transport.
    pub(crate) fn connect(&self, transport: MutualTlsSettings) -> HttpDirectoryServers {
        self.connect_with(transport, empty_plan().timeouts)
    }

    pub(crate) fn connect_with(
        &self,
        transport: MutualTlsSettings,
        timeouts: ExchangeTimeouts,
    ) -> HttpDirectoryServers {
        let production = vec![visa_plan(transport)];
        let settings = DirectoryServersSettings { production, timeouts, ..empty_plan() };
        HttpDirectoryServers::new(&settings).unwrap()
    }

    /// Starts a server with these responses, and connects to it.
    pub(crate) fn connect_to(
        &self,
        behaviors: &[ServerBehavior],
    ) -> (DirectoryServer, HttpDirectoryServers) {
        let server = self.server(behaviors);
        let servers = self.connect(self.transport_plan(&[server.url()]));
        (server, servers)
    }

    pub(crate) fn send(
        &self,
        servers: &HttpDirectoryServers,
    ) -> Result<Vec<u8>, DirectoryServerError> {
        self.send_for(servers, TenantKind::Production, Scheme::Visa)
    }

    pub(crate) fn send_for(
        &self,
        servers: &HttpDirectoryServers,
        kind: TenantKind,
        scheme: Scheme,
    ) -> Result<Vec<u8>, DirectoryServerError> {
        let message = Zeroizing::new(MESSAGE.to_vec());
        let response = self.runtime.block_on(servers.send_message(kind, scheme, message));
        response.map(|it| it.to_vec())
    }
}

pub(crate) const SHORT_RESPONSE_TIMEOUT: ExchangeTimeouts =
    ExchangeTimeouts { connect: Duration::from_secs(30), response: Duration::from_millis(300) };

pub(crate) const MESSAGE: &[u8] = br#"{"messageType":"AReq","acctNumber":"4242424242424242"}"#;

pub(crate) fn visa_plan(transport: MutualTlsSettings) -> SchemeClientSettings {
    let connection = SchemeConnection {
        reference_number: "3DS_LOA_SER_TEST_020200_00001".to_owned(),
        operator_id: Some("operator-7".to_owned()),
        results_url: "https://results.example".to_owned(),
    };
    SchemeClientSettings { scheme: Scheme::Visa, transport, connection }
}

/// Returns a plan without connections. Its deadlines are long enough for a slow machine.
pub(crate) fn empty_plan() -> DirectoryServersSettings {
    let timeout = Duration::from_secs(30);
    DirectoryServersSettings {
        threeds: ThreeDsSettings {
            public_url: "https://vault.example".to_owned(),
            ..ThreeDsSettings::default()
        },
        timeouts: ExchangeTimeouts { connect: timeout, response: timeout },
        production: Vec::new(),
        test: Vec::new(),
        simulator: None,
    }
}

pub(crate) fn simulator_url(server: &DirectoryServer) -> LoopbackUrl {
    LoopbackUrl::parse(&format!("http://{}", server.address)).unwrap()
}
