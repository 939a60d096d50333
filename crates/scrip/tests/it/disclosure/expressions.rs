//! No expression is evaluated on data that its writer neither sent nor may read, if the writer can
//! observe the result. Each test is an attack by a key without a reveal right.

use std::time::Duration;

use scrip_core::{
    policy::{
        ApplicationKind::{Private, Public},
        DeduplicationBehavior,
        Permission::{
            TokenCreate, TokenDelete, TokenIntentCreate, TokenIntentDelete, TokenIntentRead,
            TokenRead, TokenSearch, TokenUpdate, TokenUse,
        },
        TenantSettings,
        Transform::{Mask, Reveal},
    },
    time::Clock,
};
use serde_json::{Value, json};

use crate::harness::server::{
    ACME, SHARED_SERVER, TenantApiKeys, card_body, grant, text_field, unique_card_number,
};

fn deduplicating_tenant(behavior: DeduplicationBehavior) -> TenantApiKeys {
    SHARED_SERVER.create_test_tenant(TenantSettings {
        deduplicate_tokens: true,
        token_deduplication_behavior: behavior,
        ..TenantSettings::default()
    })
}

/// A backend with plain permissions: it sees masks.
fn masked_key(keys: &TenantApiKeys) -> String {
    let may = [
        TokenCreate,
        TokenRead,
        TokenUpdate,
        TokenSearch,
        TokenDelete,
        TokenIntentCreate,
        TokenIntentRead,
        TokenIntentDelete,
    ];
    SHARED_SERVER.key_with_permissions(&keys.tenant, Private, &may)
}

fn with_attributes(body: &Value, attributes: Value) -> Value {
    let mut body = body.clone();
    body.as_object_mut().unwrap().extend(attributes.as_object().unwrap().clone());
    body
}

fn create_intent(key: &str, number: &str) -> Value {
    let body = json!({"type": "card", "data":
        {"number": number, "expiration_month": 7, "expiration_year": 2031}});
    SHARED_SERVER.post(key, "/token-intents", &body).expect_status(201)
}

/// Two numbers with the same BIN and last four.
const LOOKALIKES: [&str; 2] = ["4000001250003456", "4000001217773456"];

#[test]
fn lookalike_test_numbers_are_valid_card_numbers() {
    for number in LOOKALIKES {
        SHARED_SERVER.create_token_ok(&ACME.private, &card_body(number));
    }
}

#[test]
fn conversion_by_public_key_does_not_merge_under_a_planted_index() {
    let keys = deduplicating_tenant(DeduplicationBehavior::ReadExisting);
    // Empty or not, depending on the digit that the year points to.
    let index = "{% assign at = data.expiration_year | minus: 2000 %}\
                 {% assign digit = data.number | slice: at, 1 %}{% if digit < '5' %}x{% endif %}";
    let fingerprint = "{{ data.expiration_month }}";
    let planted = with_attributes(
        &card_body(&unique_card_number()),
        json!({"fingerprint_expression": fingerprint, "search_indexes": [index]}),
    );
    let mut planted = planted;
    planted["data"]["expiration_year"] = json!(2009);
    planted["data"]["expiration_month"] = json!(7);
    let reply = SHARED_SERVER.create_token(&keys.public, &planted);
    let victim = create_intent(&keys.public, LOOKALIKES[0]);
    for fingerprint in [fingerprint, "constant", "{{ metadata.of }}"] {
        let body = json!({"token_intent_id": victim["id"], "deduplicate_token": true,
            "fingerprint_expression": fingerprint, "metadata": {"of": "7"}});
        SHARED_SERVER
            .create_token(&keys.public, &body)
            .expect_problem(403, "fingerprint_expression");
    }
    // A fingerprint of the number is accepted, and leads to a token of its own.
    let body = json!({"token_intent_id": victim["id"], "deduplicate_token": true,
        "fingerprint_expression": "{{ data.number }}-{{ data.expiration_month }}"});
    let converted = SHARED_SERVER.create_token_ok(&keys.public, &body);
    if reply.status == 201 {
        assert_ne!(converted["id"], reply.json()["id"]);
    }
}

