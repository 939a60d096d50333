//! Tokenize, where some of the tokens are there already, or twice in one request.

use scrip_core::policy::{
    DeduplicationBehavior,
    Permission::{TokenCreate, TokenRead},
    TenantSettings,
    Transform::Reveal,
};
use serde_json::{Value, json};

use crate::harness::server::{
    ACME, SHARED_SERVER, TenantApiKeys, card_body, grant, unique_card_number,
};

fn deduplicating_settings(token_deduplication_behavior: DeduplicationBehavior) -> TenantSettings {
    TenantSettings {
        deduplicate_tokens: true,
        token_deduplication_behavior,
        ..TenantSettings::default()
    }
}

fn reading_tenant() -> TenantApiKeys {
    SHARED_SERVER.create_test_tenant(deduplicating_settings(DeduplicationBehavior::ReadExisting))
}

fn updating_tenant() -> TenantApiKeys {
    SHARED_SERVER.create_test_tenant(deduplicating_settings(DeduplicationBehavior::UpdateExisting))
}

fn card_with_metadata(number: &str, text: &str) -> Value {
    let mut body = card_body(number);
    body["metadata"] = json!({ (text): "yes" });
    body
}

#[track_caller]
fn tokenize(keys: &TenantApiKeys, body: &Value) -> Value {
    SHARED_SERVER.post(&keys.private, "/tokenize", body).expect_status(200)
}

fn read_extras() -> Value {
    json!({"deduplicated": true, "deduplication_behavior": "read_existing"})
}

fn updated_extras() -> Value {
    json!({"deduplicated": true, "deduplication_behavior": "update_existing"})
}

fn new_extras() -> Value {
    json!({"deduplicated": false})
}

#[test]
fn equal_values_of_one_request_become_one_token() {
    let keys = reading_tenant();
    let number = unique_card_number();
    let created = tokenize(
        &keys,
        &json!([card_body(&number), "same", [card_body(&number)], {"a": "same"}, 1]),
    );
    assert_eq!(
        (&created[0]["_extras"], &created[2][0]["_extras"]),
        (&new_extras(), &read_extras())
    );
    assert_eq!(created[0]["id"], created[2][0]["id"]);
    assert_eq!(
        (&created[0]["data"], &created[2][0]["data"]["cvc"]),
        (&created[2][0]["data"], &json!("123"))
    );
    assert_eq!(created[1], created[3]["a"]);
    assert_ne!(created[1], created[4]);
    assert_eq!(SHARED_SERVER.count_rows(&keys.tenant, "tokens"), 3);
    // And those of the next request are the same ones.
    let again = tokenize(&keys, &json!(["same", card_body(&number)]));
    assert_eq!((&again[0], &again[1]["id"]), (&created[1], &created[0]["id"]));
    assert_eq!(SHARED_SERVER.count_rows(&keys.tenant, "tokens"), 3);
    assert_eq!(
        SHARED_SERVER.count_rows_where(&keys.tenant, "audit", "outcome = 'deduplicated'"),
        4
    );
}

#[test]
fn deduplicate_token_of_the_request_overrides_the_tenant_setting() {
    let number = unique_card_number();
    let once = || {
        let mut body = card_body(&number);
        body["deduplicate_token"] = json!(true);
        body
    };
    let tokenize =
        |body: &Value| SHARED_SERVER.post(&ACME.private, "/tokenize", body).expect_status(200);
    let created =
        tokenize(&json!([card_body(&number), card_body(&number), once(), "same", "same"]));
    assert_ne!(created[0]["id"], created[1]["id"]);
    assert_eq!(
        (&created[2]["id"], &created[2]["_extras"]),
        (&created[0]["id"], &read_extras()),
        "the oldest"
    );
    assert_ne!(created[3], created[4]);
    let mut apart = card_body(&number);
    apart["deduplicate_token"] = json!(false);
    let keys = reading_tenant();
    let created = SHARED_SERVER
        .post(&keys.private, "/tokenize", &json!([apart, apart, card_body(&number)]))
        .expect_status(200);
    assert_ne!(created[0]["id"], created[1]["id"]);
    assert_eq!(created[0]["id"], created[2]["id"]);
}

#[test]
fn existing_duplicates_are_updated_in_the_same_request() {
    let keys = updating_tenant();
    let (known, fresh) = (unique_card_number(), unique_card_number());
    let first = SHARED_SERVER.create_token_ok(&keys.private, &card_with_metadata(&known, "first"));
    let mut again = card_with_metadata(&known, "second");
    again["data"]["cvc"] = json!("777");
    let created = tokenize(&keys, &json!({"a": card_body(&fresh), "b": again, "c": "text"}));
    assert_eq!(
        (&created["a"]["_extras"], &created["b"]["_extras"]),
        (&new_extras(), &updated_extras())
    );
    assert_eq!(created["b"]["id"], first["id"]);
    assert_eq!(created["b"]["data"]["cvc"], "777");
    assert_eq!(created["b"]["metadata"], json!({"first": "yes", "second": "yes"}));
    assert!(created["b"]["modified_at"].is_string());
    let read =
        SHARED_SERVER.get_token(&keys.private, first["id"].as_str().unwrap()).expect_status(200);
    assert_eq!(
        (&read["metadata"], &read["data"]),
        (&created["b"]["metadata"], &created["b"]["data"])
    );

    // When another one of the request fails, it is not.
    SHARED_SERVER
        .create_token_ok(&keys.private, &json!({"id": "taken", "type": "token", "data": "x"}));
    let taken = json!({"id": "taken", "type": "token", "data": "y"});
    let body = json!([card_with_metadata(&known, "third"), taken]);
    SHARED_SERVER.post(&keys.private, "/tokenize", &body).expect_problem(409, "id");
    let after =
        SHARED_SERVER.get_token(&keys.private, first["id"].as_str().unwrap()).expect_status(200);
    assert_eq!(after, read);
}

