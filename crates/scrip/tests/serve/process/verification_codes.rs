//! CVCs and expiry in the real program: across a restart, and with epoch keys in a file.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, thread::sleep, time::Duration};

use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use scrip_testing::process::{
    harness::{ProcessHarness, RunningServer, becomes_true},
    redis::RedisServer,
};
use serde_json::{Value, json};

/// A folder in memory that is deleted with the value.
struct MemoryFolder(PathBuf);

impl MemoryFolder {
    fn new(name: &str) -> Self {
        Self(PathBuf::from(format!("/dev/shm/scrip-test-{}-{name}", std::process::id())))
    }

    fn setting(&self) -> String {
        format!("file:{}", self.0.join("epochs").display())
    }
}

impl Drop for MemoryFolder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

pub(crate) fn send_request(
    server: &RunningServer,
    key: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> (u16, Value) {
    let response = server.request(method, path).api_key(key).json(body).send();
    (response.status, serde_json::from_slice(&response.body).unwrap_or_default())
}

pub(crate) fn serve_ready(process: &ProcessHarness) -> RunningServer {
    let server = process.serve();
    assert!(becomes_true(|| server.status("/readyz") == 200), "{}", process.log());
    server
}

/// Kills and restarts the server. Returns the CVC of a card after the restart.
fn cvc_after_restart(process: &ProcessHarness, key: &str) -> Value {
    let server = serve_ready(process);
    let card = json!({"number": "4242424242424242", "cvc": "123"});
    let (status, created) =
        send_request(&server, key, "POST", "/tokens", &json!({"type": "card", "data": card}));
    assert_eq!((status, &created["data"]["cvc"]), (201, &json!("123")), "{created}");
    drop(server);
    let server = serve_ready(process);
    let path = format!("/tokens/{}", created["id"].as_str().unwrap());
    let (status, token) = send_request(&server, key, "GET", &path, &Value::Null);
    assert_eq!((status, &token["data"]["number"]), (200, &json!("4242424242424242")));
    token["data"]["cvc"].clone()
}

#[test]
fn cvcs_survive_a_restart_only_with_keys_in_a_file() {
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    assert_eq!(cvc_after_restart(&process, &key), Value::Null);

    let shared = MemoryFolder::new("shared");
    let process = process.with_variable("SCRIP_CVC_EPOCH_KEYS", &shared.setting());
    assert_eq!(cvc_after_restart(&process, &key), json!("123"));
    let read_mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((read_mode(shared.0.clone()), read_mode(shared.0.join("epochs"))), (0o700, 0o600));
}

/// This test simulates another node: the process that sealed the CVC no longer runs.
#[test]
fn cvcs_survive_a_restart_with_keys_in_a_redis_without_persistence() {
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let mut redis = RedisServer::start();
    let process = process.with_variable("SCRIP_CVC_EPOCH_KEYS", &redis.url());
    assert_eq!(cvc_after_restart(&process, &key), json!("123"));
    let doctor = process.run(&["doctor"]);
    let output = String::from_utf8(doctor.stdout).unwrap();
    assert!(output.contains("Redis responds and stores nothing on a disk"), "{output}");

    redis.kill();
    let output = String::from_utf8(process.run(&["doctor"]).stdout).unwrap();
    assert!(output.contains("CVCs are neither stored nor returned"), "{output}");
    // The server still serves cards. CVCs work again when Redis is available, except the lost ones.
    let server = serve_ready(&process);
    let with_code = json!({"type": "card", "data": {"number": "4242424242424242", "cvc": "123"}});
    assert_eq!(send_request(&server, &key, "POST", "/tokens", &with_code).0, 503);
    let card_without_cvc = json!({"type": "card", "data": {"number": "4242424242424242"}});
    assert_eq!(send_request(&server, &key, "POST", "/tokens", &card_without_cvc).0, 201);
    assert!(redis.restart());
    assert!(becomes_true(|| send_request(&server, &key, "POST", "/tokens", &with_code).0 == 201));
    drop(server);

    redis.kill();
    assert!(redis.restart_with(&["--appendonly", "yes"]));
    process.assert_fails(&["serve"], "it stores data on a disk");
    let process = process.with_variable("SCRIP_CVC_ALLOW_EPOCH_KEYS_ON_DISK", "true");
    assert_eq!(cvc_after_restart(&process, &key), json!("123"));
}

#[test]
fn doctor_reports_a_redis_user_that_may_not_store_epoch_keys() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let redis = RedisServer::start();
    let password = process.path("password");
    fs::write(&password, "secret").unwrap();
    fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
    let password = password.display().to_string();
    let process = process.with_variable("SCRIP_CVC_EPOCH_KEYS_PASSWORD_FILE", &password);
    let commands = "+eval +evalsha +script|load +exists +hset +hgetall +pexpireat +info \
         +config|get +time";
    let documented: Vec<_> = commands.split_whitespace().collect();
    let user = |name: &str, allowed: &[&str]| {
        let start = ["ACL", "SETUSER", name, "on", ">secret", "~scrip:epoch:*"];
        drop(redis.query::<String>(&[&start[..], allowed].concat()));
        let address = redis.url().replace("redis://", &format!("redis://{name}@"));
        let process = process.command(&["doctor"]).env("SCRIP_CVC_EPOCH_KEYS", address).output();
        String::from_utf8(process.unwrap().stdout).unwrap()
    };
    let output = user("documented", &documented);
    assert!(output.contains("Redis responds and stores nothing on a disk"), "{output}");
    assert!(!output.contains("accepts no epoch keys"), "{output}");
    let without_hset: Vec<_> = documented.iter().copied().filter(|it| *it != "+hset").collect();
    let output = user("limited", &without_hset);
    assert!(output.contains("Redis accepts no epoch keys (a command is denied)"), "{output}");
    assert_eq!(redis.query::<Vec<String>>(&["KEYS", "*"]), Vec::<String>::new());
}

