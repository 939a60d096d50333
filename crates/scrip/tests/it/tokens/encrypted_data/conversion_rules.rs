//! A captured JWE tells nothing to a caller that may not read its data: the rules of a conversion
//! apply, and the plaintext decides the type.

use scrip_core::types::{
    ApplicationKind::{Private, Public},
    Permission::{TokenCreate, TokenIntentCreate, TokenRead, TokenUse},
    Transform::{Mask, Reveal},
};
use scrip_testing::requests::client_encryption::encrypt_json;
use serde_json::{Value, json};

use super::{create_keys, encrypted_card, post_card};
use crate::harness::server::{SERVER, text_field, unique_card_number};

#[test]
fn captured_jwe_with_other_expressions_is_denied() {
    let keys = create_keys();
    let client_key = SERVER.create_client_key(&keys.management);
    let attacker = SERVER.key_with_permissions(&keys.tenant, Public, &[TokenCreate]);
    let attacks = [
        ("mask", json!({"number": "{{ data.number }}"})),
        ("mask", json!("{{ data.number | slice: 0, 12 }}")),
        ("search_indexes", json!(["{{ data.number | slice: 6, 1 }}"])),
        ("search_indexes", json!(["{{ data.expiration_month }}"])),
        ("fingerprint_expression", json!("{{ data.number | slice: 6, 1 }}")),
        ("fingerprint_expression", json!("{{ data.expiration_month }}")),
        ("fingerprint_expression", json!("constant")),
        ("id", json!("{{ data.number | alias_card: 'true', 'true' }}")),
        ("id", json!("x-{{ data.number | slice: 6, 1 }}")),
    ];
    for (attribute, value) in attacks {
        let (_, response) = post_card(&attacker, &client_key, json!({attribute: value}));
        response.expect_problem(403, attribute);
    }
    let (number, response) = post_card(&attacker, &client_key, json!({}));
    response.expect_status(201);
    // An error for an id with the number would confirm the number. A browser chooses no id.
    let body = encrypted_card(&client_key, &number, json!({"id": format!("x-{number}")}));
    SERVER.create_token(&attacker, &body).expect_problem(403, "cannot choose id");
    let backend = SERVER.key_with_permissions(&keys.tenant, Private, &[TokenCreate]);
    SERVER.create_token(&backend, &body).expect_invalid("id");
    // With a reveal right in the container, the caller may read the data anyway.
    for (attribute, value) in [
        ("mask", json!({"number": "{{ data.number | reveal_last: 4 }}"})),
        ("search_indexes", json!(["{{ data.expiration_month }}"])),
        ("fingerprint_expression", json!("{{ data.expiration_month }}")),
    ] {
        let (_, response) = post_card(&keys.private, &client_key, json!({attribute: value}));
        response.expect_status(201);
    }
}

#[test]
fn tokenize_denies_expressions_on_encrypted_leaves() {
    let keys = create_keys();
    let client_key = SERVER.create_client_key(&keys.management);
    let attacker = SERVER.key_with_permissions(&keys.tenant, Public, &[TokenCreate]);
    let attributes = json!({"search_indexes": ["{{ data.number | slice: 6, 1 }}"]});
    let leaf = encrypted_card(&client_key, &unique_card_number(), attributes);
    let response = SERVER.post(&attacker, "/tokenize", &json!({"a": [leaf]}));
    response.expect_problem(403, "search_indexes");
}

#[test]
fn captured_jwe_in_another_container_gives_no_right() {
    let keys = create_keys();
    let client_key = SERVER.create_client_key(&keys.management);
    let attacker_with = |transform, permissions: &[_]| {
        SERVER.key_with_rule(&keys.tenant, "/attacker/", transform, permissions)
    };
    let own = || json!({"containers": ["/attacker/"]});
    for key in [
        attacker_with(Reveal, &[TokenCreate, TokenRead]),
        attacker_with(Mask, &[TokenCreate, TokenUse]),
    ] {
        let (_, response) = post_card(&key, &client_key, own());
        response.expect_problem(403, "container");
    }
    // A mask of a card is no gain: every response has BIN and last four.
    let key = attacker_with(Mask, &[TokenCreate, TokenRead]);
    post_card(&key, &client_key, own()).1.expect_status(201);
    // Without rights in the target, a move there is no gain. Rights in the default container of the
    // type allow the move.
    let key = attacker_with(Mask, &[TokenCreate]);
    post_card(&key, &client_key, own()).1.expect_status(201);
    post_card(&keys.private, &client_key, own()).1.expect_status(201);
}

