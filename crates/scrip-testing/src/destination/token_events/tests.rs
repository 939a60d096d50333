//! Tests of the check of received events.

use serde_json::json;

use super::*;

const SENT: RequestAttempts = RequestAttempts { sent: 1, is_acknowledged: false };
const ACKNOWLEDGED: RequestAttempts = RequestAttempts { sent: 1, is_acknowledged: true };
const NOT_SENT: RequestAttempts = RequestAttempts { sent: 0, is_acknowledged: false };

fn delivery(event: &str, event_type: &str, token: &str) -> DestinationRequest {
    let event_body =
        json!({ "id": event, "type": event_type, "data": { "token": { "id": token } } });
    let header = |name: &str| {
        let value = if name == "webhook-id" { event } else { "value" };
        (name.to_owned(), value.to_owned())
    };
    DestinationRequest {
        method: "POST".to_owned(),
        target: "/".to_owned(),
        headers: SIGNATURE_HEADERS.iter().map(|it| header(it)).collect(),
        body: json!({ "delivered_at": "now", "event": event_body }).to_string().into_bytes(),
        head: Vec::new(),
        is_http2: false,
        connection: 0,
        client_certificate: None,
        tls_version: String::new(),
    }
}

/// The requests create, read and delete of the token `t`.
fn requests(
    create: RequestAttempts,
    read: RequestAttempts,
    delete: RequestAttempts,
) -> TokenRequests {
    TokenRequests { id: "t".to_owned(), create, read, delete }
}

fn check(
    token: &TokenRequests,
    exists: bool,
    received: &[DestinationRequest],
) -> Vec<EventViolation> {
    let existing_ids = exists.then(|| token.id.clone()).into_iter().collect();
    let report = check_token_events(std::slice::from_ref(token), &existing_ids, received);
    report.violations.into_keys().collect()
}

#[test]
fn events_of_all_effects_are_no_violation() {
    let all_events = [
        delivery("1", TOKEN_CREATED, "t"),
        delivery("2", TOKEN_READ, "t"),
        delivery("3", TOKEN_DELETED, "t"),
        delivery("2", TOKEN_READ, "t"),
    ];
    let acknowledged = requests(ACKNOWLEDGED, ACKNOWLEDGED, ACKNOWLEDGED);
    assert_eq!(check(&acknowledged, false, &all_events), []);
    let existing_ids = HashSet::new();
    let report = check_token_events(&[acknowledged], &existing_ids, &all_events);
    assert_eq!((report.count("events"), report.count("repeated")), (3, 1));

    let without_response = requests(SENT, SENT, SENT);
    assert_eq!(check(&without_response, false, &all_events), []);
    assert_eq!(check(&without_response, false, &[]), [], "no request took effect");
    assert_eq!(check(&without_response, true, &all_events[..2]), []);
}

#[test]
fn missing_event_of_each_acknowledged_request_is_lost() {
    let cases = [
        requests(ACKNOWLEDGED, NOT_SENT, NOT_SENT),
        requests(SENT, ACKNOWLEDGED, NOT_SENT),
        requests(SENT, NOT_SENT, ACKNOWLEDGED),
    ];
    for token in cases {
        assert_eq!(check(&token, false, &[]), [EventViolation::LostEvent], "{token:?}");
    }
}

#[test]
fn effect_of_a_request_without_response_needs_an_event() {
    let created = requests(SENT, NOT_SENT, NOT_SENT);
    assert_eq!(check(&created, true, &[]), [EventViolation::EffectWithoutEvent]);
    let deleted = requests(ACKNOWLEDGED, NOT_SENT, SENT);
    let created_only = [delivery("1", TOKEN_CREATED, "t")];
    assert_eq!(check(&deleted, false, &created_only), [EventViolation::EffectWithoutEvent]);
    assert_eq!(check(&deleted, true, &created_only), [], "the deletion had no effect");
}

#[test]
fn second_event_id_of_one_effect_is_a_violation() {
    for event_type in [TOKEN_CREATED, TOKEN_READ] {
        let mut received = vec![delivery("1", TOKEN_CREATED, "t"), delivery("2", TOKEN_READ, "t")];
        received.push(delivery("3", event_type, "t"));
        let token = requests(ACKNOWLEDGED, ACKNOWLEDGED, NOT_SENT);
        assert_eq!(check(&token, true, &received), [EventViolation::SecondEvent], "{event_type}");
    }
    let read_twice = RequestAttempts { sent: 2, is_acknowledged: true };
    let token = requests(ACKNOWLEDGED, read_twice, NOT_SENT);
    let reads = ["2", "3"].map(|it| delivery(it, TOKEN_READ, "t"));
    let received = [vec![delivery("1", TOKEN_CREATED, "t")], reads.to_vec()].concat();
    assert_eq!(check(&token, true, &received), [], "two reads have two events");
}

#[test]
fn event_without_an_effect_is_a_violation() {
    let created = delivery("1", TOKEN_CREATED, "t");
    let cases = [
        (requests(SENT, NOT_SENT, NOT_SENT), false, vec![created.clone()]),
        (requests(ACKNOWLEDGED, NOT_SENT, NOT_SENT), true, vec![delivery("2", TOKEN_READ, "t")]),
        (requests(ACKNOWLEDGED, NOT_SENT, SENT), true, vec![delivery("2", TOKEN_DELETED, "t")]),
        (requests(ACKNOWLEDGED, NOT_SENT, NOT_SENT), true, vec![delivery("2", TOKEN_CREATED, "u")]),
        (requests(ACKNOWLEDGED, NOT_SENT, NOT_SENT), true, vec![delivery("2", "token.moved", "t")]),
    ];
    for (token, exists, mut received) in cases {
        if exists {
            received.push(created.clone());
        }
        let violations = check(&token, exists, &received);
        assert!(violations.contains(&EventViolation::EventWithoutEffect), "{violations:?}");
    }
}

#[test]
fn deliveries_of_one_event_must_be_equal_and_signed() {
    let token = requests(ACKNOWLEDGED, ACKNOWLEDGED, NOT_SENT);
    let received = [delivery("1", TOKEN_CREATED, "t"), delivery("1", TOKEN_READ, "t")];
    assert_eq!(check(&token, true, &received), [EventViolation::EventChanged]);
    for index in 0..SIGNATURE_HEADERS.len() {
        let mut received = [delivery("1", TOKEN_CREATED, "t"), delivery("2", TOKEN_READ, "t")];
        received[0].headers.remove(index);
        assert_eq!(check(&token, true, &received), [EventViolation::Unsigned], "{index}");
    }
    let mut received = [delivery("1", TOKEN_CREATED, "t"), delivery("2", TOKEN_READ, "t")];
    received[0].headers.iter_mut().for_each(|it| it.1 = "value".to_owned());
    assert_eq!(check(&token, true, &received), [EventViolation::Unsigned], "another event");
}
