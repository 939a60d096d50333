//! `scrip keys rotate tenant` and `scrip keys rotation` with a running server.

mod copies;
mod old_keys;

use std::{thread::sleep, time::Duration};

use scrip_testing::{
    process::{
        client::{HttpClient, ServerAddress},
        harness::{ProcessHarness, RunningServer, becomes_true},
        terminate, wait,
    },
    requests::card_number,
};
use serde_json::{Value, json};

use crate::{
    SCRIP,
    keys::{is_open, open_database},
    operator::commands::run_json,
    telemetry::metrics::scrape,
};

/// More than the rows of one step, so that a rotation can be interrupted.
const TOKENS: u64 = 250;

/// A vault with tokens and a server.
struct RotationProcess {
    process: ProcessHarness,
    key: String,
}

impl RotationProcess {
    /// A vault with this pace of rotations. There are 200 rows in a step.
    fn new(rows_per_second: &str) -> Self {
        let (process, key) = ProcessHarness::with_api_key(SCRIP);
        let process = process
            .with_variable("SCRIP_KEYS_PROMOTE_AFTER_SECONDS", "1")
            .with_variable("SCRIP_KEYS_DESTROY_AFTER_SECONDS", "1")
            .with_variable("SCRIP_KEYS_ROTATION_ROWS_PER_SECOND", rows_per_second);
        Self { process, key }
    }

    fn client(&self, server: &RunningServer) -> HttpClient {
        let ready_message = json!({ "keys": { "private": self.key } });
        let address = ServerAddress { address: server.address, ready_message };
        HttpClient::connect(&address).expect("the server listens")
    }

    fn create_tokens(&self, server: &RunningServer, numbers: std::ops::Range<u64>) {
        assert!(is_open(server), "the vault is sealed");
        let mut client = self.client(server);
        for number in numbers {
            let data = json!({ "number": card_number(number) });
            let body = json!({ "id": format!("token-{number:03}"), "type": "card", "data": data });
            let headers = [("Content-Type", "application/json")];
            let response = client.send("POST /tokens", &headers, &body.to_string()).unwrap();
            assert_eq!(response.status, 201, "{}", response.body);
        }
    }

    /// Expects that a client reads every token.
    #[track_caller]
    fn check_tokens(&self, server: &RunningServer, count: u64) {
        assert!(is_open(server), "the vault is sealed");
        let mut client = self.client(server);
        for number in 0..count {
            let path = format!("GET /tokens/token-{number:03}");
            let response = client.send(&path, &[], "").unwrap();
            assert_eq!(response.status, 200, "{}", response.body);
            let token: Value = serde_json::from_str(&response.body).unwrap();
            assert_eq!(token["data"]["number"], card_number(number));
        }
    }

    fn rotate(&self) -> Value {
        let rotated = run_json(&self.process, &["keys", "rotate", "tenant", "--all"]);
        rotated["rotations"][0]["version"].clone()
    }

    fn status(&self) -> Value {
        run_json(&self.process, &["keys", "rotation", "status"])["tenants"][0].clone()
    }

    /// Waits for the end of the first step.
    #[track_caller]
    fn wait_for_step(&self) {
        let has_step = || {
            let rows = self.status()["rotation"]["rows"].as_u64();
            rows.is_some_and(|it| it >= 200)
        };
        assert!(becomes_true(has_step), "{}", self.status());
    }

    #[track_caller]
    fn wait_until_finished(&self, version: u64) {
        let is_finished = || self.status()["versions"] == json!([version]);
        assert!(becomes_true(is_finished), "{}: {}", self.status(), self.process.log());
        let status = self.status();
        assert_eq!((&status["state"], &status["version"]), (&json!("idle"), &json!(version)));
        assert!(status["rotation"]["finished_at"].is_string(), "{status}");
        let rows = status["rows"].as_array().unwrap();
        assert!(rows.iter().all(|it| it["version"] == version), "{status}");
    }

    /// The version of each value in `tokens.body`.
    fn count_tokens(&self, version: u32) -> i64 {
        let sql = "SELECT count(*) FROM tokens WHERE substr(body, 3, 4) = ?1";
        let version = version.to_be_bytes();
        open_database(&self.process).query_row(sql, [version], |row| row.get(0)).unwrap()
    }
}

#[test]
fn pause_during_reencryption_stops_it_and_resume_continues() {
    let test = RotationProcess::new("100");
    let server = test.process.serve();
    test.create_tokens(&server, 0..TOKENS);
    assert_eq!(test.status()["state"], "idle");
    assert_eq!(test.rotate(), 2);
    test.wait_for_step();
    let paused = run_json(&test.process, &["keys", "rotation", "pause"]);
    assert_eq!(paused["paused"].as_array().unwrap().len(), 1);
    let before = test.status();
    assert_eq!((&before["state"], &before["versions"]), (&json!("paused"), &json!([1, 2])));
    assert_eq!((test.count_tokens(1), test.count_tokens(2)), (50, 200));
    // Longer than the pause between two steps.
    sleep(Duration::from_millis(2500));
    assert_eq!(test.status()["rotation"]["rows"], before["rotation"]["rows"]);
    assert_eq!((test.count_tokens(1), test.count_tokens(2)), (50, 200));
    test.check_tokens(&server, TOKENS);
    test.process.assert_fails(&["keys", "rotation", "pause"], "no running rotation was paused");
    run_json(&test.process, &["keys", "rotation", "resume"]);
    test.process.assert_fails(&["keys", "rotation", "resume"], "no running rotation was resumed");
    test.wait_until_finished(2);
    test.check_tokens(&server, TOKENS);
    test.process.assert_fails(&["keys", "rotation", "pause"], "no running rotation was paused");
}

