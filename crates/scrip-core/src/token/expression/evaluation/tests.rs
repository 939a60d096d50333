//! No expression is a way to read: whatever it does, two cards that look alike give the same.

use serde_json::{Value, json};

use super::*;
use crate::token::Plaintext;

/// Same BIN, same last four, nothing between them alike.
const ONE: &str = "4242424200004242";
const TWO: &str = "4242424213574242";

fn body(number: &str, mask: Option<Value>) -> TokenBody {
    let data = json!({"number": number, "expiration_month": 7, "expiration_year": 2031});
    TokenBody { data: Plaintext::new(data), mask, ..TokenBody::default() }
}

/// Everything that asks about a digit, for every place and every digit between BIN and last four.
fn probing_expressions() -> Vec<String> {
    let mut scripts = vec![
        "{{ data.number }}".to_owned(),
        "{{ data | stringify }}".to_owned(),
        "{{ data | json: '$.number' }}".to_owned(),
        "{{ data.number | split: '' | join: '-' }}".to_owned(),
        "{{ data.number | hmac: 'sha-256', 'k' | to_base16 }}".to_owned(),
        "{{ data.number | to_number | modulo: 97 }}".to_owned(),
        "{{ data.number | url_encode | upcase | size }}".to_owned(),
        "{{ data.number, slice: 0, 16 }}".to_owned(),
        "{{ data.number | reveal_last: 16 }}".to_owned(),
        "{{ data.number | reveal: 8, 8 }}".to_owned(),
        "{{ data.number | card_mask: 'true', 'true' }}".to_owned(),
        "{% assign n = data.number | split: '' | sort %}{{ n | join: '' }}".to_owned(),
        "{% for c in (0..9) %}{{ data.number | remove: c | size }},{% endfor %}".to_owned(),
    ];
    for at in 8..12 {
        for digit in 0..10 {
            scripts.push(format!(
                "{{% assign d = data.number | slice: {at}, 1 %}}\
                 {{% if d == '{digit}' %}}hit{{% else %}}miss{{% endif %}}"
            ));
            let prefix = &ONE[..at];
            scripts.push(format!(
                "{{% if data.number contains '{prefix}{digit}' %}}hit{{% else %}}miss{{% endif %}}"
            ));
        }
    }
    scripts.push(format!("{{% if data.number == '{ONE}' %}}hit{{% else %}}miss{{% endif %}}"));
    scripts.push(format!("{{% if data.number < '{TWO}' %}}less{{% else %}}more{{% endif %}}"));
    scripts
}

#[test]
fn mask_result_does_not_depend_on_hidden_card_digits() {
    for script in probing_expressions() {
        for mask in [json!(script), json!({"a": [script]})] {
            let seen = [ONE, TWO].map(|number| {
                let body = body(number, Some(mask.clone()));
                let masked = reveal::apply_mask(&WorkMeter::default(), TokenType::Card, &body);
                masked.map(|it| it.map(Plaintext::into_exposed))
            });
            let [one, two] = seen;
            assert_eq!(one, two, "{script}");
        }
    }
}

#[test]
fn computed_id_does_not_depend_on_hidden_card_digits() {
    let id = |number: &str, script: &str| {
        let source = format!("id-{script}");
        let id = evaluate_token_id(
            &WorkMeter::default(),
            &source,
            TokenType::Card,
            &body(number, None),
            scrip_seal::fill_random,
        );
        id.map(|it| it.id)
    };
    for script in probing_expressions() {
        assert_eq!(id(ONE, &script), id(TWO, &script), "{script}");
    }
    let shown = id(ONE, "{{ data.number | card_bin }}-{{ data.number | last4 }}").unwrap();
    assert_eq!(shown.as_str(), "id-42424242-4242");
    let wants = id(ONE, "{{ data.number | slice: 0, 15 }}").unwrap_err();
    assert_eq!(wants.problem, "must not show more of a card number than BIN and last four");
}

#[test]
fn alias_id_keeps_bin_and_last_four_of_the_card_but_is_another_number() {
    let source = "{{ data.number | alias_card: 'true', 'true' }}";
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..50 {
        let drawn = evaluate_token_id(
            &WorkMeter::default(),
            source,
            TokenType::Card,
            &body(ONE, None),
            scrip_seal::fill_random,
        )
        .unwrap();
        assert!(drawn.is_alias);
        let text = drawn.id.as_str();
        assert_eq!((text.len(), &text[..8], &text[12..]), (16, "42424242", "4242"));
        assert_ne!(text, ONE);
        seen.insert(text.to_owned());
    }
    assert!(seen.len() > 30, "{} different ones", seen.len());
}

#[test]
fn lookalike_number_keeps_mask_and_checksum() {
    for number in [ONE, TWO, "378282246310005", "6011000990139424", "4000000000000000006"] {
        for fill in [b'0', b'7'] {
            let other = card::make_lookalike(number, fill);
            assert_eq!(card::mask_number(&other), card::mask_number(number));
            let sound = card::check_number(number, 12).is_ok();
            assert!(!sound || card::check_number(&other, 12).is_ok(), "{number}");
        }
        assert_ne!(card::make_lookalike(number, b'0'), card::make_lookalike(number, b'7'));
    }
}

/// A short number has ten aliases, and by chance one is the card it is drawn for.
#[test]
fn alias_equal_to_the_card_number_is_drawn_again() {
    let source = "{{ data.number | alias_card: 'true', 'true' }}";
    let number = "424242420004";
    let luhn = (0..10).map(|it| format!("{}{it}{}", &number[..6], &number[7..]));
    let number = luhn.into_iter().find(|it| card::check_number(it, 12).is_ok()).unwrap();
    for _ in 0..200 {
        let drawn = evaluate_token_id(
            &WorkMeter::default(),
            source,
            TokenType::Card,
            &body(&number, None),
            scrip_seal::fill_random,
        );
        let Ok(NewId { id, is_alias: true }) = drawn else { panic!("it was refused") };
        assert_ne!(id.as_str(), number);
    }
}
