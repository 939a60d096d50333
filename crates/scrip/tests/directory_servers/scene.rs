//! A folder with certificates, a runtime, and what connects a scheme.

use std::{sync::Arc, time::Duration};

use rustls::ServerConfig;
use scrip_core::{
    policy::TenantKind,
    threeds::{DirectoryServers, Link, Terms, Unanswered},
};
use scrip_server::directory_servers::{
    Plan, SchemePlan, SecuredPlan, Servers, Timing,
    address::{LoopbackUrl, SecureUrl},
};
use scrip_testing::directory_server::{
    DirectoryServer, Manner,
    authority::{Authority, Issued},
};
use scrip_threeds::code::Scheme;
use tokio::runtime::Runtime;
use zeroize::Zeroizing;

pub(crate) const NAMES: &[&str] = &["127.0.0.1"];

pub(crate) struct SchemeHarness {
    pub(crate) runtime: Runtime,
    /// Of the scheme, and of somebody else.
    pub(crate) visa: Authority,
    pub(crate) other: Authority,
    pub(crate) ours: Issued,
    _folder: tempfile::TempDir,
}

impl SchemeHarness {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let visa = Authority::new(folder.path(), "visa");
        let ours = visa.issue("ours", &["vault.example"]);
        let other = Authority::new(folder.path(), "other");
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        Self { runtime, visa, other, ours, _folder: folder }
    }

    /// A directory server of the scheme.
    pub(crate) fn server(&self, manners: &[Manner]) -> DirectoryServer {
        self.server_with(self.visa.server(NAMES), manners)
    }

    pub(crate) fn server_with(
        &self,
        config: Arc<ServerConfig>,
        manners: &[Manner],
    ) -> DirectoryServer {
        DirectoryServer::start(self.runtime.handle(), Some(config), manners)
    }

    pub(crate) fn way(&self, urls: &[String]) -> SecuredPlan {
        SecuredPlan {
            section: "threeds.production.visa".to_owned(),
            urls: urls.iter().map(|it| SecureUrl::parse(it).unwrap()).collect(),
            client_certificate: self.ours.certificate.clone(),
            client_key: self.ours.key.clone(),
            roots: self.visa.roots(),
        }
    }

    /// Visa for production tenants, by that way.
    pub(crate) fn connect(&self, way: SecuredPlan) -> Servers {
        Servers::new(&Plan { production: vec![visa(way)], ..nobody() }).unwrap()
    }

    pub(crate) fn ask(&self, servers: &Servers) -> Result<Vec<u8>, Unanswered> {
        self.ask_for(servers, TenantKind::Production, Scheme::Visa)
    }

    pub(crate) fn ask_for(
        &self,
        servers: &Servers,
        kind: TenantKind,
        scheme: Scheme,
    ) -> Result<Vec<u8>, Unanswered> {
        self.runtime.block_on(servers.ask(kind, scheme, Zeroizing::new(QUESTION.to_vec())))
    }
}

pub(crate) const QUESTION: &[u8] = br#"{"messageType":"AReq","acctNumber":"4242424242424242"}"#;

pub(crate) fn visa(way: SecuredPlan) -> SchemePlan {
    let link = Link {
        reference_number: "3DS_LOA_SER_TEST_020200_00001".to_owned(),
        operator_id: Some("operator-7".to_owned()),
        results_url: "https://results.example".to_owned(),
    };
    SchemePlan { scheme: Scheme::Visa, way, link }
}

/// A plan that connects nobody. Its deadlines are such that no machine is too slow for them.
pub(crate) fn nobody() -> Plan {
    let patience = Duration::from_secs(30);
    Plan {
        terms: Terms { public_url: "https://vault.example".to_owned(), ..Terms::default() },
        timing: Timing { connect: patience, answer: patience },
        production: Vec::new(),
        test: Vec::new(),
        simulator: None,
    }
}

pub(crate) fn simulated(server: &DirectoryServer) -> LoopbackUrl {
    LoopbackUrl::parse(&format!("http://{}", server.address)).unwrap()
}
