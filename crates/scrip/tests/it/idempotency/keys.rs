//! Idempotency keys of token operations.

use std::{cmp::Reverse, sync::Barrier, time::Duration};

use scrip_api::{route::Route, routes::ROUTES};
use scrip_core::{
    policy::CallerRequirement,
    types::{
        ApplicationKind::Private,
        Operation,
        Permission::{TokenCreate, TokenRead},
        Transform::{Mask, Reveal},
    },
};
use serde_json::{Value, json};

use crate::{
    access::operation_calls::TenantHarness,
    harness::server::{
        ACME, SERVER, TestResponse, TestServer, card_body, grant, text_field, unique_card_number,
    },
};

fn create_with_key(key: &str, idempotency_key: &str, body: &Value) -> TestResponse {
    SERVER.post_once(key, "/tokens", idempotency_key, body)
}

#[test]
fn repeated_create_replays_the_first_response_without_the_cvc() {
    let first = create_with_key(&ACME.private, "repeat-1", &card_body(&unique_card_number()));
    assert_eq!(first.status, 201);
    let repeated = create_with_key(&ACME.private, "repeat-1", &card_body(&unique_card_number()));
    assert_eq!(repeated.status, 201);
    let mut expected = first.json();
    assert!(expected["data"].as_object_mut().unwrap().remove("cvc").is_some());
    assert_eq!(repeated.json(), expected, "the replay depends on the second body");
    let malformed_request =
        SERVER.request("POST", "/tokens").key(&ACME.private).idempotency_key("repeat-1");
    assert_eq!(malformed_request.body("application/json", "{").send().json(), expected);
}

#[test]
fn idempotency_key_is_rejected_for_another_method_or_path() {
    let keys = SERVER.create_default_tenant();
    let send = |key: &str, method: &str, path: &str, body: &Value| {
        let request = SERVER.request(method, path).key(key).idempotency_key("one-key");
        if method == "PATCH" { request.merge_patch(body).send() } else { request.json(body).send() }
    };
    let token = json!({"id": "first", "type": "token", "data": 1});
    let first = send(&keys.private, "POST", "/tokens", &token).expect_status(201);
    SERVER.create_token_ok(&keys.private, &json!({"id": "other", "type": "token", "data": 2}));
    let (patch, number) = (json!({"data": 3}), unique_card_number());
    let intent = json!({"type": "card", "data": {"number": number}});
    for (method, path, body) in [
        ("PATCH", "/tokens/first", &patch),
        ("PATCH", "/tokens/other", &patch),
        ("POST", "/token-intents", &intent),
        ("POST", "/tokenize", &token),
    ] {
        send(&keys.private, method, path, body).expect_problem(422, "idempotency key");
    }
    assert_eq!(SERVER.get_token(&keys.private, "other").json()["data"], 2);
    assert_eq!(send(&keys.private, "POST", "/tokens", &json!({})).json(), first);
    assert_eq!(send(&keys.private, "POST", "/tokens/", &token).json(), first);

    let application = json!({"name": "a", "type": "private", "permissions": ["token:create"]});
    let created = send(&keys.management, "POST", "/applications", &application).expect_status(201);
    let path = format!("/applications/{}", text_field(&created, "id"));
    for (method, path) in [("PUT", path.as_str()), ("POST", "/webhooks")] {
        let response = send(&keys.management, method, path, &application);
        response.expect_problem(422, "idempotency key");
    }
}

#[test]
fn repeated_patch_is_applied_once() {
    SERVER.create_token_ok(
        &ACME.private,
        &json!({"id": "patched-once", "type": "token", "data": {"n": 1}}),
    );
    let send_patch = |n: i32| {
        let request = SERVER
            .request("PATCH", "/tokens/patched-once")
            .key(&ACME.private)
            .idempotency_key("patch-1");
        request.merge_patch(&json!({"data": {"n": n}})).send()
    };
    let first = send_patch(2);
    assert_eq!(first.json()["data"]["n"], 2);
    assert_eq!(send_patch(3).text, first.text);
    assert_eq!(SERVER.get_token(&ACME.private, "patched-once").json()["data"]["n"], 2);
}