#[test]
fn planted_token_with_other_expressions_absorbs_no_data() {
    let keys = deduplicating_tenant(DeduplicationBehavior::UpdateExisting);
    let honest = "{{ metadata.customer }}";
    let planted = with_attributes(
        &json!({"type": "bank", "data": {"routing_number": "021000021", "account_number": "1"}}),
        json!({"fingerprint_expression": honest, "metadata": {"customer": "17"},
            "mask": "{{ data.account_number }}", "search_indexes": ["{{ data.account_number }}"]}),
    );
    let planted = SHARED_SERVER.create_token_ok(&keys.public, &planted);
    let honest = with_attributes(
        &json!({"type": "bank", "data":
            {"routing_number": "021000021", "account_number": "987654321"}}),
        json!({"fingerprint_expression": honest, "metadata": {"customer": "17"}}),
    );
    for key in [&keys.public, &masked_key(&keys), &keys.private] {
        let created = SHARED_SERVER.create_token_ok(key, &honest);
        assert_ne!(created["id"], planted["id"]);
    }
    let stored = SHARED_SERVER.get_token(&keys.private, &text_field(&planted, "id")).json();
    assert_eq!(stored["data"]["account_number"], "1");
}

#[test]
fn constant_fingerprint_expression_does_not_match_a_card() {
    for behavior in [DeduplicationBehavior::ReadExisting, DeduplicationBehavior::UpdateExisting] {
        let keys = deduplicating_tenant(behavior);
        let number = unique_card_number();
        let planted = with_attributes(
            &card_body(&unique_card_number()),
            json!({"fingerprint_expression": number}),
        );
        let planted = SHARED_SERVER.create_token_ok(&keys.public, &planted);
        let created = SHARED_SERVER.create_token_ok(&keys.public, &card_body(&number));
        assert_eq!(created["fingerprint"], planted["fingerprint"]);
        assert_eq!(created["_extras"]["deduplicated"], false);
        assert_ne!(created["id"], planted["id"]);
    }
}

#[test]
fn trusted_expressions_match_and_stay_unchanged() {
    let keys = deduplicating_tenant(DeduplicationBehavior::UpdateExisting);
    let number = unique_card_number();
    let first =
        with_attributes(&card_body(&number), json!({"mask": {"n": "{{ data.number | last4 }}"}}));
    let first = SHARED_SERVER.create_token_ok(&keys.private, &first);
    let again = SHARED_SERVER.create_token_ok(&keys.public, &card_body(&number));
    assert_eq!(again["id"], first["id"], "a caller with a reveal right wrote the mask");
    assert_eq!(again["_extras"]["deduplication_behavior"], "update_existing");
    let stored = SHARED_SERVER.get_token(&keys.private, &text_field(&first, "id")).json();
    assert_eq!(stored["mask"], first["mask"]);
}

#[test]
fn expression_acceptance_does_not_depend_on_hidden_digits() {
    let masked = masked_key(&ACME);
    let digit = "{% assign d = data.number | slice: 9, 1 | to_number %}";
    for index in [
        format!("{digit}{{% if d == 0 %}}x{{% endif %}}"),
        format!("{digit}{{% if d == 7 %}}x{{% endif %}}"),
        format!("{digit}{{{{ 10 | divided_by: d }}}}"),
    ] {
        for attribute in ["search_indexes", "fingerprint_expression"] {
            let value =
                if attribute == "fingerprint_expression" { json!(index) } else { json!([index]) };
            let statuses = LOOKALIKES.map(|number| {
                SHARED_SERVER
                    .create_token(
                        &masked,
                        &with_attributes(&card_body(number), json!({ (attribute): value })),
                    )
                    .status
            });
            assert_eq!(statuses[0], statuses[1], "{attribute}: {index}");
        }
    }
}

#[test]
fn patch_response_without_read_permission_is_an_outline() {
    let keys = SHARED_SERVER.create_test_tenant(TenantSettings::default());
    let bank = json!({"type": "bank", "mask": "{{ data.account_number }}", "metadata": {"a": "b"},
        "data": {"routing_number": "021000021", "account_number": "987654321"}});
    let created = SHARED_SERVER.create_token_ok(&keys.public, &bank);
    let life = "2090-01-01T00:00:00+00:00";
    let ask = || {
        let path = format!("/tokens/{}", text_field(&created, "id"));
        let ask =
            SHARED_SERVER.request("PATCH", &path).key(&keys.public).idempotency_key("outline");
        ask.merge_patch(&json!({"data": {"routing_number": "011000015"}})).send()
    };
    let expected = json!({
        "id": created["id"],
        "type": "bank",
        "tenant_id": created["tenant_id"],
        "fingerprint": ask().expect_status(200)["fingerprint"],
        "containers": ["/bank/high/"],
    });
    assert_eq!(ask().json(), expected, "and so is its replay");
    let limited = with_attributes(&bank, json!({"expires_at": "2080-01-01T00:00:00Z"}));
    let limited = SHARED_SERVER.create_token_ok(&keys.public, &limited);
    let patched = SHARED_SERVER.patch_token(
        &keys.public,
        &text_field(&limited, "id"),
        &json!({"expires_at": life}),
    );
    assert_eq!(patched.expect_status(200)["expires_at"], life);
    assert!(patched.json().get("metadata").is_none() && patched.json().get("mask").is_none());
}

