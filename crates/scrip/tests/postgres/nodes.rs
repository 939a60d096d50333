//! A vault on a cluster, the nodes that serve it, and a client that goes from one to another.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread::sleep,
    time::Duration,
};

use scrip_testing::{
    postgres::cluster::Cluster,
    process::{
        ServerProcess,
        client::{HttpClient, HttpResponse, ServerAddress},
    },
};
use serde_json::{Value, json};

use crate::report::RunReport;

/// Whether it comes true within a time that is long for any machine.
pub(crate) fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    (0..12_000).any(|at| {
        if at > 0 {
            sleep(Duration::from_millis(10));
        }
        condition()
    })
}

/// What is read has to be seen, to be compared with what was written.
const RULE: &str = r#"{"container": "/", "transform": "reveal", "permissions":
    ["token:create", "token:read", "token:update", "token:delete"]}"#;

/// Two nodes, of which either may be gone.
pub(crate) struct TwoNodeVault {
    pub(crate) cluster: Cluster,
    folder: tempfile::TempDir,
    nodes: [Option<ServerProcess>; 2],
    pub(crate) nodes_access: NodeAccess,
}

/// All that a client knows: an API key, and where the nodes were last.
#[derive(Clone)]
pub(crate) struct NodeAccess {
    api_key: String,
    accesses: Arc<Mutex<[Option<ServerAddress>; 2]>>,
}

impl TwoNodeVault {
    /// With a tenant, an application that may do all it can, and both nodes.
    pub(crate) fn create(cluster: Cluster) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let door = NodeAccess { api_key: String::new(), accesses: Arc::default() };
        let mut vault = Self { cluster, folder, nodes: [None, None], nodes_access: door };
        fs::create_dir(vault.node_folder(1)).expect("a folder");
        vault.run(&["init"]);
        // The nodes share nothing but the database and this.
        let key = |node: usize| vault.node_folder(node).join("root.key");
        fs::copy(key(0), key(1)).expect("a root key");
        vault.run(&["tenant", "create", "Acme"]);
        let create = ["application", "create", "--tenant", "Acme", "--name", "A"];
        let rights = ["--type", "private", "--permission", "token-intent:create", "--rule", RULE];
        let output = vault.run(&[&create[..], &rights, &["--json"]].concat());
        let output: Value = serde_json::from_str(&output).expect("JSON");
        output["key"].as_str().expect("a key").clone_into(&mut vault.nodes_access.api_key);
        vault.start(0);
        vault.start(1);
        vault
    }

    fn node_folder(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("node-{node}"))
    }

    /// With nothing of our own environment that could change it.
    fn command(&self, node: usize) -> Command {
        let mut command = Command::new(crate::SCRIP);
        command.env_clear().env("SCRIP_STORAGE_URL", self.cluster.url());
        command.env("SCRIP_STORAGE_DATA_DIR", self.node_folder(node));
        command.env("SCRIP_SERVER_LISTEN", "127.0.0.1:0").env("SCRIP_LIMITS_MODE", "off");
        // A lie: each shows only the codes that it sealed itself. They are not what is proven here.
        command.env("SCRIP_STORAGE_ONLY_NODE", "true");
        command.current_dir(self.folder.path());
        command
    }

    /// A command that must succeed, and what it says.
    fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(0).args(arguments).output().expect("scrip runs");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// By the program as shipped, which goes through every record.
    pub(crate) fn is_audit_chain_valid(&self) -> bool {
        let verified = self.command(0).args(["audit", "verify", "--json"]).output();
        verified.expect("scrip runs").status.success()
    }

    /// Waits until it is ready.
    pub(crate) fn start(&mut self, node: usize) {
        let mut command = self.command(node);
        let log = fs::File::create(self.node_folder(node).with_extension("log")).expect("a file");
        command.args(["serve", "--json"]).stderr(Stdio::from(log));
        let server = ServerProcess::start(&mut command);
        let access = self.nodes_access.access_for(&server);
        let ready = eventually(|| request_status(&access, "GET /readyz") == Some(200));
        assert!(ready, "a node does not get ready");
        self.nodes_access.set_node(node, Some(access));
        self.nodes[node] = Some(server);
    }

    pub(crate) fn kill(&mut self, node: usize) {
        self.nodes_access.set_node(node, None);
        drop(self.nodes[node].take());
    }

    /// Whether it still is the process that was started.
    pub(crate) fn is_running(&mut self, node: usize) -> bool {
        let server = self.nodes[node].as_mut();
        server.is_some_and(|it| it.child.try_wait().is_ok_and(|ended| ended.is_none()))
    }
}

impl NodeAccess {
    fn access_for(&self, server: &ServerProcess) -> ServerAddress {
        let hello = json!({ "keys": { "private": self.api_key } });
        ServerAddress { address: server.server_address.address, ready_message: hello }
    }

    fn set_node(&self, node: usize, access: Option<ServerAddress>) {
        self.accesses.lock().expect("nobody panics with it")[node] = access;
    }

    pub(crate) fn node(&self, node: usize) -> Option<ServerAddress> {
        self.accesses.lock().expect("nobody panics with it")[node].clone()
    }
}

/// The status of an answer, if there is one.
pub(crate) fn request_status(access: &ServerAddress, line: &str) -> Option<u16> {
    let response = HttpClient::connect(access).and_then(|mut it| it.send(line, &[], ""));
    response.ok().map(|it| it.status)
}

/// A client that asks the next node when one fails it, until somebody knows.
pub(crate) struct RetryingClient<'a> {
    nodes: &'a NodeAccess,
    node: usize,
    client: Option<HttpClient>,
    pub(crate) report: RunReport,
}

/// An answer that is one, and whether it took more than one attempt whose outcome nobody knows.
pub(crate) struct FinalResponse {
    pub(crate) response: HttpResponse,
    pub(crate) had_unknown_outcome: bool,
}

impl<'a> RetryingClient<'a> {
    pub(crate) fn new(nodes: &'a NodeAccess, node: usize) -> Self {
        Self { nodes, node: node % 2, client: None, report: RunReport::default() }
    }

    /// The same bytes again and again, as safe retries are made.
    pub(crate) fn send_with_retries(
        &mut self,
        line: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> FinalResponse {
        let (mut definite, mut unsure) = (None, false);
        let came = eventually(|| {
            match self.client().map(|it| it.send(line, headers, body)) {
                Some(Ok(response)) if response.status == 409 => self.report.add("in flight"),
                Some(Ok(response)) if response.status == 503 => {
                    unsure = true;
                    self.switch_node("503");
                }
                Some(Ok(response)) => definite = Some(response),
                Some(Err(_)) => {
                    unsure = true;
                    self.switch_node("broken");
                }
                None => self.switch_node("nobody"),
            }
            definite.is_some()
        });
        assert!(came, "no answer to {line}: {:?}", self.report);
        self.report.add("answers");
        FinalResponse { response: definite.expect("it came"), had_unknown_outcome: unsure }
    }

    fn client(&mut self) -> Option<&mut HttpClient> {
        if self.client.is_none() {
            self.client = HttpClient::connect(&self.nodes.node(self.node)?).ok();
        }
        self.client.as_mut()
    }

    pub(crate) fn switch_node(&mut self, reason: &'static str) {
        self.report.add(reason);
        self.client = None;
        self.node = 1 - self.node;
    }
}
