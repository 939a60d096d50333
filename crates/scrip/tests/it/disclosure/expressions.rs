//! An expression is not evaluated on data that its author neither sent nor may read, if the author
//! can observe the result. Most tests are attacks by a key without a reveal right. The other tests
//! check that the protection does not affect honest requests.

use std::time::Duration;

use scrip_core::{
    policy::{DeduplicationBehavior, TenantSettings},
    types::{
        ApplicationKind::{Private, Public},
        Permission::{
            TokenCreate, TokenDelete, TokenIntentCreate, TokenIntentDelete, TokenIntentRead,
            TokenRead, TokenSearch, TokenUpdate, TokenUse,
        },
        Transform::{Mask, Reveal},
        time::Clock,
    },
};
use serde_json::{Value, json};

use crate::harness::server::{
    ACME, SERVER, TenantApiKeys, card_body, grant, text_field, unique_card_number,
};

fn create_deduplicating_tenant(behavior: DeduplicationBehavior) -> TenantApiKeys {
    SERVER.create_test_tenant(TenantSettings {
        deduplicate_tokens: true,
        token_deduplication_behavior: behavior,
        ..TenantSettings::default()
    })
}

/// Creates the API key of a backend that has permissions but no access rules. Such a key reads
/// masks only.
fn create_key_without_reveal(keys: &TenantApiKeys) -> String {
    let permissions = [
        TokenCreate,
        TokenRead,
        TokenUpdate,
        TokenSearch,
        TokenDelete,
        TokenIntentCreate,
        TokenIntentRead,
        TokenIntentDelete,
    ];
    SERVER.key_with_permissions(&keys.tenant, Private, &permissions)
}

fn with_attributes(body: &Value, attributes: Value) -> Value {
    let mut body = body.clone();
    body.as_object_mut().unwrap().extend(attributes.as_object().unwrap().clone());
    body
}

fn create_intent(key: &str, number: &str) -> Value {
    let body = json!({"type": "card", "data":
        {"number": number, "expiration_month": 7, "expiration_year": 2031}});
    SERVER.post(key, "/token-intents", &body).expect_status(201)
}

/// Two card numbers with the same BIN and the same last four digits.
const LOOKALIKES: [&str; 2] = ["4000001250003456", "4000001217773456"];

#[test]
fn lookalike_test_numbers_are_valid_card_numbers() {
    for number in LOOKALIKES {
        SERVER.create_token_ok(&ACME.private, &card_body(number));
    }
}

#[test]
fn conversion_by_public_key_does_not_merge_under_a_planted_index() {
    let keys = create_deduplicating_tenant(DeduplicationBehavior::ReadExisting);
    // The index is empty or not, depending on the digit at the position that the year selects.
    let index = "{% assign position = data.expiration_year | minus: 2000 %}\
                 {% assign digit = data.number | slice: position, 1 %}\
                 {% if digit < '5' %}x{% endif %}";
    let fingerprint = "{{ data.expiration_month }}";
    let mut planted_body = with_attributes(
        &card_body(&unique_card_number()),
        json!({"fingerprint_expression": fingerprint, "search_indexes": [index]}),
    );
    planted_body["data"]["expiration_year"] = json!(2009);
    planted_body["data"]["expiration_month"] = json!(7);
    let planted_response = SERVER.create_token(&keys.public, &planted_body);
    let victim_intent = create_intent(&keys.public, LOOKALIKES[0]);
    for fingerprint in [fingerprint, "constant", "{{ metadata.month }}"] {
        let body = json!({"token_intent_id": victim_intent["id"], "deduplicate_token": true,
            "fingerprint_expression": fingerprint, "metadata": {"month": "7"}});
        SERVER.create_token(&keys.public, &body).expect_problem(403, "fingerprint_expression");
    }
    // The fingerprint of the type is accepted and creates a separate token.
    let body = json!({"token_intent_id": victim_intent["id"], "deduplicate_token": true,
        "fingerprint_expression": "{{ data.number }}"});
    let converted_token = SERVER.create_token_ok(&keys.public, &body);
    if planted_response.status == 201 {
        assert_ne!(converted_token["id"], planted_response.json()["id"]);
    }
}

