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
        Settings,
        Transform::{Mask, Reveal},
    },
    time::Clock,
};
use serde_json::{Value, json};

use crate::harness::server::{ACME, Keys, SHARED, card, grant, new_number, text};

fn deduplicating(behavior: DeduplicationBehavior) -> Keys {
    SHARED.tenant(Settings {
        deduplicate_tokens: true,
        token_deduplication_behavior: behavior,
        ..Settings::default()
    })
}

/// A backend with plain permissions: it sees masks.
fn masked_key(keys: &Keys) -> String {
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
    SHARED.permissions(&keys.tenant, Private, &may)
}

fn with(body: &Value, attributes: Value) -> Value {
    let mut body = body.clone();
    body.as_object_mut().unwrap().extend(attributes.as_object().unwrap().clone());
    body
}

fn intent(key: &str, number: &str) -> Value {
    let body = json!({"type": "card", "data":
        {"number": number, "expiration_month": 7, "expiration_year": 2031}});
    SHARED.post(key, "/token-intents", &body).is(201)
}

/// Two numbers with the same BIN and last four.
const LOOKALIKES: [&str; 2] = ["4000001250003456", "4000001217773456"];

#[test]
fn lookalike_numbers_of_these_tests_are_card_numbers() {
    for number in LOOKALIKES {
        SHARED.created(&ACME.private, &card(number));
    }
}

#[test]
fn conversion_by_public_key_does_not_merge_under_a_planted_index() {
    let keys = deduplicating(DeduplicationBehavior::ReadExisting);
    // Empty or not, depending on the digit that the year points to.
    let index = "{% assign at = data.expiration_year | minus: 2000 %}\
                 {% assign digit = data.number | slice: at, 1 %}{% if digit < '5' %}x{% endif %}";
    let fingerprint = "{{ data.expiration_month }}";
    let planted = with(
        &card(&new_number()),
        json!({"fingerprint_expression": fingerprint, "search_indexes": [index]}),
    );
    let mut planted = planted;
    planted["data"]["expiration_year"] = json!(2009);
    planted["data"]["expiration_month"] = json!(7);
    let reply = SHARED.create(&keys.public, &planted);
    let victim = intent(&keys.public, LOOKALIKES[0]);
    for fingerprint in [fingerprint, "constant", "{{ metadata.of }}"] {
        let body = json!({"token_intent_id": victim["id"], "deduplicate_token": true,
            "fingerprint_expression": fingerprint, "metadata": {"of": "7"}});
        SHARED.create(&keys.public, &body).refused(403, "fingerprint_expression");
    }
    // A fingerprint of the number is accepted, and leads to a token of its own.
    let body = json!({"token_intent_id": victim["id"], "deduplicate_token": true,
        "fingerprint_expression": "{{ data.number }}-{{ data.expiration_month }}"});
    let converted = SHARED.created(&keys.public, &body);
    if reply.status == 201 {
        assert_ne!(converted["id"], reply.json()["id"]);
    }
}

#[test]
fn planted_token_with_other_expressions_absorbs_no_data() {
    let keys = deduplicating(DeduplicationBehavior::UpdateExisting);
    let honest = "{{ metadata.customer }}";
    let planted = with(
        &json!({"type": "bank", "data": {"routing_number": "021000021", "account_number": "1"}}),
        json!({"fingerprint_expression": honest, "metadata": {"customer": "17"},
            "mask": "{{ data.account_number }}", "search_indexes": ["{{ data.account_number }}"]}),
    );
    let planted = SHARED.created(&keys.public, &planted);
    let honest = with(
        &json!({"type": "bank", "data":
            {"routing_number": "021000021", "account_number": "987654321"}}),
        json!({"fingerprint_expression": honest, "metadata": {"customer": "17"}}),
    );
    for key in [&keys.public, &masked_key(&keys), &keys.private] {
        let made = SHARED.created(key, &honest);
        assert_ne!(made["id"], planted["id"]);
    }
    let kept = SHARED.get(&keys.private, &text(&planted, "id")).json();
    assert_eq!(kept["data"]["account_number"], "1");
}

#[test]
fn constant_fingerprint_expression_does_not_answer_for_a_card() {
    for behavior in [DeduplicationBehavior::ReadExisting, DeduplicationBehavior::UpdateExisting] {
        let keys = deduplicating(behavior);
        let number = new_number();
        let planted = with(&card(&new_number()), json!({"fingerprint_expression": number}));
        let planted = SHARED.created(&keys.public, &planted);
        let made = SHARED.created(&keys.public, &card(&number));
        assert_eq!(made["fingerprint"], planted["fingerprint"]);
        assert_eq!(made["_extras"]["deduplicated"], false);
        assert_ne!(made["id"], planted["id"]);
    }
}

