//! Update Token.

use scrip_core::policy::{
    ApplicationKind::Private,
    Permission::{TokenRead, TokenUpdate},
};
use serde_json::{Value, json};

use crate::harness::server::{ACME, SHARED, Server, card, new_number};

fn new_card(id: &str) -> Value {
    let mut body = card(&new_number());
    body["id"] = json!(id);
    body["metadata"] = json!({"a": "1", "b": "2"});
    SHARED.created(&ACME.private, &body)
}

#[test]
fn merge_patch_of_data_mask_and_metadata() {
    let before = new_card("merge-patch");
    let patch = json!({
        "data": {"expiration_year": 2040, "expiration_month": null, "cvc": null},
        "metadata": {"a": null, "c": "3"},
        "mask": {"note": "fixed"},
        "expires_at": "8/27/2090",
    });
    let reply = SHARED.patch(&ACME.private, "merge-patch", &patch);
    assert_eq!(reply.status, 200, "{}", reply.text);
    let after = reply.json();
    assert_eq!(after["data"], json!({"number": before["data"]["number"], "expiration_year": 2040}));
    assert_eq!(after["metadata"], json!({"b": "2", "c": "3"}));
    assert_eq!(after["mask"]["note"], "fixed");
    assert_eq!(after["mask"]["number"], before["mask"]["number"], "merged into the type's mask");
    assert_eq!(after["expires_at"], "2090-08-27T00:00:00+00:00");
    assert_eq!(after["created_at"], before["created_at"]);
    assert_eq!(after["modified_by"], before["created_by"]);
    assert!(after["modified_at"].is_string());
    assert_eq!(after["fingerprint"], before["fingerprint"]);
    assert!(after.get("_extras").is_none());
    assert_eq!(SHARED.get(&ACME.private, "merge-patch").json(), after);

    let cleared = json!({"expires_at": null, "mask": null, "metadata": null});
    let cleared = SHARED.patch(&ACME.private, "merge-patch", &cleared).json();
    assert_eq!(cleared["mask"], before["mask"]);
    assert!(cleared.get("expires_at").is_none() && cleared.get("metadata").is_none());
}

#[test]
fn data_of_any_shape() {
    let cases = [
        (
            json!({"a": {"b": 1, "c": 2}}),
            json!({"a": {"b": null, "d": [1]}}),
            json!({"a": {"c": 2, "d": [1]}}),
        ),
        (json!("text"), json!({"a": 1}), json!({"a": 1})),
        (json!({"a": 1}), json!([1, 2]), json!([1, 2])),
        (json!([1]), json!("text"), json!("text")),
    ];
    for (at, (data, patch, expected)) in cases.into_iter().enumerate() {
        let id = format!("shape-{at}");
        let before =
            SHARED.created(&ACME.private, &json!({"id": id, "type": "token", "data": data}));
        let after = SHARED.patch(&ACME.private, &id, &json!({"data": patch})).json();
        assert_eq!(after["data"], expected);
        assert_ne!(
            after["fingerprint"], before["fingerprint"],
            "another value, another fingerprint"
        );
    }
}

#[test]
fn replaced_attributes() {
    new_card("replaced");
    let patch = json!({
        "containers": ["/other/"],
        "search_indexes": ["{{ data.number | last4 }}"],
        "fingerprint_expression": "{{ data.number }}x",
    });
    let after = SHARED.patch(&ACME.private, "replaced", &patch).json();
    for attribute in ["containers", "search_indexes", "fingerprint_expression"] {
        assert_eq!(after[attribute], patch[attribute]);
    }
    let back = json!({"containers": null, "search_indexes": null, "fingerprint_expression": null});
    let after = SHARED.patch(&ACME.private, "replaced", &back).json();
    assert_eq!(after["containers"], json!(["/pci/high/"]));
    assert_eq!(after["fingerprint_expression"], "{{ data.number }}");
    assert!(after.get("search_indexes").is_none());
}

