//! A folder with a vault and the log of its server, and the settings to serve the vault.

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
    process::{start, terminate, wait},
    requests::http_client::{BlockingClient, ClientRequest, ClientResponse},
};

#[derive(Debug)]
pub struct ProcessHarness {
    program: &'static str,
    folder: tempfile::TempDir,
    variables: Vec<(&'static str, String)>,
    /// The limit of file descriptors of the program. The default is the limit of the test process.
    descriptors_max: Option<u32>,
}

impl ProcessHarness {
    pub fn new(program: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("create a folder");
        let data = folder.path().join("data").display().to_string();
        let harness = Self { program, folder, variables: Vec::new(), descriptors_max: None };
        let harness = harness.with_variable("SCRIP_LIMITS_MODE", "off");
        harness
            .with_variable("SCRIP_STORAGE_DATA_DIR", &data)
            .with_variable("SCRIP_SERVER_LISTEN", "127.0.0.1:0")
    }

    /// A folder with a new vault.
    pub fn initialized(program: &'static str) -> Self {
        let harness = Self::new(program);
        let output = harness.run(&["init"]);
        assert!(output.status.success(), "{output:?}");
        harness
    }

    /// A folder with a new vault, and the API key of an application with all permissions.
    pub fn with_api_key(program: &'static str) -> (Self, String) {
        let harness = Self::new(program);
        drop(harness.start(&["dev", "--json"]));
        let keys = fs::read_to_string(harness.data().join("dev-keys.json"))
            .expect("read the development keys");
        let keys: Value = serde_json::from_str(&keys).expect("JSON");
        (harness, keys["keys"]["private"].as_str().expect("a key").to_owned())
    }

    pub fn with_variable(mut self, name: &'static str, value: &str) -> Self {
        self.variables.retain(|(existing_name, _)| *existing_name != name);
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

    /// A command with only the variables of this harness in its environment.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let program = self.program;
        let mut command = match self.descriptors_max {
            None => Command::new(program),
            Some(limit) => {
                let mut shell = Command::new("/bin/sh");
                let limit_script = format!("ulimit -n {limit} && exec \"$0\" \"$@\"");
                shell.args(["-c", &limit_script, program]);
                shell
            }
        };
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env_clear().envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command to its end. A command that does not end in 20 seconds is killed, so that its
    /// status is a failure.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run the command");
        // The outputs are read in the background, because the command blocks when a pipe is full.
        let stdout = read_in_background(child.stdout.take().expect("the output is piped"));
        let stderr = read_in_background(child.stderr.take().expect("the output is piped"));
        if wait(&mut child, Duration::from_secs(20)).is_none() {
            drop(child.kill());
        }
        let status = child.wait().expect("run the command");
        let join_reader =
            |it: JoinHandle<Vec<u8>>| it.join().expect("read the output of the program");
        Output { status, stdout: join_reader(stdout), stderr: join_reader(stderr) }
    }

    /// Runs a command and checks that it fails with this message.
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

    /// Kills a server, and starts another one for the same vault.
    pub fn restart(&self, server: RunningServer) -> RunningServer {
        drop(server);
        self.serve()
    }

    pub fn start(&self, arguments: &[&str]) -> RunningServer {
        let log = File::options().create(true).append(true).open(self.path("log"));
        let mut command = self.command(arguments);
        let (child, stdout, ready_message) =
            start(command.stderr(log.expect("create the log file")));
        let url = ready_message["url"].as_str().unwrap_or_default().to_owned();
        assert!(!url.is_empty(), "the server does not listen: {}", self.log());
        let address = url.split("//").nth(1).and_then(|it| it.parse().ok()).expect("an address");
        let metrics = ready_message["metrics"].as_str().map(str::to_owned);
        let results = ready_message["results"].as_str().map(str::to_owned);
        let reported_url = url.clone();
        let recorder = None;
        let running = RunningServer {
            child,
            url,
            own_url: reported_url,
            metrics,
            results,
            address,
            stdout,
            recorder,
        };
        running.with_recorder()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).expect("read the log")
    }

    /// Waits until the log contains this text.
    #[track_caller]
    pub fn wait_for_log(&self, expected: &str) {
        assert!(becomes_true(|| self.log().contains(expected)), "{expected}: {}", self.log());
    }
}

/// Polls the condition for a time that is long enough for any machine.
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
    /// The URL that the program itself reports.
    pub own_url: String,
    /// The reported metrics URL.
    pub metrics: Option<String>,
    /// The reported URL for results of directory servers.
    pub results: Option<String>,
    pub address: SocketAddr,
    stdout: BufReader<ChildStdout>,
    /// A recording proxy in front of a server without TLS. Clients get its address.
    recorder: Option<Recorder>,
}

/// The demo shop and the metrics are not part of the API.
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

    /// Describes the first response that is not in the document.
    fn find_undocumented_response(&self) -> Option<String> {
        let contract = Contract::new(document(), UNDOCUMENTED);
        let exchanges = self.recorder.as_ref().map(Recorder::exchanges).unwrap_or_default();
        exchanges.iter().find_map(|it| contract.check(it).err())
    }

    /// A request on a connection of its own.
    pub fn request(&self, method: &str, path: &str) -> ClientRequest {
        BlockingClient::default().request(method, format!("{}{path}", self.url))
    }

    #[track_caller]
    pub fn send(&self, method: &str, path: &str) -> ClientResponse {
        self.request(method, path).send()
    }

    pub fn status(&self, path: &str) -> u16 {
        self.send("GET", path).status
    }

    /// Stops the server with SIGTERM, as an operator does.
    #[track_caller]
    pub fn stop(&mut self) {
        terminate(&self.child);
        let status = wait(&mut self.child, Duration::from_secs(20));
        assert_eq!(status.expect("the server ends").code(), Some(0));
    }

    /// Reads the standard output of the program up to its end.
    pub fn remaining_output(&mut self) -> String {
        let mut output = String::new();
        self.stdout.read_to_string(&mut output).expect("read the output of the program");
        output
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if !thread::panicking() {
            assert_eq!(
                self.find_undocumented_response(),
                None,
                "a response is not in the OpenAPI document"
            );
        }
    }
}

fn read_in_background(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    let read_pipe = move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("read the output of the program");
        bytes
    };
    thread::Builder::new().name("output".to_owned()).spawn(read_pipe).expect("start a thread")
}
