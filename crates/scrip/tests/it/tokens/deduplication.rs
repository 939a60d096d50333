//! The same card twice.

use scrip_core::policy::{
    ApplicationKind::Private,
    DeduplicationBehavior,
    Permission::{TokenCreate, TokenRead, TokenUpdate},
    TenantSettings,
    Transform::{Mask, Reveal},
};
use serde_json::{Value, json};

use crate::harness::server::{ACME, SHARED_SERVER, card_body, grant, unique_card_number};

fn deduplicated_card(number: &str) -> Value {
    let mut body = card_body(number);
    body["deduplicate_token"] = json!(true);
    body
}

/// What a caller that may not read is told of the token that was there first.
fn existing_without_data(first: &Value, behavior: &str) -> Value {
    json!({
        "id": first["id"],
        "type": "card",
        "tenant_id": first["tenant_id"],
        "fingerprint": first["fingerprint"],
        "containers": ["/pci/high/"],
        "_extras": {"deduplicated": true, "deduplication_behavior": behavior},
    })
}

fn updating_settings() -> TenantSettings {
    TenantSettings {
        deduplicate_tokens: true,
        token_deduplication_behavior: DeduplicationBehavior::UpdateExisting,
        ..TenantSettings::default()
    }
}

#[test]
fn deduplicated_create_returns_the_existing_token() {
    let number = unique_card_number();
    let first = SHARED_SERVER.create_token_ok(&ACME.private, &card_body(&number));
    let mut again = deduplicated_card(&number);
    again["id"] = json!("ignored-when-deduplicated");
    again["metadata"] = json!({"new": "ignored"});
    let found = SHARED_SERVER.create_token_ok(&ACME.private, &again);
    assert_eq!(found["id"], first["id"]);
    assert_eq!(found["data"]["number"], number);
    assert!(found.get("metadata").is_none());
    let extras = json!({"deduplicated": true, "deduplication_behavior": "read_existing"});
    assert_eq!(found["_extras"], extras);
    assert_eq!(SHARED_SERVER.get_token(&ACME.private, "ignored-when-deduplicated").status, 404);
}

#[test]
fn token_in_another_container_or_type_is_not_a_duplicate() {
    let number = unique_card_number();
    SHARED_SERVER.create_token_ok(&ACME.private, &card_body(&number));
    let mut elsewhere = deduplicated_card(&number);
    elsewhere["containers"] = json!(["/pci/low/"]);
    assert_eq!(
        SHARED_SERVER.create_token_ok(&ACME.private, &elsewhere)["_extras"]["deduplicated"],
        false
    );
    let kind = json!({"type": "card_number", "data": number, "deduplicate_token": true});
    assert_eq!(
        SHARED_SERVER.create_token_ok(&ACME.private, &kind)["_extras"]["deduplicated"],
        false
    );
    let mut set = deduplicated_card(&number);
    set["containers"] = json!(["/b/", "/a/"]);
    SHARED_SERVER.create_token_ok(&ACME.private, &set);
    set["containers"] = json!(["/a/", "/b/"]);
    assert_eq!(
        SHARED_SERVER.create_token_ok(&ACME.private, &set)["_extras"]["deduplicated"],
        true,
        "sets have no order"
    );
}

#[test]
fn duplicate_without_read_permission_is_returned_without_data() {
    let number = unique_card_number();
    let mut body = card_body(&number);
    body["metadata"] = json!({"customer": "7"});
    let first = SHARED_SERVER.create_token_ok(&ACME.private, &body);
    let found = SHARED_SERVER.create_token_ok(&ACME.public, &deduplicated_card(&number));
    let expected = existing_without_data(&first, "read_existing");
    assert_eq!(found, expected);

    let masked =
        SHARED_SERVER.key_with_permissions(&ACME.tenant, Private, &[TokenCreate, TokenRead]);
    let found = SHARED_SERVER.create_token_ok(&masked, &deduplicated_card(&number));
    assert_eq!(found["metadata"], json!({"customer": "7"}));
    assert!(!found.to_string().contains(&number));
}

#[test]
fn concurrent_deduplicated_creates_leave_one_token() {
    let number = unique_card_number();
    let body = deduplicated_card(&number);
    let ids: Vec<Value> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..64)
            .map(|_| scope.spawn(|| SHARED_SERVER.create_token_ok(&ACME.private, &body)))
            .collect();
        clients.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let new = ids.iter().filter(|it| it["_extras"]["deduplicated"] == false).count();
    assert_eq!(new, 1);
    assert!(ids.iter().all(|it| it["id"] == ids[0]["id"]));
}