#[test]
fn second_and_unknown_rotations_are_rejected() {
    let test = RotationProcess::new("1000");
    for command in [
        &["keys", "rotate", "tenant", "Unknown"][..],
        &["keys", "rotation", "status", "Unknown"],
        &["keys", "rotation", "pause", "Unknown"],
    ] {
        test.process.assert_fails(command, "no tenant has this name");
    }
    // No server runs, so the rotation stays at its start.
    assert_eq!(test.rotate(), 2);
    let tenant = test.status()["tenant_id"].as_str().unwrap().to_owned();
    let again = ["keys", "rotate", "tenant", &tenant];
    test.process.assert_fails(&again, "a rotation of this tenant's key is running");
    let all = run_json(&test.process, &["keys", "rotate", "tenant", "--all"]);
    assert_eq!(all["rotations"], json!([]));
    let status = test.status();
    assert_eq!((&status["state"], &status["versions"]), (&json!("added"), &json!([1, 2])));
    assert_eq!(status["version"], 1);
    let server = test.process.serve();
    assert!(is_open(&server));
    test.wait_until_finished(2);
    assert_eq!(test.rotate(), 3);
    test.wait_until_finished(3);
}

#[test]
fn old_key_is_rotated_automatically() {
    let test = RotationProcess::new("1000");
    let server = test.process.serve();
    test.create_tokens(&server, 0..3);
    test.rotate();
    test.wait_until_finished(2);
    drop(server);
    // The age of the key, as if its rotation was long ago. A server checks ages when it starts.
    let sql = "UPDATE key_rotations SET started_at = 0";
    assert_eq!(open_database(&test.process).execute(sql, []).unwrap(), 1);
    let server = test.process.serve();
    assert!(is_open(&server));
    sleep(Duration::from_millis(1500));
    assert_eq!(test.status()["versions"], json!([2]), "the rotation is not automatic by default");
    drop(server);
    let RotationProcess { process, key } = test;
    let process = process.with_variable("SCRIP_KEYS_ROTATE_AUTOMATICALLY", "true");
    let test = RotationProcess { process, key };
    let server = test.process.serve();
    assert!(is_open(&server));
    test.wait_until_finished(3);
    test.process.wait_for_log("rotation of an old sealing key started");
    test.check_tokens(&server, 3);
}

/// A storage that fails for an hour fails 3,600 steps.
#[test]
fn failing_steps_of_a_rotation_are_logged_once() {
    let (failed, succeeds) =
        ("a step of a key rotation failed", "the steps of key rotations succeed again");
    let test = RotationProcess::new("1000");
    let process = test.process.with_variable("SCRIP_METRICS_LISTEN", "127.0.0.1:0");
    let test = RotationProcess { process, ..test };
    let server = test.process.serve();
    assert!(is_open(&server));
    let execute = |sql| open_database(&test.process).execute_batch(sql).unwrap();
    for outage in 1..=2 {
        test.rotate();
        // Before the promotion, which comes after a second.
        execute(
            "CREATE TRIGGER outage BEFORE UPDATE ON key_rotations
                BEGIN SELECT RAISE(ABORT, 'outage'); END",
        );
        let failures = || {
            let page = scrape(&server);
            page.value("scrip_key_rotation_failures_total", &[])
        };
        let before = failures();
        assert!(becomes_true(|| failures() >= before + 3.0), "{}", test.process.log());
        let count = |text| test.process.log().matches(text).count();
        assert_eq!((count(failed), count(succeeds)), (outage, outage - 1));
        execute("DROP TRIGGER outage");
        assert!(becomes_true(|| count(succeeds) == outage), "{}", test.process.log());
        test.wait_until_finished(u64::try_from(outage).unwrap() + 1);
    }
}

/// The remaining time of the lease, in milliseconds.
fn lease_ms(process: &ProcessHarness) -> i64 {
    let sql = "SELECT lease_until - CAST(unixepoch('subsec') * 1000 AS INTEGER) FROM key_rotations";
    open_database(process).query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn stopped_server_gives_its_rotation_back() {
    let test = RotationProcess::new("100");
    let mut server = test.process.serve();
    test.create_tokens(&server, 0..TOKENS);
    test.rotate();
    test.wait_for_step();
    assert!(lease_ms(&test.process) > 10_000, "the server has a lease");
    terminate(&server.child);
    assert!(wait(&mut server.child, Duration::from_secs(20)).is_some(), "{}", test.process.log());
    assert!(lease_ms(&test.process) <= 0, "the lease is left");
    drop(server);
    let server = test.process.serve();
    test.wait_until_finished(2);
    test.check_tokens(&server, TOKENS);
}
