//! Rate limits of the real program: the default, the settings, and counters shared through a Redis
//! with TLS and a password.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    process::{Child, Command, Stdio},
};

use scrip_testing::process::harness::{ProcessHarness, becomes_true};

use crate::network::tls_client::create_certificate;

/// Counts the requests without a key that are accepted before one is rejected.
fn count_accepted(server: &scrip_testing::process::harness::RunningServer) -> usize {
    let statuses = (0..5).map(|_| server.status("/permissions"));
    statuses.take_while(|it| *it == 401).count()
}

#[test]
fn rate_limits_are_on_by_default() {
    let process = ProcessHarness::initialized(crate::SCRIP)
        .with_variable("SCRIP_LIMITS_ADDRESS", "3/1h block 1h");
    let unlimited_server = process.serve();
    process.wait_for_log("the vault is open");
    assert_eq!(count_accepted(&unlimited_server), 5);
    drop(unlimited_server);
    fs::remove_file(process.path("log")).unwrap();
    // An empty variable is equal to an absent one.
    let process = process.with_variable("SCRIP_LIMITS_MODE", "");
    let limited_server = process.serve();
    process.wait_for_log("the vault is open");
    assert_eq!(count_accepted(&limited_server), 3);
    let rejected_response = limited_server.send("GET", "/permissions");
    assert_eq!(rejected_response.status, 429);
    assert_eq!(rejected_response.header("content-type"), Some("application/problem+json"));
    let seconds: u64 = rejected_response.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=3601).contains(&seconds), "{seconds}");
    assert_eq!(limited_server.status("/healthz"), 200);
}

#[test]
fn dev_has_rate_limits_only_with_a_flag_or_variable() {
    let process = ProcessHarness::new(crate::SCRIP)
        .with_variable("SCRIP_LIMITS_MODE", "")
        .with_variable("SCRIP_LIMITS_ADDRESS", "3/1h block 1h");
    assert_eq!(count_accepted(&process.start(&["dev", "--json"])), 5);
    assert_eq!(count_accepted(&process.start(&["dev", "--json", "--rate-limits", "on"])), 3);
    let process = process.with_variable("SCRIP_LIMITS_MODE", "on");
    assert_eq!(count_accepted(&process.start(&["dev", "--json"])), 3);
    assert_eq!(count_accepted(&process.start(&["dev", "--json", "--rate-limits", "off"])), 5);
    let output = process.run(&["dev", "--help"]);
    assert!(String::from_utf8(output.stdout).unwrap().contains("--rate-limits"));
}

/// Redis with TLS and a password on its own port.
struct TlsRedis(Child, u16);

impl Drop for TlsRedis {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl TlsRedis {
    fn start(process: &ProcessHarness) -> Self {
        for _ in 0..20 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut command = Command::new("redis-server");
            command.args(["--port", "0", "--bind", "127.0.0.1", "--save", ""]);
            command.args(["--tls-port", &port.to_string(), "--requirepass", "open sesame"]);
            command.args(["--tls-auth-clients", "no", "--dir"]).arg(process.path(""));
            command.arg("--tls-cert-file").arg(process.path("cert.pem"));
            command.arg("--tls-key-file").arg(process.path("key.pem"));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut redis =
                Self(command.spawn().expect("start redis-server (./test installs it)"), port);
            let has_ended_or_listens = becomes_true(|| {
                redis.0.try_wait().unwrap().is_some()
                    || TcpStream::connect(("127.0.0.1", port)).is_ok()
            });
            // Another process may have taken the port.
            if has_ended_or_listens && redis.0.try_wait().unwrap().is_none() {
                return redis;
            }
        }
        unreachable!("redis-server does not start");
    }
}

#[test]
fn redis_with_tls_and_password_keeps_counters_across_restarts() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    create_certificate(&process);
    let redis = TlsRedis::start(&process);
    fs::write(process.path("password"), "open sesame\n").unwrap();
    fs::set_permissions(process.path("password"), fs::Permissions::from_mode(0o600)).unwrap();
    let url = format!("rediss://localhost:{}/", redis.1);
    let certificate_path = process.path("cert.pem").display().to_string();
    let process = process
        .with_variable("SCRIP_LIMITS_MODE", "on")
        .with_variable("SCRIP_LIMITS_ADDRESS", "3/1h block 1h")
        .with_variable("SCRIP_LIMITS_REDIS_URL", &url)
        .with_variable("SCRIP_LIMITS_REDIS_PASSWORD_FILE", "password")
        .with_variable("SCRIP_LIMITS_REDIS_DEADLINE_MS", "10000")
        .with_variable("SSL_CERT_FILE", &certificate_path);
    let first = process.serve();
    process.wait_for_log("the vault is open");
    assert_eq!(first.status("/permissions"), 401);
    assert_eq!(first.status("/permissions"), 401);
    drop(first);
    fs::remove_file(process.path("log")).unwrap();
    let restarted_server = process.serve();
    process.wait_for_log("the vault is open");
    assert_eq!(count_accepted(&restarted_server), 1, "two were counted before: {}", process.log());
    assert!(!process.log().contains("counters unavailable"), "{}", process.log());
    drop(restarted_server);
    // A node that does not trust the certificate, or has a wrong password, counts locally.
    for (name, value) in
        [("SSL_CERT_FILE", "/dev/null"), ("SCRIP_LIMITS_REDIS_PASSWORD_FILE", "/dev/null")]
    {
        let process = ProcessHarness::initialized(crate::SCRIP)
            .with_variable("SCRIP_LIMITS_MODE", "on")
            .with_variable("SCRIP_LIMITS_ADDRESS", "3/1h block 1h")
            .with_variable("SCRIP_LIMITS_REDIS_URL", &url)
            .with_variable("SSL_CERT_FILE", &certificate_path)
            .with_variable(name, value);
        let server = process.serve();
        process.wait_for_log("shared rate limit counters unavailable");
        process.wait_for_log("the vault is open");
        assert_eq!(count_accepted(&server), 3);
        assert!(!process.log().contains("sesame"));
        assert_eq!(process.log().matches("counters unavailable").count(), 1, "{}", process.log());
    }
}