#[test]
fn planted_token_with_different_expressions_absorbs_no_data() {
    let keys = create_deduplicating_tenant(DeduplicationBehavior::UpdateExisting);
    let fingerprint_expression = "{{ metadata.customer }}";
    let planted_body = with_attributes(
        &json!({"type": "bank", "data": {"routing_number": "021000021", "account_number": "1"}}),
        json!({"fingerprint_expression": fingerprint_expression, "metadata": {"customer": "17"},
            "mask": "{{ data.account_number }}", "search_indexes": ["{{ data.account_number }}"]}),
    );
    let planted_token = SERVER.create_token_ok(&keys.public, &planted_body);
    let honest_body = with_attributes(
        &json!({"type": "bank", "data":
            {"routing_number": "021000021", "account_number": "987654321"}}),
        json!({"fingerprint_expression": fingerprint_expression, "metadata": {"customer": "17"}}),
    );
    for key in [&keys.public, &create_key_without_reveal(&keys), &keys.private] {
        let honest_token = SERVER.create_token_ok(key, &honest_body);
        assert_ne!(honest_token["id"], planted_token["id"]);
    }
    let stored = SERVER.get_token(&keys.private, &text_field(&planted_token, "id")).json();
    assert_eq!(stored["data"]["account_number"], "1");
}

#[test]
fn card_is_not_merged_with_a_planted_token_of_equal_fingerprint() {
    for behavior in [DeduplicationBehavior::ReadExisting, DeduplicationBehavior::UpdateExisting] {
        let keys = create_deduplicating_tenant(behavior);
        let card_number = unique_card_number();
        let planted_body = with_attributes(
            &card_body(&unique_card_number()),
            json!({"fingerprint_expression": card_number}),
        );
        let planted_token = SERVER.create_token_ok(&keys.public, &planted_body);
        let card_token = SERVER.create_token_ok(&keys.public, &card_body(&card_number));
        assert_eq!(card_token["fingerprint"], planted_token["fingerprint"]);
        assert_eq!(card_token["_extras"]["deduplicated"], false);
        assert_ne!(card_token["id"], planted_token["id"]);
    }
}

#[test]
fn trusted_expressions_match_and_stay_unchanged() {
    let keys = create_deduplicating_tenant(DeduplicationBehavior::UpdateExisting);
    let number = unique_card_number();
    let body =
        with_attributes(&card_body(&number), json!({"mask": {"n": "{{ data.number | last4 }}"}}));
    let original = SERVER.create_token_ok(&keys.private, &body);
    let duplicate = SERVER.create_token_ok(&keys.public, &card_body(&number));
    assert_eq!(
        duplicate["id"], original["id"],
        "a mask written with a reveal right must not prevent deduplication"
    );
    assert_eq!(duplicate["_extras"]["deduplication_behavior"], "update_existing");
    let stored = SERVER.get_token(&keys.private, &text_field(&original, "id")).json();
    assert_eq!(stored["mask"], original["mask"]);
}

#[test]
fn expression_acceptance_does_not_depend_on_hidden_digits() {
    let key_without_reveal = create_key_without_reveal(&ACME);
    let assign_digit = "{% assign d = data.number | slice: 9, 1 | to_number %}";
    for expression in [
        format!("{assign_digit}{{% if d == 0 %}}x{{% endif %}}"),
        format!("{assign_digit}{{% if d == 7 %}}x{{% endif %}}"),
        format!("{assign_digit}{{{{ 10 | divided_by: d }}}}"),
    ] {
        for attribute in ["search_indexes", "fingerprint_expression"] {
            let value = if attribute == "fingerprint_expression" {
                json!(expression)
            } else {
                json!([expression])
            };
            let statuses = LOOKALIKES.map(|number| {
                SERVER
                    .create_token(
                        &key_without_reveal,
                        &with_attributes(&card_body(number), json!({ (attribute): value })),
                    )
                    .status
            });
            assert_eq!(
                statuses[0], statuses[1],
                "status depends on digits, {attribute}: {expression}"
            );
        }
    }
}

