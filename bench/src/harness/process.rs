//! The measured processes: start, stop and kernel statistics.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

use anyhow::{Context, bail, ensure};

use crate::harness::clock::now;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Pid(u32);

impl Pid {
    pub(crate) fn own() -> Self {
        Self(std::process::id())
    }

    pub(crate) fn from_child(child: &Child) -> Self {
        Self(child.id())
    }
}

/// A child process that is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct BenchServer {
    child: Child,
    pub(crate) address: SocketAddr,
    /// The key of the private application. The bare server ignores keys.
    pub(crate) api_key: String,
    /// The key of the public application.
    pub(crate) public_key: String,
    /// The key of the management application.
    pub(crate) management_key: String,
    /// The id of the tenant that these keys belong to.
    pub(crate) tenant: String,
    /// The address of the metrics listener, if there is one.
    pub(crate) metrics: Option<SocketAddr>,
    /// The URL of a provider that repeats requests, if the server runs one.
    pub(crate) provider: Option<String>,
}

impl BenchServer {
    pub(crate) fn start_bare() -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("bare-server").stdin(Stdio::piped());
        Self::spawn(command)
    }

    pub(crate) fn start_scrip(program: &Path, folder: &Path) -> anyhow::Result<Self> {
        Self::start_scrip_with_read_log(program, folder, "durable")
    }

    /// Starts the program with this mode of the read log.
    pub(crate) fn start_scrip_with_read_log(
        program: &Path,
        folder: &Path,
        read_log_mode: &str,
    ) -> anyhow::Result<Self> {
        let settings = [("SCRIP_AUDIT_READS", read_log_mode)];
        Self::start_scrip_with_settings(program, folder, &settings)
    }

    /// Starts the program with these settings in its environment.
    pub(crate) fn start_scrip_with_settings(
        program: &Path,
        folder: &Path,
        settings: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let mut command = scrip_command(program, folder, 0);
        // The log is written to a file, because logging is part of the work.
        command.stderr(fs::File::create(folder.with_extension("log"))?);
        command.envs(settings.iter().copied());
        Self::spawn(command)
    }

    /// Starts a node of a vault that `init` created, with the settings of its environment.
    pub(crate) fn start_node(mut command: Command, log: &Path) -> anyhow::Result<Self> {
        command.args(["serve", "--json"]).stderr(fs::File::create(log)?);
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> anyhow::Result<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take();
        let mut server = Self::new(child, (Ipv4Addr::LOCALHOST, 0).into());
        let mut line = String::new();
        BufReader::new(stdout.context("no output")?).read_line(&mut line)?;
        let ready: serde_json::Value =
            serde_json::from_str(&line).context("a server did not report that it is ready")?;
        let url = ready.get("url").and_then(|it| it.as_str()).context("no url")?;
        server.address = url.strip_prefix("http://").unwrap_or(url).parse()?;
        if let Some(key) = ready.pointer("/keys/private").and_then(|it| it.as_str()) {
            key.clone_into(&mut server.api_key);
        }
        if let Some(key) = ready.pointer("/keys/public").and_then(|it| it.as_str()) {
            key.clone_into(&mut server.public_key);
        }
        if let Some(key) = ready.pointer("/keys/management").and_then(|it| it.as_str()) {
            key.clone_into(&mut server.management_key);
        }
        if let Some(tenant) = ready.get("tenant_id").and_then(|it| it.as_str()) {
            tenant.clone_into(&mut server.tenant);
        }
        let metrics = ready.get("metrics").and_then(|it| it.as_str());
        let metrics = metrics.and_then(|it| it.strip_prefix("http://")?.strip_suffix("/metrics"));
        server.metrics = metrics.map(str::parse).transpose()?;
        server.provider = ready.get("provider").and_then(|it| it.as_str()).map(str::to_owned);
        Ok(server)
    }

    fn new(child: Child, address: SocketAddr) -> Self {
        let no_value = || "none".to_owned();
        Self {
            child,
            address,
            api_key: no_value(),
            public_key: no_value(),
            management_key: no_value(),
            tenant: no_value(),
            metrics: None,
            provider: None,
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Stops the server with SIGTERM and waits until it has ended.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        let kill_status =
            Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        if kill_status.is_ok_and(|it| it.success()) {
            let status = self.child.wait()?;
            ensure!(status.success(), "a server ended with {status}");
        }
        Ok(())
    }
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        // The process may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn scrip_command(program: &Path, folder: &Path, port: u16) -> Command {
    let mut command = Command::new(program);
    command.arg("dev").arg("--data-dir").arg(folder);
    command.arg("--listen").arg(format!("127.0.0.1:{port}"));
    command.args(["--json", "--rate-limits", "off"]);
    command
}

