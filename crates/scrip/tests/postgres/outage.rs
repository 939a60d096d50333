//! PostgreSQL is away for a while, or does not answer: nodes say so, and recover by themselves.

use scrip_testing::{
    postgres::cluster::Cluster,
    process::client::{Access, Answer, Client},
    requests::card_number,
};
use serde_json::json;

use crate::{
    Length,
    nodes::{Vault, eventually, status},
    tally::Tally,
};

fn create(access: &Access, place: u64) -> Answer {
    let key = format!("outage-{place}");
    let headers = [("Content-Type", "application/json"), ("BT-IDEMPOTENCY-KEY", key.as_str())];
    let body = json!({ "type": "card", "data": { "number": card_number(place) } });
    let mut client = Client::connect(access).expect("the node is there");
    client.ask("POST /tokens", &headers, &body.to_string()).expect("an answer")
}

fn becomes(access: &Access, line: &str, expected: u16) {
    let came = eventually(|| status(access, line) == Some(expected));
    assert!(came, "{line} does not become {expected}");
}

/// Nothing is said to be done, nothing is our own fault, and the process lives.
fn is_away(access: &Access, place: u64) {
    let refused = create(access, place);
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert!(refused.body.contains("try again"), "{}", refused.body);
    becomes(access, "GET /readyz", 503);
    assert_eq!(status(access, "GET /healthz"), Some(200));
}

/// The same keys as before; whether the first attempt was done after all makes no difference.
fn is_back(access: &Access, place: u64) {
    becomes(access, "GET /readyz", 200);
    assert_eq!(create(access, place).status, 201);
}

pub(crate) fn answers_and_recovers(_: Length) -> (Tally, bool) {
    let mut vault = Vault::found(Cluster::start(&[]));
    let nodes = [0, 1].map(|it| vault.door.node(it).expect("it runs"));
    for (place, access) in (0..).zip(&nodes) {
        assert_eq!(create(access, place).status, 201);
    }
    vault.cluster.kill();
    for (place, access) in (10..).zip(&nodes) {
        is_away(access, place);
    }
    vault.cluster.revive();
    for (place, access) in (10..).zip(&nodes) {
        is_back(access, place);
    }
    // A machine that hangs is worse than one that is gone: its connections stay open.
    vault.cluster.freeze();
    for (place, access) in (20..).zip(&nodes) {
        is_away(access, place);
    }
    vault.cluster.thaw();
    for (place, access) in (20..).zip(&nodes) {
        is_back(access, place);
    }
    assert!(vault.is_running(0) && vault.is_running(1), "no node was started again");
    let made = vault.cluster.query("SELECT count(*) FROM tokens");
    assert_eq!(made, ["6"], "one for each key");
    assert!(vault.is_trail_whole());
    (Tally::default(), true)
}