#[test]
fn failed_request_stores_no_response() {
    let invalid_response = create_with_key(
        &ACME.private,
        "retry-1",
        &json!({"type": "card", "data": {"number": "1"}}),
    );
    assert_eq!(invalid_response.status, 400);
    let valid_response =
        create_with_key(&ACME.private, "retry-1", &card_body(&unique_card_number()));
    assert_eq!(valid_response.status, 201);
    SERVER.create_token_ok(&ACME.private, &json!({"id": "taken-id", "type": "token", "data": 1}));
    let conflict_response = create_with_key(
        &ACME.private,
        "retry-2",
        &json!({"id": "taken-id", "type": "token", "data": 1}),
    );
    assert_eq!(conflict_response.status, 409);
    let retried_response =
        create_with_key(&ACME.private, "retry-2", &json!({"type": "token", "data": 1}));
    assert_eq!(retried_response.status, 201);
}

#[test]
fn idempotency_key_is_scoped_to_its_application() {
    let other_key = SERVER.key_with_permissions(&ACME.tenant, Private, &[TokenCreate]);
    let tenant = SERVER.create_default_tenant();
    let body = json!({"type": "token", "data": "x"});
    let ids: Vec<_> = [&ACME.private, &other_key, &tenant.private]
        .iter()
        .map(|key| create_with_key(key, "shared-key", &body).json()["id"].clone())
        .collect();
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
}

#[test]
fn concurrent_requests_with_one_key_create_one_token() {
    let barrier = Barrier::new(32);
    let body = card_body(&unique_card_number());
    let replies: Vec<TestResponse> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..32)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    create_with_key(&ACME.private, "at-once", &body)
                })
            })
            .collect();
        clients.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let mut ids: Vec<_> = Vec::new();
    for response in &replies {
        match response.status {
            201 => ids.push(response.json()["id"].to_string()),
            status => {
                assert_eq!(status, 409, "{}", response.text);
                response.expect_problem(409, "idempotency key");
            }
        }
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "one effect");
}

/// The response of a read is not stored, so a retry never returns stored data.
#[test]
fn idempotency_key_is_ignored_by_reads_and_deletes_on_every_route() {
    let mut harness = TenantHarness::new(&SERVER);
    let keys = [&harness.keys.private, &harness.keys.management].map(String::clone);
    let token = json!({"type": "token", "data": 1});
    SERVER.post_once(&keys[0], "/tokens", "same", &token).expect_status(201);
    let application = json!({"name": "a", "type": "public", "permissions": ["token:create"]});
    SERVER.post_once(&keys[1], "/applications", "same", &application).expect_status(201);
    harness.idempotency_key = Some("same");
    let count = || SERVER.count_rows(&harness.keys.tenant, "idempotency_records");
    let stored = count();
    let is_delete = |it: &Route| it.method_name() == "DELETE";
    let reads_with_body =
        [Operation::Detokenize, Operation::SearchTokens, Operation::SearchTokensV1];
    let is_read = |it: &Route| it.method_name() == "GET" || reads_with_body.contains(&it.operation);
    let mut routes: Vec<_> = ROUTES.iter().filter(|it| is_read(it) || is_delete(it)).collect();
    // Entities are deleted before the entity that contains them.
    let is_tenant = |it: &Route| it.operation == Operation::DeleteTenant;
    routes.sort_by_key(|it| (is_delete(it), is_tenant(it), Reverse(it.path.len())));
    for route in routes {
        let key = match route.requirement {
            CallerRequirement::Permission(it) => harness.full_key(it.kinds()[it.kinds().len() - 1]),
            CallerRequirement::AnyKey | CallerRequirement::Kind(_) => &harness.keys.private,
        };
        let statuses = [(); 2].map(|()| harness.call_route(route, Some(key)).status);
        let expected = match (is_delete(route), is_tenant(route)) {
            (false, _) => [200, 200],
            (true, false) => [204, 404],
            (true, true) => [204, 401],
        };
        assert_eq!(statuses, expected, "{route:?}");
        assert!(count() == stored || is_delete(route), "{route:?} stored its response");
    }
}

