//! Tokenize with values that already exist, or that occur twice in one request.

use scrip_core::{
    policy::{DeduplicationBehavior, TenantSettings},
    types::{
        Permission::{TokenCreate, TokenRead},
        Transform::Reveal,
    },
};
use scrip_testing::requests::with_members;
use serde_json::{Value, json};

use crate::harness::server::{
    ACME, SERVER, TenantApiKeys, card_body, text_field, unique_card_number,
};

fn deduplicating_settings(token_deduplication_behavior: DeduplicationBehavior) -> TenantSettings {
    TenantSettings {
        deduplicate_tokens: true,
        token_deduplication_behavior,
        ..TenantSettings::default()
    }
}

fn reading_tenant() -> TenantApiKeys {
    SERVER.create_test_tenant(deduplicating_settings(DeduplicationBehavior::ReadExisting))
}

fn create_updating_tenant() -> TenantApiKeys {
    SERVER.create_test_tenant(deduplicating_settings(DeduplicationBehavior::UpdateExisting))
}

fn card_with_metadata(number: &str, text: &str) -> Value {
    with_members(card_body(number), &json!({"metadata": { (text): "yes" }}))
}

#[track_caller]
fn tokenize(keys: &TenantApiKeys, body: &Value) -> Value {
    SERVER.post(&keys.private, "/tokenize", body).expect_status(200)
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
    let card = card_body(&number);
    let created = tokenize(&keys, &json!([card, "same", [card], {"a": "same"}, 1]));
    let (first, second) = (&created[0], &created[2][0]);
    assert_eq!((&first["_extras"], &second["_extras"]), (&new_extras(), &read_extras()));
    assert_eq!((&first["id"], &first["data"]), (&second["id"], &second["data"]));
    assert_eq!(second["data"]["cvc"], "123");
    assert_eq!(created[1], created[3]["a"]);
    assert_ne!(created[1], created[4]);
    assert_eq!(SERVER.count_rows(&keys.tenant, "tokens"), 3);
    // The next request returns the same tokens.
    let second_response = tokenize(&keys, &json!(["same", card_body(&number)]));
    assert_eq!((&second_response[0], &second_response[1]["id"]), (&created[1], &created[0]["id"]));
    assert_eq!(SERVER.count_rows(&keys.tenant, "tokens"), 3);
    assert_eq!(SERVER.count_rows_where(&keys.tenant, "log_records", "outcome = 'deduplicated'"), 4);
}

#[test]
fn deduplicate_token_of_the_request_overrides_the_tenant_setting() {
    let number = unique_card_number();
    let card = card_body(&number);
    let deduplicated = with_members(card.clone(), &json!({"deduplicate_token": true}));
    let created = tokenize(&ACME, &json!([card, card, deduplicated, "same", "same"]));
    assert_ne!(created[0]["id"], created[1]["id"]);
    assert_eq!(created[2]["id"], created[0]["id"], "the oldest");
    assert_eq!(created[2]["_extras"], read_extras());
    assert_ne!(created[3], created[4]);
    let not_deduplicated = with_members(card.clone(), &json!({"deduplicate_token": false}));
    let keys = reading_tenant();
    let created = tokenize(&keys, &json!([not_deduplicated, not_deduplicated, card]));
    assert_ne!(created[0]["id"], created[1]["id"]);
    assert_eq!(created[0]["id"], created[2]["id"]);
}

#[test]
fn existing_duplicates_are_updated_in_the_same_request() {
    let keys = create_updating_tenant();
    let (existing_number, new_number) = (unique_card_number(), unique_card_number());
    let first =
        SERVER.create_token_ok(&keys.private, &card_with_metadata(&existing_number, "first"));
    let mut duplicate_body = card_with_metadata(&existing_number, "second");
    duplicate_body["data"]["cvc"] = json!("777");
    let created =
        tokenize(&keys, &json!({"a": card_body(&new_number), "b": duplicate_body, "c": "text"}));
    assert_eq!(created["a"]["_extras"], new_extras());
    assert_eq!(created["b"]["_extras"], updated_extras());
    assert_eq!(created["b"]["id"], first["id"]);
    assert_eq!(created["b"]["data"]["cvc"], "777");
    assert_eq!(created["b"]["metadata"], json!({"first": "yes", "second": "yes"}));
    assert!(created["b"]["modified_at"].is_string());
    let read = || SERVER.get_token(&keys.private, &text_field(&first, "id")).expect_status(200);
    let stored_token = read();
    for attribute in ["metadata", "data"] {
        assert_eq!(stored_token[attribute], created["b"][attribute], "{attribute}");
    }

    // If another token of the request fails, the duplicate is not updated.
    SERVER.create_token_ok(&keys.private, &json!({"id": "taken", "type": "token", "data": "x"}));
    let body_with_taken_id = json!({"id": "taken", "type": "token", "data": "y"});
    let body = json!([card_with_metadata(&existing_number, "third"), body_with_taken_id]);
    SERVER.post(&keys.private, "/tokenize", &body).expect_problem(409, "id");
    assert_eq!(read(), stored_token);
}

