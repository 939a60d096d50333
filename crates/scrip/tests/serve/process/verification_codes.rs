//! Verification codes and expiry by the real program: over a restart, and with keys in a file.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, thread::sleep, time::Duration};

use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use scrip_testing::{
    process::harness::{ProcessHarness, Running, eventually},
    redis::Redis,
};
use serde_json::{Value, json};

/// A folder in memory, that goes with the test.
struct Shared(PathBuf);

impl Shared {
    fn new(name: &str) -> Self {
        Self(PathBuf::from(format!("/dev/shm/scrip-test-{}-{name}", std::process::id())))
    }

    fn setting(&self) -> String {
        format!("file:{}", self.0.join("epochs").display())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

pub(crate) fn ask(
    running: &Running,
    key: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> (u16, Value) {
    let config = ureq::Agent::config_builder().http_status_as_error(false).build();
    let agent: ureq::Agent = config.into();
    let request = ureq::http::Request::builder().method(method);
    let request = request.uri(format!("{}{path}", running.url)).header("BT-API-KEY", key);
    let request = request.header("Content-Type", "application/json").body(body.to_string());
    let response = agent.run(request.unwrap()).unwrap();
    let status = response.status().as_u16();
    let text = response.into_body().read_to_string().unwrap();
    (status, serde_json::from_str(&text).unwrap_or_default())
}

pub(crate) fn opened(house: &ProcessHarness) -> Running {
    let running = house.serve();
    assert!(eventually(|| running.status("/readyz") == 200), "{}", house.log());
    running
}

/// What a card's code is after the server was killed and started again.
fn code_after_restart(house: &ProcessHarness, key: &str) -> Value {
    let running = opened(house);
    let card = json!({"number": "4242424242424242", "cvc": "123"});
    let (status, made) =
        ask(&running, key, "POST", "/tokens", &json!({"type": "card", "data": card}));
    assert_eq!((status, &made["data"]["cvc"]), (201, &json!("123")), "{made}");
    drop(running);
    let running = opened(house);
    let path = format!("/tokens/{}", made["id"].as_str().unwrap());
    let (status, found) = ask(&running, key, "GET", &path, &Value::Null);
    assert_eq!((status, &found["data"]["number"]), (200, &json!("4242424242424242")));
    found["data"]["cvc"].clone()
}

#[test]
fn a_restart_keeps_codes_only_where_their_keys_are_in_a_file() {
    let (house, key) = ProcessHarness::with_key(crate::SCRIP);
    assert_eq!(code_after_restart(&house, &key), Value::Null);

    let shared = Shared::new("kept");
    let house = house.set("SCRIP_CVC_EPOCH_KEYS", &shared.setting());
    assert_eq!(code_after_restart(&house, &key), json!("123"));
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(shared.0.clone()), mode(shared.0.join("epochs"))), (0o700, 0o600));
}

/// As it would be with another node: the process that sealed the code is gone.
#[test]
fn a_redis_keeps_codes_over_a_restart_and_only_one_that_keeps_nothing_on_a_disk() {
    let (house, key) = ProcessHarness::with_key(crate::SCRIP);
    let mut redis = Redis::start();
    let house = house.set("SCRIP_CVC_EPOCH_KEYS", &redis.url());
    assert_eq!(code_after_restart(&house, &key), json!("123"));
    let doctor = house.run(&["doctor"]);
    let said = String::from_utf8(doctor.stdout).unwrap();
    assert!(said.contains("Redis answers, and keeps nothing on a disk"), "{said}");

    redis.kill();
    let said = String::from_utf8(house.run(&["doctor"]).stdout).unwrap();
    assert!(said.contains("codes are neither taken nor shown"), "{said}");
    // It serves cards all the same, and codes again as soon as Redis is back, but for those it lost.
    let running = opened(&house);
    let with_code = json!({"type": "card", "data": {"number": "4242424242424242", "cvc": "123"}});
    assert_eq!(ask(&running, &key, "POST", "/tokens", &with_code).0, 503);
    let without = json!({"type": "card", "data": {"number": "4242424242424242"}});
    assert_eq!(ask(&running, &key, "POST", "/tokens", &without).0, 201);
    assert!(redis.run());
    assert!(eventually(|| ask(&running, &key, "POST", "/tokens", &with_code).0 == 201));
    drop(running);

    redis.kill();
    assert!(redis.run_with(&["--appendonly", "yes"]));
    house.refused(&["serve"], "it keeps what it is given on a disk");
    let house = house.set("SCRIP_CVC_EPOCH_KEYS_ON_DISK", "true");
    assert_eq!(code_after_restart(&house, &key), json!("123"));
}

/// It says so before it looks for PostgreSQL, and so needs none here.
#[test]
fn on_postgresql_keys_that_no_other_node_finds_are_refused() {
    let house = ProcessHarness::new(crate::SCRIP)
        .set("SCRIP_STORAGE_URL", "postgres://nobody@127.0.0.1:1/none");
    fs::create_dir(house.data()).unwrap();
    let shared = Shared::new("lonely");
    for keys in ["memory", &shared.setting()] {
        let house = ProcessHarness::new(crate::SCRIP)
            .set("SCRIP_STORAGE_URL", "postgres://nobody@127.0.0.1:1/none");
        fs::create_dir(house.data()).unwrap();
        let house = house.set("SCRIP_CVC_EPOCH_KEYS", keys);
        house.refused(&["serve"], "set cvc.epoch_keys = \"redis://…\"");
        house.refused(&["serve"], "or say storage.only_node = true");
        let house = house.set("SCRIP_STORAGE_ONLY_NODE", "true");
        let said = String::from_utf8(house.run(&["serve"]).stderr).unwrap();
        assert!(!said.contains("epoch_keys"), "{said}");
    }
    let redis = Redis::start();
    let house = house.set("SCRIP_CVC_EPOCH_KEYS", &redis.url());
    let said = String::from_utf8(house.run(&["serve"]).stderr).unwrap();
    assert!(!said.contains("epoch_keys"), "{said}");
}

#[test]
fn a_place_that_will_not_do_is_refused() {
    let house = ProcessHarness::founded(crate::SCRIP);
    let inside = format!("file:{}", house.data().join("epochs").display());
    let house = house.set("SCRIP_CVC_EPOCH_KEYS", &inside);
    house.refused(&["serve"], "must not be in the data directory");
    let house = house.set("SCRIP_CVC_EPOCH_KEYS", "file:epochs");
    house.refused(&["serve"], "must be memory, or file: and an absolute path");

    let shared = Shared::new("open");
    fs::create_dir(&shared.0).unwrap();
    fs::set_permissions(&shared.0, fs::Permissions::from_mode(0o777)).unwrap();
    let house = house.set("SCRIP_CVC_EPOCH_KEYS", &shared.setting());
    house.refused(&["serve"], "nobody else may write there");

    let disk = house.path("keys");
    let house =
        house.set("SCRIP_CVC_EPOCH_KEYS", &format!("file:{}", disk.join("epochs").display()));
    if statfs(&std::env::temp_dir()).unwrap().filesystem_type() != TMPFS_MAGIC {
        house.refused(&["serve"], "neither on tmpfs nor on ramfs");
    }
    let house = house.set("SCRIP_CVC_EPOCH_KEYS_ON_DISK", "true");
    assert_eq!(house.serve().status("/healthz"), 200);
    assert!(disk.join("epochs").is_file());
}

/// The server is not there when the token expires; the next one removes it.
#[test]
fn a_restart_across_an_expiry_removes_what_expired() {
    let (house, key) = ProcessHarness::with_key(crate::SCRIP);
    let running = opened(&house);
    let lasting = json!({"type": "token", "data": 1});
    // On a slow machine it may have expired before it is there.
    let mut tries = (1..60).map(|_| {
        let (_, first) = ask(&running, &key, "POST", "/tokens", &lasting);
        let created: jiff::Timestamp = first["created_at"].as_str().unwrap().parse().unwrap();
        let ends = (created + Duration::from_secs(3)).to_string();
        let body = json!({"type": "token", "data": 1, "expires_at": ends});
        ask(&running, &key, "POST", "/tokens", &body)
    });
    let (_, made) = tries.find(|(status, _)| *status == 201).unwrap();
    drop(tries);
    drop(running);
    sleep(Duration::from_secs(4));

    // However long all this took, its clock is to be believed.
    let house = house.set("SCRIP_CLOCK_START", "wall");
    let running = opened(&house);
    let path = format!("/tokens/{}", made["id"].as_str().unwrap());
    assert_eq!(ask(&running, &key, "GET", &path, &Value::Null).0, 404);
    let file = rusqlite::Connection::open(house.data().join("scrip.db")).unwrap();
    let count = |sql: &str| file.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let expiring = "SELECT count(*) FROM tokens WHERE expires_at IS NOT NULL";
    assert!(eventually(|| count(expiring) == 0));
    assert_eq!(count("SELECT count(*) FROM audit WHERE operation = 'expire_token'"), 1);
}
