//! Templates of transforms: what they read must not show the data of a token to a caller that may
//! use the token and not read it, and no template keeps a CVC.

use scrip_core::types::{
    Permission::{ProxyInvoke, TokenRead},
    Transform::{Mask, Reveal},
};
use scrip_testing::{destination::DestinationHost, requests::with_members};
use serde_json::{Value, json};

use crate::{
    harness::server::{TestResponse, text_field},
    proxy::{
        attacks::browsers::create_session,
        harness::{CreatedProxy, PROXY, ProxyRequest, ProxyResponse, TestCard, proxy_body},
    },
};

/// An application that creates tokens. It can read them too, but not for the sender of a call.
fn create_collector() -> String {
    let rules = json!([{"description": "collect", "priority": 1, "container": "/",
        "transform": "reveal", "permissions": ["token:create", "token:read"]}]);
    PROXY.create_application(&json!({"rules": rules})).id
}

fn tokenize(token: Value) -> Value {
    json!({"type": "tokenize", "options": {"identifier": "new", "token": token}})
}

/// Writes the created token into the body.
fn append_token() -> Value {
    json!({"type": "append_json", "options": {"location": "$.token",
        "value": "{{ transform_identifier: 'new' }}"}})
}

/// A destination that repeats every request.
fn create_collecting_proxy(attributes: Value) -> (DestinationHost, CreatedProxy) {
    let host = PROXY.destinations.host(&[]);
    let all = with_members(json!({"application": {"id": create_collector()}}), &attributes);
    let proxy = PROXY.create_proxy_to(&host, all);
    (host, proxy)
}

/// A key that uses cards and sees masks.
fn create_masked_key() -> String {
    PROXY.key_with_rule("/", Mask, &[TokenRead, ProxyInvoke])
}

fn swapped_halves(card: &TestCard) -> String {
    let number = format!("{} | json: '$.number'", card.id);
    format!("{{{{ {number} | slice: 8, 8 }}}}{{{{ {number} | slice: 0, 8 }}}}")
}

#[track_caller]
fn expect_unsent(host: &DestinationHost, response: &ProxyResponse, field: &str) {
    let error = response.expect_not_sent(400);
    assert!(error["errors"].get(field).is_some(), "{error}");
    assert_eq!(host.request_count(), 0);
}

/// The records of uses of the card.
fn count_uses(card: &TestCard) -> usize {
    let path = format!("/logs?operation=use_token&entity_id={}&size=100", card.id);
    let logs = PROXY.server.get_path(&PROXY.keys.management, &path).expect_status(200);
    logs["data"].as_array().unwrap().len()
}

#[test]
fn template_does_not_store_the_data_of_a_used_token() {
    let card = PROXY.create_card();
    let in_data = json!({"type": "token", "data": "{{ req.number }}"});
    let in_metadata = json!({"type": "token", "data": "x",
        "metadata": {"order": "{{ req.number }}"}});
    let whole = json!({"type": "token", "data": "{{ req }}"});
    let by_query = json!({"type": "token", "data": "{{ req | json: '$.number' }}"});
    for token in [in_data, in_metadata, whole, by_query] {
        let (host, proxy) =
            create_collecting_proxy(json!({"request_transforms": [tokenize(token.clone())]}));
        for key in [create_masked_key(), create_session(&card)] {
            let request = PROXY.post_as(&key, &proxy);
            let response = request.json(&json!({"number": swapped_halves(&card)})).send();
            expect_unsent(&host, &response, "request_transforms[0]");
        }
    }
    assert_eq!(count_uses(&card), 0, "the call is rejected before a token is loaded");
}

#[test]
fn template_reads_the_message_as_the_client_sent_it() {
    let card = PROXY.create_card();
    let transforms = json!([
        tokenize(json!({"type": "token", "data": "{{ req.order }}"})),
        {"type": "append_header", "options": {"location": "X-Order", "value": "{{ req.order }}"}},
        append_token(),
    ]);
    let (host, proxy) = create_collecting_proxy(json!({"request_transforms": transforms}));
    let request = PROXY.post_as(&create_masked_key(), &proxy);
    let body = json!({"order": "77", "number": card.number_expression()});
    request.json(&body).send().expect_answer(200);
    let received: Value = serde_json::from_str(host.single_request().text()).unwrap();
    assert_eq!(received["number"], card.number);
    assert_eq!(host.single_request().header("x-order"), Some("77"));
    let token = text_field(&received["token"], "id");
    let stored = PROXY.server.get_token(&PROXY.keys.private, &token).expect_status(200);
    assert_eq!(stored["data"], "77");
}

/// A destination that repeats the number, and a proxy that collects it from the answer.
fn collect_answer(key: &str, token: Value, card: &TestCard) -> ProxyResponse {
    let transforms = json!([tokenize(token), append_token()]);
    let (_, proxy) = create_collecting_proxy(json!({"response_transforms": transforms}));
    PROXY.post_as(key, &proxy).json(&json!({"number": card.number_expression()})).send()
}

