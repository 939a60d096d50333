//! Tokens that a proxied call stores: none for a rejected call, and a record that names the sender.

use scrip_core::{
    audit::LogKind,
    types::{
        Permission::{ProxyInvoke, TokenRead, TokenUse},
        Transform::{Mask, Reveal},
    },
};
use scrip_testing::{destination::behavior::DestinationBehavior, process::harness::becomes_true};
use serde_json::{Value, json};

use crate::{
    harness::server::grant,
    proxy::harness::{CreatedProxy, ProxyHarness, StatedDelivery},
};

/// A proxy that stores a text of the request, and then applies another transform.
fn create_collecting_proxy(harness: &ProxyHarness, url: &str, next: Value) -> CreatedProxy {
    let application = harness.create_application(&json!({"permissions": ["token:create"]})).id;
    let token = json!({"type": "token", "data": "{{ req.data }}"});
    let transforms = json!([
        {"type": "tokenize", "options": {"identifier": "new", "token": token}},
        next,
    ]);
    let attributes = json!({"require_auth": false, "application": {"id": application},
        "request_transforms": transforms});
    harness.create_proxy(url, attributes)
}

/// A proxy that stores a token, and sends the token itself to a destination that repeats it.
fn create_showing_proxy(harness: &ProxyHarness, token: Value) -> CreatedProxy {
    let rights = json!({"permissions": ["token:create", "token:read"]});
    let application = harness.create_application(&rights).id;
    let transforms = json!([
        {"type": "tokenize", "options": {"identifier": "new", "token": token}},
        append("{{ transform_identifier: 'new' }}"),
    ]);
    let attributes = json!({"require_auth": false, "application": {"id": application},
        "request_transforms": transforms});
    let host = harness.destinations.host(&[DestinationBehavior::Echo]);
    harness.create_proxy_to(&host, attributes)
}

fn append(value: &str) -> Value {
    json!({"type": "append_json", "options": {"location": "$.token", "value": value}})
}

fn records(harness: &ProxyHarness, operation: &str) -> Vec<Vec<String>> {
    let tenant = harness.server.engine.sql_id(harness.keys.tenant.id.0);
    let sql = format!(
        "SELECT entity, outcome, detail FROM log_records WHERE tenant = {tenant} \
         AND operation = '{operation}' ORDER BY sequence"
    );
    harness.server.engine.select_from_log(LogKind::Read, &sql)
}

fn count_tokens(harness: &ProxyHarness) -> usize {
    let tokens = harness.server.get_path(&harness.keys.private, "/tokens").expect_status(200);
    tokens["data"].as_array().unwrap().len()
}

#[test]
fn rejected_call_stores_no_token_and_leaves_a_record() {
    let harness = ProxyHarness::start();
    let host = harness.destinations.host(&[]);
    // The second transform fails.
    let proxy =
        create_collecting_proxy(&harness, &host.url(""), append("{{ req.number | to_number }}"));
    let request = || harness.post_keyless(&proxy);
    request().json(&json!({"data": "a", "number": "x"})).send().expect_not_sent(400);
    assert_eq!((count_tokens(&harness), host.request_count()), (0, 0));
    let is_recorded = || {
        let records = records(&harness, "invoke_proxy");
        records.iter().any(|it| it[0] == proxy.id && it[1] == "invalid")
    };
    assert!(becomes_true(is_recorded), "{:?}", records(&harness, "invoke_proxy"));
    request().json(&json!({"data": "a", "number": "1"})).send().expect_answer(200);
    assert_eq!((count_tokens(&harness), host.request_count()), (1, 1));
}

