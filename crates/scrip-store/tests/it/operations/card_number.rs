//! An id and a mask never contain a complete card number.

use scrip_core::{card::TokenType, token::NewToken};
use scrip_testing::{
    policy::{TOKENS, access_without_rules},
    requests::{
        DEBIT, VISA, card, create, data_patch, expect_invalid_field, get, new_token, update,
        visible_data,
    },
    vault_harness::VaultHarness,
};
use serde_json::{Value, json};

on_every_engine! {
    VaultHarness;
    token_id_containing_the_card_number_is_rejected
    update_to_a_number_contained_in_the_id_is_rejected
    mask_shows_at_most_bin_and_last_four
}

async fn token_id_containing_the_card_number_is_rejected(harness: VaultHarness) {
    let (_, caller) = harness.tenant_with_default_caller().await;
    let rejected_expressions = [
        VISA,
        "card-4242424242424242-7",
        "4242-4242-4242-4242",
        "4242 4242 4242 4242",
        "4 2.4_2:4a2-4b2c42424242 42",
        "94242424242424242",
        "{{ data.number }}",
        "card-{{ data.number }}",
        "42424242{{ data.number | reveal_last: 8 }}",
        "{{ data | stringify }}",
    ];
    for id_expression in rejected_expressions {
        let token = NewToken { id: Some(id_expression.to_owned()), ..card(VISA) };
        assert_eq!(
            expect_invalid_field(create(&harness.vault, &caller, token).await),
            "id",
            "{id_expression}"
        );
    }
    let number_token = new_token(TokenType::CardNumber, json!(VISA));
    let token = NewToken { id: Some("{{ data }}".to_owned()), ..number_token };
    assert_eq!(expect_invalid_field(create(&harness.vault, &caller, token).await), "id");
    for id_expression in ["customer-{{ data.number | last4 }}", "4242-4242-4242", DEBIT] {
        let token = NewToken { id: Some(id_expression.to_owned()), ..card(VISA) };
        create(&harness.vault, &caller, token).await.unwrap();
    }
}

async fn update_to_a_number_contained_in_the_id_is_rejected(harness: VaultHarness) {
    let (_, caller) = harness.tenant_with_caller(TOKENS).await;
    let token = NewToken { id: Some("card 4000-0566-5566-5556".to_owned()), ..card(VISA) };
    let id = create(&harness.vault, &caller, token).await.unwrap().token.id;
    let patch = data_patch(json!({"number": DEBIT}));
    assert_eq!(expect_invalid_field(update(&harness.vault, &caller, &id, patch).await), "data");
    let found = visible_data(&get(&harness.vault, &caller, &id).await);
    assert_eq!(found, Some(json!({"number": VISA})));
}

/// Digits without repetitions, so that no part of a number matches another text by accident.
const NUMBERS: [&str; 3] = ["5493120678493155", "378282246310005", "6011000990139424"];

async fn mask_shows_at_most_bin_and_last_four(harness: VaultHarness) {
    let tenant = harness.default_tenant().await;
    let masks = [
        None,
        Some(json!("{{ data }}")),
        Some(json!("{{ data.number }}")),
        Some(json!("{{ data | stringify }}")),
        Some(json!(["{{ data.number | reveal_last: 19 }}", "{{ data.number | reveal_last: 12 }}"])),
        Some(json!({"a": {"b": "{{ data.number }}-{{ data.number | last4 }}"}})),
    ];
    let caller = harness.caller(&tenant, access_without_rules(TOKENS)).await;
    for number in NUMBERS {
        // Of a number with fifteen digits, at most the first six may be visible.
        let visible_digits_max = if number.len() >= 16 { 8 } else { 6 };
        let hidden_parts = [
            &number[..=visible_digits_max],
            &number[number.len() - 5..],
            &number[visible_digits_max..number.len() - 4],
        ];
        for mask in &masks {
            let token = NewToken { mask: mask.clone(), ..card(number) };
            let created = create(&harness.vault, &caller, token).await.unwrap().token;
            let read = get(&harness.vault, &caller, &created.id).await;
            for view in [created, read] {
                let data = visible_data(&view).unwrap();
                let text = data.to_string();
                assert_ne!(data, Value::Null);
                assert!(text.contains(&number[number.len() - 4..]), "{text}");
                assert!(!hidden_parts.iter().any(|it| text.contains(it)), "{text}");
            }
        }
    }
}
