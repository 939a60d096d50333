//! What the guessing budget counts of data that the caller does not know.
//!
//! A counter, and the maximum of counted numbers, are visible by the fingerprint. So they must follow
//! from what the caller submitted and from the mask, and not from hidden digits.

use scrip_core::types::{
    ApplicationKind::Public,
    Permission::{TokenCreate, TokenIntentCreate, TokenRead, TokenUpdate},
    TenantKind,
    Transform::Reveal,
};
use scrip_testing::requests::with_members;
use serde_json::{Value, json};

use crate::{
    harness::server::text_field,
    limits::guessing_budget_harness::{GuessingBudgetHarness, card, lookalikes, luhn_sum},
};

const NUMBER: &str = "4242424242424242";

/// A backend that reads everything in clear.
fn reader(harness: &GuessingBudgetHarness) -> String {
    let permissions = [TokenCreate, TokenIntentCreate, TokenRead, TokenUpdate];
    harness.server.key_with_rule(&harness.keys.tenant, "/", Reveal, &permissions)
}

fn bank(routing: &str, account: &str) -> Value {
    json!({"type": "bank", "data": {"routing_number": routing, "account_number": account}})
}

fn patch(harness: &GuessingBudgetHarness, key: &str, id: &str, body: &Value) -> Value {
    harness.server.patch_token(key, id, body).expect_status(200)
}

fn fingerprint(harness: &GuessingBudgetHarness, key: &str, id: &str) -> Value {
    harness.server.get_token(key, id).expect_status(200)["fingerprint"].clone()
}

#[test]
fn conversion_without_reveal_right_accepts_only_the_fingerprint_expression_of_the_type() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let server = &harness.server;
    let convert = |key: &str, expression: &str| {
        let intent = server.create_intent_id(&harness.masked, &card(NUMBER));
        let body = json!({
            "token_intent_id": intent,
            "fingerprint_expression": expression,
            "metadata": {"m": "7"},
        });
        server.post(key, "/tokens", &body).status
    };
    let reader = reader(&harness);
    for expression in [
        "{{ metadata.m }}-{{ data.number }}",
        "x{{ data.number }}",
        "{{ data.number }}-{{ data.expiration_year }}",
        "{{ metadata.m }}",
    ] {
        assert_eq!(convert(&harness.masked, expression), 403, "{expression}");
    }
    assert_eq!(convert(&reader, "{{ metadata.m }}-{{ data.number }}"), 201);
    assert_eq!(convert(&harness.masked, "{{data.number}}"), 201);
}

#[test]
fn patch_of_metadata_next_to_a_hidden_number_leaves_no_fingerprint() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let reader = reader(&harness);
    let body = with_members(card(NUMBER), &json!({"metadata": {"m": "1"}}));
    let joined_expression = "{{ metadata.m }}-{{ data.number }}";
    let joined_body =
        with_members(body.clone(), &json!({"fingerprint_expression": joined_expression}));
    let [plain, joined] =
        [body, joined_body].map(|it| harness.server.create_token_id(&reader, &it));
    let changes = json!({"metadata": {"m": "41111111"}});
    patch(&harness, &harness.masked, &plain, &changes);
    patch(&harness, &harness.masked, &joined, &changes);
    assert!(fingerprint(&harness, &reader, &plain).is_string(), "over the number only");
    assert!(fingerprint(&harness, &reader, &joined).is_null(), "over number and metadata");
    patch(&harness, &reader, &joined, &json!({"metadata": {"m": "2"}}));
    assert!(fingerprint(&harness, &reader, &joined).is_null(), "new metadata changes nothing");
    patch(&harness, &reader, &joined, &json!({"data": {"expiration_month": 1}}));
    assert!(fingerprint(&harness, &reader, &joined).is_string(), "changed with a reveal right");
}

#[test]
fn patch_of_the_routing_number_leaves_no_fingerprint_of_the_hidden_account() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let server = &harness.server;
    let reader = reader(&harness);
    let public =
        server.key_with_permissions(&harness.keys.tenant, Public, &[TokenCreate, TokenUpdate]);
    let hidden = server.create_token_ok(&reader, &bank("021000021", "1000207788"));
    let id = text_field(&hidden, "id");
    // A planted token, equal to the patched one.
    server.create_token_ok(&public, &bank("011401533", "1000207788"));
    let changes = json!({"data": {"routing_number": "011401533"}, "deduplicate_token": true});
    for key in [&public, &harness.masked] {
        let answer = patch(&harness, key, &id, &changes);
        assert_eq!(text_field(&answer, "id"), id, "no duplicate is found");
        assert!(answer["fingerprint"].is_null(), "{answer}");
    }
    assert!(fingerprint(&harness, &reader, &id).is_null());
    let changes = json!({"data": {"routing_number": "021000021", "account_number": "1000207788"}});
    patch(&harness, &harness.masked, &id, &changes);
    assert_eq!(fingerprint(&harness, &reader, &id), hidden["fingerprint"]);
}