/// Each token is stored in a transaction of its own: a conflict of the second one must be found before
/// the first is stored.
#[test]
fn call_that_cannot_store_all_its_tokens_stores_none() {
    let harness = ProxyHarness::start();
    let key = &harness.keys.private;
    harness.server.create_token_ok(key, &json!({"id": "taken", "type": "token", "data": 1}));
    let card = json!({"type": "card", "data": {"number": "4242424242424242"}});
    let intent = harness.server.create_intent_id(key, &card);
    let collect = |tokens: [&Value; 2]| {
        let application = harness.create_application(&json!({"permissions": ["token:create"]})).id;
        let transforms = tokens.map(|it| json!({"type": "tokenize", "options": {"token": it}}));
        let attributes = json!({"require_auth": false, "application": {"id": application},
            "request_transforms": transforms});
        let host = harness.destinations.host(&[]);
        (harness.create_proxy_to(&host, attributes), host)
    };
    let plain = json!({"type": "token", "data": "{{ req.n }}"});
    let named = json!({"id": "{{ req.id }}", "type": "token", "data": "{{ req.n }}"});
    let converted = json!({"token_intent_id": "{{ req.intent }}"});
    let body = json!({"id": "new-id", "n": "a", "intent": intent});
    let conflicting_body = json!({"id": "taken", "n": "a"});
    let calls = [
        ([&named, &named], &body, 409),
        ([&converted, &converted], &body, 400),
        ([&plain, &named], &conflicting_body, 409),
    ];
    for (tokens, body, status) in calls {
        let (proxy, host) = collect(tokens);
        for _ in 0..2 {
            let request = harness.post_to(&proxy).idempotency_key("one-call").json(body);
            request.send().expect_not_sent(status);
        }
        if status == 409 {
            harness.post_keyless(&proxy).json(body).send().expect_not_sent(status);
        }
        assert_eq!((count_tokens(&harness), host.request_count()), (1, 0), "{tokens:?}");
    }
    let conversion = json!({"token_intent_id": intent});
    harness.server.create_token_ok(key, &conversion);

    // A repeated call finds its own token.
    let mut equal = named.clone();
    equal["deduplicate_token"] = json!(true);
    let (proxy, host) = collect([&equal, &equal]);
    let tokens = count_tokens(&harness);
    for _ in 0..2 {
        harness.post_to(&proxy).json(&body).send().expect_answer(200);
    }
    assert_eq!((count_tokens(&harness), host.request_count()), (tokens + 1, 2));
}

/// The record is part of the transaction of the token: it is complete however the call ends.
#[test]
fn record_of_a_collected_token_names_the_sender() {
    let harness = ProxyHarness::start();
    let host = harness.destinations.host(&[]);
    let proxy = create_collecting_proxy(&harness, &host.url(""), append("x"));
    let sender = harness.create_application(&json!({"permissions": ["proxy:invoke"]}));
    let body = json!({"data": "a"});
    harness.post_keyless(&proxy).json(&body).send().expect_answer(200);
    let request = harness.post_keyless(&proxy).api_key(&sender.key);
    request.json(&body).send().expect_answer(200);
    let tenant = harness.server.engine.sql_id(harness.keys.tenant.id.0);
    let sql = format!(
        "SELECT outcome, detail FROM log_records WHERE tenant = {tenant} \
         AND operation = 'create_token' ORDER BY sequence"
    );
    let records = harness.server.engine.select_from_log(LogKind::Audit, &sql);
    let with_key = format!("collected for application {}", sender.id);
    let expected = ["collected for a client without an API key", with_key.as_str()];
    assert_eq!(records, expected.map(|it| vec!["created".to_owned(), it.to_owned()]));
}

#[test]
fn record_of_the_outcome_names_the_collected_token() {
    let harness = ProxyHarness::start();
    let host = harness.destinations.host(&[DestinationBehavior::HangUp]);
    let value = "{{ transform_identifier: 'new' | json: '$.id' }}";
    let proxy = create_collecting_proxy(&harness, &host.url(""), append(value));
    let request = harness.post_keyless(&proxy);
    request.json(&json!({"data": "a"})).send().expect_error(502, StatedDelivery::MaybeSent);
    let tokens = harness.server.get_path(&harness.keys.private, "/tokens").expect_status(200);
    let id = tokens["data"][0]["id"].as_str().expect("the token stays").to_owned();
    let is_recorded = || {
        let mut records = records(&harness, "create_token").into_iter();
        records.any(|it| it[0] == id && it[1] == "collected_in_call" && it[2].contains(&proxy.id))
    };
    assert!(becomes_true(is_recorded), "{:?}", records(&harness, "create_token"));
}

/// The text of the first broken rule would disclose a part of an answer that is withheld.
#[test]
fn failed_transform_of_an_answer_has_one_error_for_a_client_without_a_key() {
    let harness = ProxyHarness::start();
    let error = |transform: Value| {
        let host = harness.destinations.host(&[DestinationBehavior::json(200, &json!({"a": "x"}))]);
        let attributes = json!({"require_auth": false, "response_transforms": [transform]});
        let proxy = harness.create_proxy_to(&host, attributes);
        let request = harness.post_keyless(&proxy);
        request.json(&json!({})).send().expect_error(502, StatedDelivery::Answered)
    };
    let first = error(json!({"type": "append_header",
        "options": {"location": "X-A", "value": "{{ res.a | to_number }}"}}));
    let second = error(json!({"type": "append_json",
        "options": {"location": "$.b.c", "value": "{{ res.a }}"}}));
    assert_eq!(first, second);
}

