//! Update Token.

use scrip_core::policy::{
    ApplicationKind::Private,
    Permission::{TokenRead, TokenUpdate},
};
use serde_json::{Value, json};

use crate::harness::server::{ACME, SHARED_SERVER, TestServer, card_body, unique_card_number};

fn create_card(id: &str) -> Value {
    let mut body = card_body(&unique_card_number());
    body["id"] = json!(id);
    body["metadata"] = json!({"a": "1", "b": "2"});
    SHARED_SERVER.create_token_ok(&ACME.private, &body)
}

#[test]
fn data_mask_and_metadata_are_merge_patched() {
    let before = create_card("merge-patch");
    let patch = json!({
        "data": {"expiration_year": 2040, "expiration_month": null, "cvc": null},
        "metadata": {"a": null, "c": "3"},
        "mask": {"note": "fixed"},
        "expires_at": "8/27/2090",
    });
    let reply = SHARED_SERVER.patch_token(&ACME.private, "merge-patch", &patch);
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
    assert_eq!(SHARED_SERVER.get_token(&ACME.private, "merge-patch").json(), after);

    let cleared = json!({"expires_at": null, "mask": null, "metadata": null});
    let cleared = SHARED_SERVER.patch_token(&ACME.private, "merge-patch", &cleared).json();
    assert_eq!(cleared["mask"], before["mask"]);
    assert!(cleared.get("expires_at").is_none() && cleared.get("metadata").is_none());
}

#[test]
fn data_of_any_json_type_is_merge_patched() {
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
        let before = SHARED_SERVER
            .create_token_ok(&ACME.private, &json!({"id": id, "type": "token", "data": data}));
        let after = SHARED_SERVER.patch_token(&ACME.private, &id, &json!({"data": patch})).json();
        assert_eq!(after["data"], expected);
        assert_ne!(
            after["fingerprint"], before["fingerprint"],
            "another value, another fingerprint"
        );
    }
}

#[test]
fn containers_indexes_and_fingerprint_expression_are_replaced() {
    create_card("replaced");
    let patch = json!({
        "containers": ["/other/"],
        "search_indexes": ["{{ data.number | last4 }}"],
        "fingerprint_expression": "{{ data.number }}x",
    });
    let after = SHARED_SERVER.patch_token(&ACME.private, "replaced", &patch).json();
    for attribute in ["containers", "search_indexes", "fingerprint_expression"] {
        assert_eq!(after[attribute], patch[attribute]);
    }
    let back = json!({"containers": null, "search_indexes": null, "fingerprint_expression": null});
    let after = SHARED_SERVER.patch_token(&ACME.private, "replaced", &back).json();
    assert_eq!(after["containers"], json!(["/pci/high/"]));
    assert_eq!(after["fingerprint_expression"], "{{ data.number }}");
    assert!(after.get("search_indexes").is_none());
}

#[test]
fn rejected_patch_changes_nothing() {
    let before = create_card("refused-patch");
    let rejected = [
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
    for (patch, attribute) in rejected {
        SHARED_SERVER
            .patch_token(&ACME.private, "refused-patch", &patch)
            .expect_problem(400, attribute);
    }
    let mut after = SHARED_SERVER.get_token(&ACME.private, "refused-patch").json();
    after["_extras"] = before["_extras"].clone();
    assert_eq!(after, before);
}

#[test]
fn submitted_default_mask_behaves_like_the_default_mask() {
    let body = json!({"id": "short-account", "type": "us_bank_account_number", "data": "1234"});
    assert_eq!(SHARED_SERVER.create_token_ok(&ACME.public, &body)["data"], "XXXX");
    let same = json!({"mask": "{{ data | reveal_last: 4 }}"});
    let masked =
        SHARED_SERVER.key_with_permissions(&ACME.tenant, Private, &[TokenRead, TokenUpdate]);
    SHARED_SERVER.patch_token(&ACME.public, "short-account", &same).expect_status(200);
    assert_eq!(SHARED_SERVER.patch_token(&masked, "short-account", &same).json()["data"], "XXXX");
    let mut given = body.clone();
    given["id"] = json!("short-account-2");
    given["mask"] = same["mask"].clone();
    assert_eq!(SHARED_SERVER.create_token_ok(&ACME.public, &given)["data"], "XXXX");
}

#[test]
fn token_size_is_limited_across_patches() {
    SHARED_SERVER
        .create_token_ok(&ACME.private, &json!({"id": "growing", "type": "token", "data": {}}));
    let grow = |at: i32| {
        let patch = json!({"metadata": {format!("k{at}"): "x".repeat(900_000)}});
        SHARED_SERVER.patch_token(&ACME.private, "growing", &patch)
    };
    assert_eq!((grow(1).status, grow(2).status), (200, 200));
    grow(3).expect_problem(400, "data");
}

#[test]
fn reused_id_gets_a_new_revision() {
    let server = TestServer::start();
    let keys = server.create_test_tenant(scrip_core::policy::TenantSettings::default());
    let revision = || {
        server.create_token_ok(&keys.private, &json!({"id": "reused", "type": "token", "data": 1}));
        let revision = server.engine.query_count("SELECT revision FROM tokens");
        assert_eq!(
            server.request("DELETE", "/tokens/reused").key(&keys.private).send().status,
            204
        );
        revision
    };
    let (one, two) = (revision(), revision());
    assert!(one > 0 && two > 0 && one.abs_diff(two) > 1_000_000, "{one} {two}");
}

#[test]
fn patch_requires_the_merge_patch_content_type() {
    create_card("content-type");
    for content_type in ["application/json", "text/plain", "application/json-patch+json"] {
        let ask = SHARED_SERVER.request("PATCH", "/tokens/content-type").key(&ACME.private);
        ask.body(content_type, "{}").send().expect_problem(415, "application/merge-patch+json");
    }
    let ask = SHARED_SERVER.request("PATCH", "/tokens/content-type").key(&ACME.private);
    let reply = ask.body("Application/Merge-Patch+JSON; charset=utf-8", "{}").send();
    assert_eq!(reply.status, 200);
    assert_eq!(SHARED_SERVER.patch_token(&ACME.private, "no-such-token", &json!({})).status, 404);
}

#[test]
fn concurrent_patches_are_all_applied() {
    SHARED_SERVER
        .create_token_ok(&ACME.private, &json!({"id": "contended", "type": "token", "data": {}}));
    std::thread::scope(|scope| {
        for at in 0..32 {
            scope.spawn(move || {
                let patch = json!({"data": {format!("k{at}"): at}});
                let reply = SHARED_SERVER.patch_token(&ACME.private, "contended", &patch);
                assert_eq!(reply.status, 200, "{}", reply.text);
            });
        }
    });
    let data = SHARED_SERVER.get_token(&ACME.private, "contended").json()["data"].clone();
    assert_eq!(data.as_object().unwrap().len(), 32, "no patch was lost");
}
