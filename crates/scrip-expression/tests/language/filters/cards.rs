//! Filters for cards.

use serde_json::{Value, json};

use crate::{assert_evaluates, assert_fails};

#[test]
fn card_bin_returns_the_leading_digits() {
    assert_evaluates("{{ data | card_bin }}", json!("4242424242424242"), json!("42424242"));
    assert_evaluates("{{ data | card_bin }}", json!("378282246310005"), json!("378282"));
    assert_evaluates("{{ data | card_bin: ' ' }}", json!("4242424242424242"), json!("4242 4242"));
    assert_evaluates("{{ data | card_bin: sep='-' }}", json!("378282246310005"), json!("3782-82"));
    assert_evaluates("{{ data | card_bin }}", json!("4242 4242-4242 4242"), json!("42424242"));
    assert_evaluates("{{ data | card_bin }}", json!("42424242XXXX4242"), json!("42424242"));
    assert_evaluates("{{ data | card_bin }}", Value::Null, Value::Null);
    assert_fails("{{ data | card_bin }}", json!("42424242"), "this is not a card number");
    assert_fails("{{ data | card_bin }}", json!(""), "this is not a card number");
}

#[test]
fn card_exp_formats_the_expiration_date() {
    for (format, expected) in [
        ("MM", "07"),
        ("MMYY", "0729"),
        ("YYYY", "2029"),
        ("MM/YY", "07/29"),
        ("MM/YYYY", "07/2029"),
        ("YYYY-MM", "2029-07"),
        ("YYYY/MM", "2029/07"),
        ("MM_YYYY", "07_2029"),
        ("MM-YYYY", "07-2029"),
    ] {
        let source = format!("{{{{ data | card_exp: '{format}' }}}}");
        assert_evaluates(
            &source,
            json!({"expiration_month": 7, "expiration_year": 2029}),
            json!(expected),
        );
        assert_evaluates(
            &source,
            json!({"expiration_month": "07", "expiration_year": "2029"}),
            json!(expected),
        );
        assert_evaluates(&source, json!({"number": "4242424242424242"}), Value::Null);
        assert_evaluates(&source, Value::Null, Value::Null);
    }
    let card = json!({"expiration_month": 12});
    assert_evaluates("{{ data | card_exp: 'MM' }}", card.clone(), json!("12"));
    assert_evaluates("{{ data | card_exp: 'MM/YY' }}", card.clone(), Value::Null);
    assert_fails("{{ data | card_exp: 'M/Y' }}", card, "card_exp does not support this format");
    assert_fails("{{ data | card_exp: 'MM' }}", json!("12"), "card_exp takes a card");
    for month in [json!(0), json!(13), json!("x"), json!(1.5), json!(true)] {
        let card = json!({"expiration_month": month});
        assert_fails("{{ data | card_exp: 'MM' }}", card, "card_exp takes a month and a year");
    }
}

#[test]
fn card_mask_masks_all_but_bin_and_last4() {
    let number = || json!("4242424242421234");
    assert_evaluates("{{ data | card_mask }}", number(), json!("XXXXXXXXXXXXXXXX"));
    let kept = "{{ data | card_mask: 'false', 'false', 'X', '0123456789' }}";
    assert_evaluates(kept, number(), json!("XXXXXXXXXXXXXXXX"));
    assert_evaluates("{{ data | card_mask: 'true' }}", number(), json!("42424242XXXXXXXX"));
    assert_evaluates("{{ data | card_mask: 'true', 'true' }}", number(), json!("42424242XXXX1234"));
    assert_evaluates("{{ data | card_mask: true, true }}", number(), json!("42424242XXXX1234"));
    assert_evaluates(
        "{{ data | card_mask: 'false', 'true', '*' }}",
        number(),
        json!("************1234"),
    );
    assert_evaluates("{{ data | card_mask: last4: 'true' }}", number(), json!("XXXXXXXXXXXX1234"));
    assert_evaluates(
        "{{ data | card_mask: 'true', 'true' }}",
        json!("378282246310005"),
        json!("378282XXXXX0005"),
    );
    assert_evaluates(
        "{{ data | card_mask: 'true', 'true', '#', ' ' }}",
        json!("4242 4242 4242 1234"),
        json!("4242 4242 #### 1234"),
    );
    assert_evaluates(
        "{{ data | card_mask: 'true', 'true' }}",
        json!("4242 4242"),
        json!("XXXXXXXXX"),
    );
    assert_evaluates(
        "{{ data | card_mask: 'true', 'true' }}",
        json!("4242424242"),
        json!("XXXXXXXXXX"),
    );
    assert_evaluates("{{ data | card_mask: 'true', 'true' }}", json!(""), json!(""));
    assert_evaluates("{{ data | card_mask: 'true' }}", Value::Null, Value::Null);
    assert_fails(
        "{{ data | card_mask: 'yes' }}",
        number(),
        "this argument must be 'true' or 'false'",
    );
    assert_fails(
        "{{ data | card_mask: 'true', 'true', 'ab' }}",
        number(),
        "card_mask takes a single mask character",
    );
}
