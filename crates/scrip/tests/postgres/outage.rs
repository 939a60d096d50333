//! PostgreSQL is away for a while, or does not answer: nodes say so, and recover by themselves.

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

fn create(access: &ServerAddress, number: u64) -> HttpResponse {
    let key = format!("outage-{number}");
    let headers = [("Content-Type", "application/json"), ("BT-IDEMPOTENCY-KEY", key.as_str())];
    let body = json!({ "type": "card", "data": { "number": card_number(number) } });
    let mut client = HttpClient::connect(access).expect("the node is there");
    client.send("POST /tokens", &headers, &body.to_string()).expect("an answer")
}

fn wait_for_status(access: &ServerAddress, line: &str, expected: u16) {
    let came = eventually(|| request_status(access, line) == Some(expected));
    assert!(came, "{line} does not become {expected}");
}

/// Nothing is said to be done, nothing is our own fault, and the process lives.
fn check_unavailable(access: &ServerAddress, number: u64) {
    let rejected = create(access, number);
    assert_eq!(rejected.status, 503, "{}", rejected.body);
    assert!(rejected.body.contains("try again"), "{}", rejected.body);
    wait_for_status(access, "GET /readyz", 503);
    assert_eq!(request_status(access, "GET /healthz"), Some(200));
}

/// The same keys as before; whether the first attempt was done after all makes no difference.
fn check_recovered(access: &ServerAddress, number: u64) {
    wait_for_status(access, "GET /readyz", 200);
    assert_eq!(create(access, number).status, 201);
}

pub(crate) fn nodes_recover_after_outage(_: RunLength) -> (RunReport, bool) {
    let mut vault = TwoNodeVault::create(Cluster::start(&[]));
    let nodes = [0, 1].map(|it| vault.nodes_access.node(it).expect("it runs"));
    for (place, access) in (0..).zip(&nodes) {
        assert_eq!(create(access, place).status, 201);
    }
    vault.cluster.kill_primary();
    for (place, access) in (10..).zip(&nodes) {
        check_unavailable(access, place);
    }
    vault.cluster.restart_primary();
    for (place, access) in (10..).zip(&nodes) {
        check_recovered(access, place);
    }
    // A machine that hangs is worse than one that is gone: its connections stay open.
    vault.cluster.freeze_primary();
    for (place, access) in (20..).zip(&nodes) {
        check_unavailable(access, place);
    }
    vault.cluster.resume_primary();
    for (place, access) in (20..).zip(&nodes) {
        check_recovered(access, place);
    }
    assert!(vault.is_running(0) && vault.is_running(1), "no node was started again");
    let created = vault.cluster.query_primary("SELECT count(*) FROM tokens");
    assert_eq!(created, ["6"], "one for each key");
    assert!(vault.is_audit_chain_valid());
    (RunReport::default(), true)
}