#[test]
fn token_from_an_answer_shows_no_digit_of_a_used_token() {
    let card = PROXY.create_card();
    let key = create_masked_key();
    let token = json!({"type": "card", "data": {"number": "{{ res.number }}"},
        "mask": {"n": "{{ data.number | reveal_last: 4 }}"}});
    let response = collect_answer(&key, token, &card).expect_answer(200);
    let created = response.response.json()["token"].clone();
    let hidden = |token: &Value| {
        for attribute in ["card", "fingerprint", "data"] {
            assert!(token.get(attribute).is_none_or(Value::is_null), "{attribute}: {token}");
        }
        assert!(!token.to_string().contains(&card.number[12..]), "{token}");
    };
    hidden(&created);
    let id = text_field(&created, "id");
    hidden(&PROXY.server.get_token(&key, &id).expect_status(200));
    let revealing = PROXY.key_with_rule("/", Reveal, &[TokenRead]);
    let stored = PROXY.server.get_token(&revealing, &id).expect_status(200);
    assert_eq!(stored["data"]["number"], card.number);
    assert_eq!(stored["card"]["last4"], card.number[12..]);
    // A change of other attributes does not end this.
    let patch = json!({"metadata": {"a": "b"}});
    PROXY.server.patch_token(&PROXY.keys.private, &id, &patch).expect_status(200);
    hidden(&PROXY.server.get_token(&key, &id).expect_status(200));
    let patch = json!({"data": {"number": "4242424242424242"}});
    PROXY.server.patch_token(&PROXY.keys.private, &id, &patch).expect_status(200);
    let replaced = PROXY.server.get_token(&key, &id).expect_status(200);
    assert_eq!(replaced["card"]["last4"], "4242");
}

#[test]
fn answer_of_a_call_with_a_hidden_token_fills_only_data() {
    let card = PROXY.create_card();
    let in_metadata =
        json!({"type": "token", "data": "x", "metadata": {"order": "{{ res.number }}"}});
    let in_id = json!({"type": "token", "data": "x", "id": "{{ res.number }}"});
    for token in [in_metadata, in_id] {
        collect_answer(&create_masked_key(), token.clone(), &card).expect_not_sent(403);
        // A caller that reads the card in clear may copy the answer.
        let other_id =
            json!({"type": "token", "data": "x", "id": "{{ res.number | append: 'x' }}"});
        let token = if token.get("id").is_some() { other_id } else { token };
        collect_answer(&PROXY.keys.private, token, &card).expect_answer(200);
    }
}

#[test]
fn token_from_an_answer_shows_its_digits_to_a_caller_that_reads_the_used_token() {
    let card = PROXY.create_card();
    let token = json!({"type": "card", "data": {"number": "{{ res.number }}"}});
    let response = collect_answer(&PROXY.keys.private, token, &card).expect_answer(200);
    let id = text_field(&response.response.json()["token"], "id");
    let stored = PROXY.server.get_token(&create_masked_key(), &id).expect_status(200);
    assert_eq!(stored["card"]["last4"], card.number[12..]);
}

fn create(list: &str, transform: Value) -> TestResponse {
    let attributes = json!({(list): [transform], "configuration": {"api_key": "secret"},
        "application": {"id": create_collector()}});
    let body = proxy_body(&PROXY.destinations.host(&[]).url(""), attributes);
    PROXY.server.post(&PROXY.keys.management, "/proxies", &body)
}

#[test]
fn template_that_reads_a_cvc_into_another_place_than_a_cards_cvc_is_rejected() {
    let card = |data: Value| tokenize(json!({"type": "card", "data": data}));
    let append = |kind: &str, value: &str| {
        let location = if kind == "append_json" { "$.a" } else { "X-A" };
        json!({"type": kind, "options": {"location": location, "value": value}})
    };
    let rejected = [
        tokenize(json!({"type": "token", "data": "{{ req.card.cvc }}"})),
        tokenize(json!({"type": "token", "data": {"cvc": "{{ req.card.cvc }}"}})),
        tokenize(json!({"type": "card", "data": {"number": "{{ req.n }}"},
            "metadata": {"cvc": "{{ req.cvc }}"}})),
        card(json!({"number": "{{ req.cvc }}"})),
        card(json!({"number": "{{ req | json: '$.card.cvc' }}"})),
        card(json!({"number": "{{ req | json: '$..cvc' }}"})),
        card(json!({"number": "{{ req.a | append: req.CVC }}"})),
        card(json!({"number": "{{ req['cvc'] }}"})),
        card(json!({"number": "{{ req[req.name] }}"})),
        card(json!({"number": "{{ req.cards | map: 'cvc' }}"})),
        append("append_json", "{{ req.cvc }}"),
        append("append_text", "{{ req.cvc }}"),
        append("append_header", "a{{ req.card.cvc }}"),
    ];
    for transform in rejected {
        create("request_transforms", transform.clone()).expect_status(400);
        let text = transform.to_string().replace("req", "res");
        create("response_transforms", serde_json::from_str(&text).unwrap()).expect_status(400);
    }
    let whole = card(json!({"number": "{{ req.number }}", "cvc": "{{ req.card.cvc }}"}));
    create("request_transforms", whole).expect_status(201);
    create("request_transforms", card(json!("{{ req.card }}"))).expect_status(201);
}

