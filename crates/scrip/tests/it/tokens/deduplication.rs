//! Deduplication of tokens.

use scrip_core::{
    policy::{DeduplicationBehavior, TenantSettings},
    types::{
        ApplicationKind::Private,
        Permission::{TokenCreate, TokenRead, TokenUpdate},
        Transform::{Mask, Reveal},
    },
};
use scrip_testing::requests::with_members;
use serde_json::{Value, json};

use crate::harness::server::{ACME, SERVER, card_body, unique_card_number};

fn deduplicated_card(number: &str) -> Value {
    with_members(card_body(number), &json!({"deduplicate_token": true}))
}

/// Returns the response for an existing token to a caller without the read permission.
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
    let first = SERVER.create_token_ok(&ACME.private, &card_body(&number));
    let mut duplicate_body = deduplicated_card(&number);
    duplicate_body["id"] = json!("ignored-when-deduplicated");
    duplicate_body["metadata"] = json!({"new": "ignored"});
    let duplicate = SERVER.create_token_ok(&ACME.private, &duplicate_body);
    assert_eq!(duplicate["id"], first["id"]);
    assert_eq!(duplicate["data"]["number"], number);
    assert!(duplicate.get("metadata").is_none());
    let expected_extras = json!({"deduplicated": true, "deduplication_behavior": "read_existing"});
    assert_eq!(duplicate["_extras"], expected_extras);
    assert_eq!(SERVER.get_token(&ACME.private, "ignored-when-deduplicated").status, 404);
}

#[test]
fn token_in_another_container_or_type_is_not_a_duplicate() {
    let number = unique_card_number();
    SERVER.create_token_ok(&ACME.private, &card_body(&number));
    let mut body_in_other_container = deduplicated_card(&number);
    body_in_other_container["containers"] = json!(["/pci/low/"]);
    let token = SERVER.create_token_ok(&ACME.private, &body_in_other_container);
    assert_eq!(token["_extras"]["deduplicated"], false);
    let body_of_other_type =
        json!({"type": "card_number", "data": number, "deduplicate_token": true});
    let token = SERVER.create_token_ok(&ACME.private, &body_of_other_type);
    assert_eq!(token["_extras"]["deduplicated"], false);
    let mut body_with_two_containers = deduplicated_card(&number);
    body_with_two_containers["containers"] = json!(["/b/", "/a/"]);
    SERVER.create_token_ok(&ACME.private, &body_with_two_containers);
    body_with_two_containers["containers"] = json!(["/a/", "/b/"]);
    let token = SERVER.create_token_ok(&ACME.private, &body_with_two_containers);
    assert_eq!(token["_extras"]["deduplicated"], true, "the order of containers must not matter");
}

#[test]
fn duplicate_without_read_permission_is_returned_without_data() {
    let number = unique_card_number();
    let mut body = card_body(&number);
    body["metadata"] = json!({"customer": "7"});
    let first = SERVER.create_token_ok(&ACME.private, &body);
    let duplicate = SERVER.create_token_ok(&ACME.public, &deduplicated_card(&number));
    let expected = existing_without_data(&first, "read_existing");
    assert_eq!(duplicate, expected);

    let key_without_reveal =
        SERVER.key_with_permissions(&ACME.tenant, Private, &[TokenCreate, TokenRead]);
    let duplicate = SERVER.create_token_ok(&key_without_reveal, &deduplicated_card(&number));
    assert_eq!(duplicate["metadata"], json!({"customer": "7"}));
    assert!(!duplicate.to_string().contains(&number));
}

#[test]
fn concurrent_deduplicated_creates_leave_one_token() {
    let number = unique_card_number();
    let body = deduplicated_card(&number);
    let ids: Vec<Value> = std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..64).map(|_| scope.spawn(|| SERVER.create_token_ok(&ACME.private, &body))).collect();
        clients.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let created_count = ids.iter().filter(|it| it["_extras"]["deduplicated"] == false).count();
    assert_eq!(created_count, 1);
    assert!(ids.iter().all(|it| it["id"] == ids[0]["id"]));
}

