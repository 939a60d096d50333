//! A card number is nowhere in clear: not in an id, and not under any mask.

use scrip_core::{
    policy::{Settings, Transform},
    token::{NewToken, TokenType},
};
use scrip_testing::{
    policy::{TOKENS, plain, rule, ruled},
    requests::{DEBIT, VISA, card, create, data, get, invalid, new_token, patch_of, update},
    vault_harness::VaultHarness,
};
use serde_json::{Value, json};

on_every_engine! {
    VaultHarness;
    no_id_holds_the_number
    no_update_makes_the_id_hold_the_number
    no_mask_shows_more_than_bin_and_last_four
}

async fn no_id_holds_the_number(world: VaultHarness) {
    let tenant = world.tenant(Settings::default()).await;
    let caller = world.caller(&tenant, plain(TOKENS)).await;
    let refused = [
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
    for source in refused {
        let new = NewToken { id: Some(source.to_owned()), ..card(VISA) };
        assert_eq!(invalid(create(&world.vault, &caller, new).await), "id", "{source}");
    }
    let bare = new_token(TokenType::CardNumber, json!(VISA));
    let new = NewToken { id: Some("{{ data }}".to_owned()), ..bare };
    assert_eq!(invalid(create(&world.vault, &caller, new).await), "id");
    for source in ["customer-{{ data.number | last4 }}", "4242-4242-4242", DEBIT] {
        let new = NewToken { id: Some(source.to_owned()), ..card(VISA) };
        create(&world.vault, &caller, new).await.unwrap();
    }
}

async fn no_update_makes_the_id_hold_the_number(world: VaultHarness) {
    let tenant = world.tenant(Settings::default()).await;
    let caller = world.caller(&tenant, ruled([rule("/", Transform::Reveal, TOKENS)])).await;
    let new = NewToken { id: Some("card 4000-0566-5566-5556".to_owned()), ..card(VISA) };
    let id = create(&world.vault, &caller, new).await.unwrap().token.id;
    let patch = patch_of(json!({"number": DEBIT}));
    assert_eq!(invalid(update(&world.vault, &caller, &id, patch).await), "data");
    assert_eq!(data(&get(&world.vault, &caller, &id).await), Some(json!({"number": VISA})));
}

/// Numbers that do not repeat themselves, so that no part of them shows by being elsewhere too.
const NUMBERS: [&str; 3] = ["5493120678493155", "378282246310005", "6011000990139424"];

async fn no_mask_shows_more_than_bin_and_last_four(world: VaultHarness) {
    let tenant = world.tenant(Settings::default()).await;
    let masks = [
        None,
        Some(json!("{{ data }}")),
        Some(json!("{{ data.number }}")),
        Some(json!("{{ data | stringify }}")),
        Some(json!(["{{ data.number | reveal_last: 19 }}", "{{ data.number | reveal_last: 12 }}"])),
        Some(json!({"a": {"b": "{{ data.number }}-{{ data.number | last4 }}"}})),
    ];
    let caller = world.caller(&tenant, plain(TOKENS)).await;
    for number in NUMBERS {
        // Of fifteen digits nobody needs more than six at the front.
        let front = if number.len() >= 16 { 8 } else { 6 };
        let telling =
            [&number[..=front], &number[number.len() - 5..], &number[front..number.len() - 4]];
        for mask in &masks {
            let new = NewToken { mask: mask.clone(), ..card(number) };
            let written = create(&world.vault, &caller, new).await.unwrap().token;
            let read = get(&world.vault, &caller, &written.id).await;
            for view in [written, read] {
                let shown = data(&view).unwrap();
                let text = shown.to_string();
                assert_ne!(shown, Value::Null);
                assert!(text.contains(&number[number.len() - 4..]), "{text}");
                assert!(!telling.iter().any(|it| text.contains(it)), "{text}");
            }
        }
    }
}
