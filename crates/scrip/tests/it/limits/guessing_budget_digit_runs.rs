//! The guessing budget for numbers inside of texts, member names and longer runs of digits.
//!
//! Each test first shows with the rule disabled that the guesses are otherwise free.

use scrip_core::{
    policy::{Quotas, tenant::quota::QuotaLimit},
    types::{
        ApplicationKind::Public, DisclosureRule, DisclosureRules, Permission::TokenCreate,
        TenantKind,
    },
};
use scrip_testing::requests::with_members;
use serde_json::{Value, json};

use crate::{
    harness::server::TestServer,
    limits::guessing_budget_harness::{GuessingBudgetHarness, card, lookalikes},
};

const GUESSES: usize = 25;

/// Sends the guesses to the server and counts the responses with a fingerprint.
fn count_fingerprints(server: &TestServer, key: &str, bodies: &[Value]) -> usize {
    let has_fingerprint =
        |body: &&Value| server.create_token_ok(key, body)["fingerprint"].is_string();
    bodies.iter().filter(has_fingerprint).count()
}

#[track_caller]
fn check_counted(name: &str, build_guess: &dyn Fn(usize, &str) -> Value) {
    let numbers = lookalikes("411111", GUESSES);
    let bodies: Vec<_> =
        numbers.iter().enumerate().map(|(index, number)| build_guess(index, number)).collect();
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let without_rule = harness.server.start_second_node(|app| {
        app.vault.disclosure =
            DisclosureRules::weakened_for_control_run(&[DisclosureRule::EveryDigitRunCounts]);
        app.vault.guess_ledger = std::sync::Arc::default();
    });
    let free = count_fingerprints(&without_rule, &harness.masked, &bodies);
    assert_eq!(free, GUESSES, "{name}: the control counts the guesses too");
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let counted = count_fingerprints(&harness.server, &harness.masked, &bodies);
    assert_eq!(counted, 20, "{name}: fingerprints");
}

fn token(data: Value) -> Value {
    json!({"type": "token", "data": data})
}

#[test]
fn number_in_the_text_of_an_object_counts_as_a_guess() {
    check_counted("text of an object", &|_, it| token(json!(json!({"n": it}).to_string())));
    check_counted("text in a text", &|_, it| {
        token(json!({"a": json!(json!({"n": it}).to_string()).to_string()}))
    });
    check_counted("prose", &|_, it| token(json!(format!("number {it} of the card"))));
    check_counted("separators", &|_, it| {
        let (first, last) = it.split_at(8);
        token(json!(format!("{{\"n\":\"{first}\u{2013}{last}\"}}")))
    });
}

#[test]
fn number_in_a_member_name_counts_as_a_guess() {
    check_counted("member name", &|_, it| token(json!({it: true})));
}

#[test]
fn number_with_an_exponent_counts_by_its_decimal_value() {
    check_counted("exponent", &|_, it| {
        let text = format!("{{\"n\":{}.{}e15}}", &it[..1], &it[1..]);
        token(serde_json::from_str(&text).unwrap())
    });
}

#[test]
fn number_in_pieces_counts_when_the_fingerprint_joins_them() {
    check_counted("pieces", &|_, it| {
        let body = token(json!({"a": &it[..8], "b": &it[8..]}));
        with_members(body, &json!({"fingerprint_expression": "({{ data.a }}{{ data.b }})x"}))
    });
}

fn card_with_metadata(fingerprint_expression: &str, text: &str) -> Value {
    let attributes =
        json!({"fingerprint_expression": fingerprint_expression, "metadata": {"g": text}});
    with_members(card("4222222222222220"), &attributes)
}

#[test]
fn other_digits_next_to_a_number_do_not_make_a_new_group() {
    check_counted("literal digits", &|index, it| {
        card_with_metadata(&format!("{}{{{{ metadata.g }}}}", index / 10 + 1), it)
    });
    check_counted("digits of the metadata", &|index, it| {
        card_with_metadata("{{ metadata.g }}", &format!("{it}{}", index / 10 + 5))
    });
}

#[test]
fn planted_literal_digits_do_not_stay_when_a_browser_writes_a_number() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let server = &harness.server;
    let permissions = [TokenCreate, scrip_core::types::Permission::TokenUpdate];
    let public = server.key_with_permissions(&harness.keys.tenant, Public, &permissions);
    let mut planted = card("4222222222222220");
    planted["fingerprint_expression"] = json!("7{{ data.number }}");
    let id = server.create_token_id(&public, &planted);
    let patch = json!({"data": {"number": "4242424242424242"}});
    let patched = server.patch_token(&public, &id, &patch).expect_status(200);
    let own = server.create_token_ok(&public, &card("4242424242424242"));
    assert_eq!(patched["fingerprint"], own["fingerprint"]);
}