#[test]
fn a_refused_patch_changes_nothing() {
    let before = new_card("refused-patch");
    let refused = [
        (json!({"data": {"number": "4111111111111112"}}), "data.number"),
        (json!({"data": null}), "data"),
        (json!({"data": "text"}), "data"),
        (json!({"metadata": {"ok": "yes", "bad": 1}}), "metadata"),
        (json!({"metadata": "text"}), "metadata"),
        (json!({"containers": ["bad"], "metadata": {"x": "y"}}), "containers[0]"),
        (json!({"expires_at": "1/1/2020"}), "expires_at"),
        (json!({"mask": {"x": "{{ nobody }}"}}), "mask"),
        (json!({"search_indexes": ["{{ data }}"]}), "search_indexes[0]"),
        (json!([]), "object"),
    ];
    for (patch, attribute) in refused {
        SHARED.patch(&ACME.private, "refused-patch", &patch).refused(400, attribute);
    }
    let mut after = SHARED.get(&ACME.private, "refused-patch").json();
    after["_extras"] = before["_extras"].clone();
    assert_eq!(after, before);
}

#[test]
fn the_types_mask_stays_the_types() {
    let body = json!({"id": "short-account", "type": "us_bank_account_number", "data": "1234"});
    assert_eq!(SHARED.created(&ACME.public, &body)["data"], "XXXX");
    let same = json!({"mask": "{{ data | reveal_last: 4 }}"});
    let masked = SHARED.permissions(&ACME.tenant, Private, &[TokenRead, TokenUpdate]);
    SHARED.patch(&ACME.public, "short-account", &same).is(200);
    assert_eq!(SHARED.patch(&masked, "short-account", &same).json()["data"], "XXXX");
    let mut given = body.clone();
    given["id"] = json!("short-account-2");
    given["mask"] = same["mask"].clone();
    assert_eq!(SHARED.created(&ACME.public, &given)["data"], "XXXX");
}

#[test]
fn patches_do_not_add_up_without_end() {
    SHARED.created(&ACME.private, &json!({"id": "growing", "type": "token", "data": {}}));
    let grow = |at: i32| {
        let patch = json!({"metadata": {format!("k{at}"): "x".repeat(900_000)}});
        SHARED.patch(&ACME.private, "growing", &patch)
    };
    assert_eq!((grow(1).status, grow(2).status), (200, 200));
    grow(3).refused(400, "data");
}

#[test]
fn a_new_token_under_an_old_id_is_not_taken_for_it() {
    let server = Server::start();
    let keys = server.tenant(scrip_core::policy::Settings::default());
    let revision = || {
        server.created(&keys.private, &json!({"id": "reused", "type": "token", "data": 1}));
        let revision = server.engine.count("SELECT revision FROM tokens");
        assert_eq!(server.ask("DELETE", "/tokens/reused").key(&keys.private).send().status, 204);
        revision
    };
    let (one, two) = (revision(), revision());
    assert!(one > 0 && two > 0 && one.abs_diff(two) > 1_000_000, "{one} {two}");
}

#[test]
fn the_content_type_must_be_merge_patch() {
    new_card("content-type");
    for content_type in ["application/json", "text/plain", "application/json-patch+json"] {
        let ask = SHARED.ask("PATCH", "/tokens/content-type").key(&ACME.private);
        ask.text(content_type, "{}").send().refused(415, "application/merge-patch+json");
    }
    let ask = SHARED.ask("PATCH", "/tokens/content-type").key(&ACME.private);
    let reply = ask.text("Application/Merge-Patch+JSON; charset=utf-8", "{}").send();
    assert_eq!(reply.status, 200);
    assert_eq!(SHARED.patch(&ACME.private, "no-such-token", &json!({})).status, 404);
}

#[test]
fn concurrent_patches_are_all_there() {
    SHARED.created(&ACME.private, &json!({"id": "contended", "type": "token", "data": {}}));
    std::thread::scope(|scope| {
        for at in 0..32 {
            scope.spawn(move || {
                let patch = json!({"data": {format!("k{at}"): at}});
                let reply = SHARED.patch(&ACME.private, "contended", &patch);
                assert_eq!(reply.status, 200, "{}", reply.text);
            });
        }
    });
    let data = SHARED.get(&ACME.private, "contended").json()["data"].clone();
    assert_eq!(data.as_object().unwrap().len(), 32, "no patch was lost");
}