#[test]
fn response_is_replayed_for_a_day_without_data_of_deleted_tokens() {
    let (server, keys) = TestServer::start_with_tenant();
    let number = unique_card_number();
    let create_with_id = |id: &str| {
        let mut body = card_body(&number);
        body["id"] = json!(id);
        server.post_once(&keys.private, "/tokens", "a-day", &body)
    };
    create_with_id("day-1");
    assert_eq!(create_with_id("day-2").json()["id"], "day-1");
    assert_eq!(create_with_id("day-2").json()["data"]["number"], number);
    assert_eq!(server.request("DELETE", "/tokens/day-1").key(&keys.private).send().status, 204);
    let replayed = create_with_id("day-2");
    assert_eq!(replayed.json()["id"], "day-1");
    assert!(!replayed.text.contains(&number), "{}", replayed.text);
    server.clock.advance(Duration::from_secs(24 * 60 * 60 + 1));
    assert_eq!(create_with_id("day-2").json()["id"], "day-2", "the key still replays after a day");
}

#[test]
fn replay_shows_only_data_visible_in_the_current_container() {
    let permissions = [TokenCreate, TokenRead];
    let rules = vec![grant("/then/", Reveal, &permissions), grant("/now/", Mask, &permissions)];
    let key = SERVER.key_with_rules(&ACME.tenant, rules);
    let body =
        json!({"type": "social_security_number", "data": "123-45-6789", "containers": ["/then/"]});
    let request = || create_with_key(&key, "moved-later", &body);
    let first = request().json();
    assert_eq!(first["data"], "123-45-6789");
    assert_eq!(request().json(), first);
    let id = first["id"].as_str().unwrap();
    SERVER.patch_token(&ACME.private, id, &json!({"containers": ["/now/"]}));
    assert_eq!(request().json()["data"], "XXX-XX-6789");
    SERVER.patch_token(&ACME.private, id, &json!({"containers": ["/elsewhere/"]}));
    request().expect_problem(403, "token:create");
}

#[test]
fn stored_response_cannot_be_prolonged_by_altering_the_database() {
    let (server, keys) = TestServer::start_with_tenant();
    let body = json!({"id": "prolonged", "type": "token", "data": "a-secret"});
    let repeat_request = || server.post_once(&keys.private, "/tokens", "prolonged", &body);
    assert_eq!(repeat_request().status, 201);
    let database = &server.engine;
    // The record does not decrypt when it refers to a token that lives longer.
    let other_body = json!({"id": "lasting", "type": "token", "data": 1});
    server.create_token_ok(&keys.private, &other_body);
    let assign_record_to_token = |id: &str| {
        let number = database.token_number_column();
        let number = format!("(SELECT {number} FROM tokens WHERE id = '{id}')");
        let statement = format!("UPDATE response_token_data SET token = {number}");
        assert_eq!(database.execute(&statement), 1);
    };
    assign_record_to_token("lasting");
    assert_eq!(repeat_request().status, 500);
    assign_record_to_token("prolonged");
    assert_eq!(repeat_request().status, 201);
    // Without its token the record has no data.
    database.execute("DELETE FROM response_token_data");
    let altered_response = repeat_request();
    assert_eq!((altered_response.status, altered_response.text.contains("a-secret")), (201, false));
    // The record does not decrypt with another date.
    database.execute("UPDATE idempotency_records SET created_at = created_at + 1000000");
    assert_eq!(repeat_request().status, 500);
}

#[test]
fn idempotency_key_length_is_limited_and_any_text_is_accepted() {
    let long_key = "x".repeat(257);
    create_with_key(&ACME.private, &long_key, &json!({"type": "token", "data": 1}))
        .expect_problem(400, "BT-IDEMPOTENCY-KEY");
    let unusual_key = "a key with spaces, and \"quotes\"";
    let body = json!({"type": "token", "data": 1});
    assert_eq!(create_with_key(&ACME.private, unusual_key, &body).status, 201);
}
