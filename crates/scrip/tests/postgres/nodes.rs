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
        client::{Access, Answer, Client},
    },
};
use serde_json::{Value, json};

use crate::tally::Tally;

/// Whether it comes true within a time that is long for any machine.
pub(crate) fn eventually(mut what: impl FnMut() -> bool) -> bool {
    (0..12_000).any(|at| {
        if at > 0 {
            sleep(Duration::from_millis(10));
        }
        what()
    })
}

/// What is read has to be seen, to be compared with what was written.
const RULE: &str = r#"{"container": "/", "transform": "reveal", "permissions":
    ["token:create", "token:read", "token:update", "token:delete"]}"#;

/// Two nodes, of which either may be gone.
pub(crate) struct Vault {
    pub(crate) cluster: Cluster,
    folder: tempfile::TempDir,
    nodes: [Option<ServerProcess>; 2],
    pub(crate) door: Door,
}

/// All that a client knows: an API key, and where the nodes were last.
#[derive(Clone)]
pub(crate) struct Door {
    api_key: String,
    accesses: Arc<Mutex<[Option<Access>; 2]>>,
}

impl Vault {
    /// With a tenant, an application that may do all it can, and both nodes.
    pub(crate) fn found(cluster: Cluster) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let door = Door { api_key: String::new(), accesses: Arc::default() };
        let mut vault = Self { cluster, folder, nodes: [None, None], door };
        fs::create_dir(vault.home(1)).expect("a folder");
        vault.run(&["init"]);
        // The nodes share nothing but the database and this.
        let key = |node: usize| vault.home(node).join("root.key");
        fs::copy(key(0), key(1)).expect("a root key");
        vault.run(&["tenant", "create", "Acme"]);
        let create = ["application", "create", "--tenant", "Acme", "--name", "A"];
        let rights = ["--type", "private", "--permission", "token-intent:create", "--rule", RULE];
        let said = vault.run(&[&create[..], &rights, &["--json"]].concat());
        let said: Value = serde_json::from_str(&said).expect("JSON");
        said["key"].as_str().expect("a key").clone_into(&mut vault.door.api_key);
        vault.start(0);
        vault.start(1);
        vault
    }

    fn home(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("node-{node}"))
    }

    /// With nothing of our own environment that could change it.
    fn command(&self, node: usize) -> Command {
        let mut command = Command::new(crate::SCRIP);
        command.env_clear().env("SCRIP_STORAGE_URL", self.cluster.url());
        command.env("SCRIP_STORAGE_DATA_DIR", self.home(node));
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
    pub(crate) fn is_trail_whole(&self) -> bool {
        let verified = self.command(0).args(["audit", "verify", "--json"]).output();
        verified.expect("scrip runs").status.success()
    }

    /// Waits until it is ready.
    pub(crate) fn start(&mut self, node: usize) {
        let mut command = self.command(node);
        let log = fs::File::create(self.home(node).with_extension("log")).expect("a file");
        command.args(["serve", "--json"]).stderr(Stdio::from(log));
        let server = ServerProcess::start(&mut command);
        let access = self.door.access(&server);
        let ready = eventually(|| status(&access, "GET /readyz") == Some(200));
        assert!(ready, "a node does not get ready");
        self.door.put(node, Some(access));
        self.nodes[node] = Some(server);
    }

    pub(crate) fn kill(&mut self, node: usize) {
        self.door.put(node, None);
        drop(self.nodes[node].take());
    }

    /// Whether it still is the process that was started.
    pub(crate) fn is_running(&mut self, node: usize) -> bool {
        let server = self.nodes[node].as_mut();
        server.is_some_and(|it| it.child.try_wait().is_ok_and(|ended| ended.is_none()))
    }
}

impl Door {
    fn access(&self, server: &ServerProcess) -> Access {
        let hello = json!({ "keys": { "private": self.api_key } });
        Access { address: server.access.address, hello }
    }

    fn put(&self, node: usize, access: Option<Access>) {
        self.accesses.lock().expect("nobody panics with it")[node] = access;
    }

    pub(crate) fn node(&self, node: usize) -> Option<Access> {
        self.accesses.lock().expect("nobody panics with it")[node].clone()
    }
}

/// The status of an answer, if there is one.
pub(crate) fn status(access: &Access, line: &str) -> Option<u16> {
    let answer = Client::connect(access).and_then(|mut it| it.ask(line, &[], ""));
    answer.ok().map(|it| it.status)
}

/// A client that asks the next node when one fails it, until somebody knows.
pub(crate) struct Patron<'a> {
    door: &'a Door,
    node: usize,
    client: Option<Client>,
    pub(crate) tally: Tally,
}

/// An answer that is one, and whether it took more than one attempt whose outcome nobody knows.
pub(crate) struct Definite {
    pub(crate) answer: Answer,
    pub(crate) unsure: bool,
}

impl<'a> Patron<'a> {
    pub(crate) fn new(door: &'a Door, node: usize) -> Self {
        Self { door, node: node % 2, client: None, tally: Tally::default() }
    }

    /// The same bytes again and again, as safe retries are made.
    pub(crate) fn insist(&mut self, line: &str, headers: &[(&str, &str)], body: &str) -> Definite {
        let (mut definite, mut unsure) = (None, false);
        let came = eventually(|| {
            match self.client().map(|it| it.ask(line, headers, body)) {
                Some(Ok(answer)) if answer.status == 409 => self.tally.add("in flight"),
                Some(Ok(answer)) if answer.status == 503 => {
                    unsure = true;
                    self.move_on("503");
                }
                Some(Ok(answer)) => definite = Some(answer),
                Some(Err(_)) => {
                    unsure = true;
                    self.move_on("broken");
                }
                None => self.move_on("nobody"),
            }
            definite.is_some()
        });
        assert!(came, "no answer to {line}: {:?}", self.tally);
        self.tally.add("answers");
        Definite { answer: definite.expect("it came"), unsure }
    }

    fn client(&mut self) -> Option<&mut Client> {
        if self.client.is_none() {
            self.client = Client::connect(&self.door.node(self.node)?).ok();
        }
        self.client.as_mut()
    }

    pub(crate) fn move_on(&mut self, why: &'static str) {
        self.tally.add(why);
        self.client = None;
        self.node = 1 - self.node;
    }
}
