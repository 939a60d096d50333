//! What the interface has given up.

use scrip_core::{
    audit::Operation,
    policy::{ApplicationKind, Permission, Settings},
};
use serde_json::{Value, json};

use crate::harness::server::{ACME, Reply, SHARED, Server, card, new_number, text};

/// The three headers of a deprecated operation, in an answer that a browser can read them from.
#[track_caller]
pub(crate) fn deprecated(reply: &Reply, since: &str, sunset: &str, successor: &str) {
    assert_eq!(reply.headers["deprecation"], since);
    assert_eq!(reply.headers["sunset"], sunset);
    let link = format!("<{successor}>; rel=\"successor-version\"");
    assert_eq!(reply.headers["link"], link);
    let exposed = reply.headers["access-control-expose-headers"].split(", ");
    let exposed: Vec<_> = exposed.collect();
    for name in ["deprecation", "sunset", "link"] {
        assert!(exposed.contains(&name), "{name} is not in {exposed:?}");
    }
}

#[track_caller]
fn not_deprecated(reply: &Reply) {
    for name in ["deprecation", "sunset", "link"] {
        assert!(!reply.headers.contains_key(name), "{name}");
    }
}

#[test]
fn regeneration_is_gone_and_leads_to_the_keys_of_the_application() {
    let regenerate = |path: &str, key: &str| SHARED.ask("POST", path).key(key).send();
    let marked = |reply: &Reply, successor: &str| {
        deprecated(reply, "@1713312000", "Thu, 17 Oct 2024 00:00:00 GMT", successor);
    };
    let application = SHARED.fetch(&ACME.management, "/applications/key").is(200);
    let keys = format!("/applications/{}/keys", text(&application, "id"));
    let path = format!("/applications/{}/regenerate", text(&application, "id"));
    for path in [path.clone(), format!("{path}/")] {
        let gone = regenerate(&path, &ACME.management);
        gone.refused(410, "create another key at /applications/{id}/keys");
        marked(&gone, &keys);
    }
    SHARED.fetch(&ACME.management, &keys).is(200);
    // Who is not known is told so, and all the same that there is nothing to come back for.
    let unknown = regenerate(&path, "nobodys");
    unknown.refused(401, "BT-API-KEY");
    marked(&unknown, &keys);
}

#[test]
fn what_is_not_deprecated_does_not_say_so() {
    not_deprecated(&SHARED.fetch(&ACME.management, "/applications"));
    not_deprecated(&SHARED.create(&ACME.private, &json!({"type": "token", "data": 1})));
    not_deprecated(&SHARED.get(&ACME.private, "nobodys"));
    not_deprecated(&SHARED.ask("GET", "/nowhere").send());
}

/// What it once could hold, and what it never could.
fn privacies() -> [Value; 4] {
    let whole =
        json!({"classification": "general", "impact_level": "low", "restriction_policy": "redact"});
    [whole, json!({"restriction_policy": 7}), json!("open"), json!(null)]
}

#[test]
fn privacy_is_ignored_in_a_create() {
    for privacy in privacies() {
        let mut body = card(&new_number());
        let plain = SHARED.created(&ACME.private, &body);
        body["privacy"] = privacy;
        let made = SHARED.created(&ACME.private, &body);
        assert!(made.get("privacy").is_none(), "{made}");
        assert_eq!(made["containers"], json!(["/pci/high/"]));
        let read = SHARED.get(&ACME.private, &text(&made, "id")).is(200);
        for name in ["containers", "mask", "data", "card", "fingerprint", "type"] {
            assert_eq!(read[name], plain[name], "{name}");
        }
        assert!(read.get("privacy").is_none(), "{read}");
    }
}

#[test]
fn privacy_is_ignored_in_an_update() {
    let before = SHARED.created(&ACME.private, &card(&new_number()));
    let id = text(&before, "id");
    for privacy in privacies() {
        let patch = json!({"privacy": privacy, "metadata": {"patched": "yes"}});
        let after = SHARED.patch(&ACME.private, &id, &patch).is(200);
        assert_eq!(after["metadata"], json!({"patched": "yes"}));
        for name in ["containers", "mask", "data", "card", "fingerprint", "type"] {
            assert_eq!(after[name], before[name], "{name}");
        }
        assert!(after.get("privacy").is_none(), "{after}");
    }
}

/// What was deprecated of them was never here; nor are they, yet.
#[test]
fn there_are_no_reactors_and_no_proxies() {
    for path in ["/reactors", "/reactors/x/react", "/reactors/x/react-async", "/proxies"] {
        let body = json!({"callback_url": "https://shop.example", "request_reactor_id": "x"});
        SHARED.post(&ACME.management, path, &body).refused(404, "path");
    }
}

const SINCE: &str = "@1735862400";
const SUNSET: &str = "Sat, 01 Mar 2025 00:00:00 GMT";

#[track_caller]
fn v1_list(reply: &Reply) {
    deprecated(reply, SINCE, SUNSET, "/v2/tokens");
}

#[track_caller]
fn v1_search(reply: &Reply) {
    deprecated(reply, SINCE, SUNSET, "/v2/tokens/search");
}