/// One transaction writes one record.
#[test]
fn create_that_updates_writes_one_audit_record() {
    let keys = create_updating_tenant();
    let number = unique_card_number();
    let count_records = || SERVER.count_rows(&keys.tenant, "log_records");
    SERVER.create_token_ok(&keys.private, &card_body(&number));
    let count_before = count_records();
    let duplicate = SERVER.create_token_ok(&keys.private, &card_with_metadata(&number, "second"));
    assert_eq!(duplicate["_extras"], updated_extras());
    assert_eq!(count_records(), count_before + 1);
}

#[test]
fn second_duplicate_in_a_request_reads_the_result_of_the_first() {
    let keys = create_updating_tenant();
    let (existing_number, new_number) = (unique_card_number(), unique_card_number());
    let first = SERVER.create_token_ok(&keys.private, &card_body(&existing_number));
    let body = json!([
        card_with_metadata(&existing_number, "one"),
        card_with_metadata(&existing_number, "two"),
        card_with_metadata(&new_number, "one"),
        card_with_metadata(&new_number, "two"),
    ]);
    let created = tokenize(&keys, &body);
    let extras: Vec<_> =
        created.as_array().unwrap().iter().map(|it| it["_extras"].clone()).collect();
    assert_eq!(extras, [updated_extras(), read_extras(), new_extras(), read_extras()]);
    for (index, id) in [(0, &first["id"]), (1, &first["id"]), (3, &created[2]["id"])] {
        assert_eq!(&created[index]["id"], id);
        assert_eq!(created[index]["metadata"], json!({"one": "yes"}), "{index}");
    }
    // An earlier token of the request that does not deduplicate counts as an existing token.
    let third_number = unique_card_number();
    let mut not_deduplicated = card_with_metadata(&third_number, "one");
    not_deduplicated["deduplicate_token"] = json!(false);
    let body = json!([not_deduplicated, card_with_metadata(&third_number, "two")]);
    let created = tokenize(&keys, &body);
    assert_eq!((&created[1]["id"], &created[1]["_extras"]), (&created[0]["id"], &read_extras()));
    assert_eq!(created[1]["metadata"], json!({"one": "yes"}));
}

#[test]
fn duplicate_without_update_permission_is_read_and_without_read_permission_is_reported() {
    let keys = create_updating_tenant();
    let number = unique_card_number();
    let first = SERVER.create_token_ok(&keys.private, &card_with_metadata(&number, "first"));
    let body = json!([card_with_metadata(&number, "second"), 1]);
    let reader = SERVER.key_with_rule(&keys.tenant, "/", Reveal, &[TokenCreate, TokenRead]);
    let found = SERVER.post(&reader, "/tokenize", &body).expect_status(200);
    assert_eq!((&found[0]["_extras"], &found[0]["metadata"]), (&read_extras(), &first["metadata"]));
    let without_read = SERVER.key_with_rule(&keys.tenant, "/", Reveal, &[TokenCreate]);
    let found = SERVER.post(&without_read, "/tokenize", &body).expect_status(200);
    let expected_outline = json!({
        "id": first["id"], "type": "card", "tenant_id": first["tenant_id"],
        "fingerprint": first["fingerprint"], "containers": ["/pci/high/"], "_extras": read_extras(),
    });
    assert_eq!(found[0], expected_outline);
}

#[test]
fn concurrent_tokenize_requests_leave_one_token_per_value() {
    for keys in [reading_tenant(), create_updating_tenant()] {
        let numbers = [unique_card_number(), unique_card_number()];
        let created: Vec<Value> = std::thread::scope(|scope| {
            let client = |index: usize| {
                let (keys, numbers) = (&keys, &numbers);
                scope.spawn(move || {
                    // The clients send the numbers in alternating order, so that the requests
                    // conflict.
                    let (first, second) = (&numbers[index % 2], &numbers[(index + 1) % 2]);
                    let mut created =
                        tokenize(keys, &json!([card_body(first), card_body(second), "text"]));
                    if index % 2 == 1 {
                        created.as_array_mut().unwrap().swap(0, 1);
                    }
                    created
                })
            };
            let clients: Vec<_> = (0..24).map(client).collect();
            clients.into_iter().map(|it| it.join().unwrap()).collect()
        });
        for tokens in &created {
            for index in [0, 1] {
                assert_eq!(tokens[index]["id"], created[0][index]["id"], "{index}");
            }
            assert_eq!(tokens[2], created[0][2]);
        }
        let created_count =
            created.iter().filter(|it| it[0]["_extras"]["deduplicated"] == false).count();
        assert_eq!((created_count, SERVER.count_rows(&keys.tenant, "tokens")), (1, 3));
    }
}
