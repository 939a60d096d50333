//! PostgreSQL is unavailable or does not respond: the nodes report it and recover without a
//! restart.

use scrip_testing::{
    postgres::cluster::Cluster,
    process::client::{HttpClient, HttpResponse, ServerAddress},
    requests::card_number,
};
use serde_json::json;

use crate::{
    RunLength,
    nodes::{TwoNodeVault, eventually, request_status},
    report::RunReport,
};

fn create(address: &ServerAddress, number: u64) -> HttpResponse {
    let key = format!("outage-{number}");
    let headers = [("Content-Type", "application/json"), ("BT-IDEMPOTENCY-KEY", key.as_str())];
    let body = json!({ "type": "card", "data": { "number": card_number(number) } });
    let mut client = HttpClient::connect(address).expect("connect to the node");
    client.send("POST /tokens", &headers, &body.to_string()).expect("a response")
}

fn wait_for_status(address: &ServerAddress, line: &str, expected: u16) {
    let has_responded = eventually(|| request_status(address, line) == Some(expected));
    assert!(has_responded, "{line} does not become {expected}");
}

/// Expects a 503: no write is acknowledged, there is no internal error, and the process keeps
/// running.
fn check_unavailable(address: &ServerAddress, number: u64) {
    let rejected_response = create(address, number);
    assert_eq!(rejected_response.status, 503, "{}", rejected_response.body);
    assert!(rejected_response.body.contains("try again"), "{}", rejected_response.body);
    wait_for_status(address, "GET /readyz", 503);
    assert_eq!(request_status(address, "GET /healthz"), Some(200));
}

/// Repeats the requests with the same idempotency keys. Whether the first attempt took effect must
/// not matter.
fn check_recovered(address: &ServerAddress, number: u64) {
    wait_for_status(address, "GET /readyz", 200);
    assert_eq!(create(address, number).status, 201);
}

pub(crate) fn nodes_recover_after_outage(_: RunLength) -> (RunReport, bool) {
    let mut vault = TwoNodeVault::create(Cluster::start(&[]));
    let nodes = [0, 1].map(|it| vault.nodes_access.node(it).expect("run the command"));
    for (number, address) in (0..).zip(&nodes) {
        assert_eq!(create(address, number).status, 201);
    }
    vault.cluster.kill_primary();
    for (number, address) in (10..).zip(&nodes) {
        check_unavailable(address, number);
    }
    vault.cluster.restart_primary();
    for (number, address) in (10..).zip(&nodes) {
        check_recovered(address, number);
    }
    // A frozen server is worse than a stopped one: its connections stay open.
    vault.cluster.freeze_primary();
    for (number, address) in (20..).zip(&nodes) {
        check_unavailable(address, number);
    }
    vault.cluster.resume_primary();
    for (number, address) in (20..).zip(&nodes) {
        check_recovered(address, number);
    }
    assert!(vault.is_running(0) && vault.is_running(1), "a node was restarted");
    let created = vault.cluster.query_primary("SELECT count(*) FROM tokens");
    assert_eq!(created, ["6"], "one token for each idempotency key");
    assert!(vault.is_audit_chain_valid());
    (RunReport::default(), true)
}
