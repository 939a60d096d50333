//! Card details that responses derive from the first digits of a card.

use std::sync::LazyLock;

use scrip_core::{
    card::bin_data::{
        BinDetails, BinDigits, BinRow, BinTable, Brand, Country, Funding, PrefixRange,
    },
    policy::TenantSettings,
    types::{ApplicationKind, Permission, TenantKind},
};
use scrip_testing::requests::assert_members;
use serde_json::{Value, json};

use crate::harness::server::{
    ACME, SERVER, TenantApiKeys, TestServer, card_body, text_field, unique_card_number,
};

static PRODUCTION_KEYS: LazyLock<TenantApiKeys> = LazyLock::new(|| {
    SERVER.create_tenant_of_kind(TenantKind::Production, TenantSettings::default())
});

fn create_and_get_details(server: &TestServer, key: &str, number: &str) -> Value {
    let body = json!({"type": "card", "data": {"number": number}});
    server.create_token_ok(key, &body)["card"].take()
}

/// The details of a card whose funding and authentication are unknown.
fn unknown_details(bin: &str, last4: &str, brand: Option<&str>) -> Value {
    json!({"bin": bin, "last4": last4, "brand": brand, "funding": null, "authentication": null})
}

#[track_caller]
fn check_details(key: &str, number: &str, expected: &Value) {
    assert_eq!(&create_and_get_details(&SERVER, key, number), expected, "{number}");
}

#[test]
fn brand_is_found_by_number_range() {
    for (number, brand) in [
        ("4012888888881881", "visa"),
        ("5105105105105100", "mastercard"),
        ("2223003122003222", "mastercard"),
        ("378282246310005", "american-express"),
        ("6011111111111117", "discover"),
        ("3530111333300000", "jcb"),
        ("6200000000000005", "unionpay"),
        ("2200000000000004", "mir"),
        ("6062826786276634", "hipercard"),
        ("5066991111111118", "elo"),
    ] {
        let bin_length = if number.len() < 16 { 6 } else { 8 };
        let last4 = &number[number.len() - 4..];
        let expected = unknown_details(&number[..bin_length], last4, Some(brand));
        check_details(&PRODUCTION_KEYS.private, number, &expected);
    }
    // A US state issues an EBT card, so its country is known.
    let benefits = create_and_get_details(&SERVER, &PRODUCTION_KEYS.private, "5076800000000001");
    assert_eq!(benefits["brand"], "ebt");
    assert_eq!(benefits["issuer_country"]["alpha2"], "US");
    assert_eq!(benefits["authentication"], Value::Null);
}

#[test]
fn second_network_is_listed_as_additional() {
    let expected = json!({"bin": "305693", "last4": "5904", "brand": "diners-club",
        "funding": null, "authentication": null, "additional": [{"brand": "discover"}]});
    check_details(&PRODUCTION_KEYS.private, "30569309025904", &expected);
}

#[test]
fn unknown_brand_funding_and_authentication_are_null() {
    check_details(&ACME.private, "0000000000000000", &unknown_details("00000000", "0000", None));
}

#[test]
fn sandbox_card_details_apply_only_to_test_tenants() {
    let number = "4150580996517927";
    let france = json!({"alpha2": "FR", "name": "France", "numeric": "250"});
    let second_brand = json!({"brand": "cartes-bancaires", "funding": "credit",
        "authentication": "sca_required"});
    let expected = json!({"bin": "41505809", "last4": "7927", "brand": "visa", "funding": "credit",
        "authentication": "sca_required", "issuer_country": france, "additional": [second_brand]});
    check_details(&ACME.private, number, &expected);
    let expected_in_production = unknown_details("41505809", "7927", Some("visa"));
    check_details(&PRODUCTION_KEYS.private, number, &expected_in_production);
}

