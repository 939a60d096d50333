//! nginx, as the reference proxy and as the upstream of both proxies.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

use anyhow::{Context, bail};

use crate::harness::{clock::now, process::Pid};

/// Directories of the program. Debian installs it where only root has it in `PATH`.
const PROGRAM_FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/bin"];

const START_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_PAUSE: Duration = Duration::from_millis(5);

/// The body of every response of the upstream.
pub(crate) const UPSTREAM_BODY: &str = r#"{"id":"charge-1","status":"succeeded","amount":1999}"#;

pub(crate) fn find_nginx() -> Option<PathBuf> {
    PROGRAM_FOLDERS.iter().map(|it| Path::new(it).join("nginx")).find(|it| it.exists())
}

/// An instance with its own configuration. It is stopped when this value is dropped.
#[derive(Debug)]
pub(crate) struct NginxServer {
    child: Child,
    pub(crate) address: SocketAddr,
}

/// The files of a certificate and its key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CertificateFiles<'a> {
    pub(crate) certificate: &'a Path,
    pub(crate) key: &'a Path,
}

impl NginxServer {
    /// Starts a TLS server that responds with fixed bytes.
    pub(crate) fn start_upstream(
        program: &Path,
        folder: &Path,
        files: CertificateFiles<'_>,
    ) -> anyhow::Result<Self> {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        Self::start(program, folder, |port| {
            format!(
                "server {{
                    listen 127.0.0.1:{port} ssl;
                    ssl_certificate {certificate};
                    ssl_certificate_key {key};
                    ssl_protocols TLSv1.2 TLSv1.3;
                    location / {{
                        default_type application/json;
                        return 200 '{UPSTREAM_BODY}';
                    }}
                }}"
            )
        })
    }

    /// Starts a reverse proxy to the upstream: plain HTTP from clients, as the vault in this
    /// benchmark, then TLS with a checked certificate and keep-alive.
    pub(crate) fn start_proxy(
        program: &Path,
        folder: &Path,
        upstream: SocketAddr,
        roots: &Path,
    ) -> anyhow::Result<Self> {
        let roots = roots.display();
        Self::start(program, folder, |port| {
            format!(
                "upstream destination {{
                    server {upstream};
                    keepalive 128;
                    keepalive_requests 1000000000;
                    keepalive_time 24h;
                }}
                server {{
                    listen 127.0.0.1:{port};
                    location / {{
                        proxy_pass https://destination;
                        proxy_http_version 1.1;
                        proxy_set_header Connection '';
                        proxy_set_header Host localhost;
                        proxy_ssl_server_name on;
                        proxy_ssl_name localhost;
                        proxy_ssl_verify on;
                        proxy_ssl_trusted_certificate {roots};
                        proxy_ssl_protocols TLSv1.2 TLSv1.3;
                    }}
                }}"
            )
        })
    }

    fn start(
        program: &Path,
        folder: &Path,
        servers: impl Fn(u16) -> String,
    ) -> anyhow::Result<Self> {
        fs::create_dir(folder)?;
        // The port was free a moment ago. If another process takes it, the start fails.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let configuration = folder.join("nginx.conf");
        fs::write(&configuration, configure(folder, &servers(address.port())))?;
        let mut command = Command::new(program);
        command.arg("-p").arg(folder).arg("-c").arg(&configuration);
        command.arg("-e").arg(folder.join("error.log"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let mut server = Self { child: child.context("nginx cannot be started")?, address };
        let start = now();
        while start.elapsed() < START_TIMEOUT {
            if TcpStream::connect(address).is_ok() {
                return Ok(server);
            }
            if let Some(status) = server.child.try_wait()? {
                bail!("nginx ended with {status}; see the messages above");
            }
            sleep(POLL_PAUSE);
        }
        bail!("nginx does not accept connections")
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

/// The settings that both instances share. Connections are never closed within a measurement.
fn configure(folder: &Path, servers: &str) -> String {
    let folder = folder.display();
    format!(
        "daemon off;
        worker_processes auto;
        worker_rlimit_nofile 4096;
        pid {folder}/nginx.pid;
        error_log {folder}/error.log warn;
        events {{ worker_connections 2048; }}
        http {{
            access_log off;
            keepalive_timeout 1h;
            keepalive_requests 1000000000;
            keepalive_time 24h;
            client_body_temp_path {folder}/client_body;
            proxy_temp_path {folder}/proxy;
            fastcgi_temp_path {folder}/fastcgi;
            uwsgi_temp_path {folder}/uwsgi;
            scgi_temp_path {folder}/scgi;
            {servers}
        }}
        "
    )
}

impl Drop for NginxServer {
    fn drop(&mut self) {
        // The first process ends its workers at this signal, which SIGKILL would leave running.
        let stop = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        if !stop.is_ok_and(|it| it.success()) {
            drop(self.child.kill());
        }
        drop(self.child.wait());
    }
}
