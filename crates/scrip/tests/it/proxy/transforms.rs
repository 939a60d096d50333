//! Transforms of requests and answers: mask, tokenize, append, and code that cannot run.

use scrip_testing::destination::behavior::{CannedResponse, DestinationBehavior};
use serde_json::{Value, json};

use crate::{
    harness::server::unique_card_number,
    proxy::harness::{CreatedProxy, PROXY, StatedDelivery},
};

fn regex_mask(expression: &str) -> Value {
    json!({"type": "mask", "matcher": "regex", "expression": expression, "replacement": "*"})
}

/// Creates a proxy to a destination that answers with this text.
fn create_proxy(
    answer: DestinationBehavior,
    attributes: Value,
) -> (scrip_testing::destination::DestinationHost, CreatedProxy) {
    let host = PROXY.destinations.host(&[answer]);
    let proxy = PROXY.create_proxy_to(&host, attributes);
    (host, proxy)
}

#[test]
fn mask_replaces_every_occurrence_of_captured_text_in_a_match() {
    for (expression, answer, expected) in [
        ("^(aa).*?$", "aabbccaabbccaa", "**bbcc**bbcc**"),
        ("\"pan\":\"(\\d+)\"", r#"{"pan":"4242","x":"4242"}"#, r#"{"pan":"****","x":"4242"}"#),
        ("(\\d{4})-(\\d{4})", "1234-5678 1234", "****-**** 1234"),
        ("(é+)", "caféé x", "caf** x"),
        ("(z)", "no match", "no match"),
    ] {
        let (_, proxy) = create_proxy(
            DestinationBehavior::text(200, answer),
            json!({"response_transforms": [regex_mask(expression)]}),
        );
        let response = PROXY.post_to(&proxy).json(&json!({})).send().expect_answer(200);
        assert_eq!(response.text(), expected, "{expression}");
        assert_eq!(response.header("content-length"), Some(expected.len().to_string().as_str()));
    }
}

#[test]
fn answer_of_a_masked_proxy_is_requested_without_compression() {
    let (host, proxy) = create_proxy(
        DestinationBehavior::text(200, "a"),
        json!({"response_transform": regex_mask("(a)")}),
    );
    let request = PROXY.post_to(&proxy).header("Accept-Encoding", "gzip, br");
    request.json(&json!({})).send().expect_answer(200);
    assert_eq!(host.single_request().header("accept-encoding"), Some("identity"));
    let plain = PROXY.create_proxy_to(&host, json!({}));
    let request = PROXY.post_to(&plain).header("Accept-Encoding", "gzip, br");
    request.json(&json!({})).send().expect_answer(200);
    assert_eq!(host.last_request().header("accept-encoding"), Some("gzip, br"));
}

/// A destination that compresses its answer all the same must not avoid the mask.
#[test]
fn encoded_answer_never_passes_a_mask_unmasked() {
    let gzip = CannedResponse::new(200, "text/plain", b"\x1f\x8b card 4242424242424242".to_vec())
        .with_header("Content-Encoding", "gzip");
    let unknown = CannedResponse::new(200, "text/plain", "4242424242424242")
        .with_header("Content-Encoding", "x-unknown");
    for answer in [gzip, unknown] {
        let (_, proxy) =
            create_proxy(answer.into(), json!({"response_transforms": [regex_mask("(\\d{16})")]}));
        let response = PROXY.post_to(&proxy).json(&json!({})).send();
        assert!(!response.text().contains("4242424242424242"), "{}", response.text());
        response.expect_error(502, StatedDelivery::Answered);
        assert_eq!(response.destination_status(), Some(200));
    }
}

#[test]
fn response_transforms_run_for_2xx_answers_only() {
    let (host, proxy) = create_proxy(
        DestinationBehavior::text(402, "4242"),
        json!({"response_transforms": [regex_mask("(\\d+)")]}),
    );
    let response = PROXY.post_to(&proxy).json(&json!({})).send().expect_answer(402);
    assert_eq!(response.text(), "4242");
    host.set_behaviors(&[DestinationBehavior::text(201, "4242")]);
    let response = PROXY.post_to(&proxy).json(&json!({})).send().expect_answer(201);
    assert_eq!(response.text(), "****");
}

#[test]
fn response_collection_creates_a_token_and_hides_the_card() {
    let number = unique_card_number();
    let answer = json!({"account": {"pan": number, "id": 7}});
    let application = create_application("private");
    let transforms = json!([
        {"type": "tokenize", "options": {"identifier": "card", "token": {
            "type": "card", "data": {"number": "{{ res.account.pan }}"}}}},
        regex_mask("\"pan\":\"(\\d+)\""),
        {"type": "append_json", "options": {"location": "$.token_id",
            "value": "{{ transform_identifier: 'card' | json: '$.id' }}"}},
        {"type": "append_header", "options": {"location": "X-Token",
            "value": "{{ transform_identifier: 'card' | json: '$.id' }}"}},
    ]);
    let (_, proxy) = create_proxy(
        DestinationBehavior::json(200, &answer),
        json!({"response_transforms": transforms, "application": {"id": application}}),
    );
    let response = PROXY.post_to(&proxy).json(&json!({})).send().expect_answer(200);
    let body = response.response.json();
    assert!(!response.text().contains(&number), "{body}");
    assert_eq!(body["account"]["id"], 7);
    let token = body["token_id"].as_str().expect("the id of the token").to_owned();
    assert_eq!(response.header("x-token"), Some(token.as_str()));
    let stored = PROXY.server.get_token(&PROXY.keys.private, &token).expect_status(200);
    assert_eq!(stored["data"]["number"], number);
}

/// Inbound collection: a third party posts a card to the proxy, the merchant gets a token.
#[test]
fn keyless_request_collection_creates_a_token_and_hides_the_card() {
    let number = unique_card_number();
    let application = create_application("public");
    let transforms = json!([
        {"type": "tokenize", "options": {"identifier": "card", "token": {
            "type": "card", "data": {"number": "{{ req.card }}"}}}},
        regex_mask("\"card\":\"(\\d+)\""),
        {"type": "append_json", "options": {"location": "$.token",
            "value": "{{ transform_identifier: 'card' | json: '$.id' }}"}},
    ]);
    let attributes = json!({"require_auth": false, "request_transforms": transforms,
        "application": {"id": application}});
    let (host, proxy) = create_proxy(DestinationBehavior::text(200, "thanks"), attributes);
    let request = PROXY.post_keyless(&proxy);
    let body = json!({"card": number, "order": 7});
    let response = request.json(&body).send().expect_answer(200);
    assert_eq!(response.text(), "thanks");
    let received = host.single_request();
    assert!(!received.text().contains(&number));
    let received: Value = serde_json::from_str(received.text()).unwrap();
    assert_eq!((&received["order"], &received["card"]), (&json!(7), &json!("*".repeat(16))));
    let token = received["token"].as_str().unwrap();
    let stored = PROXY.server.get_token(&PROXY.keys.private, token).expect_status(200);
    assert_eq!(stored["data"]["number"], number);
}

/// Without an application there are no rights to lend, not even those of the caller.
#[test]
fn tokenize_without_an_application_is_422_and_nothing_is_sent() {
    let token = json!({"type": "token", "data": "{{ req.a }}"});
    let transforms = json!([{"type": "tokenize", "options": {"token": token}}]);
    for require_auth in [true, false] {
        let attributes = json!({"require_auth": require_auth, "request_transforms": transforms});
        let host = PROXY.destinations.host(&[]);
        let proxy = PROXY.create_proxy_to(&host, attributes);
        PROXY.post_to(&proxy).json(&json!({"a": "x"})).send().expect_not_sent(422);
        assert_eq!(host.request_count(), 0);
    }
}

/// Creates an application for the transforms of a proxy.
fn create_application(kind: &str) -> String {
    let permissions = json!({"permissions": ["token:create"]});
    PROXY.server.create_application(&PROXY.keys.management, kind, &permissions).id
}

#[test]
fn failed_response_transform_is_answered_and_hides_the_answer() {
    let application = create_application("private");
    let tokenize = json!({"type": "tokenize", "options": {"token": {
        "type": "card", "data": {"number": "{{ res.pan }}"}}}});
    let append = json!({"type": "append_json", "options": {"location": "$.a", "value": "x"}});
    for transform in [tokenize, append] {
        let (_, proxy) = create_proxy(
            DestinationBehavior::text(200, "not json: 4111111111111111"),
            json!({"response_transforms": [transform], "application": {"id": application}}),
        );
        let response = PROXY.post_to(&proxy).json(&json!({})).send();
        response.expect_error(502, StatedDelivery::Answered);
        assert_eq!(response.destination_status(), Some(200));
        assert!(!response.text().contains("4111111111111111"), "{}", response.text());
    }
}

#[test]
fn append_text_and_header_change_the_answer() {
    let transforms = json!([
        {"type": "append_text", "options": {"value": " and more"}},
        {"type": "append_header", "options": {"location": "X-Added", "value": "yes"}},
    ]);
    let (_, proxy) = create_proxy(
        DestinationBehavior::text(200, "text"),
        json!({"response_transforms": transforms}),
    );
    let response = PROXY.post_to(&proxy).json(&json!({})).send().expect_answer(200);
    assert_eq!(response.text(), "text and more");
    assert_eq!(response.header("x-added"), Some("yes"));
}

#[test]
fn fixed_width_mask_hides_the_card_number() {
    let number = unique_card_number();
    let record = format!("SV0000000001{number:<19}000000000100   ");
    let mask = json!([{"type": "mask", "matcher": "chase_stratus_pan", "replacement": "*"}]);
    let (_, proxy) =
        create_proxy(DestinationBehavior::text(200, &record), json!({"response_transforms": mask}));
    let response = PROXY.post_to(&proxy).json(&json!({})).send();
    assert!(!response.text().contains(&number) || response.status() != 200, "{}", response.text());
}

/// Skipping a transform that hides a card would show the card.
#[test]
fn code_transform_is_422_and_nothing_is_sent() {
    let code = json!({"type": "code", "code": "module.exports = async (req) => req.args"});
    for attributes in [
        json!({"request_transform": code}),
        json!({"response_transform": code}),
        json!({"request_transforms": [regex_mask("(a)"), code]}),
        json!({"response_transforms": [code]}),
        json!({"request_transform": {"code": "module.exports = async (req) => req.args"}}),
    ] {
        let host = PROXY.destinations.host(&[]);
        let proxy = PROXY.create_proxy_to(&host, attributes);
        PROXY.post_to(&proxy).json(&json!({})).send().expect_not_sent(422);
        assert_eq!(host.request_count(), 0);
    }
}

#[test]
fn expensive_mask_does_not_block_other_requests() {
    let answer = "ab".repeat(400_000);
    let (_, proxy) = create_proxy(
        DestinationBehavior::text(200, &answer),
        json!({"response_transforms": [regex_mask("(a+b)+?")]}),
    );
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| PROXY.post_to(&proxy).json(&json!({})).send().status()))
            .collect();
        assert_eq!(PROXY.server.get_path(&PROXY.keys.private, "/permissions").status, 200);
        for call in calls {
            assert!([200, 502, 503].contains(&call.join().unwrap()));
        }
    });
}
