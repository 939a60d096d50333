//! A vault on a cluster, its nodes, and a client that fails over between them.

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
        prometheus::ParsedMetricsPage,
    },
    requests::http_client::BlockingClient,
};
use serde_json::{Value, json};

use crate::report::RunReport;

/// Polls the condition for a time that is long enough for any machine.
pub(crate) fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    (0..12_000).any(|attempt| {
        if attempt > 0 {
            sleep(Duration::from_millis(10));
        }
        condition()
    })
}

/// A reveal rule, so that clients can compare the data they read with the data they wrote.
const RULE: &str = r#"{"container": "/", "transform": "reveal", "permissions":
    ["token:create", "token:read", "token:update", "token:delete", "token:search"]}"#;

/// Two nodes. Either of them may be stopped.
pub(crate) struct TwoNodeVault {
    pub(crate) cluster: Cluster,
    folder: tempfile::TempDir,
    /// Variables of the nodes and commands.
    settings: &'static [(&'static str, &'static str)],
    nodes: [Option<ServerProcess>; 2],
    pub(crate) nodes_access: NodeAccess,
}

/// The data that a client has: an API key and the last addresses of the nodes.
#[derive(Clone)]
pub(crate) struct NodeAccess {
    api_key: String,
    accesses: Arc<Mutex<[Option<ServerAddress>; 2]>>,
}

impl TwoNodeVault {
    /// Creates a vault with a tenant, an application with all permissions, and both nodes.
    pub(crate) fn create(cluster: Cluster) -> Self {
        Self::create_with_settings(cluster, &[])
    }

    /// Like `create`, with more variables.
    pub(crate) fn create_with_settings(
        cluster: Cluster,
        settings: &'static [(&'static str, &'static str)],
    ) -> Self {
        let folder = tempfile::tempdir().expect("create a temporary folder");
        let nodes_access = NodeAccess { api_key: String::new(), accesses: Arc::default() };
        let mut vault = Self { cluster, folder, settings, nodes: [None, None], nodes_access };
        fs::create_dir(vault.node_folder(1)).expect("create a folder");
        vault.run(&["init"]);
        // The nodes share only the database and the root key.
        let key = |node: usize| vault.node_folder(node).join("root.key");
        fs::copy(key(0), key(1)).expect("copy the root key");
        vault.run(&["tenant", "create", "Acme", "--type", "test"]);
        let permissions = ["--permission", "token-intent:create", "--rule", RULE];
        vault.nodes_access.api_key = vault.create_application("private", &permissions);
        vault.start(0);
        vault.start(1);
        vault
    }

    pub(crate) fn node_folder(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("node-{node}"))
    }

    /// Builds a command with a clean environment.
    fn command(&self, node: usize) -> Command {
        let mut command = Command::new(crate::SCRIP);
        command.env_clear().env("SCRIP_STORAGE_URL", self.cluster.url());
        command.env("SCRIP_STORAGE_DATA_DIR", self.node_folder(node));
        command.env("SCRIP_SERVER_LISTEN", "127.0.0.1:0").env("SCRIP_LIMITS_MODE", "off");
        command.env("SCRIP_METRICS_LISTEN", "127.0.0.1:0");
        // The receiver of a webhook is on this machine.
        command.env("SCRIP_PROXY_LOOPBACK_HTTP", "true");
        // The setting is not true: each node can only return the CVCs that it sealed. These tests
        // do not compare CVCs.
        command.env("SCRIP_STORAGE_SINGLE_NODE", "true");
        command.envs(self.settings.iter().copied());
        command.current_dir(self.folder.path());
        command
    }

    /// Runs a command, which must succeed, and returns its output.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(0).args(arguments).output().expect("run scrip");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8 text")
    }

    /// Creates an application and returns its API key.
    fn create_application(&self, kind: &str, permissions: &[&str]) -> String {
        let arguments =
            ["application", "create", "--tenant", "Acme", "--name", kind, "--type", kind];
        let output = self.run(&[&arguments[..], permissions, &["--json"]].concat());
        let output: Value = serde_json::from_str(&output).expect("JSON");
        output["key"].as_str().expect("a key").to_owned()
    }

    /// Creates a webhook that both nodes know.
    pub(crate) fn create_webhook(&mut self, url: &str, events: &[&str]) {
        let key = self.create_application("management", &["--permission", "webhook:create"]);
        // A node that starts loads the new application and the new webhook.
        self.restart(0);
        let address = self.nodes_access.node(0).expect("the node runs").address;
        let body = json!({ "name": "Receiver", "url": url, "events": events });
        let request = BlockingClient::default().post(format!("http://{address}/webhooks"));
        drop(request.api_key(&key).json(&body).send().expect_status(201));
        self.restart(1);
    }

    /// Whether a node has finished an attempt to deliver an event since its start.
    pub(crate) fn has_delivered(&self, node: usize) -> bool {
        let Some(server) = &self.nodes[node] else { return false };
        let url = server.server_address.ready_message["metrics"].as_str().expect("a metrics URL");
        let page = BlockingClient::default().get(url).send().expect_status(200).text();
        let page = ParsedMetricsPage::parse(&page);
        page.value("scrip_webhook_attempts_total", &[("outcome", "delivered")]) > 0.0
    }

    /// Runs `scrip audit verify`, which checks every record.
    pub(crate) fn is_audit_chain_valid(&self) -> bool {
        let verified = self.command(0).args(["audit", "verify", "--json"]).output();
        verified.expect("run scrip").status.success()
    }

    /// Starts a node and waits until it is ready.
    pub(crate) fn start(&mut self, node: usize) {
        let mut command = self.command(node);
        let log = fs::File::create(self.node_folder(node).with_extension("log")).expect("a file");
        command.args(["serve", "--json"]).stderr(Stdio::from(log));
        let server = ServerProcess::start(&mut command);
        let address = self.nodes_access.access_for(&server);
        let is_ready = eventually(|| request_status(&address, "GET /readyz") == Some(200));
        assert!(is_ready, "the node does not become ready");
        self.nodes_access.set_node(node, Some(address));
        self.nodes[node] = Some(server);
    }

    fn restart(&mut self, node: usize) {
        self.kill(node);
        self.start(node);
    }

    pub(crate) fn kill(&mut self, node: usize) {
        self.nodes_access.set_node(node, None);
        drop(self.nodes[node].take());
    }

    /// Stops the process of a node, as a suspended machine does. The kernel still accepts connections
    /// for it.
    pub(crate) fn suspend(&self, node: usize) {
        self.signal(node, "-STOP");
    }

    pub(crate) fn resume(&self, node: usize) {
        self.signal(node, "-CONT");
    }

    fn signal(&self, node: usize, signal: &str) {
        let server = self.nodes[node].as_ref().expect("the node runs");
        let status = Command::new("kill").args([signal, &server.child.id().to_string()]).status();
        assert!(status.expect("run kill").success());
    }

    /// Returns whether the process of the node still runs.
    pub(crate) fn is_running(&mut self, node: usize) -> bool {
        let server = self.nodes[node].as_mut();
        server.is_some_and(|it| it.child.try_wait().is_ok_and(|exit_status| exit_status.is_none()))
    }
}