#[test]
fn conversion_into_a_container_with_stronger_rights_is_denied() {
    let created = create_intent(&ACME.public, &unique_card_number());
    let body = json!({"token_intent_id": created["id"], "containers": ["/attacker/"]});
    for permission in [TokenRead, TokenSearch, TokenUpdate, TokenUse] {
        let rules = vec![grant("/attacker/", Reveal, &[TokenCreate, permission])];
        SHARED_SERVER
            .create_token(&SHARED_SERVER.key_with_rules(&ACME.tenant, rules), &body)
            .expect_problem(403, "container");
    }
    // Of a card a mask tells no more than the intent does.
    let rules = vec![grant("/attacker/", Mask, &[TokenCreate, TokenRead])];
    SHARED_SERVER
        .create_token(&SHARED_SERVER.key_with_rules(&ACME.tenant, rules), &body)
        .expect_status(201);
    let account = json!({"type": "us_bank_account_number", "data": "987654321"});
    let created = SHARED_SERVER.post(&ACME.public, "/token-intents", &account).expect_status(201);
    let body = json!({"token_intent_id": created["id"], "containers": ["/attacker/"]});
    let rules = vec![grant("/attacker/", Mask, &[TokenCreate, TokenRead])];
    SHARED_SERVER
        .create_token(&SHARED_SERVER.key_with_rules(&ACME.tenant, rules), &body)
        .expect_problem(403, "container");
}

#[test]
fn move_to_a_container_with_use_permission_is_denied() {
    let created = SHARED_SERVER.create_token_ok(&ACME.private, &card_body(&unique_card_number()));
    let rules =
        vec![grant("/", Mask, &[TokenRead, TokenUpdate]), grant("/attacker/", Reveal, &[TokenUse])];
    let mover = SHARED_SERVER.key_with_rules(&ACME.tenant, rules);
    let patch = json!({"containers": ["/attacker/"]});
    SHARED_SERVER
        .patch_token(&mover, &text_field(&created, "id"), &patch)
        .expect_problem(403, "container");
}

#[test]
fn intent_access_requires_rights_on_its_containers() {
    let all = [TokenCreate, TokenRead, TokenIntentCreate, TokenIntentRead, TokenIntentDelete];
    let merchant = |name: &str| {
        SHARED_SERVER
            .key_with_rules(&ACME.tenant, vec![grant(&format!("/merchant-{name}/"), Reveal, &all)])
    };
    let (one, two) = (merchant("a"), merchant("b"));
    // Without containers an intent goes where the first rule points.
    let created = create_intent(&one, &unique_card_number());
    assert_eq!(created["containers"], json!(["/merchant-a/"]));
    let path = format!("/token-intents/{}", text_field(&created, "id"));
    let read = json!({"n": format!("{{{{ token_intent: {} }}}}", text_field(&created, "id"))});
    SHARED_SERVER.get_path(&two, &path).expect_problem(403, "token-intent:read");
    SHARED_SERVER.delete(&two, &path).expect_problem(403, "token-intent:delete");
    SHARED_SERVER.post(&two, "/detokenize", &read).expect_problem(403, "token:read");
    let convert = |to: &str| json!({"token_intent_id": created["id"], "containers": [to]});
    SHARED_SERVER.create_token(&two, &convert("/merchant-b/")).expect_problem(403, "token:create");
    SHARED_SERVER.get_path(&one, &path).expect_status(200);
    SHARED_SERVER.post(&one, "/detokenize", &read).expect_status(200);
    SHARED_SERVER.create_token(&one, &convert("/merchant-a/")).expect_status(201);
    // Containers of a request must be covered.
    let elsewhere = json!({"type": "token", "data": 1, "containers": ["/merchant-b/"]});
    SHARED_SERVER
        .post(&one, "/token-intents", &elsewhere)
        .expect_problem(403, "token-intent:create");
    let named = SHARED_SERVER.post(&two, "/token-intents", &elsewhere).expect_status(201);
    assert_eq!(named["containers"], json!(["/merchant-b/"]));
    let wrong = json!({"type": "token", "data": 1, "containers": ["no slashes"]});
    SHARED_SERVER.post(&two, "/token-intents", &wrong).expect_invalid("containers[0]");
    // A plain permission is for every container: the type's default.
    let plain = create_intent(&ACME.public, &unique_card_number());
    assert_eq!(plain["containers"], json!(["/pci/high/"]));
}