#[test]
fn update_existing_behavior_updates_the_duplicate() {
    let keys = SHARED_SERVER.create_test_tenant(updating_settings());
    let number = unique_card_number();
    let first = SHARED_SERVER.create_token_ok(&keys.private, &card_body(&number));
    let mut again = card_body(&number);
    again["data"]["expiration_year"] = json!(2050);
    again["data"]["cvc"] = json!("777");
    again["metadata"] = json!({"new": "kept"});
    let updated = SHARED_SERVER
        .request("POST", "/tokens")
        .key(&keys.private)
        .idempotency_key("by-update")
        .json(&again)
        .send();
    assert_eq!(updated.status, 201);
    let updated = updated.json();
    assert_eq!(updated["id"], first["id"]);
    assert_eq!(updated["data"]["expiration_year"], 2050);
    assert_eq!(updated["data"]["cvc"], "777");
    assert_eq!(updated["metadata"], json!({"new": "kept"}));
    let extras = json!({"deduplicated": true, "deduplication_behavior": "update_existing"});
    assert_eq!(updated["_extras"], extras);
    assert!(updated["modified_at"].is_string());
    let replay = SHARED_SERVER
        .request("POST", "/tokens")
        .key(&keys.private)
        .idempotency_key("by-update")
        .json(&again)
        .send();
    let mut expected = updated.clone();
    expected["data"].as_object_mut().unwrap().remove("cvc");
    assert_eq!(replay.json(), expected);

    // Without the right to update it is read, and the answer says so.
    let reader = SHARED_SERVER
        .key_with_rules(&keys.tenant, vec![grant("/", Reveal, &[TokenCreate, TokenRead])]);
    again["data"]["expiration_year"] = json!(2060);
    let read = SHARED_SERVER.create_token_ok(&reader, &again);
    assert_eq!(read["_extras"]["deduplication_behavior"], "read_existing");
    assert_eq!(read["data"]["expiration_year"], 2050);

    let mut apart = card_body(&number);
    apart["deduplicate_token"] = json!(false);
    assert_eq!(
        SHARED_SERVER.create_token_ok(&keys.private, &apart)["_extras"]["deduplicated"],
        false
    );
}

#[test]
fn update_by_deduplication_returns_only_readable_data() {
    let keys = SHARED_SERVER.create_test_tenant(updating_settings());
    let mut body = card_body(&unique_card_number());
    body["metadata"] = json!({"customer": "7"});
    let first = SHARED_SERVER.create_token_ok(&keys.private, &body);
    body["metadata"] = json!({"seen": "today"});
    let ask = || {
        SHARED_SERVER
            .request("POST", "/tokens")
            .key(&keys.public)
            .idempotency_key("blind")
            .json(&body)
            .send()
    };
    let expected = existing_without_data(&first, "update_existing");
    assert_eq!(ask().json(), expected);
    assert_eq!(ask().json(), expected, "and so does its replay");
    let id = first["id"].as_str().unwrap();
    let updated = SHARED_SERVER.get_token(&keys.private, id).json();
    assert_eq!(updated["metadata"], json!({"customer": "7", "seen": "today"}));

    // Open data that holds nulls is the same data, not a patch of itself.
    let open = json!({"type": "token", "data": {"a": null, "b": 1}});
    let first = SHARED_SERVER.create_token_ok(&keys.private, &open);
    for _ in 0..2 {
        let again = SHARED_SERVER.create_token_ok(&keys.private, &open);
        assert_eq!((&again["id"], &again["data"]), (&first["id"], &open["data"]));
    }
}

#[test]
fn patch_that_would_create_a_duplicate_is_not_applied() {
    let (one, two) = (unique_card_number(), unique_card_number());
    let first = SHARED_SERVER.create_token_ok(&ACME.private, &card_body(&one));
    let second = SHARED_SERVER.create_token_ok(&ACME.private, &card_body(&two));
    let id = second["id"].as_str().unwrap();
    let patch = json!({"data": {"number": one}, "metadata": {"a": "b"}, "deduplicate_token": true});
    let reply = SHARED_SERVER.patch_token(&ACME.private, id, &patch);
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json()["id"], first["id"]);
    assert_eq!(reply.json()["_extras"]["deduplicated"], true);
    let mut unchanged = SHARED_SERVER.get_token(&ACME.private, id).json();
    unchanged["_extras"] = second["_extras"].clone();
    assert_eq!(unchanged, second);

    let blind = SHARED_SERVER.key_with_rules(&ACME.tenant, vec![grant("/", Mask, &[TokenUpdate])]);
    let reply = SHARED_SERVER.patch_token(&blind, id, &patch).json();
    assert_eq!(reply["id"], first["id"]);
    for hidden in ["data", "metadata", "mask", "fingerprint_expression", "search_indexes"] {
        assert!(reply.get(hidden).is_none(), "{hidden}");
    }
}