/// The digits of account and routing number have a part that is a card number, with hidden digits.
#[test]
fn fingerprint_of_a_hidden_account_does_not_depend_on_the_group_of_its_hidden_digits() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let server = &harness.server;
    let reader = reader(&harness);
    let convert = |account: &str| {
        let intent = server.create_intent_id(&reader, &bank("021000021", account));
        let body = json!({"token_intent_id": intent});
        server.create_token_ok(&harness.masked, &body)["fingerprint"].clone()
    };
    // All numbers with these first six and last four digits are exhausted.
    let exhausted = "411111000000";
    let parts: Vec<_> = (0..10).map(|it| format!("{exhausted}{it}")).collect();
    let account = parts.iter().find(|it| luhn_part(&format!("{it}021000021")).is_some()).unwrap();
    let part = luhn_part(&format!("{account}021000021")).unwrap();
    let group = group_of(&part, 20);
    harness.spend_budget(&harness.masked, &group);
    assert!(harness.create_and_get_fingerprint(&harness.masked, &part).is_null(), "exhausted");
    assert!(convert(account).is_string(), "an account with a part in the exhausted group");
    assert!(convert("5555550000007").is_string(), "another account");
}

/// A patch with as many numbers as a request may have, next to a hidden name that is one of them or not.
#[test]
fn names_of_hidden_members_do_not_change_what_a_patch_counts() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let reader = reader(&harness);
    let hidden = "900000000050";
    let count_rows = || {
        harness.flush_counts();
        harness.server.count_rows(&harness.keys.tenant, "guesses")
    };
    let count_patch = |first: u64, write: &dyn Fn(Vec<String>) -> Value| {
        let body = json!({"type": "token", "data": {"limits": {hidden: 5000}},
            "fingerprint_expression": "{{ metadata.m }}", "metadata": {"m": "x"}});
        let id = harness.server.create_token_id(&reader, &body);
        let numbers = (first..first + 100).map(|it| it.to_string()).collect();
        let before = count_rows();
        patch(&harness, &harness.masked, &id, &write(numbers));
        count_rows() - before
    };
    let data = |numbers: Vec<String>| json!({"data": {"z": numbers}});
    let metadata = |numbers: Vec<String>| json!({"metadata": {"m": numbers.join("a")}});
    assert_eq!(count_patch(900_000_000_000, &data), 100, "the hidden name is one of them");
    assert_eq!(count_patch(910_000_000_000, &data), 100, "the hidden name is none of them");
    assert_eq!(count_patch(920_000_000_000, &metadata), 100, "a patch of only metadata");
}

/// The shortest card number at the start of the digits.
fn luhn_part(digits: &str) -> Option<String> {
    (14..=19).map(|it| digits[..it].to_owned()).find(|it| luhn_sum(it).is_multiple_of(10))
}

/// Card numbers with the first six and last four digits of this one.
fn group_of(number: &str, count: usize) -> Vec<String> {
    let (first, last) = (&number[..6], &number[number.len() - 4..]);
    let numbers = (0..1_000_000_u32).map(|it| format!("{first}{it:06}{last}"));
    let numbers = numbers.filter(|it| luhn_sum(it).is_multiple_of(10) && it != number);
    numbers.take(count).collect()
}

#[test]
fn update_without_the_number_does_not_restore_a_refused_fingerprint() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let numbers = lookalikes("411111", 21);
    harness.spend_budget(&harness.masked, &numbers[..20]);
    let refused = harness.server.create_token_ok(&harness.masked, &card(&numbers[20]));
    assert!(refused["fingerprint"].is_null());
    let id = text_field(&refused, "id");
    for changes in [json!({"metadata": {"m": "1"}}), json!({"data": {"expiration_month": 1}})] {
        let answer = patch(&harness, &harness.masked, &id, &changes);
        assert!(answer["fingerprint"].is_null(), "after {changes}");
    }
}

#[test]
fn converted_text_has_a_fingerprint_only_if_its_intent_has_one() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let server = &harness.server;
    let texts = lookalikes("411111", 22);
    let convert = |text: &str| {
        let intent = json!({"type": "token", "data": {"n": text}});
        let intent = server.post(&harness.masked, "/token-intents", &intent).expect_status(201);
        let body = json!({"token_intent_id": text_field(&intent, "id")});
        let token = server.create_token_ok(&harness.masked, &body);
        (intent["fingerprint"].is_string(), token["fingerprint"].is_string())
    };
    for text in &texts[..20] {
        assert_eq!(convert(text), (true, true));
    }
    assert_eq!(convert(&texts[20]), (false, false));
}