#[test]
fn partial_patch_withholds_a_fingerprint_of_hidden_attributes() {
    let keys = deduplicating_tenant(DeduplicationBehavior::ReadExisting);
    let masked = masked_key(&keys);
    let person = json!({"type": "token", "data": {"pin": "4711", "name": "Ada", "zip": "1"},
        "fingerprint_expression": "{{ data.pin }}{{ data.name }}",
        "search_indexes": ["{{ data.pin }}{{ data.name }}", "{{ data.zip }}"]});
    let created = SHARED_SERVER.create_token_ok(&keys.private, &person);
    let id = text_field(&created, "id");
    let found = |query: &str| {
        let found =
            SHARED_SERVER.post(&keys.private, "/v2/tokens/search", &json!({"query": query}));
        found.expect_status(200)["data"].as_array().unwrap().len()
    };
    // A patch of what is no input changes nothing.
    let patched =
        SHARED_SERVER.patch_token(&masked, &id, &json!({"data": {"zip": "2"}})).expect_status(200);
    assert_eq!(patched["fingerprint"], created["fingerprint"]);
    // One hidden input of two: a copy with guesses would tell the other.
    let patched = SHARED_SERVER
        .patch_token(&masked, &id, &json!({"data": {"name": "Bob"}}))
        .expect_status(200);
    assert_eq!(patched.get("fingerprint"), None);
    assert_eq!((found("data:4711Bob"), found("data:4711Ada"), found("data:2")), (0, 0, 1));
    // It stays away when other things change.
    let patched = SHARED_SERVER
        .patch_token(&masked, &id, &json!({"metadata": {"a": "b"}}))
        .expect_status(200);
    assert_eq!(patched.get("fingerprint"), None);
    // All hidden inputs at once are the caller's own data.
    let all = json!({"data": {"name": "Eve", "pin": "1234"}});
    let patched = SHARED_SERVER.patch_token(&masked, &id, &all).expect_status(200);
    assert!(patched["fingerprint"].is_string());
    assert_eq!(found("data:1234Eve"), 1);
    // A reveal right brings it back, too.
    SHARED_SERVER.patch_token(&masked, &id, &json!({"data": {"name": "Bob"}})).expect_status(200);
    let patched = SHARED_SERVER
        .patch_token(&keys.private, &id, &json!({"data": {"name": "Kim"}}))
        .expect_status(200);
    assert!(patched["fingerprint"].is_string());
}

#[test]
fn public_key_cannot_shorten_expiry_or_move_a_token() {
    let keys = deduplicating_tenant(DeduplicationBehavior::UpdateExisting);
    let number = unique_card_number();
    let created = SHARED_SERVER.create_token_ok(&keys.private, &card_body(&number));
    let id = text_field(&created, "id");
    let soon = json!({"expires_at": "2070-01-01T00:00:00Z"});
    SHARED_SERVER.patch_token(&keys.public, &id, &soon).expect_problem(403, "expires_at");
    let moved = json!({"containers": ["/pci/low/"]});
    SHARED_SERVER.patch_token(&keys.public, &id, &moved).expect_problem(403, "containers");
    // A create that finds it keeps the longer life, and succeeds.
    let again = SHARED_SERVER
        .create_token_ok(&keys.public, &with_attributes(&card_body(&number), soon.clone()));
    assert_eq!(again["id"], created["id"]);
    assert_eq!(SHARED_SERVER.get_token(&keys.private, &id).json().get("expires_at"), None);
    // A private application may.
    SHARED_SERVER.patch_token(&keys.private, &id, &soon).expect_status(200);
    let earlier = json!({"expires_at": "2060-01-01T00:00:00Z"});
    SHARED_SERVER.patch_token(&keys.public, &id, &earlier).expect_problem(403, "expires_at");
    let later = json!({"expires_at": "2080-01-01T00:00:00Z"});
    SHARED_SERVER.patch_token(&keys.public, &id, &later).expect_status(200);
    SHARED_SERVER.patch_token(&keys.public, &id, &json!({"expires_at": null})).expect_status(200);
    // A converted token lives at least as long as its intent would have.
    let converted = |key: &str, seconds: u64| {
        let ends = SHARED_SERVER.clock.now().plus(Duration::from_secs(seconds)).to_string();
        let created = create_intent(&keys.public, &unique_card_number());
        SHARED_SERVER
            .create_token(key, &json!({"token_intent_id": created["id"], "expires_at": ends}))
    };
    converted(&keys.public, 60).expect_problem(403, "expires_at");
    converted(&keys.public, 100_000).expect_status(201);
    converted(&keys.private, 60).expect_status(201);
}