/// Finds the program, which is in the same folder as the benchmark.
pub(crate) fn find_scrip() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("scrip");
    if !path.exists() {
        bail!("{} is missing; build it with `cargo build --profile dist -p scrip`", path.display());
    }
    Ok(path)
}

/// The command of a measured start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartCommand {
    Dev,
    /// Requires a vault.
    Serve,
}

/// A probe of the server: whether the process responds, or whether it is ready for requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    Healthz,
    Readyz,
}

impl Probe {
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Healthz => "/healthz",
            Self::Readyz => "/readyz",
        }
    }
}

/// Measures the time from the start of the process to the first response with status 200.
pub(crate) fn measure_start(
    program: &Path,
    folder: &Path,
    start_command: StartCommand,
    probe: Probe,
) -> anyhow::Result<Duration> {
    const START_TIMEOUT: Duration = Duration::from_secs(10);
    const POLL_PAUSE: Duration = Duration::from_micros(200);
    // The port was free a moment ago. If another process takes it, the run ends with an error and
    // not with a wrong result.
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let mut command = match start_command {
        StartCommand::Dev => scrip_command(program, folder, address.port()),
        StartCommand::Serve => serve_command(program, folder, address),
    };
    let start = now();
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let server = BenchServer::new(child, address);
    while start.elapsed() < START_TIMEOUT {
        if responds_ok(address, probe).unwrap_or(false) {
            let duration = start.elapsed();
            server.stop()?;
            return Ok(duration);
        }
        sleep(POLL_PAUSE);
    }
    bail!("no response within {START_TIMEOUT:?}")
}

fn serve_command(program: &Path, folder: &Path, address: SocketAddr) -> Command {
    let mut command = Command::new(program);
    command.arg("serve").current_dir(folder);
    command.env("SCRIP_STORAGE_DATA_DIR", folder);
    command.env("SCRIP_SERVER_LISTEN", address.to_string());
    command.env("SCRIP_SERVER_PLAIN_HTTP", "true");
    command
}

fn responds_ok(address: SocketAddr, probe: Probe) -> anyhow::Result<bool> {
    let mut stream = TcpStream::connect(address)?;
    // A socket with the wanted port as its local port connects to itself while no server listens.
    if stream.local_addr()? == address {
        return Ok(false);
    }
    let path = probe.path();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.starts_with("HTTP/1.1 200"))
}

/// The processor time of a process and its children so far, in user space and in the kernel.
pub(crate) fn cpu_time(pid: Pid) -> anyhow::Result<Duration> {
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", pid.0));
    let children = children.unwrap_or_default();
    let mut total = own_cpu_time(pid)?;
    for child in children.split_whitespace() {
        // A child may have ended since.
        total += own_cpu_time(Pid(child.parse()?)).unwrap_or_default();
    }
    Ok(total)
}

/// The processor time of all threads of a process.
pub(crate) fn own_cpu_time(pid: Pid) -> anyhow::Result<Duration> {
    /// Linux reports ticks of 10 ms on every common machine.
    const TICK: Duration = Duration::from_millis(10);
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.0))?;
    // The name in parentheses may contain any character, so fields are counted after it.
    let (_, fields) = stat.rsplit_once(") ").context("/proc/PID/stat is not as expected")?;
    let mut ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u32>);
    let (user, system) = (ticks.next().context("utime")??, ticks.next().context("stime")??);
    Ok(TICK.saturating_mul(user.saturating_add(system)))
}

/// Anonymous memory of the process, without mapped files.
pub(crate) fn anonymous_mb(pid: Pid) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.0))?;
    let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:")).context("RssAnon")?;
    let kib: u32 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(f64::from(kib) * 1024.0 / 1e6)
}

/// Raises the limit of file descriptors. If this is not permitted, there are fewer sockets.
pub(crate) fn raise_descriptor_limit() {
    /// For all connections of every measurement, and some more.
    const DESCRIPTORS_MAX: usize = 8192;
    let mut command = Command::new("prlimit");
    command.args(["--pid", &std::process::id().to_string()]);
    command.arg(format!("--nofile={DESCRIPTORS_MAX}"));
    drop(command.stdout(Stdio::null()).stderr(Stdio::null()).status());
}
