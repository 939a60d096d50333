//! Probes must respond while the most expensive allowed expressions run.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    thread,
    time::Duration,
};

use scrip_testing::process::harness::ProcessHarness;
use serde_json::json;

const CLIENTS: usize = 6;
const PROBES: usize = 20;
/// A timeout that is much longer than a probe takes on a busy machine, and shorter than the queue
/// of expensive requests.
const DEADLINE: Duration = Duration::from_secs(10);

fn agent(timeout: Duration) -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    config.timeout_global(Some(timeout)).build().into()
}

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
    let body = body.to_string();
    let (stop, created_count) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let agent = agent(Duration::from_secs(60));
                while !stop.load(SeqCst) {
                    let request = agent.post(format!("{}/tokens", server.url));
                    let request = request.header("BT-API-KEY", key);
                    let request = request.header("Content-Type", "application/json");
                    let response = request.send(&body).unwrap();
                    assert_eq!(response.status().as_u16(), 201);
                    created_count.fetch_add(1, SeqCst);
                }
            });
        }
        let agent = agent(DEADLINE);
        let mut probes = 0;
        // At least one expensive request completes while the probes run.
        while probes < PROBES || created_count.load(SeqCst) < 2 {
            let status = agent.get(format!("{}/healthz", server.url)).call();
            let status = status.map(|it| it.status().as_u16());
            if !matches!(status, Ok(200)) {
                stop.store(true, SeqCst);
                panic!("after {probes} probes: {status:?}");
            }
            probes += 1;
        }
        stop.store(true, SeqCst);
    });
}