#[test]
fn planted_expressions_fall_back_when_another_application_replaces_the_secret() {
    let keys = SHARED_SERVER.create_test_tenant(TenantSettings::default());
    let attacker =
        SHARED_SERVER.key_with_permissions(&keys.tenant, Public, &[TokenCreate, TokenUpdate]);
    let planted = |key: &str| {
        let mask = json!({"n": "{{ data.account_number }}"});
        SHARED_SERVER.create_token_ok(
            key,
            &json!({"type": "bank", "mask": mask,
            "search_indexes": ["{{ data.account_number | slice: 0, 4 }}"],
            "fingerprint_expression": "{{ data.account_number | slice: 0, 4 }}",
            "data": {"routing_number": "021000021", "account_number": "1"}}),
        )
    };
    let secret = json!({"data": {"account_number": "987654321"}});
    let created = planted(&attacker);
    SHARED_SERVER
        .patch_token(&keys.private, &text_field(&created, "id"), &secret)
        .expect_status(200);
    let stored = SHARED_SERVER.get_token(&keys.private, &text_field(&created, "id")).json();
    assert_eq!(stored["mask"]["account_number"], "{{ data.account_number | reveal_last: 4 }}");
    assert_eq!(stored.get("search_indexes"), None);
    assert_eq!(
        stored["fingerprint_expression"],
        "{{ data.account_number }}|{{ data.routing_number }}"
    );
    // What the type shows anyway is not the secret; a backend may replace its own; a request may
    // repeat them; and what a caller with a reveal right wrote stays.
    let keeps = |created: &Value, key: &str, patch: &Value| {
        SHARED_SERVER.patch_token(key, &text_field(created, "id"), patch).expect_status(200);
        let stored = SHARED_SERVER.get_token(&keys.private, &text_field(created, "id")).json();
        assert_eq!(stored["mask"], created["mask"], "{patch}");
    };
    let shown = json!({"data": {"routing_number": "011000015"}});
    keeps(&planted(&attacker), &keys.private, &shown);
    let masked = masked_key(&keys);
    keeps(&planted(&masked), &masked, &secret);
    let repeated = with_attributes(&secret, json!({"mask": {"n": "{{ data.account_number }}"}}));
    keeps(&planted(&attacker), &keys.private, &repeated);
    keeps(&planted(&keys.private), &masked, &secret);
}

#[test]
fn masked_backend_still_creates_deduplicates_converts_and_patches() {
    let keys = deduplicating_tenant(DeduplicationBehavior::UpdateExisting);
    let masked = masked_key(&keys);
    let number = unique_card_number();
    let own = with_attributes(
        &card_body(&number),
        json!({"mask": {"last": "{{ data.number | last4 }}"}, "metadata": {"customer": "7"},
            "fingerprint_expression": "{{ data.number }}/{{ metadata.customer }}",
            "search_indexes": ["{{ data.number }}", "{{ data.number | last4 }}"]}),
    );
    let first = SHARED_SERVER.create_token_ok(&masked, &own);
    let again = SHARED_SERVER.create_token_ok(&masked, &own);
    assert_eq!(again["id"], first["id"]);
    assert_eq!(again["_extras"]["deduplication_behavior"], "update_existing");
    let query = json!({"query": format!("data:{number}")});
    let found = SHARED_SERVER.post(&masked, "/v2/tokens/search", &query).expect_status(200);
    assert_eq!(found["data"][0]["id"], first["id"]);
    let id = text_field(&first, "id");
    let patched = SHARED_SERVER
        .patch_token(&masked, &id, &json!({"data": {"expiration_year": 2040}}))
        .expect_status(200);
    assert_eq!(patched["fingerprint"], first["fingerprint"]);
    assert_eq!(patched["data"], first["data"]);
    let other = unique_card_number();
    let patched = SHARED_SERVER
        .patch_token(&masked, &id, &json!({"data": {"number": other}}))
        .expect_status(200);
    assert_eq!(patched["data"]["last"], other[12..]);
    let created = create_intent(&keys.public, &unique_card_number());
    let body = json!({"token_intent_id": created["id"], "metadata": {"customer": "8"},
        "fingerprint_expression": "{{ data.number }}/{{ metadata.customer }}",
        "search_indexes": ["{{ data.number | last4 }}"]});
    SHARED_SERVER.create_token(&masked, &body).expect_status(201);
}