impl NodeAccess {
    fn access_for(&self, server: &ServerProcess) -> ServerAddress {
        let ready_message = json!({ "keys": { "private": self.api_key } });
        ServerAddress { address: server.server_address.address, ready_message }
    }

    fn set_node(&self, node: usize, address: Option<ServerAddress>) {
        self.accesses.lock().expect("no thread panicked")[node] = address;
    }

    pub(crate) fn node(&self, node: usize) -> Option<ServerAddress> {
        self.accesses.lock().expect("no thread panicked")[node].clone()
    }
}

/// Returns the status of the response, if there is one.
pub(crate) fn request_status(address: &ServerAddress, line: &str) -> Option<u16> {
    let response = HttpClient::connect(address).and_then(|mut it| it.send(line, &[], ""));
    response.ok().map(|it| it.status)
}

/// A client that switches to the other node after a failure, until it knows the outcome.
pub(crate) struct RetryingClient<'a> {
    nodes: &'a NodeAccess,
    node: usize,
    client: Option<HttpClient>,
    conflicts: ConflictHandling,
    pub(crate) report: RunReport,
}

/// The meaning of a 409.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConflictHandling {
    /// An earlier attempt with the same idempotency key is still running.
    Retry,
    /// A definite response.
    Return,
}

/// A definite response, and whether an earlier attempt had an unknown outcome.
pub(crate) struct FinalResponse {
    pub(crate) response: HttpResponse,
    pub(crate) had_unknown_outcome: bool,
}

impl<'a> RetryingClient<'a> {
    pub(crate) fn new(nodes: &'a NodeAccess, node: usize) -> Self {
        Self::with_conflicts(nodes, node, ConflictHandling::Retry)
    }

    pub(crate) fn with_conflicts(
        nodes: &'a NodeAccess,
        node: usize,
        conflicts: ConflictHandling,
    ) -> Self {
        Self { nodes, node: node % 2, client: None, conflicts, report: RunReport::default() }
    }

    /// Sends the same bytes until a definite response, as a safe retry does.
    pub(crate) fn send_with_retries(
        &mut self,
        line: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> FinalResponse {
        let (mut definite_response, mut is_unsure) = (None, false);
        let has_responded = eventually(|| {
            match self.client().map(|it| it.send(line, headers, body)) {
                Some(Ok(response))
                    if response.status == 409 && self.conflicts == ConflictHandling::Retry =>
                {
                    self.report.add("in flight");
                }
                Some(Ok(response)) if response.status == 503 => {
                    is_unsure = true;
                    self.switch_node("503");
                }
                Some(Ok(response)) => definite_response = Some(response),
                Some(Err(_)) => {
                    is_unsure = true;
                    self.switch_node("broken");
                }
                None => self.switch_node("not reachable"),
            }
            definite_response.is_some()
        });
        assert!(has_responded, "no response to {line}: {:?}", self.report);
        self.report.add("responses");
        FinalResponse {
            response: definite_response.expect("a definite response"),
            had_unknown_outcome: is_unsure,
        }
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