/// The error is reported before the server connects to PostgreSQL, so the test needs no PostgreSQL.
#[test]
fn unshared_epoch_keys_are_rejected_on_postgresql() {
    let process = ProcessHarness::new(crate::SCRIP)
        .with_variable("SCRIP_STORAGE_URL", "postgres://scrip@127.0.0.1:1/none");
    fs::create_dir(process.data()).unwrap();
    let shared = MemoryFolder::new("lonely");
    for keys in ["memory", &shared.setting()] {
        let process = ProcessHarness::new(crate::SCRIP)
            .with_variable("SCRIP_STORAGE_URL", "postgres://scrip@127.0.0.1:1/none");
        fs::create_dir(process.data()).unwrap();
        let process = process.with_variable("SCRIP_CVC_EPOCH_KEYS", keys);
        process.assert_fails(&["serve"], "set cvc.epoch_keys = \"redis://…\"");
        process.assert_fails(&["serve"], "or set storage.single_node = true");
        let process = process.with_variable("SCRIP_STORAGE_SINGLE_NODE", "true");
        let output = String::from_utf8(process.run(&["serve"]).stderr).unwrap();
        assert!(!output.contains("epoch_keys"), "{output}");
    }
    let redis = RedisServer::start();
    let process = process.with_variable("SCRIP_CVC_EPOCH_KEYS", &redis.url());
    let output = String::from_utf8(process.run(&["serve"]).stderr).unwrap();
    assert!(!output.contains("epoch_keys"), "{output}");
}

#[test]
fn unsafe_epoch_key_locations_are_rejected() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let location_in_data = format!("file:{}", process.data().join("epochs").display());
    let process = process.with_variable("SCRIP_CVC_EPOCH_KEYS", &location_in_data);
    process.assert_fails(&["serve"], "must not be in the data directory");
    let process = process.with_variable("SCRIP_CVC_EPOCH_KEYS", "file:epochs");
    process.assert_fails(&["serve"], "must be memory, or file: with an absolute path");

    let shared = MemoryFolder::new("open");
    fs::create_dir(&shared.0).unwrap();
    fs::set_permissions(&shared.0, fs::Permissions::from_mode(0o777)).unwrap();
    let process = process.with_variable("SCRIP_CVC_EPOCH_KEYS", &shared.setting());
    process.assert_fails(&["serve"], "must not be writable by other users");

    let disk = process.path("keys");
    let process = process
        .with_variable("SCRIP_CVC_EPOCH_KEYS", &format!("file:{}", disk.join("epochs").display()));
    if statfs(&std::env::temp_dir()).unwrap().filesystem_type() != TMPFS_MAGIC {
        process.assert_fails(&["serve"], "neither on tmpfs nor on ramfs");
    }
    let process = process.with_variable("SCRIP_CVC_ALLOW_EPOCH_KEYS_ON_DISK", "true");
    assert_eq!(process.serve().status("/healthz"), 200);
    assert!(disk.join("epochs").is_file());
}

/// The token expires while no server runs. The next server removes it.
#[test]
fn restart_removes_tokens_that_expired_meanwhile() {
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let server = serve_ready(&process);
    let body_without_expiry = json!({"type": "token", "data": 1});
    // On a slow machine the token may expire before it is created.
    let mut attempts = (1..60).map(|_| {
        let (_, first) = send_request(&server, &key, "POST", "/tokens", &body_without_expiry);
        let created: jiff::Timestamp = first["created_at"].as_str().unwrap().parse().unwrap();
        let expires_at = (created + Duration::from_secs(3)).to_string();
        let body = json!({"type": "token", "data": 1, "expires_at": expires_at});
        send_request(&server, &key, "POST", "/tokens", &body)
    });
    let (_, created) = attempts.find(|(status, _)| *status == 201).unwrap();
    drop(attempts);
    drop(server);
    sleep(Duration::from_secs(4));

    // The new server trusts the wall clock, regardless of how long no server ran.
    let process = process.with_variable("SCRIP_CLOCK_START_MODE", "wall");
    let server = serve_ready(&process);
    let path = format!("/tokens/{}", created["id"].as_str().unwrap());
    assert_eq!(send_request(&server, &key, "GET", &path, &Value::Null).0, 404);
    let file = rusqlite::Connection::open(process.data().join("scrip.db")).unwrap();
    let count = |sql: &str| file.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let expiring = "SELECT count(*) FROM tokens WHERE expires_at IS NOT NULL";
    assert!(becomes_true(|| count(expiring) == 0));
    assert_eq!(count("SELECT count(*) FROM log_records WHERE operation = 'expire_token'"), 1);
}
