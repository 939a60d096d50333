//! A folder with a vault, the settings to serve it, and what it logs.

use std::{
    fs::{self, File},
    io::{BufReader, Read},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, ChildStdout, Command, Output, Stdio},
    thread::{self, JoinHandle, sleep},
    time::Duration,
};

use serde_json::Value;

use crate::{
    contract::{
        Contract, document,
        recorder::{Recorder, RecorderListener},
    },
    process::{start, wait},
};

#[derive(Debug)]
pub struct ProcessHarness {
    program: &'static str,
    folder: tempfile::TempDir,
    variables: Vec<(&'static str, String)>,
    /// How many files the program may have open; what the tests may, unless it is set.
    descriptors_max: Option<u32>,
}

impl ProcessHarness {
    pub fn new(program: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data").display().to_string();
        let harness = Self { program, folder, variables: Vec::new(), descriptors_max: None };
        let harness = harness.with_variable("SCRIP_LIMITS_MODE", "off");
        harness
            .with_variable("SCRIP_STORAGE_DATA_DIR", &data)
            .with_variable("SCRIP_SERVER_LISTEN", "127.0.0.1:0")
    }

    /// With a vault in it.
    pub fn initialized(program: &'static str) -> Self {
        let harness = Self::new(program);
        let output = harness.run(&["init"]);
        assert!(output.status.success(), "{output:?}");
        harness
    }

    /// With a vault in it, and the API key of an application that may do everything.
    pub fn with_api_key(program: &'static str) -> (Self, String) {
        let harness = Self::new(program);
        drop(harness.start(&["dev", "--json"]));
        let keys = fs::read_to_string(harness.data().join("dev-keys.json")).expect("keys");
        let keys: Value = serde_json::from_str(&keys).expect("JSON");
        (harness, keys["keys"]["private"].as_str().expect("a key").to_owned())
    }

    pub fn with_variable(mut self, name: &'static str, value: &str) -> Self {
        self.variables.retain(|(known, _)| *known != name);
        self.variables.push((name, value.to_owned()));
        self
    }

    pub fn with_descriptors(mut self, limit: u32) -> Self {
        self.descriptors_max = Some(limit);
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// The program, with nothing of our own environment that could change it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let program = self.program;
        let mut command = match self.descriptors_max {
            None => Command::new(program),
            Some(limit) => {
                let mut shell = Command::new("/bin/sh");
                let limited = format!("ulimit -n {limit} && exec \"$0\" \"$@\"");
                shell.args(["-c", &limited, program]);
                shell
            }
        };
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env_clear().envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// A run that ends by itself; one that does not is ended, and has then failed.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        // Read beside it: a pipe holds only so much, and it would wait for somebody to read.
        let stdout = read_in_background(child.stdout.take().expect("it was piped"));
        let stderr = read_in_background(child.stderr.take().expect("it was piped"));
        if wait(&mut child, Duration::from_secs(20)).is_none() {
            drop(child.kill());
        }
        let status = child.wait().expect("it ran");
        let whole = |it: JoinHandle<Vec<u8>>| it.join().expect("its output can be read");
        Output { status, stdout: whole(stdout), stderr: whole(stderr) }
    }

    /// A run that must fail, and what it says.
    #[track_caller]
    pub fn assert_fails(&self, arguments: &[&str], expected: &str) {
        let output = self.run(arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(expected), "{message}");
    }

    pub fn serve(&self) -> RunningServer {
        self.start(&["serve", "--json"])
    }

    pub fn start(&self, arguments: &[&str]) -> RunningServer {
        let log = File::options().create(true).append(true).open(self.path("log"));
        let mut command = self.command(arguments);
        let (child, stdout, hello) = start(command.stderr(log.expect("a file for the log")));
        let url = hello["url"].as_str().unwrap_or_default().to_owned();
        assert!(!url.is_empty(), "it does not listen: {}", self.log());
        let address = url.split("//").nth(1).and_then(|it| it.parse().ok()).expect("an address");
        let metrics = hello["metrics"].as_str().map(str::to_owned);
        let results = hello["results"].as_str().map(str::to_owned);
        let own_url = url.clone();
        let recorder = None;
        let running =
            RunningServer { child, url, own_url, metrics, results, address, stdout, recorder };
        running.with_recorder()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).expect("the log reads")
    }

    /// Waits until the log has that text.
    #[track_caller]
    pub fn wait_for_log(&self, expected: &str) {
        assert!(becomes_true(|| self.log().contains(expected)), "{expected}: {}", self.log());
    }
}

/// Whether it comes true within a time that is long for any machine.
pub fn becomes_true(mut condition: impl FnMut() -> bool) -> bool {
    (0..750).any(|_| {
        sleep(Duration::from_millis(20));
        condition()
    })
}

#[derive(Debug)]
pub struct RunningServer {
    pub child: Child,
    pub url: String,
    /// The URL that the program itself says.
    pub own_url: String,
    /// Where it says its metrics are.
    pub metrics: Option<String>,
    /// Where it says that directory servers come with results.
    pub results: Option<String>,
    pub address: SocketAddr,
    stdout: BufReader<ChildStdout>,
    /// Before a server without TLS, which clients are told the address of.
    recorder: Option<Recorder>,
}

/// The demo shop and the metrics are not part of the interface.
const UNDOCUMENTED: &[&str] = &["/demo", "/metrics"];

impl RunningServer {
    fn with_recorder(mut self) -> Self {
        if self.url.starts_with("http://") {
            let recorder = RecorderListener::new().forward(self.address);
            self.address = recorder.address;
            self.url = format!("http://{}", self.address);
            self.recorder = Some(recorder);
        }
        self
    }

    /// The first response that the document does not have.
    fn find_undocumented_response(&self) -> Option<String> {
        let contract = Contract::new(document(), UNDOCUMENTED);
        let exchanges = self.recorder.as_ref().map(Recorder::exchanges).unwrap_or_default();
        exchanges.iter().find_map(|it| contract.check(it).err())
    }

    pub fn send(&self, method: &str, path: &str) -> ResponseSummary {
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        let agent: ureq::Agent = config.into();
        let url = format!("{}{path}", self.url);
        let request = ureq::http::Request::builder().method(method).uri(url).body(());
        let response = agent.run(request.expect("a request")).expect("an answer");
        let header = |name| response.headers().get(name).and_then(|it| it.to_str().ok());
        let kind = header("content-type").unwrap_or_default().to_owned();
        let retry_after = header("retry-after").map(str::to_owned);
        ResponseSummary { status: response.status().as_u16(), content_type: kind, retry_after }
    }

    pub fn status(&self, path: &str) -> u16 {
        self.send("GET", path).status
    }

    /// What else it wrote to standard output, up to its end.
    pub fn remaining_output(&mut self) -> String {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("it reads");
        rest
    }
}

#[derive(Debug)]
pub struct ResponseSummary {
    pub status: u16,
    pub content_type: String,
    pub retry_after: Option<String>,
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if !thread::panicking() {
            assert_eq!(
                self.find_undocumented_response(),
                None,
                "each response is in the OpenAPI document"
            );
        }
    }
}

fn read_in_background(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    let read = move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("its output can be read");
        bytes
    };
    thread::Builder::new().name("output".to_owned()).spawn(read).expect("a thread")
}
