//! The idempotency key.

use std::{sync::Barrier, time::Duration};

use scrip_core::policy::{
    ApplicationKind::Private,
    Permission::{TokenCreate, TokenRead},
    Settings,
    Transform::{Mask, Reveal},
};
use serde_json::{Value, json};

use crate::harness::server::{ACME, Reply, SHARED, Server, card, grant, new_number};

fn create(key: &str, once: &str, body: &Value) -> Reply {
    SHARED.ask("POST", "/tokens").key(key).once(once).json(body).send()
}

#[test]
fn a_repeated_create_has_the_first_answer_without_the_cvc() {
    let first = create(&ACME.private, "repeat-1", &card(&new_number()));
    assert_eq!(first.status, 201);
    let again = create(&ACME.private, "repeat-1", &card(&new_number()));
    assert_eq!(again.status, 201);
    let mut expected = first.json();
    assert!(expected["data"].as_object_mut().unwrap().remove("cvc").is_some());
    assert_eq!(again.json(), expected, "whatever the second body says");
    let malformed = SHARED.ask("POST", "/tokens").key(&ACME.private).once("repeat-1");
    assert_eq!(malformed.text("application/json", "{").send().json(), expected);
}

#[test]
fn a_repeated_patch_is_applied_once() {
    SHARED
        .created(&ACME.private, &json!({"id": "patched-once", "type": "token", "data": {"n": 1}}));
    let patch = |n: i32| {
        let ask = SHARED.ask("PATCH", "/tokens/patched-once").key(&ACME.private).once("patch-1");
        ask.patch(&json!({"data": {"n": n}})).send()
    };
    let first = patch(2);
    assert_eq!(first.json()["data"]["n"], 2);
    assert_eq!(patch(3).text, first.text);
    assert_eq!(SHARED.get(&ACME.private, "patched-once").json()["data"]["n"], 2);
}

#[test]
fn a_failed_request_is_not_remembered() {
    let bad = create(&ACME.private, "retry-1", &json!({"type": "card", "data": {"number": "1"}}));
    assert_eq!(bad.status, 400);
    let good = create(&ACME.private, "retry-1", &card(&new_number()));
    assert_eq!(good.status, 201);
    SHARED.created(&ACME.private, &json!({"id": "taken-id", "type": "token", "data": 1}));
    let taken =
        create(&ACME.private, "retry-2", &json!({"id": "taken-id", "type": "token", "data": 1}));
    assert_eq!(taken.status, 409);
    let free = create(&ACME.private, "retry-2", &json!({"type": "token", "data": 1}));
    assert_eq!(free.status, 201);
}

#[test]
fn a_key_belongs_to_its_application() {
    let other = SHARED.permissions(&ACME.tenant, Private, &[TokenCreate]);
    let tenant = SHARED.tenant(Settings::default());
    let body = json!({"type": "token", "data": "x"});
    let ids: Vec<_> = [&ACME.private, &other, &tenant.private]
        .iter()
        .map(|key| create(key, "shared-key", &body).json()["id"].clone())
        .collect();
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
}

#[test]
fn at_the_same_time_one_acts_and_the_others_wait_or_repeat() {
    let barrier = Barrier::new(32);
    let body = card(&new_number());
    let replies: Vec<Reply> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..32)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    create(&ACME.private, "at-once", &body)
                })
            })
            .collect();
        clients.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let mut ids: Vec<_> = Vec::new();
    for reply in &replies {
        match reply.status {
            201 => ids.push(reply.json()["id"].to_string()),
            status => {
                assert_eq!(status, 409, "{}", reply.text);
                reply.refused(409, "idempotency key");
            }
        }
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "one effect");
}

