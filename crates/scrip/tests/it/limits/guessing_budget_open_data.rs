//! The guessing budget for data of type `token`, and for requests with very many numbers.

use scrip_core::types::TenantKind;
use serde_json::{Value, json};

use crate::limits::guessing_budget_harness::{GuessingBudgetHarness, card, lookalikes};

#[test]
fn card_numbers_in_objects_and_lists_of_type_token_count_as_guesses() {
    let format_number = |number: &str| {
        let (first_digits, last_digits) = number.split_at(4);
        format!("+{first_digits}\t{last_digits}")
    };
    let bodies: [&dyn Fn(&str) -> Value; 4] = [
        &|it| json!({"card": {"pan": it}, "owner": "known"}),
        &|it| json!(["known", [it]]),
        &|it| json!({"pan": format_number(it)}),
        &|it| json!({"pan": it.parse::<u64>().unwrap()}),
    ];
    for body in bodies {
        let harness = GuessingBudgetHarness::new(TenantKind::Production);
        let has_fingerprint = |number: &String| {
            let token = json!({"type": "token", "data": body(number)});
            harness.server.create_token_ok(&harness.masked, &token)["fingerprint"].is_string()
        };
        let numbers = lookalikes("411111", 25);
        assert_eq!(numbers.iter().filter(|it| has_fingerprint(it)).count(), 20, "{}", body("1"));
    }
}

/// Otherwise a request could test without a cost whether it has more numbers than the maximum.
#[test]
fn request_with_very_many_numbers_is_not_compared_and_counts_as_many_as_it_may_have() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let create_token =
        |body: &Value| harness.server.post_once(&harness.keys.public, "/tokens", "many", body);
    create_token(&card(&lookalikes("411111", 1)[0])).expect_status(201);
    let numbers: Vec<_> = (0..20_000_u64).map(|it| (100_000_000_000 + it).to_string()).collect();
    create_token(&json!({"type": "token", "data": numbers})).expect_status(422);
    let count_rows = || {
        harness.flush_counts();
        harness.server.count_rows(&harness.keys.tenant, "guesses")
    };
    assert_eq!(count_rows(), 1 + 20, "the card, and the maximum of a browser");
    // The limit is the same as for a new token: the token is stored but cannot be compared.
    for (count, is_compared) in [(101, false), (100, true)] {
        let body = json!({"type": "token", "data": &numbers[..count]});
        let created = harness.server.create_token_ok(&harness.masked, &body);
        assert_eq!(created["fingerprint"].is_string(), is_compared, "{count} numbers");
        assert_eq!(count_rows(), 1 + 20 + 100, "{count} numbers");
    }
}
