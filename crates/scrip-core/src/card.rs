//! Card data.

pub mod bank;
pub mod bin_data;
pub mod connection_formula;
pub(crate) mod fields;
pub mod number;
pub mod token_type;

pub(crate) use self::number::check_number;
pub use self::{number::contains_card_number, token_type::TokenType};

pub(crate) use self::number::{
    bin_len, contains_lookalike, has_same_mask, make_lookalike, mask_number,
};

use serde_json::Value;

use crate::{
    FieldError,
    card::{
        bin_data::{BinData, BinDetails, BinLookup, BinSource, is_sandbox_number},
        fields::{check_required, is_out_of_range},
    },
    types::TenantKind,
};

/// The details of a card in a response, without its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardDetails {
    pub bin: String,
    pub last4: String,
    pub expiration_month: Option<u64>,
    pub expiration_year: Option<u64>,
    /// The known details of the issuer.
    pub bin_details: BinDetails,
    pub bin_source: BinSource,
}

pub(crate) const DATA_ATTRIBUTES: &[&str] =
    &["number", "expiration_month", "expiration_year", "cvc"];

/// Validates card data. Unknown attributes are dropped, so that a CVC under another name is not
/// stored permanently. The attribute `cvc` remains, and the caller of this function removes it.
pub(crate) fn check_card(data: &mut Value, kind: TenantKind) -> Result<(), Vec<FieldError>> {
    let Value::Object(object) = data else {
        return Err(vec![FieldError::new("data", "must be an object")]);
    };
    object.retain(|name, value| DATA_ATTRIBUTES.contains(&name.as_str()) && !value.is_null());
    if let Some(Value::Number(number)) = object.get("cvc") {
        let text = Value::String(number.to_string());
        object.insert("cvc".to_owned(), text);
    }
    let errors: Vec<_> = [
        check_required(object, "number", "data.number", |it| check_number_or_sandbox(it, kind)),
        object
            .contains_key("cvc")
            .then(|| check_required(object, "cvc", "data.cvc", check_cvc))
            .flatten(),
        is_out_of_range(object.get("expiration_month"), 1..=12).then(|| {
            FieldError::new(
                "data.expiration_month",
                "must be an integer from 1 to 12, without quotes",
            )
        }),
        is_out_of_range(object.get("expiration_year"), 1000..=9999).then(|| {
            FieldError::new(
                "data.expiration_year",
                "must be an integer of four digits, without quotes",
            )
        }),
    ]
    .into_iter()
    .flatten()
    .collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Checks a card number. Test tenants may also store sandbox cards, of which some have a wrong
/// checksum.
fn check_number_or_sandbox(text: &str, kind: TenantKind) -> Result<(), &'static str> {
    if kind == TenantKind::Test && is_sandbox_number(text) {
        return Ok(());
    }
    check_number(text, 12)
}

fn check_cvc(text: &str) -> Result<(), &'static str> {
    let has_only_digits = text.bytes().all(|it| it.is_ascii_digit());
    if has_only_digits && (3..=4).contains(&text.len()) {
        Ok(())
    } else {
        Err("must be 3 or 4 digits")
    }
}

/// The details of a card: of an object with a number, or of the number alone. The BIN can be
/// shorter than the one in masks, if the issuer's BIN is shorter, but never longer.
pub(crate) fn card_details(data: &Value, bins: &BinData, kind: TenantKind) -> Option<CardDetails> {
    let number = card_number(data)?;
    let BinLookup { details, source } = bins.find(kind, number);
    let visible_len = bin_len(number);
    let response_len = details.bin_digits.map_or(visible_len, |it| it.count().min(visible_len));
    Some(CardDetails {
        bin: number.get(..response_len)?.to_owned(),
        last4: number.get(number.len().checked_sub(4)?..)?.to_owned(),
        expiration_month: data.get("expiration_month").and_then(Value::as_u64),
        expiration_year: data.get("expiration_year").and_then(Value::as_u64),
        bin_details: details,
        bin_source: source,
    })
}

/// The number of card data: an object with a number, or the number alone.
pub(crate) fn card_number(data: &Value) -> Option<&str> {
    data.as_str().or_else(|| data.get("number")?.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::card::bin_data::{BinDigits, BinRow, BinTable, Brand, PrefixRange};

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
        let mut card = json!({"number": "4242424242424242", "cvc": 123, "cvv": "999", "expiration_month": null});
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
            let details =
                BinDetails { brand: Some(Brand::Visa), bin_digits, ..BinDetails::default() };
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
}