#[test]
fn patch_response_without_read_permission_is_an_outline() {
    let keys = SERVER.create_default_tenant();
    let bank_body = json!({"type": "bank", "mask": "{{ data.account_number }}",
        "metadata": {"a": "b"},
        "data": {"routing_number": "021000021", "account_number": "987654321"}});
    let bank_token = SERVER.create_token_ok(&keys.public, &bank_body);
    let later_expiry = "2090-01-01T00:00:00+00:00";
    let patch_routing_number = || {
        let path = format!("/tokens/{}", text_field(&bank_token, "id"));
        let request = SERVER.request("PATCH", &path).key(&keys.public).idempotency_key("outline");
        request.merge_patch(&json!({"data": {"routing_number": "011000015"}})).send()
    };
    let expected_outline = json!({
        "id": bank_token["id"],
        "type": "bank",
        "tenant_id": bank_token["tenant_id"],
        "containers": ["/bank/high/"],
    });
    // The caller does not know the account number, so it gets no fingerprint to compare.
    assert_eq!(patch_routing_number().expect_status(200), expected_outline);
    let replayed = patch_routing_number().json();
    assert_eq!(replayed, expected_outline, "the replayed response is not an outline");
    let expiring_body = with_attributes(&bank_body, json!({"expires_at": "2080-01-01T00:00:00Z"}));
    let expiring_token = SERVER.create_token_ok(&keys.public, &expiring_body);
    let patched = SERVER.patch_token(
        &keys.public,
        &text_field(&expiring_token, "id"),
        &json!({"expires_at": later_expiry}),
    );
    assert_eq!(patched.expect_status(200)["expires_at"], later_expiry);
    assert!(patched.json().get("metadata").is_none() && patched.json().get("mask").is_none());
}

#[test]
fn conversion_into_a_container_with_stronger_rights_is_denied() {
    let intent = create_intent(&ACME.public, &unique_card_number());
    let body = json!({"token_intent_id": intent["id"], "containers": ["/attacker/"]});
    for permission in [TokenRead, TokenSearch, TokenUpdate, TokenUse] {
        let rules = vec![grant("/attacker/", Reveal, &[TokenCreate, permission])];
        SERVER
            .create_token(&SERVER.key_with_rules(&ACME.tenant, rules), &body)
            .expect_problem(403, "container");
    }
    // The mask of a card discloses no more than the intent does.
    let rules = vec![grant("/attacker/", Mask, &[TokenCreate, TokenRead])];
    SERVER.create_token(&SERVER.key_with_rules(&ACME.tenant, rules), &body).expect_status(201);
    let account_body = json!({"type": "us_bank_account_number", "data": "987654321"});
    let intent = SERVER.post(&ACME.public, "/token-intents", &account_body).expect_status(201);
    let body = json!({"token_intent_id": intent["id"], "containers": ["/attacker/"]});
    let rules = vec![grant("/attacker/", Mask, &[TokenCreate, TokenRead])];
    SERVER
        .create_token(&SERVER.key_with_rules(&ACME.tenant, rules), &body)
        .expect_problem(403, "container");
}

#[test]
fn move_to_a_container_with_use_permission_is_denied() {
    let token = SERVER.create_token_ok(&ACME.private, &card_body(&unique_card_number()));
    let rules =
        vec![grant("/", Mask, &[TokenRead, TokenUpdate]), grant("/attacker/", Reveal, &[TokenUse])];
    let key = SERVER.key_with_rules(&ACME.tenant, rules);
    let patch = json!({"containers": ["/attacker/"]});
    SERVER.patch_token(&key, &text_field(&token, "id"), &patch).expect_problem(403, "container");
}

