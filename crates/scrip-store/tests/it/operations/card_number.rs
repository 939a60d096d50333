//! A card number is nowhere in clear: not in an id, and not under any mask.

use scrip_core::{
    policy::{TenantSettings, Transform},
    token::{NewToken, TokenType},
};
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules, access_without_rules},
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
    let tenant = harness.tenant(TenantSettings::default()).await;
    let caller = harness.caller(&tenant, access_without_rules(TOKENS)).await;
    let rejected = [
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
    for source in rejected {
        let new = NewToken { id: Some(source.to_owned()), ..card(VISA) };
        assert_eq!(
            expect_invalid_field(create(&harness.vault, &caller, new).await),
            "id",
            "{source}"
        );
    }
    let bare = new_token(TokenType::CardNumber, json!(VISA));
    let new = NewToken { id: Some("{{ data }}".to_owned()), ..bare };
    assert_eq!(expect_invalid_field(create(&harness.vault, &caller, new).await), "id");
    for source in ["customer-{{ data.number | last4 }}", "4242-4242-4242", DEBIT] {
        let new = NewToken { id: Some(source.to_owned()), ..card(VISA) };
        create(&harness.vault, &caller, new).await.unwrap();
    }
}

async fn update_to_a_number_contained_in_the_id_is_rejected(harness: VaultHarness) {
    let tenant = harness.tenant(TenantSettings::default()).await;
    let caller = harness
        .caller(&tenant, access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]))
        .await;
    let new = NewToken { id: Some("card 4000-0566-5566-5556".to_owned()), ..card(VISA) };
    let id = create(&harness.vault, &caller, new).await.unwrap().token.id;
    let patch = data_patch(json!({"number": DEBIT}));
    assert_eq!(expect_invalid_field(update(&harness.vault, &caller, &id, patch).await), "data");
    assert_eq!(
        visible_data(&get(&harness.vault, &caller, &id).await),
        Some(json!({"number": VISA}))
    );
}

/// Numbers that do not repeat themselves, so that no part of them shows by being elsewhere too.
const NUMBERS: [&str; 3] = ["5493120678493155", "378282246310005", "6011000990139424"];

async fn mask_shows_at_most_bin_and_last_four(harness: VaultHarness) {
    let tenant = harness.tenant(TenantSettings::default()).await;
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
        // Of fifteen digits nobody needs more than six at the front.
        let front = if number.len() >= 16 { 8 } else { 6 };
        let telling =
            [&number[..=front], &number[number.len() - 5..], &number[front..number.len() - 4]];
        for mask in &masks {
            let new = NewToken { mask: mask.clone(), ..card(number) };
            let written = create(&harness.vault, &caller, new).await.unwrap().token;
            let read = get(&harness.vault, &caller, &written.id).await;
            for view in [written, read] {
                let shown = visible_data(&view).unwrap();
                let text = shown.to_string();
                assert_ne!(shown, Value::Null);
                assert!(text.contains(&number[number.len() - 4..]), "{text}");
                assert!(!telling.iter().any(|it| text.contains(it)), "{text}");
            }
        }
    }
}
