//! The records of proxied calls.

use scrip_core::audit::LogKind;
use scrip_testing::{destination::behavior::DestinationBehavior, process::harness::becomes_true};
use serde_json::json;

use crate::proxy::harness::{ProxyHarness, StatedDelivery};

/// The records of proxied calls: entity, outcome and detail.
fn call_records(harness: &ProxyHarness) -> Vec<Vec<String>> {
    let server = &harness.server;
    let tenant = server.engine.sql_id(harness.keys.tenant.id.0);
    let sql = format!(
        "SELECT entity, outcome, detail FROM log_records WHERE tenant = {tenant} \
         AND operation IN ('invoke_proxy', 'use_token') ORDER BY sequence"
    );
    server.engine.select_from_log(LogKind::Read, &sql)
}

fn find<'a>(records: &'a [Vec<String>], entity: &str) -> Vec<&'a [String]> {
    records.iter().filter(|it| it[0] == entity).map(Vec::as_slice).collect()
}

#[test]
fn each_used_token_is_recorded_before_the_call_and_the_outcome_afterwards() {
    let harness = ProxyHarness::start();
    let host = harness.destinations.host(&[DestinationBehavior::text(402, "no")]);
    let proxy = harness.create_proxy_to(&host, json!({}));
    let (first, second) = (harness.create_card(), harness.create_card());
    let body = json!([first.number_expression(), second.cvc_expression()]);
    harness.post_to(&proxy).json(&body).send().expect_answer(402);
    let records = call_records(&harness);
    for card in [&first, &second] {
        let of_card = find(&records, &card.id);
        assert_eq!(of_card.len(), 1, "{records:?}");
        assert!(of_card[0][2].contains(host.name()), "{records:?}");
        assert!(of_card[0][2].contains(&proxy.id), "{records:?}");
    }
    // The outcome joins the next group commit.
    let has_outcome = || {
        let records = call_records(&harness);
        find(&records, &proxy.id).iter().any(|it| it[1] == "answered" && it[2].contains("402"))
    };
    assert!(becomes_true(has_outcome), "{:?}", call_records(&harness));
}

#[test]
fn call_without_a_token_is_recorded_too() {
    let harness = ProxyHarness::start();
    let host = harness.destinations.host(&[]);
    let keyless = harness.create_proxy_to(&host, json!({"require_auth": false}));
    harness.post(&host.url("")).json(&json!({})).send().expect_answer(200);
    harness.post_keyless(&keyless).send().expect_answer(200);
    let records = call_records(&harness);
    assert!(records.iter().any(|it| it[2].contains(host.name())), "{records:?}");
    assert!(!find(&records, &keyless.id).is_empty(), "{records:?}");
}

#[test]
fn uncertain_outcome_is_recorded() {
    let harness = ProxyHarness::start();
    let host = harness.destinations.host(&[DestinationBehavior::HangUp]);
    let proxy = harness.create_proxy_to(&host, json!({}));
    let response = harness.post_to(&proxy).json(&json!({})).send();
    response.expect_error(502, StatedDelivery::MaybeSent);
    let has_outcome = || {
        let records = call_records(&harness);
        find(&records, &proxy.id).iter().any(|it| it[1] == "maybe_sent")
    };
    assert!(becomes_true(has_outcome), "{:?}", call_records(&harness));
}

#[test]
fn denied_use_is_recorded_and_names_no_card() {
    let harness = ProxyHarness::start();
    let host = harness.destinations.host(&[]);
    let card = harness.create_card();
    let request = harness.post_url_as(&harness.keys.public, &host.url(""));
    request.json(&json!([card.number_expression()])).send().expect_not_sent(403);
    let records = call_records(&harness);
    assert!(records.iter().any(|it| it[1] == "forbidden"), "{records:?}");
    assert!(!format!("{records:?}").contains(&card.number));
}

/// Otherwise nobody could find who looks for internal addresses.
#[test]
fn call_to_a_destination_that_is_not_allowed_is_recorded_for_its_application() {
    let harness = ProxyHarness::start();
    let count = |outcome: &str| call_records(&harness).iter().filter(|it| it[1] == outcome).count();
    for (url, status, outcome) in [
        ("https://intranet.local/x", 403, "forbidden"),
        ("https://10.0.0.1/x", 400, "invalid"),
        ("https://169.254.169.254/latest", 400, "invalid"),
        ("ftp://psp.example/x", 400, "invalid"),
    ] {
        let before = count(outcome);
        let response = harness.post(url).json(&json!({})).send();
        response.expect_not_sent(status);
        assert_eq!(count(outcome), before + 1, "{url}: {:?}", call_records(&harness));
    }
    let before = call_records(&harness).len();
    harness.post_url_as("key_of_nobody", "https://10.0.0.1/x").send().expect_not_sent(400);
    assert_eq!(call_records(&harness).len(), before, "a request without a caller has a record");
}

/// The URL of a request may name a customer, so records contain the host only.
#[test]
fn records_contain_no_url_header_or_body() {
    let harness = ProxyHarness::start();
    let host = harness.destinations.host(&[]);
    let url = host.url("/marker-path?marker-query=1");
    let request = harness.post(&url).header("X-Marker", "marker-header");
    request.json(&json!({"marker": "marker-body"})).send().expect_answer(200);
    let request = harness.post("https://marker-host.test/").idempotency_key("marker-key");
    drop(request.json(&json!({})).send());
    let tenant = harness.server.engine.sql_id(harness.keys.tenant.id.0);
    for log in LogKind::ALL {
        let sql = format!("SELECT * FROM log_records WHERE tenant = {tenant}");
        let records = format!("{:?}", harness.server.engine.select_from_log(log, &sql));
        for marker in ["marker-path", "marker-query", "marker-header", "marker-body", "marker-key"]
        {
            assert!(!records.contains(marker), "{marker}: {records}");
        }
    }
}