#[test]
fn intent_access_requires_rights_on_its_containers() {
    let permissions =
        [TokenCreate, TokenRead, TokenIntentCreate, TokenIntentRead, TokenIntentDelete];
    let create_merchant_key = |name: &str| {
        SERVER.key_with_rule(&ACME.tenant, &format!("/merchant-{name}/"), Reveal, &permissions)
    };
    let (key_a, key_b) = (create_merchant_key("a"), create_merchant_key("b"));
    // An intent without containers gets the container of the first rule.
    let intent = create_intent(&key_a, &unique_card_number());
    assert_eq!(intent["containers"], json!(["/merchant-a/"]));
    let path = format!("/token-intents/{}", text_field(&intent, "id"));
    let detokenize_body =
        json!({"n": format!("{{{{ token_intent: {} }}}}", text_field(&intent, "id"))});
    SERVER.get_path(&key_b, &path).expect_problem(403, "token-intent:read");
    SERVER.delete(&key_b, &path).expect_problem(403, "token-intent:delete");
    SERVER.post(&key_b, "/detokenize", &detokenize_body).expect_problem(403, "token:read");
    let conversion_body =
        |container: &str| json!({"token_intent_id": intent["id"], "containers": [container]});
    SERVER
        .create_token(&key_b, &conversion_body("/merchant-b/"))
        .expect_problem(403, "token:create");
    SERVER.get_path(&key_a, &path).expect_status(200);
    SERVER.post(&key_a, "/detokenize", &detokenize_body).expect_status(200);
    SERVER.create_token(&key_a, &conversion_body("/merchant-a/")).expect_status(201);
    // Rules must allow the containers that a request names.
    let body_for_merchant_b = json!({"type": "token", "data": 1, "containers": ["/merchant-b/"]});
    SERVER
        .post(&key_a, "/token-intents", &body_for_merchant_b)
        .expect_problem(403, "token-intent:create");
    let intent_of_merchant_b = SERVER.create_entity(&key_b, "/token-intents", &body_for_merchant_b);
    assert_eq!(intent_of_merchant_b["containers"], json!(["/merchant-b/"]));
    let body_with_invalid_container =
        json!({"type": "token", "data": 1, "containers": ["no slashes"]});
    SERVER
        .post(&key_b, "/token-intents", &body_with_invalid_container)
        .expect_invalid("containers[0]");
    // A permission without a rule applies to every container, so the intent gets the default
    // container of its type.
    let intent_without_containers = create_intent(&ACME.public, &unique_card_number());
    assert_eq!(intent_without_containers["containers"], json!(["/pci/high/"]));
}

#[test]
fn partial_patch_withholds_a_fingerprint_of_hidden_attributes() {
    let keys = create_deduplicating_tenant(DeduplicationBehavior::ReadExisting);
    let key_without_reveal = create_key_without_reveal(&keys);
    let person_body = json!({"type": "token", "data": {"pin": "4711", "name": "Ada", "zip": "1"},
        "fingerprint_expression": "{{ data.pin }}{{ data.name }}",
        "search_indexes": ["{{ data.pin }}{{ data.name }}", "{{ data.zip }}"]});
    let token = SERVER.create_token_ok(&keys.private, &person_body);
    let id = text_field(&token, "id");
    let count_found = |query: &str| {
        let response = SERVER.post(&keys.private, "/v2/tokens/search", &json!({"query": query}));
        response.expect_status(200)["data"].as_array().unwrap().len()
    };
    // A patch of an attribute that the fingerprint does not read leaves the fingerprint unchanged.
    let patched = SERVER
        .patch_token(&key_without_reveal, &id, &json!({"data": {"zip": "2"}}))
        .expect_status(200);
    assert_eq!(patched["fingerprint"], token["fingerprint"]);
    // The patch replaces one of two hidden inputs. With the new fingerprint, the caller could guess
    // the other input.
    let patched = SERVER
        .patch_token(&key_without_reveal, &id, &json!({"data": {"name": "Bob"}}))
        .expect_status(200);
    assert_eq!(patched.get("fingerprint"), None);
    let counts = (count_found("data:4711Bob"), count_found("data:4711Ada"), count_found("data:2"));
    assert_eq!(counts, (0, 0, 1));
    // The fingerprint stays withheld when other attributes change.
    let patched = SERVER
        .patch_token(&key_without_reveal, &id, &json!({"metadata": {"a": "b"}}))
        .expect_status(200);
    assert_eq!(patched.get("fingerprint"), None);
    // If one patch replaces all hidden inputs, the fingerprint depends only on data of the caller.
    let hidden_inputs = json!({"data": {"name": "Eve", "pin": "1234"}});
    let patched = SERVER.patch_token(&key_without_reveal, &id, &hidden_inputs).expect_status(200);
    assert!(patched["fingerprint"].is_string());
    assert_eq!(count_found("data:1234Eve"), 1);
    // A patch by a caller with a reveal right restores the fingerprint, too.
    SERVER
        .patch_token(&key_without_reveal, &id, &json!({"data": {"name": "Bob"}}))
        .expect_status(200);
    let patched = SERVER
        .patch_token(&keys.private, &id, &json!({"data": {"name": "Kim"}}))
        .expect_status(200);
    assert!(patched["fingerprint"].is_string());
}

