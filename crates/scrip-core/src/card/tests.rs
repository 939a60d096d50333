//! The validation of data by type, card numbers and their masks.

use serde_json::json;

use super::*;
use crate::card::bin_data::{BinDigits, BinRow, BinTable, Brand, PrefixRange};
use crate::card::fields::has_same_mask;

#[track_caller]
fn check(text: &str, is_valid: bool) {
    assert_eq!(check_number(text, 12).is_ok(), is_valid, "card number {text:?}");
}

#[test]
fn card_number_check_accepts_only_valid_length_and_checksum() {
    check("4242424242424242", true);
    check("4242424242424241", false);
    check("378282246310005", true);
    check("36227206271667", true);
    check("6759649826438453123", false);
    check("4242-4242-4242-4242", false);
    check("４242424242424242", false);
    check("", false);
    check("00000000000", false);
    check("000000000000", true);
}

#[test]
fn card_data_is_normalized_and_invalid_fields_are_listed() {
    let mut card =
        json!({"number": "4242424242424242", "cvc": 123, "cvv": "999", "expiration_month": null});
    check_card(&mut card, TenantKind::Test).unwrap();
    assert_eq!(card, json!({"number": "4242424242424242", "cvc": "123"}));

    let mut invalid_card =
        json!({"number": 4242, "cvc": "12", "expiration_month": 13, "expiration_year": "2030"});
    let fields: Vec<_> = check_card(&mut invalid_card, TenantKind::Test)
        .unwrap_err()
        .into_iter()
        .map(|it| it.field.into_owned())
        .collect();
    let expected = ["data.number", "data.cvc", "data.expiration_month", "data.expiration_year"];
    assert_eq!(fields, expected);
    assert!(check_card(&mut json!("4242424242424242"), TenantKind::Test).is_err());
    let mut sandbox_card = json!({"number": "6011601160116011"});
    assert!(check_card(&mut sandbox_card, TenantKind::Test).is_ok());
    assert!(check_card(&mut sandbox_card, TenantKind::Production).is_err());
    let mut unknown_card = json!({"number": "6011601160116012"});
    assert!(check_card(&mut unknown_card, TenantKind::Test).is_err());
}

#[test]
fn masked_card_number_shows_bin_and_last_four() {
    assert_eq!(mask_number("4242424242424242"), "42424242XXXX4242");
    assert_eq!(mask_number("378282246310005"), "378282XXXXX0005");
    assert_eq!(mask_number("000000000000"), "000000XX0000");
}

#[test]
fn bin_is_the_issuers_and_never_longer_than_masks_show() {
    let bins = BinData::default();
    let bin_of = |number: &str| {
        let details = card_details(&json!(number), &bins, TenantKind::Production).unwrap();
        assert_eq!(details.last4, &number[number.len() - 4..]);
        assert!(mask_number(number).starts_with(&details.bin), "{number}");
        details.bin
    };
    assert_eq!(bin_of("4242424242424242"), "42424242");
    assert_eq!(bin_of("378282246310005"), "378282");
    let to_row = |(prefix, digits): (&str, usize)| {
        let bin_digits = Some(BinDigits::from_len(digits));
        let details = BinDetails { brand: Some(Brand::Visa), bin_digits, ..BinDetails::default() };
        BinRow { range: PrefixRange::from_prefix(prefix).unwrap(), details }
    };
    let rows =
        [("424242", 6), ("4111111", 7), ("51051051", 8), ("378282", 8), ("4", 1)].map(to_row);
    bins.replace_imported(Some(BinTable::build(rows.to_vec())));
    assert_eq!(bin_of("4242424242424242"), "424242");
    assert_eq!(bin_of("4111111111111111"), "4111111");
    assert_eq!(bin_of("5105105105105100"), "51051051");
    assert_eq!(bin_of("378282246310005"), "378282");
    assert_eq!(bin_of("4000000000000002"), "400000");
}

#[test]
fn text_containing_a_card_number_is_detected() {
    for text in ["4242424242424242", "/a/4242-4242 4242.4242/", "x14242424242424242y"] {
        assert!(contains_card_number(text), "no number found in {text}");
    }
    let texts = ["", "/pci/high/", "1000000000000", "424242a424242424242", "424242424242"];
    for text in texts {
        assert!(!contains_card_number(text), "number found in {text}");
    }
}

#[test]
fn lookalike_card_numbers_share_length_bin_and_last_four() {
    assert!(has_same_mask("4242424242424242", "4242424200004242"));
    assert!(!has_same_mask("4242424242424242", "4242424142424242"));
    assert!(!has_same_mask("4242424242424242", "4242424242424241"));
    assert!(!has_same_mask("4242424242424242", "42424242424242424"));
}

#[test]
fn every_token_type_has_usable_defaults_and_parses_back() {
    for token_type in TokenType::ALL {
        assert_eq!(TokenType::parse(token_type.as_str()), Some(token_type));
        assert!(token_type.default_container().as_str().ends_with('/'));
        for index in token_type.default_indexes() {
            Expression::parse(index).unwrap();
        }
    }
}

#[track_caller]
fn check_data(token_type: TokenType, mut data: Value, is_valid: bool) {
    let result = token_type.check(&mut data, TenantKind::Production);
    assert_eq!(result.is_ok(), is_valid, "validation of {token_type:?} {data}");
}

#[test]
fn token_data_is_validated_by_type() {
    check_data(TokenType::Token, json!({"any": ["thing"]}), true);
    check_data(TokenType::CardNumber, json!("4242424242424242"), true);
    check_data(TokenType::CardNumber, json!("000000000000"), false);
    check_data(TokenType::CardNumber, json!(4_242_424_242_424_242_u64), false);
    check_data(TokenType::UsBankAccountNumber, json!("123"), true);
    check_data(TokenType::UsBankAccountNumber, json!("12"), false);
    check_data(TokenType::UsBankRoutingNumber, json!("021000021"), true);
    check_data(TokenType::UsBankRoutingNumber, json!("021000022"), false);
    check_data(TokenType::SocialSecurityNumber, json!("123-45-6789"), true);
    check_data(TokenType::SocialSecurityNumber, json!("123456789"), true);
    check_data(TokenType::SocialSecurityNumber, json!("123-45-678"), false);
    check_data(TokenType::SocialSecurityNumber, json!("12345678９"), false);
    check_data(TokenType::EmployerIdNumber, json!("12-3456789"), true);
    check_data(TokenType::EmployerIdNumber, json!("12 3456789"), false);
    check_data(
        TokenType::Bank,
        json!({"routing_number": "021000021", "account_number": "1"}),
        true,
    );
    check_data(TokenType::Bank, json!({"routing_number": "021000021"}), false);
    check_data(TokenType::Bank, json!("021000021"), false);
    check_data(TokenType::NetworkToken, json!({"number": "4242424242424242"}), true);
    let expired =
        json!({"number": "4242424242424242", "expiration_month": 1, "expiration_year": 2001});
    check_data(TokenType::Card, expired, true);
}