#[test]
fn record_of_a_replay_names_the_proxy_and_its_tokens() {
    let harness = ProxyHarness::start();
    let host = harness.destinations.host(&[]);
    let proxy = harness.create_proxy_to(&host, json!({}));
    let card = harness.create_card();
    let call = || {
        let request = harness.post_to(&proxy).idempotency_key("replayed-call");
        request.json(&json!([card.number_expression()])).send().expect_answer(200)
    };
    call();
    call();
    assert_eq!(host.request_count(), 1);
    for (operation, entity) in [("invoke_proxy", &proxy.id), ("use_token", &card.id)] {
        let records = records(&harness, operation);
        let is_replay = |it: &Vec<String>| it[0] == *entity && it[1] == "replayed";
        assert!(records.iter().any(is_replay), "{operation}: {records:?}");
    }
}

/// A sender with masks could store what it may not read in a container that it reads in clear.
#[test]
fn collected_token_does_not_give_its_sender_more_rights_than_the_used_token() {
    let harness = ProxyHarness::start();
    let host = harness.destinations.host(&[]);
    let rule = json!({"description": "all", "priority": 1, "container": "/",
        "transform": "reveal", "permissions": ["token:create", "token:read"]});
    let application = harness.create_application(&json!({"rules": [rule]})).id;
    let collect = |container: &str| {
        let token = json!({"type": "token", "data": "{{ res.n }}", "containers": [container]});
        let transforms = json!([{"type": "tokenize", "options": {"token": token}}]);
        let attributes =
            json!({"application": {"id": application}, "response_transforms": transforms});
        harness.create_proxy_to(&host, attributes)
    };
    let card = harness.create_card();
    let body = json!({"n": card.number_expression()});
    for (transform, permission) in [(Reveal, TokenRead), (Mask, ProxyInvoke), (Mask, TokenUse)] {
        let rules = vec![
            grant("/pci/high/", Mask, &[TokenRead, ProxyInvoke]),
            grant("/open/", transform, &[permission]),
        ];
        let key = harness.server.key_with_rules(&harness.keys.tenant, rules);
        let send = |container: &str| {
            let request = harness.request("POST", "").api_key(&key);
            request.proxy_key(&collect(container).key).json(&body).send()
        };
        let is_gain = permission != ProxyInvoke;
        let tokens = count_tokens(&harness);
        match is_gain {
            true => drop(send("/open/").expect_not_sent(403)),
            false => drop(send("/open/").expect_answer(200)),
        }
        assert_eq!(count_tokens(&harness), tokens + usize::from(!is_gain), "{permission:?}");
        send("/pci/high/").expect_answer(200);
    }
}

/// The application of the proxy may read the existing token, but the sender only knows its number.
#[test]
fn collected_duplicate_shows_a_sender_without_a_read_right_only_its_outline() {
    let harness = ProxyHarness::start();
    let number = "4242424242424242";
    let stored = json!({"type": "card", "metadata": {"customer": "secret-name"},
        "data": {"number": number, "expiration_month": 7, "expiration_year": 2038}});
    let stored = harness.server.create_token_ok(&harness.keys.private, &stored);
    let token = json!({"type": "card", "deduplicate_token": true,
        "data": {"number": "{{ req.number }}"}});
    let proxy = create_showing_proxy(&harness, token);
    let send = |key: Option<&str>| {
        let request = harness.post_keyless(&proxy);
        let request = key.into_iter().fold(request, |request, key| request.api_key(key));
        let response = request.json(&json!({"number": number})).send().expect_answer(200);
        response.text().to_owned()
    };
    let keyless = send(None);
    assert!(keyless.contains(stored["id"].as_str().unwrap()), "{keyless}");
    for hidden in ["secret-name", "2038", "created_by"] {
        assert!(!keyless.contains(hidden), "{hidden} in {keyless}");
    }
    assert!(send(Some(&harness.keys.private)).contains("secret-name"));
}

/// The sender knows the id of an intent, and need not know its card.
#[test]
fn collected_conversion_does_not_show_the_card_of_the_intent() {
    let harness = ProxyHarness::start();
    let token = json!({"token_intent_id": "{{ req.intent }}"});
    let proxy = create_showing_proxy(&harness, token);
    let card = json!({"type": "card", "data": {"number": "4242424242424242",
        "expiration_month": 7, "expiration_year": 2038}});
    let intent = harness.server.create_intent_id(&harness.keys.private, &card);
    let body = json!({"intent": intent});
    let request = || harness.post_keyless(&proxy).json(&body);
    request().send().expect_not_sent(403);
    let sender = harness.key_with_rule("/other/", Mask, &[ProxyInvoke]);
    let response = request().api_key(&sender).send().expect_answer(200);
    assert!(response.text().contains("\"containers\""), "{}", response.text());
    for hidden in ["4242", "2038", "fingerprint"] {
        assert!(!response.text().contains(hidden), "{hidden} in {}", response.text());
    }
}
