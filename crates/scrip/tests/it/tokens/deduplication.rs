//! The same card twice.

use scrip_core::policy::{
    ApplicationKind::Private,
    DeduplicationBehavior,
    Permission::{TokenCreate, TokenRead, TokenUpdate},
    Settings,
    Transform::{Mask, Reveal},
};
use serde_json::{Value, json};

use crate::harness::server::{ACME, SHARED, card, grant, new_number};

fn deduplicated(number: &str) -> Value {
    let mut body = card(number);
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

fn updating() -> Settings {
    Settings {
        deduplicate_tokens: true,
        token_deduplication_behavior: DeduplicationBehavior::UpdateExisting,
        ..Settings::default()
    }
}

#[test]
fn the_existing_token_comes_back() {
    let number = new_number();
    let first = SHARED.created(&ACME.private, &card(&number));
    let mut again = deduplicated(&number);
    again["id"] = json!("ignored-when-deduplicated");
    again["metadata"] = json!({"new": "ignored"});
    let found = SHARED.created(&ACME.private, &again);
    assert_eq!(found["id"], first["id"]);
    assert_eq!(found["data"]["number"], number);
    assert!(found.get("metadata").is_none());
    let extras = json!({"deduplicated": true, "deduplication_behavior": "read_existing"});
    assert_eq!(found["_extras"], extras);
    assert_eq!(SHARED.get(&ACME.private, "ignored-when-deduplicated").status, 404);
}

#[test]
fn another_container_or_type_is_no_match() {
    let number = new_number();
    SHARED.created(&ACME.private, &card(&number));
    let mut elsewhere = deduplicated(&number);
    elsewhere["containers"] = json!(["/pci/low/"]);
    assert_eq!(SHARED.created(&ACME.private, &elsewhere)["_extras"]["deduplicated"], false);
    let kind = json!({"type": "card_number", "data": number, "deduplicate_token": true});
    assert_eq!(SHARED.created(&ACME.private, &kind)["_extras"]["deduplicated"], false);
    let mut set = deduplicated(&number);
    set["containers"] = json!(["/b/", "/a/"]);
    SHARED.created(&ACME.private, &set);
    set["containers"] = json!(["/a/", "/b/"]);
    assert_eq!(
        SHARED.created(&ACME.private, &set)["_extras"]["deduplicated"],
        true,
        "sets have no order"
    );
}

#[test]
fn a_caller_that_may_not_read_it_learns_only_that_it_is_there() {
    let number = new_number();
    let mut body = card(&number);
    body["metadata"] = json!({"customer": "7"});
    let first = SHARED.created(&ACME.private, &body);
    let found = SHARED.created(&ACME.public, &deduplicated(&number));
    let expected = existing_without_data(&first, "read_existing");
    assert_eq!(found, expected);

    let masked = SHARED.permissions(&ACME.tenant, Private, &[TokenCreate, TokenRead]);
    let found = SHARED.created(&masked, &deduplicated(&number));
    assert_eq!(found["metadata"], json!({"customer": "7"}));
    assert!(!found.to_string().contains(&number));
}

#[test]
fn sixty_four_at_once_leave_one_token() {
    let number = new_number();
    let body = deduplicated(&number);
    let ids: Vec<Value> = std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..64).map(|_| scope.spawn(|| SHARED.created(&ACME.private, &body))).collect();
        clients.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let new = ids.iter().filter(|it| it["_extras"]["deduplicated"] == false).count();
    assert_eq!(new, 1);
    assert!(ids.iter().all(|it| it["id"] == ids[0]["id"]));
}

