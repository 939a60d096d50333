//! Rotation of the keys of fingerprints and search indexes, without a server.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
    thread::sleep,
    time::Duration,
};

use scrip_testing::process::harness::{ProcessHarness, RunningServer};
use serde_json::Value;

use crate::{
    SCRIP,
    keys::{assert_readable, is_open},
    operator::commands::{run_json, run_text},
};

const ROTATE: [&str; 4] = ["keys", "rotate", "fingerprints", "--yes"];

fn card(number: usize) -> String {
    let numbers = ["4242424242424242", "5555555555554444", "4000056655665556", "378282246310005"];
    let number = numbers[number % numbers.len()];
    format!(
        r#"{{"type":"card","deduplicate_token":true,"metadata":{{"order":"A1"}},
        "search_indexes":["{{{{ data.number | last4 }}}}"],
        "data":{{"number":"{number}","expiration_month":12,"expiration_year":2030}}}}"#
    )
}

#[track_caller]
fn create(server: &RunningServer, key: &str, body: &str) -> Value {
    assert!(is_open(server), "the vault is sealed");
    let request = server.request("POST", "/tokens").api_key(key);
    let response = request.header("content-type", "application/json").body(body.to_owned()).send();
    assert!(response.status == 200 || response.status == 201, "{}", response.status);
    response.json()
}

fn get(server: &RunningServer, key: &str, token: &Value) -> Value {
    let path = format!("/tokens/{}", token["id"].as_str().unwrap());
    server.request("GET", &path).api_key(key).send().json()
}

/// The ids of the tokens that a search finds.
fn search(server: &RunningServer, key: &str, query: &str) -> Vec<Value> {
    let body = format!(r#"{{"query":"{query}"}}"#);
    let request = server.request("POST", "/v2/tokens/search").api_key(key);
    let response = request.header("content-type", "application/json").body(body).send();
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()["data"].as_array().unwrap().iter().map(|it| it["id"].clone()).collect()
}

#[track_caller]
fn check_rotated(server: &RunningServer, key: &str, before: &[Value]) {
    assert!(is_open(server), "the vault is sealed");
    for (number, old) in before.iter().enumerate() {
        let token = get(server, key, old);
        assert_eq!(token["data"]["number"], old["data"]["number"]);
        assert!(token["fingerprint"].is_string());
        assert_ne!(token["fingerprint"], old["fingerprint"]);
        // Deduplication finds the same token again.
        assert_eq!(create(server, key, &card(number))["id"], old["id"]);
        let fingerprint = token["fingerprint"].as_str().unwrap();
        assert_eq!(search(server, key, &format!("fingerprint:{fingerprint}")), [old["id"].clone()]);
        let old_fingerprint = old["fingerprint"].as_str().unwrap();
        assert!(search(server, key, &format!("fingerprint:{old_fingerprint}")).is_empty());
    }
    let found = search(server, key, "metadata.order:A1");
    assert_eq!(found.len(), before.len());
    let number = before[0]["data"]["number"].as_str().unwrap();
    let last_four = &number[number.len() - 4..];
    assert_eq!(search(server, key, &format!("data:{last_four}")), [before[0]["id"].clone()]);
}

#[test]
fn rotation_changes_fingerprints_and_keeps_deduplication_and_search() {
    let (process, key) = ProcessHarness::with_api_key(SCRIP);
    let server = process.serve();
    let tokens: Vec<_> = (0..4).map(|it| create(&server, &key, &card(it))).collect();
    process.assert_fails(&["keys", "rotate", "fingerprints"], "Use --yes to confirm");
    process.assert_fails(&ROTATE, "is in use by server process");
    drop(server);
    let rotated = run_json(&process, &ROTATE);
    assert_eq!(rotated["tenants"][0]["rows"], 4, "{rotated}");
    assert_eq!(rotated["tenants"][0]["unopened_rows"], 0);
    let server = process.serve();
    check_rotated(&server, &key, &tokens);
    assert_readable(&server, &key, tokens[0]["id"].as_str().unwrap());
    assert!(process.run(&["audit", "verify"]).status.success());
}

/// Starts a rotation, and kills it a while after it has stored the new keys.
fn kill_rotation(process: &ProcessHarness, delay: Duration) {
    let mut command = process.command(&ROTATE);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut rotation = command.spawn().unwrap();
    let mut messages = BufReader::new(rotation.stderr.take().unwrap()).lines();
    assert!(messages.any(|it| it.unwrap().contains("new keys are stored")));
    sleep(delay);
    rotation.kill().unwrap();
    drop(rotation.wait());
}

/// Kills the command at points of its work. No server opens a vault in the middle.
#[test]
fn killed_fingerprint_rotation_is_completed_by_the_next_run() {
    let (process, key) = ProcessHarness::with_api_key(SCRIP);
    let server = process.serve();
    let mut tokens: Vec<_> = (0..4).map(|it| create(&server, &key, &card(it))).collect();
    for number in 0..300 {
        let body = format!(r#"{{"type":"token","data":"{number}"}}"#);
        create(&server, &key, &body);
    }
    drop(server);
    let mut interrupted = 0;
    for point in 0..10 {
        kill_rotation(&process, Duration::from_millis(point * point));
        let status = process.run(&["doctor"]);
        assert!(!String::from_utf8_lossy(&status.stdout).contains("was altered"), "{status:?}");
        let is_unfinished = String::from_utf8_lossy(&status.stdout).contains("was interrupted");
        if is_unfinished {
            interrupted += 1;
            if interrupted == 1 {
                let server = process.serve();
                process.wait_for_log("run it again: scrip keys rotate fingerprints");
                assert_eq!(server.status("/readyz"), 503);
                drop(server);
            }
        }
        run_text(&process, &ROTATE);
        let server = process.serve();
        check_rotated(&server, &key, &tokens);
        tokens = tokens.iter().map(|it| get(&server, &key, it)).collect();
        drop(server);
    }
    assert!(interrupted > 0, "no kill was in the middle");
}