#[test]
fn trusted_expressions_match_and_stay_unchanged() {
    let keys = deduplicating(DeduplicationBehavior::UpdateExisting);
    let number = new_number();
    let first = with(&card(&number), json!({"mask": {"n": "{{ data.number | last4 }}"}}));
    let first = SHARED.created(&keys.private, &first);
    let again = SHARED.created(&keys.public, &card(&number));
    assert_eq!(again["id"], first["id"], "a caller with a reveal right wrote the mask");
    assert_eq!(again["_extras"]["deduplication_behavior"], "update_existing");
    let kept = SHARED.get(&keys.private, &text(&first, "id")).json();
    assert_eq!(kept["mask"], first["mask"]);
}

#[test]
fn lookalike_number_decides_whether_an_expression_is_accepted() {
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
                SHARED.create(&masked, &with(&card(number), json!({ (attribute): value }))).status
            });
            assert_eq!(statuses[0], statuses[1], "{attribute}: {index}");
        }
    }
}

#[test]
fn patch_answer_without_read_right_is_an_outline() {
    let keys = SHARED.tenant(Settings::default());
    let bank = json!({"type": "bank", "mask": "{{ data.account_number }}", "metadata": {"a": "b"},
        "data": {"routing_number": "021000021", "account_number": "987654321"}});
    let made = SHARED.created(&keys.public, &bank);
    let life = "2090-01-01T00:00:00+00:00";
    let ask = || {
        let path = format!("/tokens/{}", text(&made, "id"));
        let ask = SHARED.ask("PATCH", &path).key(&keys.public).once("outline");
        ask.patch(&json!({"data": {"routing_number": "011000015"}})).send()
    };
    let expected = json!({
        "id": made["id"],
        "type": "bank",
        "tenant_id": made["tenant_id"],
        "fingerprint": ask().is(200)["fingerprint"],
        "containers": ["/bank/high/"],
    });
    assert_eq!(ask().json(), expected, "and so is its replay");
    let limited = with(&bank, json!({"expires_at": "2080-01-01T00:00:00Z"}));
    let limited = SHARED.created(&keys.public, &limited);
    let patched = SHARED.patch(&keys.public, &text(&limited, "id"), &json!({"expires_at": life}));
    assert_eq!(patched.is(200)["expires_at"], life);
    assert!(patched.json().get("metadata").is_none() && patched.json().get("mask").is_none());
}

#[test]
fn conversion_into_a_container_of_stronger_rights_is_refused() {
    let made = intent(&ACME.public, &new_number());
    let body = json!({"token_intent_id": made["id"], "containers": ["/attacker/"]});
    for permission in [TokenRead, TokenSearch, TokenUpdate, TokenUse] {
        let rules = vec![grant("/attacker/", Reveal, &[TokenCreate, permission])];
        SHARED.create(&SHARED.rules(&ACME.tenant, rules), &body).refused(403, "container");
    }
    // Of a card a mask tells no more than the intent does.
    let rules = vec![grant("/attacker/", Mask, &[TokenCreate, TokenRead])];
    SHARED.create(&SHARED.rules(&ACME.tenant, rules), &body).is(201);
    let account = json!({"type": "us_bank_account_number", "data": "987654321"});
    let made = SHARED.post(&ACME.public, "/token-intents", &account).is(201);
    let body = json!({"token_intent_id": made["id"], "containers": ["/attacker/"]});
    let rules = vec![grant("/attacker/", Mask, &[TokenCreate, TokenRead])];
    SHARED.create(&SHARED.rules(&ACME.tenant, rules), &body).refused(403, "container");
}

#[test]
fn move_to_a_container_where_the_token_can_be_used_is_refused() {
    let made = SHARED.created(&ACME.private, &card(&new_number()));
    let rules =
        vec![grant("/", Mask, &[TokenRead, TokenUpdate]), grant("/attacker/", Reveal, &[TokenUse])];
    let mover = SHARED.rules(&ACME.tenant, rules);
    let patch = json!({"containers": ["/attacker/"]});
    SHARED.patch(&mover, &text(&made, "id"), &patch).refused(403, "container");
}

