//! Update Token.

use scrip_core::types::{
    ApplicationKind::Private,
    Permission::{TokenRead, TokenUpdate},
};
use scrip_testing::requests::{assert_members, with_members};
use serde_json::{Value, json};

use crate::harness::server::{ACME, SERVER, TestServer, card_body, unique_card_number};

fn create_card(id: &str) -> Value {
    let attributes = json!({"id": id, "metadata": {"a": "1", "b": "2"}});
    let body = with_members(card_body(&unique_card_number()), &attributes);
    SERVER.create_token_ok(&ACME.private, &body)
}

#[test]
fn data_mask_and_metadata_are_merge_patched() {
    let token_before = create_card("merge-patch");
    let patch = json!({
        "data": {"expiration_year": 2040, "expiration_month": null, "cvc": null},
        "metadata": {"a": null, "c": "3"},
        "mask": {"note": "fixed"},
        "expires_at": "8/27/2090",
    });
    let response = SERVER.patch_token(&ACME.private, "merge-patch", &patch);
    assert_eq!(response.status, 200, "{}", response.text);
    let token_after = response.json();
    let expected = json!({
        "data": {"number": token_before["data"]["number"], "expiration_year": 2040},
        "metadata": {"b": "2", "c": "3"},
        "expires_at": "2090-08-27T00:00:00+00:00",
        "created_at": token_before["created_at"],
        "modified_by": token_before["created_by"],
        "fingerprint": token_before["fingerprint"],
    });
    assert_members(&token_after, &expected);
    // The patch is merged into the default mask.
    let expected_mask = json!({"note": "fixed", "number": token_before["mask"]["number"]});
    assert_members(&token_after["mask"], &expected_mask);
    assert!(token_after["modified_at"].is_string());
    assert!(token_after.get("_extras").is_none());
    assert_eq!(SERVER.get_token(&ACME.private, "merge-patch").json(), token_after);

    let null_patch = json!({"expires_at": null, "mask": null, "metadata": null});
    let cleared_token = SERVER.patch_token(&ACME.private, "merge-patch", &null_patch).json();
    assert_eq!(cleared_token["mask"], token_before["mask"]);
    assert!(cleared_token.get("expires_at").is_none() && cleared_token.get("metadata").is_none());
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
    for (index, (data, patch, expected)) in cases.iter().enumerate() {
        let id = format!("shape-{index}");
        let body = json!({"id": id, "type": "token", "data": data});
        let token_before = SERVER.create_token_ok(&ACME.private, &body);
        let token_after = SERVER.patch_token(&ACME.private, &id, &json!({"data": patch})).json();
        assert_eq!(token_after["data"], *expected);
        assert_ne!(token_after["fingerprint"], token_before["fingerprint"], "{data}");
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
    let token_after = SERVER.patch_token(&ACME.private, "replaced", &patch).json();
    for attribute in ["containers", "search_indexes", "fingerprint_expression"] {
        assert_eq!(token_after[attribute], patch[attribute]);
    }
    let reset_patch =
        json!({"containers": null, "search_indexes": null, "fingerprint_expression": null});
    let token_after = SERVER.patch_token(&ACME.private, "replaced", &reset_patch).json();
    assert_eq!(token_after["containers"], json!(["/pci/high/"]));
    assert_eq!(token_after["fingerprint_expression"], "{{ data.number }}");
    assert!(token_after.get("search_indexes").is_none());
}

#[test]
fn rejected_patch_changes_nothing() {
    let token_before = create_card("rejected-patch");
    let rejected_patches = [
        (json!({"data": {"number": "4111111111111112"}}), "data.number"),
        (json!({"data": null}), "data"),
        (json!({"data": "text"}), "data"),
        (json!({"metadata": {"ok": "yes", "bad": 1}}), "metadata"),
        (json!({"metadata": "text"}), "metadata"),
        (json!({"containers": ["bad"], "metadata": {"x": "y"}}), "containers[0]"),
        (json!({"expires_at": "1/1/2020"}), "expires_at"),
        (json!({"mask": {"x": "{{ unknown }}"}}), "mask"),
        (json!({"search_indexes": ["{{ data }}"]}), "search_indexes[0]"),
        (json!([]), "object"),
    ];
    for (patch, attribute) in rejected_patches {
        SERVER.patch_token(&ACME.private, "rejected-patch", &patch).expect_problem(400, attribute);
    }
    let mut token_after = SERVER.get_token(&ACME.private, "rejected-patch").json();
    token_after["_extras"] = token_before["_extras"].clone();
    assert_eq!(token_after, token_before);
}

#[test]
fn submitted_default_mask_behaves_like_the_default_mask() {
    let body = json!({"id": "short-account", "type": "us_bank_account_number", "data": "1234"});
    assert_eq!(SERVER.create_token_ok(&ACME.public, &body)["data"], "XXXX");
    let default_mask_patch = json!({"mask": "{{ data | reveal_last: 4 }}"});
    let reader = SERVER.key_with_permissions(&ACME.tenant, Private, &[TokenRead, TokenUpdate]);
    let patch_with = |key: &str| SERVER.patch_token(key, "short-account", &default_mask_patch);
    patch_with(&ACME.public).expect_status(200);
    assert_eq!(patch_with(&reader).json()["data"], "XXXX");
    let mask = &default_mask_patch["mask"];
    let body_with_mask = with_members(body, &json!({"id": "short-account-2", "mask": mask}));
    assert_eq!(SERVER.create_token_ok(&ACME.public, &body_with_mask)["data"], "XXXX");
}

#[test]
fn token_size_is_limited_across_patches() {
    SERVER.create_token_ok(&ACME.private, &json!({"id": "growing", "type": "token", "data": {}}));
    let add_metadata = |index: i32| {
        let patch = json!({"metadata": {format!("k{index}"): "x".repeat(900_000)}});
        SERVER.patch_token(&ACME.private, "growing", &patch)
    };
    assert_eq!((add_metadata(1).status, add_metadata(2).status), (200, 200));
    add_metadata(3).expect_problem(400, "data");
}

#[test]
fn number_of_values_is_limited_across_patches() {
    SERVER.create_token_ok(&ACME.private, &json!({"id": "many", "type": "token", "data": {}}));
    let patch = |patch: &Value| SERVER.patch_token(&ACME.private, "many", patch);
    let add_values = |name: &str| patch(&json!({"data": {name: vec![1; 60_000]}}));
    assert_eq!(add_values("a").status, 200);
    let problem = add_values("b");
    problem.expect_problem(400, "data");
    assert!(problem.text.contains("would have more than 100,000 values"), "{}", problem.text);
    let replaced = patch(&json!({"data": {"a": null, "b": vec![1; 60_000]}}));
    assert_eq!(replaced.status, 200, "{}", replaced.text);
    // A mask counts too.
    let mask = patch(&json!({"mask": vec!["x"; 60_000]}));
    mask.expect_problem(400, "data");
}

#[test]
fn reused_id_gets_a_new_revision() {
    let (server, keys) = TestServer::start_with_tenant();
    let revision = || {
        server.create_token_ok(&keys.private, &json!({"id": "reused", "type": "token", "data": 1}));
        let revision = server.engine.query_count("SELECT revision FROM tokens");
        assert_eq!(server.delete(&keys.private, "/tokens/reused").status, 204);
        revision
    };
    let (first_revision, second_revision) = (revision(), revision());
    assert!(first_revision > 0 && second_revision > 0);
    let difference = first_revision.abs_diff(second_revision);
    assert!(difference > 1_000_000, "{first_revision} and {second_revision} are related");
}

#[test]
fn patch_requires_the_merge_patch_content_type() {
    create_card("content-type");
    for content_type in ["application/json", "text/plain", "application/json-patch+json"] {
        let request = SERVER.request("PATCH", "/tokens/content-type").key(&ACME.private);
        request.body(content_type, "{}").send().expect_problem(415, "application/merge-patch+json");
    }
    let request = SERVER.request("PATCH", "/tokens/content-type").key(&ACME.private);
    let response = request.body("Application/Merge-Patch+JSON; charset=utf-8", "{}").send();
    assert_eq!(response.status, 200);
    assert_eq!(SERVER.patch_token(&ACME.private, "no-such-token", &json!({})).status, 404);
}

#[test]
fn concurrent_patches_are_all_applied() {
    SERVER.create_token_ok(&ACME.private, &json!({"id": "contended", "type": "token", "data": {}}));
    std::thread::scope(|scope| {
        for index in 0..32 {
            scope.spawn(move || {
                let patch = json!({"data": {format!("k{index}"): index}});
                let response = SERVER.patch_token(&ACME.private, "contended", &patch);
                assert_eq!(response.status, 200, "{}", response.text);
            });
        }
    });
    let data = SERVER.get_token(&ACME.private, "contended").json()["data"].clone();
    assert_eq!(data.as_object().unwrap().len(), 32, "a patch was lost");
}
