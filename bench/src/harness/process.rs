//! The processes under measurement: starting, ending, and what the kernel says of them.

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
}

/// A child that is ended when this value is dropped.
#[derive(Debug)]
pub(crate) struct BenchServer {
    child: Child,
    pub(crate) address: SocketAddr,
    /// The key of the private application; the bare server has none and looks at none.
    pub(crate) api_key: String,
    /// Of an application for browsers.
    pub(crate) public_key: String,
    /// The id of the tenant that these keys belong to.
    pub(crate) tenant: String,
    /// Where the operator asks, if that is elsewhere.
    pub(crate) metrics: Option<SocketAddr>,
}

impl BenchServer {
    pub(crate) fn start_bare() -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("bare").stdin(Stdio::piped());
        Self::spawn(command)
    }

    pub(crate) fn start_scrip(program: &Path, folder: &Path) -> anyhow::Result<Self> {
        Self::start_scrip_with_read_log(program, folder, "durable")
    }

    /// With reads recorded, or not.
    pub(crate) fn start_scrip_with_read_log(
        program: &Path,
        folder: &Path,
        read_log_mode: &str,
    ) -> anyhow::Result<Self> {
        let mut command = scrip_command(program, folder, 0);
        // Kept, because writing the log is part of the work.
        command.stderr(fs::File::create(folder.with_extension("log"))?);
        command.env("SCRIP_AUDIT_READS", read_log_mode);
        Self::spawn(command)
    }

    /// A node of a vault that `init` has made, with the settings of its environment.
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
            serde_json::from_str(&line).context("a server did not say that it is ready")?;
        let url = ready.get("url").and_then(|it| it.as_str()).context("no url")?;
        server.address = url.strip_prefix("http://").unwrap_or(url).parse()?;
        if let Some(key) = ready.pointer("/keys/private").and_then(|it| it.as_str()) {
            key.clone_into(&mut server.api_key);
        }
        if let Some(key) = ready.pointer("/keys/public").and_then(|it| it.as_str()) {
            key.clone_into(&mut server.public_key);
        }
        if let Some(tenant) = ready.get("tenant_id").and_then(|it| it.as_str()) {
            tenant.clone_into(&mut server.tenant);
        }
        let metrics = ready.get("metrics").and_then(|it| it.as_str());
        let metrics = metrics.and_then(|it| it.strip_prefix("http://")?.strip_suffix("/metrics"));
        server.metrics = metrics.map(str::parse).transpose()?;
        Ok(server)
    }

    fn new(child: Child, address: SocketAddr) -> Self {
        let none = || "none".to_owned();
        let (api_key, public_key, tenant) = (none(), none(), none());
        Self { child, address, api_key, public_key, tenant, metrics: None }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    /// Asks it to finish, as an operator would, and waits until it has.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        if asked.is_ok_and(|it| it.success()) {
            let status = self.child.wait()?;
            ensure!(status.success(), "a server ended with {status}");
        }
        Ok(())
    }
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        // Already ended is what was wanted.
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

/// The program stands beside this one, wherever the target folder is.
pub(crate) fn find_scrip() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("scrip");
    if !path.exists() {
        bail!("{} is missing; build it with `cargo build --release -p scrip`", path.display());
    }
    Ok(path)
}

/// From the start of the process to its first answer, on a folder that already has data.
pub(crate) fn measure_cold_start(program: &Path, folder: &Path) -> anyhow::Result<Duration> {
    const START_TIMEOUT: Duration = Duration::from_secs(10);
    // Free a moment ago; should another take it, the run ends with an error and no wrong figure.
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let mut command = scrip_command(program, folder, address.port());
    let start = now();
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let server = BenchServer::new(child, address);
    while start.elapsed() < START_TIMEOUT {
        if is_healthy(address).unwrap_or(false) {
            let taken = start.elapsed();
            server.stop()?;
            return Ok(taken);
        }
        sleep(Duration::from_millis(1));
    }
    bail!("no answer within {START_TIMEOUT:?}")
}

fn is_healthy(address: SocketAddr) -> anyhow::Result<bool> {
    let mut stream = TcpStream::connect(address)?;
    // A socket that picks the wanted port as its own reaches itself while nobody listens.
    if stream.local_addr()? == address {
        return Ok(false);
    }
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: bench\r\n\r\n")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.starts_with("HTTP/1.1 200"))
}

/// Processor time so far, of all threads, in the program and in the kernel for it.
pub(crate) fn cpu_time(pid: Pid) -> anyhow::Result<Duration> {
    /// Linux shows ticks of 10 ms to programs on every common machine.
    const TICK: Duration = Duration::from_millis(10);
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.0))?;
    // The name in parentheses may hold anything; fields are counted from behind it.
    let (_, fields) = stat.rsplit_once(") ").context("/proc/PID/stat is not as expected")?;
    let mut ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u32>);
    let (user, system) = (ticks.next().context("utime")??, ticks.next().context("stime")??);
    Ok(TICK.saturating_mul(user.saturating_add(system)))
}

/// Memory that is the process's own: not the files it maps.
pub(crate) fn anonymous_mb(pid: Pid) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.0))?;
    let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:")).context("RssAnon")?;
    let kib: u32 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(f64::from(kib) * 1024.0 / 1e6)
}