#[test]
fn a_tenant_that_deduplicates_by_updating() {
    let keys = SHARED.tenant(updating());
    let number = new_number();
    let first = SHARED.created(&keys.private, &card(&number));
    let mut again = card(&number);
    again["data"]["expiration_year"] = json!(2050);
    again["data"]["cvc"] = json!("777");
    again["metadata"] = json!({"new": "kept"});
    let updated =
        SHARED.ask("POST", "/tokens").key(&keys.private).once("by-update").json(&again).send();
    assert_eq!(updated.status, 201);
    let updated = updated.json();
    assert_eq!(updated["id"], first["id"]);
    assert_eq!(updated["data"]["expiration_year"], 2050);
    assert_eq!(updated["data"]["cvc"], "777");
    assert_eq!(updated["metadata"], json!({"new": "kept"}));
    let extras = json!({"deduplicated": true, "deduplication_behavior": "update_existing"});
    assert_eq!(updated["_extras"], extras);
    assert!(updated["modified_at"].is_string());
    let replay =
        SHARED.ask("POST", "/tokens").key(&keys.private).once("by-update").json(&again).send();
    let mut expected = updated.clone();
    expected["data"].as_object_mut().unwrap().remove("cvc");
    assert_eq!(replay.json(), expected);

    // Without the right to update it is read, and the answer says so.
    let reader = SHARED.rules(&keys.tenant, vec![grant("/", Reveal, &[TokenCreate, TokenRead])]);
    again["data"]["expiration_year"] = json!(2060);
    let read = SHARED.created(&reader, &again);
    assert_eq!(read["_extras"]["deduplication_behavior"], "read_existing");
    assert_eq!(read["data"]["expiration_year"], 2050);

    let mut apart = card(&number);
    apart["deduplicate_token"] = json!(false);
    assert_eq!(SHARED.created(&keys.private, &apart)["_extras"]["deduplicated"], false);
}

#[test]
fn an_update_by_deduplication_shows_what_a_reader_may_see() {
    let keys = SHARED.tenant(updating());
    let mut body = card(&new_number());
    body["metadata"] = json!({"customer": "7"});
    let first = SHARED.created(&keys.private, &body);
    body["metadata"] = json!({"seen": "today"});
    let ask = || SHARED.ask("POST", "/tokens").key(&keys.public).once("blind").json(&body).send();
    let expected = existing_without_data(&first, "update_existing");
    assert_eq!(ask().json(), expected);
    assert_eq!(ask().json(), expected, "and so does its replay");
    let id = first["id"].as_str().unwrap();
    let updated = SHARED.get(&keys.private, id).json();
    assert_eq!(updated["metadata"], json!({"customer": "7", "seen": "today"}));

    // Open data that holds nulls is the same data, not a patch of itself.
    let open = json!({"type": "token", "data": {"a": null, "b": 1}});
    let first = SHARED.created(&keys.private, &open);
    for _ in 0..2 {
        let again = SHARED.created(&keys.private, &open);
        assert_eq!((&again["id"], &again["data"]), (&first["id"], &open["data"]));
    }
}

#[test]
fn a_patch_that_would_make_a_duplicate_is_not_applied() {
    let (one, two) = (new_number(), new_number());
    let first = SHARED.created(&ACME.private, &card(&one));
    let second = SHARED.created(&ACME.private, &card(&two));
    let id = second["id"].as_str().unwrap();
    let patch = json!({"data": {"number": one}, "metadata": {"a": "b"}, "deduplicate_token": true});
    let reply = SHARED.patch(&ACME.private, id, &patch);
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json()["id"], first["id"]);
    assert_eq!(reply.json()["_extras"]["deduplicated"], true);
    let mut unchanged = SHARED.get(&ACME.private, id).json();
    unchanged["_extras"] = second["_extras"].clone();
    assert_eq!(unchanged, second);

    let blind = SHARED.rules(&ACME.tenant, vec![grant("/", Mask, &[TokenUpdate])]);
    let reply = SHARED.patch(&blind, id, &patch).json();
    assert_eq!(reply["id"], first["id"]);
    for hidden in ["data", "metadata", "mask", "fingerprint_expression", "search_indexes"] {
        assert!(reply.get(hidden).is_none(), "{hidden}");
    }
}
