//! Probes must respond while the most expensive allowed expressions run.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    thread,
    time::Duration,
};

use scrip_testing::{process::harness::ProcessHarness, requests::http_client::BlockingClient};
use serde_json::json;

const CLIENTS: usize = 6;
const PROBES: usize = 20;
/// A timeout that is much longer than a probe takes on a busy machine, and shorter than the queue
/// of expensive requests.
const DEADLINE: Duration = Duration::from_secs(10);

#[test]
fn probes_respond_while_expensive_requests_run() {
    let process = ProcessHarness::new(crate::SCRIP);
    let server = process.start(&["dev", "--json"]);
    let keys = std::fs::read_to_string(process.data().join("dev-keys.json")).unwrap();
    let keys: serde_json::Value = serde_json::from_str(&keys).unwrap();
    let key = keys["keys"]["private"].as_str().unwrap();
    let chain = "| reveal: 0, 0, 'X', '-' ".repeat(38);
    let index = format!("{{{{ data {chain}| slice: 0, 4 }}}}");
    let body = json!({
        "type": "token", "data": "x".repeat(100_000), "search_indexes": [index, index],
    });
    let (stop, created_count) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let client = BlockingClient::with_timeout(Duration::from_secs(60));
                while !stop.load(SeqCst) {
                    let request = client.post(format!("{}/tokens", server.url)).api_key(key);
                    assert_eq!(request.json(&body).send().status, 201);
                    created_count.fetch_add(1, SeqCst);
                }
            });
        }
        let client = BlockingClient::with_timeout(DEADLINE);
        let mut probes = 0;
        // At least one expensive request completes while the probes run.
        while probes < PROBES || created_count.load(SeqCst) < 2 {
            let status = client.get(format!("{}/healthz", server.url)).try_send();
            let status = status.map(|it| it.status);
            if !matches!(status, Ok(200)) {
                stop.store(true, SeqCst);
                panic!("after {probes} probes: {status:?}");
            }
            probes += 1;
        }
        stop.store(true, SeqCst);
    });
}