fn text_with_numbers(count: usize) -> String {
    let numbers = (0..count).map(|it| format!("{:012}", 100_000_000_000 + it * 7_000_001));
    numbers.collect::<Vec<_>>().join("a")
}

/// Each number is a row for 90 days, and all visitors of a shop share one daily budget.
#[test]
fn tokens_of_a_request_share_the_maximum_of_counted_numbers() {
    type Key = fn(&GuessingBudgetHarness) -> &String;
    let (public, masked): (Key, Key) = (|it| &it.keys.public, |it| &it.masked);
    let cases = [
        (public, 1, 30, 20),
        (masked, 5, 30, 20),
        (masked, 1, 110, 100),
        (public, 1, 2, 2),
        (masked, 1, 30, 30),
    ];
    for (key, tokens, numbers, counted) in cases {
        let harness = GuessingBudgetHarness::new(TenantKind::Production);
        let body = vec![text_with_numbers(numbers); tokens];
        harness.server.post(key(&harness), "/tokenize", &json!(body)).expect_status(200);
        harness.flush_counts();
        let rows = harness.server.count_rows(&harness.keys.tenant, "guesses");
        assert_eq!(rows, counted, "{tokens} tokens with {numbers} numbers");
    }
}

/// Social security numbers with the same last four digits, of which no two are equal.
fn social_security_numbers() -> impl Iterator<Item = String> {
    (0..GUESSES).map(|it| format!("{}-{:02}-6789", 400 + it, 10 + it))
}

#[test]
fn social_security_number_inside_an_object_counts_in_the_group_of_its_last_four_digits() {
    type BuildGuess = fn(&str) -> Value;
    let forms: [(&str, BuildGuess); 8] = [
        ("object", |it| token(json!({"ssn": it}))),
        ("text of the object", |it| token(json!(json!({"ssn": it}).to_string()))),
        ("number", |it| token(json!({"ssn": it.replace('-', "").parse::<u64>().unwrap()}))),
        ("other digits behind it", |it| token(json!(format!("SSN: {it}. 2 dependents")))),
        ("date behind it", |it| token(json!({"a": format!("{it} 1980-01-02")}))),
        ("digits in front of it", |it| token(json!({"a": format!("+1 {}", it.replace('-', ""))}))),
        ("member name", |it| token(json!({it: "a"}))),
        ("own expression", |it| {
            let body = token(json!({"a": it}));
            with_members(body, &json!({"fingerprint_expression": "ssn {{ data.a }}"}))
        }),
    ];
    for (name, build_guess) in forms {
        let bodies: Vec<_> = social_security_numbers().map(|it| build_guess(&it)).collect();
        let harness = GuessingBudgetHarness::new(TenantKind::Production);
        let counted = count_fingerprints(&harness.server, &harness.masked, &bodies);
        assert_eq!(counted, 20, "{name}: fingerprints");
        let other = token(json!({"order": "123456780"}));
        let counted = count_fingerprints(&harness.server, &harness.masked, &[other]);
        assert_eq!(counted, 1, "{name}: a number of another group");
    }
}

#[test]
fn numbers_with_nine_digits_in_untyped_data_do_not_spend_the_budget_of_the_application() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    harness.server.set_quotas(&harness.keys.tenant, |quotas| Quotas {
        number_guesses_application: QuotaLimit::Count(5),
        ..quotas
    });
    let orders: Vec<_> =
        (0..15).map(|it| token(json!({"order": 100_016_789 + it * 10_000}))).collect();
    assert_eq!(count_fingerprints(&harness.server, &harness.masked, &orders), 15);
    let cards: Vec<_> = lookalikes("411111", 10).iter().map(|it| token(json!({"n": it}))).collect();
    // The first number of a group does not spend it.
    assert_eq!(count_fingerprints(&harness.server, &harness.masked, &cards), 6);
}

/// Otherwise a text would make the number free for the application.
#[test]
fn number_that_was_in_a_text_first_still_spends_the_budget_of_the_application() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    harness.server.set_quotas(&harness.keys.tenant, |quotas| Quotas {
        number_guesses_application: QuotaLimit::Count(5),
        ..quotas
    });
    let numbers: Vec<_> = (0..10).map(|it| format!("4{it:02}-51-1{it:03}")).collect();
    let texts: Vec<_> = numbers.iter().map(|it| token(json!({"note": it}))).collect();
    assert_eq!(count_fingerprints(&harness.server, &harness.masked, &texts), 10);
    let typed: Vec<_> =
        numbers.iter().map(|it| json!({"type": "social_security_number", "data": it})).collect();
    assert_eq!(count_fingerprints(&harness.server, &harness.masked, &typed), 5);
}