#[test]
fn intent_is_used_by_rights_on_its_containers() {
    let all = [TokenCreate, TokenRead, TokenIntentCreate, TokenIntentRead, TokenIntentDelete];
    let merchant = |name: &str| {
        SHARED.rules(&ACME.tenant, vec![grant(&format!("/merchant-{name}/"), Reveal, &all)])
    };
    let (one, two) = (merchant("a"), merchant("b"));
    // Without containers an intent goes where the first rule points.
    let made = intent(&one, &new_number());
    assert_eq!(made["containers"], json!(["/merchant-a/"]));
    let path = format!("/token-intents/{}", text(&made, "id"));
    let read = json!({"n": format!("{{{{ token_intent: {} }}}}", text(&made, "id"))});
    SHARED.fetch(&two, &path).refused(403, "token-intent:read");
    SHARED.remove(&two, &path).refused(403, "token-intent:delete");
    SHARED.post(&two, "/detokenize", &read).refused(403, "token:read");
    let convert = |to: &str| json!({"token_intent_id": made["id"], "containers": [to]});
    SHARED.create(&two, &convert("/merchant-b/")).refused(403, "token:create");
    SHARED.fetch(&one, &path).is(200);
    SHARED.post(&one, "/detokenize", &read).is(200);
    SHARED.create(&one, &convert("/merchant-a/")).is(201);
    // Containers of a request must be covered.
    let elsewhere = json!({"type": "token", "data": 1, "containers": ["/merchant-b/"]});
    SHARED.post(&one, "/token-intents", &elsewhere).refused(403, "token-intent:create");
    let named = SHARED.post(&two, "/token-intents", &elsewhere).is(201);
    assert_eq!(named["containers"], json!(["/merchant-b/"]));
    let wrong = json!({"type": "token", "data": 1, "containers": ["no slashes"]});
    SHARED.post(&two, "/token-intents", &wrong).invalid("containers[0]");
    // A plain permission is for every container: the type's default.
    let plain = intent(&ACME.public, &new_number());
    assert_eq!(plain["containers"], json!(["/pci/high/"]));
}

#[test]
fn partial_patch_withholds_a_fingerprint_of_hidden_attributes() {
    let keys = deduplicating(DeduplicationBehavior::ReadExisting);
    let masked = masked_key(&keys);
    let person = json!({"type": "token", "data": {"pin": "4711", "name": "Ada", "zip": "1"},
        "fingerprint_expression": "{{ data.pin }}{{ data.name }}",
        "search_indexes": ["{{ data.pin }}{{ data.name }}", "{{ data.zip }}"]});
    let made = SHARED.created(&keys.private, &person);
    let id = text(&made, "id");
    let found = |query: &str| {
        let found = SHARED.post(&keys.private, "/v2/tokens/search", &json!({"query": query}));
        found.is(200)["data"].as_array().unwrap().len()
    };
    // A patch of what is no input changes nothing.
    let patched = SHARED.patch(&masked, &id, &json!({"data": {"zip": "2"}})).is(200);
    assert_eq!(patched["fingerprint"], made["fingerprint"]);
    // One hidden input of two: a copy with guesses would tell the other.
    let patched = SHARED.patch(&masked, &id, &json!({"data": {"name": "Bob"}})).is(200);
    assert_eq!(patched.get("fingerprint"), None);
    assert_eq!((found("data:4711Bob"), found("data:4711Ada"), found("data:2")), (0, 0, 1));
    // It stays away when other things change.
    let patched = SHARED.patch(&masked, &id, &json!({"metadata": {"a": "b"}})).is(200);
    assert_eq!(patched.get("fingerprint"), None);
    // All hidden inputs at once are the caller's own data.
    let all = json!({"data": {"name": "Eve", "pin": "1234"}});
    let patched = SHARED.patch(&masked, &id, &all).is(200);
    assert!(patched["fingerprint"].is_string());
    assert_eq!(found("data:1234Eve"), 1);
    // A reveal right brings it back, too.
    SHARED.patch(&masked, &id, &json!({"data": {"name": "Bob"}})).is(200);
    let patched = SHARED.patch(&keys.private, &id, &json!({"data": {"name": "Kim"}})).is(200);
    assert!(patched["fingerprint"].is_string());
}

#[test]
fn public_key_cannot_shorten_a_life_or_move_a_token() {
    let keys = deduplicating(DeduplicationBehavior::UpdateExisting);
    let number = new_number();
    let made = SHARED.created(&keys.private, &card(&number));
    let id = text(&made, "id");
    let soon = json!({"expires_at": "2070-01-01T00:00:00Z"});
    SHARED.patch(&keys.public, &id, &soon).refused(403, "expires_at");
    let moved = json!({"containers": ["/pci/low/"]});
    SHARED.patch(&keys.public, &id, &moved).refused(403, "containers");
    // A create that finds it keeps the longer life, and succeeds.
    let again = SHARED.created(&keys.public, &with(&card(&number), soon.clone()));
    assert_eq!(again["id"], made["id"]);
    assert_eq!(SHARED.get(&keys.private, &id).json().get("expires_at"), None);
    // A private application may.
    SHARED.patch(&keys.private, &id, &soon).is(200);
    let earlier = json!({"expires_at": "2060-01-01T00:00:00Z"});
    SHARED.patch(&keys.public, &id, &earlier).refused(403, "expires_at");
    let later = json!({"expires_at": "2080-01-01T00:00:00Z"});
    SHARED.patch(&keys.public, &id, &later).is(200);
    SHARED.patch(&keys.public, &id, &json!({"expires_at": null})).is(200);
    // A converted token lives at least as long as its intent would have.
    let converted = |key: &str, seconds: u64| {
        let ends = SHARED.clock.now().after(Duration::from_secs(seconds)).to_string();
        let made = intent(&keys.public, &new_number());
        SHARED.create(key, &json!({"token_intent_id": made["id"], "expires_at": ends}))
    };
    converted(&keys.public, 60).refused(403, "expires_at");
    converted(&keys.public, 100_000).is(201);
    converted(&keys.private, 60).is(201);
}

