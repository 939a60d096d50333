//! Rate limits as the program has them: on by default, by its settings, and shared through a Redis
//! that asks for a password and speaks TLS.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    process::{Child, Command, Stdio},
};

use scrip_testing::process::harness::{ProcessHarness, eventually};

use crate::network::tls_client::certify;

/// How many requests without a key are let in before one is refused.
fn let_in(server: &scrip_testing::process::harness::Running) -> usize {
    let statuses = (0..5).map(|_| server.status("/permissions"));
    statuses.take_while(|it| *it == 401).count()
}

#[test]
fn they_are_on_unless_somebody_turns_them_off() {
    let house = ProcessHarness::founded(crate::SCRIP).set("SCRIP_LIMITS_ADDRESS", "3/1h block 1h");
    let off = house.serve();
    house.logged("the vault is open");
    assert_eq!(let_in(&off), 5);
    drop(off);
    fs::remove_file(house.path("log")).unwrap();
    // Empty is as good as absent.
    let house = house.set("SCRIP_LIMITS_MODE", "");
    let on = house.serve();
    house.logged("the vault is open");
    assert_eq!(let_in(&on), 3);
    let refused = on.ask("GET", "/permissions");
    assert_eq!((refused.status, refused.kind.as_str()), (429, "application/problem+json"));
    let seconds: u64 = refused.retry_after.unwrap().parse().unwrap();
    assert!((1..=3601).contains(&seconds), "{seconds}");
    assert_eq!(on.status("/healthz"), 200);
}

#[test]
fn dev_has_them_too_and_says_how_to_do_without() {
    let house = ProcessHarness::new(crate::SCRIP)
        .set("SCRIP_LIMITS_MODE", "")
        .set("SCRIP_LIMITS_ADDRESS", "3/1h block 1h");
    assert_eq!(let_in(&house.start(&["dev", "--json"])), 3);
    assert_eq!(let_in(&house.start(&["dev", "--json", "--rate-limits", "off"])), 5);
    let said = house.run(&["dev", "--help"]);
    assert!(String::from_utf8(said.stdout).unwrap().contains("--rate-limits"));
}

/// Redis with TLS and a password, on a port of its own.
struct Redis(Child, u16);

impl Drop for Redis {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Redis {
    fn start(house: &ProcessHarness) -> Self {
        for _ in 0..20 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut command = Command::new("redis-server");
            command.args(["--port", "0", "--bind", "127.0.0.1", "--save", ""]);
            command.args(["--tls-port", &port.to_string(), "--requirepass", "open sesame"]);
            command.args(["--tls-auth-clients", "no", "--dir"]).arg(house.path(""));
            command.arg("--tls-cert-file").arg(house.path("cert.pem"));
            command.arg("--tls-key-file").arg(house.path("key.pem"));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut redis = Self(command.spawn().expect("redis-server; ./test installs it"), port);
            let is_there = eventually(|| {
                redis.0.try_wait().unwrap().is_some()
                    || TcpStream::connect(("127.0.0.1", port)).is_ok()
            });
            // Somebody else may have taken the port.
            if is_there && redis.0.try_wait().unwrap().is_none() {
                return redis;
            }
        }
        unreachable!("redis-server does not start");
    }
}

#[test]
fn a_redis_with_tls_and_a_password_remembers_for_the_next_process() {
    let house = ProcessHarness::founded(crate::SCRIP);
    certify(&house);
    let redis = Redis::start(&house);
    fs::write(house.path("password"), "open sesame\n").unwrap();
    fs::set_permissions(house.path("password"), fs::Permissions::from_mode(0o600)).unwrap();
    let url = format!("rediss://localhost:{}/", redis.1);
    let trusted = house.path("cert.pem").display().to_string();
    let house = house
        .set("SCRIP_LIMITS_MODE", "on")
        .set("SCRIP_LIMITS_ADDRESS", "3/1h block 1h")
        .set("SCRIP_LIMITS_REDIS_URL", &url)
        .set("SCRIP_LIMITS_REDIS_PASSWORD_FILE", "password")
        .set("SCRIP_LIMITS_REDIS_DEADLINE_MS", "10000")
        .set("SSL_CERT_FILE", &trusted);
    let first = house.serve();
    house.logged("the vault is open");
    assert_eq!(first.status("/permissions"), 401);
    assert_eq!(first.status("/permissions"), 401);
    drop(first);
    fs::remove_file(house.path("log")).unwrap();
    let second = house.serve();
    house.logged("the vault is open");
    assert_eq!(let_in(&second), 1, "two were counted before: {}", house.log());
    assert!(!house.log().contains("are away"), "{}", house.log());
    drop(second);
    // Whom it does not trust, and who does not know the password, counts alone.
    for (name, value) in
        [("SSL_CERT_FILE", "/dev/null"), ("SCRIP_LIMITS_REDIS_PASSWORD_FILE", "/dev/null")]
    {
        let house = ProcessHarness::founded(crate::SCRIP)
            .set("SCRIP_LIMITS_MODE", "on")
            .set("SCRIP_LIMITS_ADDRESS", "3/1h block 1h")
            .set("SCRIP_LIMITS_REDIS_URL", &url)
            .set("SSL_CERT_FILE", &trusted)
            .set(name, value);
        let server = house.serve();
        house.logged("the shared counters of rate limits are away");
        house.logged("the vault is open");
        assert_eq!(let_in(&server), 3);
        assert!(!house.log().contains("sesame"));
        assert_eq!(house.log().matches("are away").count(), 1, "{}", house.log());
    }
}
