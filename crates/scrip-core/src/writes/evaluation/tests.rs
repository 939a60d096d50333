//! No expression can read hidden digits: two look-alike cards always give the same result.

use serde_json::{Value, json};

use super::*;
use crate::types::Plaintext;

/// Same BIN, same last four, all other digits different.
const FIRST_NUMBER: &str = "4242424200004242";
const SECOND_NUMBER: &str = "4242424213574242";

fn body(number: &str, mask: Option<Value>) -> TokenBody {
    let data = json!({"number": number, "expiration_month": 7, "expiration_year": 2031});
    TokenBody { data: Plaintext::new(data), mask, ..TokenBody::default() }
}

/// Expressions that test a digit, for every position and digit between BIN and last four.
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
    for position in 8..12 {
        for digit in 0..10 {
            scripts.push(format!(
                "{{% assign d = data.number | slice: {position}, 1 %}}\
                 {{% if d == '{digit}' %}}hit{{% else %}}miss{{% endif %}}"
            ));
            let prefix = &FIRST_NUMBER[..position];
            scripts.push(format!(
                "{{% if data.number contains '{prefix}{digit}' %}}hit{{% else %}}miss{{% endif %}}"
            ));
        }
    }
    scripts.push(format!(
        "{{% if data.number == '{FIRST_NUMBER}' %}}hit{{% else %}}miss{{% endif %}}"
    ));
    scripts.push(format!(
        "{{% if data.number < '{SECOND_NUMBER}' %}}less{{% else %}}more{{% endif %}}"
    ));
    scripts
}

#[test]
fn mask_result_does_not_depend_on_hidden_card_digits() {
    for script in probing_expressions() {
        for mask in [json!(script), json!({"a": [script]})] {
            let results = [FIRST_NUMBER, SECOND_NUMBER].map(|number| {
                let body = body(number, Some(mask.clone()));
                let masked = reveal::apply_mask(
                    &WorkMeter::default(),
                    EvaluationInput::Known,
                    TokenType::Card,
                    &body,
                );
                masked.map(|it| it.map(Plaintext::into_exposed))
            });
            let [first, second] = results;
            assert_eq!(first, second, "{script}");
        }
    }
}

#[test]
fn computed_id_does_not_depend_on_hidden_card_digits() {
    let evaluate_id = |number: &str, script: &str| {
        let source = format!("id-{script}");
        let new_id = evaluate_token_id(
            &WorkMeter::default(),
            &source,
            TokenType::Card,
            &body(number, None),
            scrip_seal::fill_random,
        );
        new_id.map(|it| it.id)
    };
    for script in probing_expressions() {
        assert_eq!(
            evaluate_id(FIRST_NUMBER, &script),
            evaluate_id(SECOND_NUMBER, &script),
            "{script}"
        );
    }
    let id = evaluate_id(FIRST_NUMBER, "{{ data.number | card_bin }}-{{ data.number | last4 }}")
        .unwrap();
    assert_eq!(id.as_str(), "id-42424242-4242");
    let error = evaluate_id(FIRST_NUMBER, "{{ data.number | slice: 0, 15 }}").unwrap_err();
    assert_eq!(error.problem, "must not show more of a card number than BIN and last four");
}

#[test]
fn alias_id_keeps_bin_and_last_four_of_the_card_but_is_another_number() {
    let source = "{{ data.number | alias_card: 'true', 'true' }}";
    let mut aliases = std::collections::BTreeSet::new();
    for _ in 0..50 {
        let new_id = evaluate_token_id(
            &WorkMeter::default(),
            source,
            TokenType::Card,
            &body(FIRST_NUMBER, None),
            scrip_seal::fill_random,
        )
        .unwrap();
        assert!(new_id.is_alias);
        let text = new_id.id.as_str();
        assert_eq!((text.len(), &text[..8], &text[12..]), (16, "42424242", "4242"));
        assert_ne!(text, FIRST_NUMBER);
        aliases.insert(text.to_owned());
    }
    assert!(aliases.len() > 30, "only {} different aliases", aliases.len());
}

#[test]
fn lookalike_number_keeps_mask_and_checksum() {
    for number in
        [FIRST_NUMBER, SECOND_NUMBER, "378282246310005", "6011000990139424", "4000000000000000006"]
    {
        for fill in [b'0', b'7'] {
            let lookalike = card::make_lookalike(number, fill);
            assert_eq!(card::mask_number(&lookalike), card::mask_number(number));
            let is_valid = card::check_number(number, 12).is_ok();
            assert!(!is_valid || card::check_number(&lookalike, 12).is_ok(), "{number}");
        }
        assert_ne!(card::make_lookalike(number, b'0'), card::make_lookalike(number, b'7'));
    }
}

/// A short number has ten aliases, and one of them may be the card number itself.
#[test]
fn alias_equal_to_the_card_number_is_drawn_again() {
    let source = "{{ data.number | alias_card: 'true', 'true' }}";
    let number = "424242420004";
    let candidates = (0..10).map(|it| format!("{}{it}{}", &number[..6], &number[7..]));
    let number = candidates.into_iter().find(|it| card::check_number(it, 12).is_ok()).unwrap();
    for _ in 0..200 {
        let new_id = evaluate_token_id(
            &WorkMeter::default(),
            source,
            TokenType::Card,
            &body(&number, None),
            scrip_seal::fill_random,
        );
        let Ok(NewId { id, is_alias: true }) = new_id else { panic!("the alias was rejected") };
        assert_ne!(id.as_str(), number);
    }
}