#[test]
fn public_key_cannot_shorten_expiry_or_move_a_token() {
    let keys = create_deduplicating_tenant(DeduplicationBehavior::UpdateExisting);
    let number = unique_card_number();
    let created = SERVER.create_token_ok(&keys.private, &card_body(&number));
    let id = text_field(&created, "id");
    let expiry_2070 = json!({"expires_at": "2070-01-01T00:00:00Z"});
    SERVER.patch_token(&keys.public, &id, &expiry_2070).expect_problem(403, "expires_at");
    let container_patch = json!({"containers": ["/pci/low/"]});
    SERVER.patch_token(&keys.public, &id, &container_patch).expect_problem(403, "containers");
    // A create request that finds a duplicate succeeds and does not shorten the expiry of the
    // existing token.
    let duplicate = SERVER
        .create_token_ok(&keys.public, &with_attributes(&card_body(&number), expiry_2070.clone()));
    assert_eq!(duplicate["id"], created["id"]);
    assert_eq!(SERVER.get_token(&keys.private, &id).json().get("expires_at"), None);
    // A private application may shorten the expiry.
    SERVER.patch_token(&keys.private, &id, &expiry_2070).expect_status(200);
    let expiry_2060 = json!({"expires_at": "2060-01-01T00:00:00Z"});
    SERVER.patch_token(&keys.public, &id, &expiry_2060).expect_problem(403, "expires_at");
    let expiry_2080 = json!({"expires_at": "2080-01-01T00:00:00Z"});
    SERVER.patch_token(&keys.public, &id, &expiry_2080).expect_status(200);
    SERVER.patch_token(&keys.public, &id, &json!({"expires_at": null})).expect_status(200);
    // A converted token expires no earlier than its intent.
    let convert_intent = |key: &str, seconds: u64| {
        let expires_at = SERVER.clock.now().plus(Duration::from_secs(seconds)).to_string();
        let intent = create_intent(&keys.public, &unique_card_number());
        SERVER
            .create_token(key, &json!({"token_intent_id": intent["id"], "expires_at": expires_at}))
    };
    convert_intent(&keys.public, 60).expect_problem(403, "expires_at");
    convert_intent(&keys.public, 100_000).expect_status(201);
    convert_intent(&keys.private, 60).expect_status(201);
}