#[test]
fn update_existing_behavior_updates_the_duplicate() {
    let keys = SERVER.create_test_tenant(updating_settings());
    let number = unique_card_number();
    let first = SERVER.create_token_ok(&keys.private, &card_body(&number));
    let mut update_body = card_body(&number);
    update_body["data"]["expiration_year"] = json!(2050);
    update_body["data"]["cvc"] = json!("777");
    update_body["metadata"] = json!({"new": "value"});
    let updated = SERVER.post_once(&keys.private, "/tokens", "by-update", &update_body);
    assert_eq!(updated.status, 201);
    let updated = updated.json();
    assert_eq!(updated["id"], first["id"]);
    assert_eq!(updated["data"]["expiration_year"], 2050);
    assert_eq!(updated["data"]["cvc"], "777");
    assert_eq!(updated["metadata"], json!({"new": "value"}));
    let expected_extras =
        json!({"deduplicated": true, "deduplication_behavior": "update_existing"});
    assert_eq!(updated["_extras"], expected_extras);
    assert!(updated["modified_at"].is_string());
    let replay = SERVER.post_once(&keys.private, "/tokens", "by-update", &update_body);
    let mut expected = updated.clone();
    expected["data"].as_object_mut().unwrap().remove("cvc");
    assert_eq!(replay.json(), expected);

    // Without the update permission the existing token is read, and the response says so.
    let reader = SERVER.key_with_rule(&keys.tenant, "/", Reveal, &[TokenCreate, TokenRead]);
    update_body["data"]["expiration_year"] = json!(2060);
    let duplicate = SERVER.create_token_ok(&reader, &update_body);
    assert_eq!(duplicate["_extras"]["deduplication_behavior"], "read_existing");
    assert_eq!(duplicate["data"]["expiration_year"], 2050);

    let not_deduplicated = with_members(card_body(&number), &json!({"deduplicate_token": false}));
    let created = SERVER.create_token_ok(&keys.private, &not_deduplicated);
    assert_eq!(created["_extras"]["deduplicated"], false);
}

#[test]
fn update_by_deduplication_returns_only_readable_data() {
    let keys = SERVER.create_test_tenant(updating_settings());
    let mut body = card_body(&unique_card_number());
    body["metadata"] = json!({"customer": "7"});
    let first = SERVER.create_token_ok(&keys.private, &body);
    body["metadata"] = json!({"visit": "today"});
    let request = || SERVER.post_once(&keys.public, "/tokens", "blind", &body);
    let expected = existing_without_data(&first, "update_existing");
    assert_eq!(request().json(), expected);
    assert_eq!(request().json(), expected, "the replay returns more than the response");
    let id = first["id"].as_str().unwrap();
    let updated = SERVER.get_token(&keys.private, id).json();
    assert_eq!(updated["metadata"], json!({"customer": "7", "visit": "today"}));

    // Data with null members is stored as data, not applied as a patch.
    let body_with_null = json!({"type": "token", "data": {"a": null, "b": 1}});
    let first = SERVER.create_token_ok(&keys.private, &body_with_null);
    for _ in 0..2 {
        let duplicate = SERVER.create_token_ok(&keys.private, &body_with_null);
        assert_eq!((&duplicate["id"], &duplicate["data"]), (&first["id"], &body_with_null["data"]));
    }
}

#[test]
fn patch_that_would_create_a_duplicate_is_not_applied() {
    let (first_number, second_number) = (unique_card_number(), unique_card_number());
    let first = SERVER.create_token_ok(&ACME.private, &card_body(&first_number));
    let second_token = SERVER.create_token_ok(&ACME.private, &card_body(&second_number));
    let id = second_token["id"].as_str().unwrap();
    let patch = json!({"data": {"number": first_number}, "metadata": {"a": "b"},
        "deduplicate_token": true});
    let response = SERVER.patch_token(&ACME.private, id, &patch);
    assert_eq!(response.status, 200);
    assert_eq!(response.json()["id"], first["id"]);
    assert_eq!(response.json()["_extras"]["deduplicated"], true);
    let mut stored_token = SERVER.get_token(&ACME.private, id).json();
    stored_token["_extras"] = second_token["_extras"].clone();
    assert_eq!(stored_token, second_token);

    let without_read = SERVER.key_with_rule(&ACME.tenant, "/", Mask, &[TokenUpdate]);
    let response = SERVER.patch_token(&without_read, id, &patch).json();
    assert_eq!(response["id"], first["id"]);
    for attribute in ["data", "metadata", "mask", "fingerprint_expression", "search_indexes"] {
        assert!(response.get(attribute).is_none(), "{attribute}");
    }
}