#[test]
fn every_operation_returns_the_same_card_details() {
    let key = &ACME.private;
    let (number, idempotency_key) = ("4242424242424242", "card-details-once");
    let body = json!({"type": "card", "data": {"number": number}});
    let create_card = || SERVER.post_once(key, "/tokens", idempotency_key, &body);
    let created = create_card().expect_status(201);
    let card = &created["card"];
    assert_eq!((&card["brand"], &card["funding"]), (&json!("visa"), &json!("credit")));
    assert_eq!(create_card().expect_status(201)["card"], *card);
    let id = text_field(&created, "id");
    assert_eq!(SERVER.get_token(key, &id).expect_status(200)["card"], *card);
    let patched = SERVER.patch_token(key, &id, &json!({"metadata": {"a": "b"}}));
    assert_eq!(patched.expect_status(200)["card"], *card);
    let token_list = SERVER.get_path(key, &format!("/tokens?id={id}")).expect_status(200);
    assert_eq!(token_list["data"][0]["card"], *card);

    let card_number = json!({"type": "card_number", "data": number});
    assert_eq!(SERVER.create_token_ok(key, &card_number)["card"], *card);
    let network = json!({"type": "network_token", "data": {"number": number}});
    let network = SERVER.create_token_ok(key, &network);
    assert_eq!(network["network_token"], *card);
    assert!(network.get("card").is_none());
}

#[test]
fn imported_bin_data_adds_details_but_no_digits_for_readers_of_masks() {
    let server = TestServer::start();
    let keys = server.create_tenant_of_kind(TenantKind::Production, TenantSettings::default());
    let key_without_reveal = server.key_with_permissions(
        &keys.tenant,
        ApplicationKind::Private,
        &[Permission::TokenCreate, Permission::TokenRead],
    );
    let build_row = |prefix: &str, country: &str, funding| {
        let (brand, country) = (Some(Brand::Visa), Country::parse(country));
        let (funding, bin_digits) = (Some(funding), Some(BinDigits::from_len(prefix.len())));
        let details = BinDetails { brand, funding, country, bin_digits, ..BinDetails::default() };
        BinRow { range: PrefixRange::from_prefix(prefix).unwrap(), details }
    };
    let rows = vec![
        build_row("401288", "DE", Funding::Debit),
        build_row("40128889", "US", Funding::Prepaid),
        build_row("37828224", "US", Funding::Credit),
    ];
    let details = |number: &str| create_and_get_details(&server, &key_without_reveal, number);
    let built_in = unknown_details("40128888", "1881", Some("visa"));
    assert_eq!(details("4012888888881881"), built_in);
    server.app.vault.bin_data.replace_imported(Some(BinTable::build(rows)));

    let germany = json!({"alpha2": "DE", "name": "Germany", "numeric": "276"});
    let expected = json!({"bin": "401288", "last4": "1881", "brand": "visa", "funding": "debit",
        "authentication": "sca_required", "issuer_country": germany});
    assert_eq!(details("4012888888881881"), expected);
    let longer_bin = json!({"bin": "40128889", "funding": "prepaid"});
    assert_members(&details("4012888900000007"), &longer_bin);
    // A BIN of a number with 15 digits has six digits. Details that depend on the seventh and
    // eighth digit are omitted.
    let expected_amex = unknown_details("378282", "0005", Some("american-express"));
    assert_eq!(details("378282246310005"), expected_amex);

    // A shorter BIN in the imported data does not change the digits that a mask shows.
    let body = json!({"type": "card", "data": {"number": "4012888888881881"},
        "mask": {"number": "{{ data.number }}"}});
    let created = server.create_token_ok(&key_without_reveal, &body);
    assert_eq!(created["data"]["number"], "40128888XXXX1881");
}

#[test]
fn card_without_sandbox_data_has_only_its_brand_in_a_test_tenant() {
    let number = unique_card_number();
    let expected = unknown_details(&number[..8], &number[12..], Some("visa"));
    check_details(&ACME.private, &number, &expected);
}

/// Some sandbox numbers have a wrong checksum. Only test tenants accept them, and only as tokens of
/// type `card`.
#[test]
fn sandbox_numbers_with_wrong_checksum_are_accepted_only_in_test_tenants() {
    let number = "6011601160116011";
    let created = SERVER.create_token_ok(&ACME.private, &card_body(number));
    assert_eq!(created["card"]["brand"], "discover");
    let patch = json!({"data": {"cvc": "321"}});
    let patched = SERVER.patch_token(&ACME.private, &text_field(&created, "id"), &patch);
    assert_eq!(patched.expect_status(200)["data"]["number"], number);
    let body = json!({"type": "card", "data": {"number": number}});
    SERVER.post(&ACME.private, "/token-intents", &body).expect_status(201);
    let card_number_body = json!({"type": "card_number", "data": number});
    SERVER.create_token(&ACME.private, &card_number_body).expect_invalid("data");
    let wrong_checksum = SERVER.create_token(&ACME.private, &card_body("6011601160116012"));
    wrong_checksum.expect_invalid("data.number");
}