#[test]
fn planted_expressions_fall_back_when_another_application_replaces_the_secret() {
    let keys = SERVER.create_default_tenant();
    let attacker_key =
        SERVER.key_with_permissions(&keys.tenant, Public, &[TokenCreate, TokenUpdate]);
    let plant_token = |key: &str| {
        let mask = json!({"n": "{{ data.account_number }}"});
        SERVER.create_token_ok(
            key,
            &json!({"type": "bank", "mask": mask,
            "search_indexes": ["{{ data.account_number | slice: 0, 4 }}"],
            "fingerprint_expression": "{{ data.account_number | slice: 0, 4 }}",
            "data": {"routing_number": "021000021", "account_number": "1"}}),
        )
    };
    let secret_patch = json!({"data": {"account_number": "987654321"}});
    let created = plant_token(&attacker_key);
    SERVER
        .patch_token(&keys.private, &text_field(&created, "id"), &secret_patch)
        .expect_status(200);
    let stored = SERVER.get_token(&keys.private, &text_field(&created, "id")).json();
    assert_eq!(stored["mask"]["account_number"], "{{ data.account_number | reveal_last: 4 }}");
    assert_eq!(stored.get("search_indexes"), None);
    let expression = "{{ data.account_number }}|{{ data.routing_number }}";
    assert_eq!(stored["fingerprint_expression"], expression);
    // The expressions are not replaced in four cases: the attribute is visible through the mask of
    // the type; a backend replaces data that it wrote; the request repeats the expressions; a
    // caller with a reveal right wrote them.
    let expect_unchanged = |created: &Value, key: &str, patch: &Value| {
        SERVER.patch_token(key, &text_field(created, "id"), patch).expect_status(200);
        let stored = SERVER.get_token(&keys.private, &text_field(created, "id")).json();
        assert_eq!(stored["mask"], created["mask"], "mask changed by patch {patch}");
    };
    let visible_attribute_patch = json!({"data": {"routing_number": "011000015"}});
    expect_unchanged(&plant_token(&attacker_key), &keys.private, &visible_attribute_patch);
    let key_without_reveal = create_key_without_reveal(&keys);
    expect_unchanged(&plant_token(&key_without_reveal), &key_without_reveal, &secret_patch);
    let patch_with_expressions =
        with_attributes(&secret_patch, json!({"mask": {"n": "{{ data.account_number }}"}}));
    expect_unchanged(&plant_token(&attacker_key), &keys.private, &patch_with_expressions);
    expect_unchanged(&plant_token(&keys.private), &key_without_reveal, &secret_patch);
}

#[test]
fn backend_without_reveal_right_creates_deduplicates_converts_and_patches() {
    let keys = create_deduplicating_tenant(DeduplicationBehavior::UpdateExisting);
    let key_without_reveal = create_key_without_reveal(&keys);
    let number = unique_card_number();
    let token_body = with_attributes(
        &card_body(&number),
        json!({"mask": {"last": "{{ data.number | last4 }}"}, "metadata": {"customer": "7"},
            "fingerprint_expression": "{{ data.number }}/{{ metadata.customer }}",
            "search_indexes": ["{{ data.number }}", "{{ data.number | last4 }}"]}),
    );
    let token = SERVER.create_token_ok(&key_without_reveal, &token_body);
    let duplicate = SERVER.create_token_ok(&key_without_reveal, &token_body);
    assert_eq!(duplicate["id"], token["id"]);
    assert_eq!(duplicate["_extras"]["deduplication_behavior"], "update_existing");
    let query = json!({"query": format!("data:{number}")});
    let search_result =
        SERVER.post(&key_without_reveal, "/v2/tokens/search", &query).expect_status(200);
    assert_eq!(search_result["data"][0]["id"], token["id"]);
    let id = text_field(&token, "id");
    let patched = SERVER
        .patch_token(&key_without_reveal, &id, &json!({"data": {"expiration_year": 2040}}))
        .expect_status(200);
    assert_eq!(patched["fingerprint"], token["fingerprint"]);
    assert_eq!(patched["data"], token["data"]);
    let new_number = unique_card_number();
    let patched = SERVER
        .patch_token(&key_without_reveal, &id, &json!({"data": {"number": new_number}}))
        .expect_status(200);
    assert_eq!(patched["data"]["last"], new_number[12..]);
    let intent = create_intent(&keys.public, &unique_card_number());
    let body = json!({"token_intent_id": intent["id"], "metadata": {"customer": "8"},
        "fingerprint_expression": "{{data.number}}",
        "search_indexes": ["{{ data.number | last4 }}"]});
    SERVER.create_token(&key_without_reveal, &body).expect_status(201);
}