#[test]
fn planted_expressions_fall_back_when_another_application_replaces_the_secret() {
    let keys = SHARED.tenant(Settings::default());
    let attacker = SHARED.permissions(&keys.tenant, Public, &[TokenCreate, TokenUpdate]);
    let planted = |key: &str| {
        let mask = json!({"n": "{{ data.account_number }}"});
        SHARED.created(
            key,
            &json!({"type": "bank", "mask": mask,
            "search_indexes": ["{{ data.account_number | slice: 0, 4 }}"],
            "fingerprint_expression": "{{ data.account_number | slice: 0, 4 }}",
            "data": {"routing_number": "021000021", "account_number": "1"}}),
        )
    };
    let secret = json!({"data": {"account_number": "987654321"}});
    let made = planted(&attacker);
    SHARED.patch(&keys.private, &text(&made, "id"), &secret).is(200);
    let kept = SHARED.get(&keys.private, &text(&made, "id")).json();
    assert_eq!(kept["mask"]["account_number"], "{{ data.account_number | reveal_last: 4 }}");
    assert_eq!(kept.get("search_indexes"), None);
    assert_eq!(
        kept["fingerprint_expression"],
        "{{ data.account_number }}|{{ data.routing_number }}"
    );
    // What the type shows anyway is not the secret; a backend may replace its own; a request may
    // repeat them; and what a caller with a reveal right wrote stays.
    let keeps = |made: &Value, key: &str, patch: &Value| {
        SHARED.patch(key, &text(made, "id"), patch).is(200);
        let kept = SHARED.get(&keys.private, &text(made, "id")).json();
        assert_eq!(kept["mask"], made["mask"], "{patch}");
    };
    let shown = json!({"data": {"routing_number": "011000015"}});
    keeps(&planted(&attacker), &keys.private, &shown);
    let masked = masked_key(&keys);
    keeps(&planted(&masked), &masked, &secret);
    let repeated = with(&secret, json!({"mask": {"n": "{{ data.account_number }}"}}));
    keeps(&planted(&attacker), &keys.private, &repeated);
    keeps(&planted(&keys.private), &masked, &secret);
}

#[test]
fn masked_backend_still_creates_deduplicates_converts_and_patches() {
    let keys = deduplicating(DeduplicationBehavior::UpdateExisting);
    let masked = masked_key(&keys);
    let number = new_number();
    let own = with(
        &card(&number),
        json!({"mask": {"last": "{{ data.number | last4 }}"}, "metadata": {"customer": "7"},
            "fingerprint_expression": "{{ data.number }}/{{ metadata.customer }}",
            "search_indexes": ["{{ data.number }}", "{{ data.number | last4 }}"]}),
    );
    let first = SHARED.created(&masked, &own);
    let again = SHARED.created(&masked, &own);
    assert_eq!(again["id"], first["id"]);
    assert_eq!(again["_extras"]["deduplication_behavior"], "update_existing");
    let query = json!({"query": format!("data:{number}")});
    let found = SHARED.post(&masked, "/v2/tokens/search", &query).is(200);
    assert_eq!(found["data"][0]["id"], first["id"]);
    let id = text(&first, "id");
    let patched = SHARED.patch(&masked, &id, &json!({"data": {"expiration_year": 2040}})).is(200);
    assert_eq!(patched["fingerprint"], first["fingerprint"]);
    assert_eq!(patched["data"], first["data"]);
    let other = new_number();
    let patched = SHARED.patch(&masked, &id, &json!({"data": {"number": other}})).is(200);
    assert_eq!(patched["data"]["last"], other[12..]);
    let made = intent(&keys.public, &new_number());
    let body = json!({"token_intent_id": made["id"], "metadata": {"customer": "8"},
        "fingerprint_expression": "{{ data.number }}/{{ metadata.customer }}",
        "search_indexes": ["{{ data.number | last4 }}"]});
    SHARED.create(&masked, &body).is(201);
}