#[test]
fn captured_jwe_as_an_intent_in_another_container_gives_no_right() {
    let keys = create_keys();
    let client_key = SERVER.create_client_key(&keys.management);
    let body = |attributes| encrypted_card(&client_key, &unique_card_number(), attributes);
    let attacker =
        SERVER.key_with_rule(&keys.tenant, "/attacker/", Mask, &[TokenIntentCreate, TokenUse]);
    for attributes in [json!({"containers": ["/attacker/"]}), json!({})] {
        let response = SERVER.post(&attacker, "/token-intents", &body(attributes));
        response.expect_problem(403, "container");
    }
    let writer = SERVER.key_with_rule(&keys.tenant, "/attacker/", Mask, &[TokenIntentCreate]);
    let attributes = json!({"containers": ["/attacker/"]});
    SERVER.post(&writer, "/token-intents", &body(attributes)).expect_status(201);
    SERVER.post(&keys.public, "/token-intents", &body(json!({}))).expect_status(201);
}

#[test]
fn plaintext_decides_the_type() {
    let keys = create_keys();
    let client_key = SERVER.create_client_key(&keys.management);
    let number = unique_card_number();
    let cases = [
        (json!({"number": number}), "card", true),
        (json!({"number": number}), "token", false),
        (json!({"number": number}), "bank", false),
        (json!(number), "card_number", true),
        (json!(number), "token", false),
        (json!(number), "us_bank_account_number", false),
        (json!({"routing_number": "021000021", "account_number": "00001"}), "bank", true),
        (json!({"routing_number": "021000021", "account_number": "00001"}), "token", false),
        (json!("123-45-6789"), "social_security_number", true),
        (json!({"name": "Ann"}), "token", true),
    ];
    for path in ["/tokens", "/token-intents"] {
        for (data, token_type, is_accepted) in &cases {
            let encrypted = encrypt_json(&client_key, data);
            let body = json!({"type": token_type, "encrypted": encrypted});
            let response = SERVER.post(&keys.private, path, &body);
            match is_accepted {
                true => drop(response.expect_status(201)),
                false => response.expect_invalid("type"),
            }
        }
    }
    let body = json!({"type": "card", "encrypted": encrypt_json(&client_key, &json!({"a": 1}))});
    SERVER.create_token(&keys.private, &body).expect_invalid("data.number");
}

#[test]
fn deduplication_of_encrypted_data_returns_no_data_of_the_existing_token() {
    let keys = create_keys();
    let client_key = SERVER.create_client_key(&keys.management);
    let (number, created) = post_card(&keys.private, &client_key, json!({"metadata": {"a": "b"}}));
    let existing = created.expect_status(201);
    // Data that a browser encrypted is not compared at all.
    for (kind, is_found) in [(Private, true), (Public, false)] {
        let attacker = SERVER.key_with_permissions(&keys.tenant, kind, &[TokenCreate]);
        let body = encrypted_card(&client_key, &number, json!({"deduplicate_token": true}));
        let response: Value = SERVER.create_token(&attacker, &body).expect_status(201);
        assert_eq!(text_field(&response, "id") == text_field(&existing, "id"), is_found);
        let text = response.to_string();
        assert!(!text.contains(&number) && !text.contains("metadata"), "{text}");
    }
}

/// The type is outside of the encryption, and guesses of type `token` with few digits are not counted.
#[test]
fn encrypted_data_of_type_token_has_no_fingerprint_without_a_reveal_right() {
    let keys = create_keys();
    let client_key = SERVER.create_client_key(&keys.management);
    let encrypted = encrypt_json(&client_key, &json!("123-45-6789"));
    let masked =
        SERVER.key_with_rule(&keys.tenant, "/", Mask, &[TokenCreate, TokenRead, TokenIntentCreate]);
    let body = json!({"type": "token", "encrypted": encrypted});
    for path in ["/tokens", "/token-intents"] {
        let created = SERVER.post(&masked, path, &body).expect_status(201);
        assert_eq!(created["fingerprint"], Value::Null, "{path}: {created}");
    }
    let created = SERVER.create_token_ok(&keys.private, &body);
    assert!(created["fingerprint"].is_string(), "{created}");
    // A social security number can have the checksum of a routing number.
    let encrypted = encrypt_json(&client_key, &json!("021000021"));
    let body = json!({"type": "us_bank_routing_number", "encrypted": encrypted});
    let reader =
        SERVER.key_with_rule(&keys.tenant, "/bank/low/", Reveal, &[TokenCreate, TokenRead]);
    for key in [&reader, &keys.public] {
        SERVER.create_token(key, &body).expect_problem(403, "type");
    }
    SERVER.create_token_ok(&keys.private, &body);
    // An account number has no rule that a social security number does not meet.
    let encrypted = encrypt_json(&client_key, &json!("123456789"));
    let body = json!({"type": "us_bank_account_number", "encrypted": encrypted});
    let reader =
        SERVER.key_with_rule(&keys.tenant, "/bank/high/", Reveal, &[TokenCreate, TokenRead]);
    SERVER.create_token(&reader, &body).expect_problem(403, "type");
    SERVER.create_token_ok(&masked, &body);
    SERVER.create_token_ok(&keys.private, &body);
}