/// One transaction, so one record of it.
#[test]
fn create_that_updates_writes_one_audit_record() {
    let keys = updating_tenant();
    let number = unique_card_number();
    let audited = || SHARED_SERVER.count_rows(&keys.tenant, "audit");
    SHARED_SERVER.create_token_ok(&keys.private, &card_body(&number));
    let before = audited();
    let second =
        SHARED_SERVER.create_token_ok(&keys.private, &card_with_metadata(&number, "second"));
    assert_eq!(second["_extras"], updated_extras());
    assert_eq!(audited(), before + 1);
}

#[test]
fn second_duplicate_in_a_request_reads_the_result_of_the_first() {
    let keys = updating_tenant();
    let (known, fresh) = (unique_card_number(), unique_card_number());
    let first = SHARED_SERVER.create_token_ok(&keys.private, &card_body(&known));
    let body = json!([
        card_with_metadata(&known, "one"),
        card_with_metadata(&known, "two"),
        card_with_metadata(&fresh, "one"),
        card_with_metadata(&fresh, "two"),
    ]);
    let created = tokenize(&keys, &body);
    let extras: Vec<_> =
        created.as_array().unwrap().iter().map(|it| it["_extras"].clone()).collect();
    assert_eq!(extras, [updated_extras(), read_extras(), new_extras(), read_extras()]);
    for (at, id) in [(0, &first["id"]), (1, &first["id"]), (3, &created[2]["id"])] {
        assert_eq!(&created[at]["id"], id);
        assert_eq!(created[at]["metadata"], json!({"one": "yes"}), "{at}");
    }
    // An earlier one that does not deduplicate is one that is there already.
    let other = unique_card_number();
    let mut apart = card_with_metadata(&other, "one");
    apart["deduplicate_token"] = json!(false);
    let created = tokenize(&keys, &json!([apart, card_with_metadata(&other, "two")]));
    assert_eq!((&created[1]["id"], &created[1]["_extras"]), (&created[0]["id"], &read_extras()));
    assert_eq!(created[1]["metadata"], json!({"one": "yes"}));
}

#[test]
fn duplicate_without_update_permission_is_read_and_without_read_permission_is_reported() {
    let keys = updating_tenant();
    let number = unique_card_number();
    let first = SHARED_SERVER.create_token_ok(&keys.private, &card_with_metadata(&number, "first"));
    let body = json!([card_with_metadata(&number, "second"), 1]);
    let reader = SHARED_SERVER
        .key_with_rules(&keys.tenant, vec![grant("/", Reveal, &[TokenCreate, TokenRead])]);
    let found = SHARED_SERVER.post(&reader, "/tokenize", &body).expect_status(200);
    assert_eq!((&found[0]["_extras"], &found[0]["metadata"]), (&read_extras(), &first["metadata"]));
    let blind =
        SHARED_SERVER.key_with_rules(&keys.tenant, vec![grant("/", Reveal, &[TokenCreate])]);
    let found = SHARED_SERVER.post(&blind, "/tokenize", &body).expect_status(200);
    let outline = json!({
        "id": first["id"], "type": "card", "tenant_id": first["tenant_id"],
        "fingerprint": first["fingerprint"], "containers": ["/pci/high/"], "_extras": read_extras(),
    });
    assert_eq!(found[0], outline);
}

#[test]
fn concurrent_tokenize_requests_leave_one_token_per_value() {
    for keys in [reading_tenant(), updating_tenant()] {
        let numbers = [unique_card_number(), unique_card_number()];
        let created: Vec<Value> = std::thread::scope(|scope| {
            let client = |at: usize| {
                let (keys, numbers) = (&keys, &numbers);
                scope.spawn(move || {
                    // In either order, so that they stand in each other's way.
                    let (one, two) = (&numbers[at % 2], &numbers[(at + 1) % 2]);
                    let mut created =
                        tokenize(keys, &json!([card_body(one), card_body(two), "text"]));
                    if at % 2 == 1 {
                        created.as_array_mut().unwrap().swap(0, 1);
                    }
                    created
                })
            };
            let clients: Vec<_> = (0..24).map(client).collect();
            clients.into_iter().map(|it| it.join().unwrap()).collect()
        });
        for one in &created {
            assert_eq!(
                (&one[0]["id"], &one[1]["id"]),
                (&created[0][0]["id"], &created[0][1]["id"])
            );
            assert_eq!(one[2], created[0][2]);
        }
        let new = created.iter().filter(|it| it[0]["_extras"]["deduplicated"] == false).count();
        assert_eq!((new, SHARED_SERVER.count_rows(&keys.tenant, "tokens")), (1, 3));
    }
}