#[test]
fn ignored_where_nothing_is_written() {
    SHARED.created(&ACME.private, &json!({"id": "read-twice", "type": "token", "data": 1}));
    let get = || SHARED.ask("GET", "/tokens/read-twice").key(&ACME.private).once("same").send();
    assert_eq!(get().json()["data"], 1);
    SHARED.patch(&ACME.private, "read-twice", &json!({"data": 2}));
    assert_eq!(get().json()["data"], 2);
    let delete =
        || SHARED.ask("DELETE", "/tokens/read-twice").key(&ACME.private).once("same").send();
    assert_eq!((delete().status, delete().status), (204, 404));
}

#[test]
fn remembered_for_a_day_and_without_data_once_the_token_is_gone() {
    let server = Server::start();
    let keys = server.tenant(Settings::default());
    let number = new_number();
    let create = |id: &str| {
        let mut body = card(&number);
        body["id"] = json!(id);
        server.ask("POST", "/tokens").key(&keys.private).once("a-day").json(&body).send()
    };
    create("day-1");
    assert_eq!(create("day-2").json()["id"], "day-1");
    assert_eq!(create("day-2").json()["data"]["number"], number);
    assert_eq!(server.ask("DELETE", "/tokens/day-1").key(&keys.private).send().status, 204);
    let replay = create("day-2");
    assert_eq!(replay.json()["id"], "day-1");
    assert!(!replay.text.contains(&number), "{}", replay.text);
    server.clock.advance(Duration::from_secs(24 * 60 * 60 + 1));
    assert_eq!(create("day-2").json()["id"], "day-2", "a day later it is a new request");
}

#[test]
fn a_replay_shows_no_more_than_where_the_token_is_now() {
    let all = [TokenCreate, TokenRead];
    let rules = vec![grant("/then/", Reveal, &all), grant("/now/", Mask, &all)];
    let key = SHARED.rules(&ACME.tenant, rules);
    let body =
        json!({"type": "social_security_number", "data": "123-45-6789", "containers": ["/then/"]});
    let ask = || create(&key, "moved-later", &body);
    let first = ask().json();
    assert_eq!(first["data"], "123-45-6789");
    assert_eq!(ask().json(), first);
    let id = first["id"].as_str().unwrap();
    SHARED.patch(&ACME.private, id, &json!({"containers": ["/now/"]}));
    assert_eq!(ask().json()["data"], "XXX-XX-6789");
    SHARED.patch(&ACME.private, id, &json!({"containers": ["/elsewhere/"]}));
    ask().refused(403, "token:create");
}

#[test]
fn a_remembered_answer_cannot_be_prolonged_in_the_database() {
    let server = Server::start();
    let keys = server.tenant(Settings::default());
    let body = json!({"id": "prolonged", "type": "token", "data": "a-secret"});
    let ask =
        || server.ask("POST", "/tokens").key(&keys.private).once("prolonged").json(&body).send();
    assert_eq!(ask().status, 201);
    let database = &server.engine;
    // Tied to a token that is there longer, it does not open.
    let other = json!({"id": "lasting", "type": "token", "data": 1});
    server.created(&keys.private, &other);
    let tie = |id: &str| {
        let number = database.number();
        let number = format!("(SELECT {number} FROM tokens WHERE id = '{id}')");
        assert_eq!(database.change(&format!("UPDATE answer_data SET token = {number}")), 1);
    };
    tie("lasting");
    assert_eq!(ask().status, 500);
    tie("prolonged");
    assert_eq!(ask().status, 201);
    // Cut off from its token, it has no data.
    database.change("DELETE FROM answer_data");
    let cut = ask();
    assert_eq!((cut.status, cut.text.contains("a-secret")), (201, false));
    // With another date, it does not open.
    database.change("UPDATE answers SET created_at = created_at + 1000000");
    assert_eq!(ask().status, 500);
}

#[test]
fn strange_keys() {
    let long = "x".repeat(257);
    create(&ACME.private, &long, &json!({"type": "token", "data": 1}))
        .refused(400, "BT-IDEMPOTENCY-KEY");
    let odd = "a key with spaces, and \"quotes\"";
    assert_eq!(create(&ACME.private, odd, &json!({"type": "token", "data": 1})).status, 201);
}