/// An object that contains a CVC is not copied into a place where it would stay for ever.
#[test]
fn template_does_not_keep_a_cvc_inside_of_an_object() {
    let body = json!({"card": {"number": "4242424242424242", "cvc": "987"}});
    for token in [
        json!({"type": "token", "data": "{{ req.card }}"}),
        json!({"type": "token", "data": "x", "metadata": {"card": "a {{ req }}"}}),
    ] {
        let (host, proxy) = create_collecting_proxy(
            json!({"require_auth": false, "request_transforms": [tokenize(token)]}),
        );
        let response = PROXY.post_keyless(&proxy).json(&body).send();
        expect_unsent(&host, &response, "request_transforms[0]");
    }
}

#[test]
fn template_of_a_token_or_an_answer_cannot_read_the_configuration() {
    for value in
        ["{{ config: api_key }}", "{{ config.api_key }}", "{{ req.a | append: config.api_key }}"]
    {
        let token = tokenize(json!({"type": "token", "data": value}));
        let append = json!({"type": "append_text", "options": {"value": value}});
        create("request_transforms", token.clone()).expect_status(400);
        create("response_transforms", token).expect_status(400);
        create("response_transforms", append.clone()).expect_status(400);
        create("request_transforms", append).expect_status(201);
    }
}

/// A proxy that appends a secret of its configuration to requests.
fn create_appending_proxy(host: &DestinationHost, kind: &str, location: &str) -> CreatedProxy {
    let options = json!({"location": location, "value": "{{ config: api_key }}"});
    let attributes = json!({"configuration": {"api_key": "provider-secret"},
        "request_transforms": [{"type": kind, "options": options}]});
    PROXY.create_proxy_to(host, attributes)
}

fn masked_request(proxy: &CreatedProxy) -> ProxyRequest {
    PROXY.post_as(&create_masked_key(), proxy)
}

/// The destination repeats the key of the provider in an error of the vault or in its answer.
#[test]
fn header_expression_reads_the_headers_of_the_client_only() {
    let host = PROXY.destinations.host(&[]);
    let proxy = create_appending_proxy(&host, "append_header", "X-API-Key");
    let card = PROXY.create_card();
    let session = create_session(&card);
    for value in ["{{ proxy.request.headers.X-API-Key }}", "{{ proxy.request.headers }}"] {
        for key in [&session, &PROXY.keys.private] {
            let request = PROXY.post_as(key, &proxy);
            let request = request.header("X-Copy", value).header("X-Own", "mine");
            request.json(&json!({})).send().expect_answer(200);
            let received = host.last_request();
            assert_eq!(received.header("x-api-key"), Some("provider-secret"));
            assert!(!received.header("x-copy").unwrap_or_default().contains("secret"));
        }
    }
    let request = PROXY.post_as(&session, &proxy);
    let request =
        request.header("X-Own", "mine").header("X-Copy", "{{ proxy.request.headers.x-own }}");
    request.json(&json!({})).send().expect_answer(200);
    assert_eq!(host.last_request().header("x-copy"), Some("mine"));
}

#[test]
fn access_session_cannot_read_the_body_with_a_header_expression() {
    let host = PROXY.destinations.host(&[]);
    let proxy = create_appending_proxy(&host, "append_json", "$.key");
    let card = PROXY.create_card();
    let session = create_session(&card);
    let values = [
        "{{ proxy.request.body }}",
        "{{ proxy.request }}",
        "{{ proxy }}",
        "{{ 'a' | append: proxy.request.body }}",
        "{{ proxy.request[proxy.request.headers.x-own] }}",
        "{{ proxy.request.headers[proxy.request.body] }}",
    ];
    for value in values {
        let request = PROXY.post_as(&session, &proxy);
        request.header("X-Copy", value).json(&json!({})).send().expect_not_sent(403);
    }
    assert_eq!(host.request_count(), 0);
    let request = PROXY
        .post_to(&proxy)
        .header("X-Copy", "{{ proxy.request.body | hmac: 'sha-256', 'key' | to_base64 }}");
    request.json(&json!({})).send().expect_answer(200);
}

/// The text of an error would disclose the configuration character by character.
#[test]
fn failing_header_expressions_have_one_error_for_callers_that_may_not_read() {
    let host = PROXY.destinations.host(&[]);
    let proxy = PROXY.create_proxy_to(&host, json!({"configuration": {"pin": "7391"}}));
    let error = |name: &str, value: &str| {
        masked_request(&proxy).header(name, value).json(&json!({})).send().expect_not_sent(403)
    };
    let first = error("X-A", "{{ config.pin | replace: '7', 'x' | to_number }}");
    let second = error("X-B", "{{ proxy.config.pin | append: 'a' | to_number }}");
    assert_eq!(first, second);
    assert_eq!(first["errors"], json!({"proxy": ["not_sent"]}));
    let body = masked_request(&proxy)
        .json(&json!({"a": "{{ config: pin | replace: '7', 'x' | to_number }}"}));
    let body = body.send().expect_not_sent(403);
    assert_eq!(body["errors"], first["errors"]);
}