fn without(permission: Permission) -> String {
    let kind = ApplicationKind::Private;
    let all = Permission::ALL.iter().copied();
    let held: Vec<_> = all.filter(|it| it.kinds().contains(&kind) && *it != permission).collect();
    SHARED.permissions(&ACME.tenant, kind, &held)
}

#[test]
fn every_answer_of_the_first_list_says_that_it_is_deprecated() {
    let list = |key: &str, query: &str| SHARED.fetch(key, &format!("/tokens{query}"));
    for query in ["", "/", "?size=1", "?page=2&size=1", "?id=nobodys"] {
        let found = list(&ACME.private, query);
        found.is(200);
        v1_list(&found);
    }
    let bad = list(&ACME.private, "?size=0");
    bad.refused(400, "size");
    v1_list(&bad);
    let unknown = list("nobodys", "");
    unknown.refused(401, "BT-API-KEY");
    v1_list(&unknown);
    for key in [&ACME.public, &without(Permission::TokenRead)] {
        let refused = list(key, "");
        refused.refused(403, "token:read");
        v1_list(&refused);
    }
    let second = SHARED.fetch(&ACME.private, "/v2/tokens");
    second.is(200);
    not_deprecated(&second);
    not_deprecated(&SHARED.fetch(&ACME.private, "/v2/tokens?size=0"));
}

#[test]
fn every_answer_of_the_first_search_says_that_it_is_deprecated() {
    let body = json!({"query": "id:nobodys"});
    let search = |key: &str, body: &Value| SHARED.post(key, "/tokens/search", body);
    let found = search(&ACME.private, &body);
    found.is(200);
    v1_search(&found);
    for (body, attribute) in [
        (json!({"query": "id:nobodys", "size": 0}), "size"),
        (json!({"query": "type:card"}), "query"),
        (json!({"query": 7}), "query"),
    ] {
        let bad = search(&ACME.private, &body);
        bad.refused(400, attribute);
        v1_search(&bad);
    }
    let form = SHARED.ask("POST", "/tokens/search").key(&ACME.private).text("text/plain", "{}");
    let form = form.send();
    form.refused(415, "application/json");
    v1_search(&form);
    let unknown = search("nobodys", &body);
    unknown.refused(401, "BT-API-KEY");
    v1_search(&unknown);
    let refused = search(&without(Permission::TokenSearch), &body);
    refused.refused(403, "token:search");
    v1_search(&refused);
    // Twice with one idempotency key: replayed or not, it says so.
    for _ in 0..2 {
        let once = SHARED.ask("POST", "/tokens/search").key(&ACME.private).once("v1-search");
        let once = once.json(&body).send();
        once.is(200);
        v1_search(&once);
    }
    let body = json!({"query": "type:card"});
    let second = SHARED.post(&ACME.private, "/v2/tokens/search", &body);
    second.is(200);
    not_deprecated(&second);
}

#[test]
fn what_is_switched_off_is_gone_and_nothing_else_is() {
    let search = json!({"query": "id:nobodys"});
    for off in [Operation::ListTokensV1, Operation::SearchTokensV1] {
        let server = Server::with(|app| app.switched_off = vec![off]);
        let keys = server.tenant(Settings::default());
        let list = server.fetch(&keys.private, "/tokens");
        v1_list(&list);
        let found = server.post(&keys.private, "/tokens/search", &search);
        v1_search(&found);
        if off == Operation::ListTokensV1 {
            list.refused(410, "GET /v2/tokens");
            found.is(200);
        } else {
            list.is(200);
            found.refused(410, "POST /v2/tokens/search");
        }
        // Their paths have others, and they have successors.
        let made = server.created(&keys.private, &json!({"type": "token", "data": 1}));
        server.get(&keys.private, &text(&made, "id")).is(200);
        server.fetch(&keys.private, "/v2/tokens").is(200);
        server.post(&keys.private, "/v2/tokens/search", &json!({"query": "type:token"})).is(200);
    }
}

#[test]
fn a_410_comes_after_the_key_and_before_the_body() {
    let server = Server::with(|app| {
        app.switched_off = vec![Operation::ListTokensV1, Operation::SearchTokensV1];
    });
    let keys = server.tenant(Settings::default());
    for key in [None, Some(""), Some("nobodys")] {
        for (method, path) in [("GET", "/tokens"), ("POST", "/tokens/search")] {
            let ask = server.ask(method, path);
            let ask = if let Some(key) = key { ask.key(key) } else { ask };
            ask.send().refused(401, "BT-API-KEY");
        }
    }
    server.fetch(&keys.public, "/tokens").refused(403, "token:read");
    server.post(&keys.public, "/tokens/search", &json!({})).refused(403, "token:search");
    server.fetch(&keys.private, "/tokens?size=0").refused(410, "GET /v2/tokens");
    for (content_type, body) in [("text/plain", "{"), ("application/json", "{")] {
        let ask = server.ask("POST", "/tokens/search").key(&keys.private).once("gone");
        ask.text(content_type, body).send().refused(410, "POST /v2/tokens/search");
    }
    // The idempotency key was not used up.
    let body = json!({"id": "not-gone", "type": "token", "data": 1});
    let create = server.ask("POST", "/tokens").key(&keys.private).once("gone").json(&body).send();
    assert_eq!(create.is(201)["id"], "not-gone");
}
