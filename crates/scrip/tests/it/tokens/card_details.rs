//! Card details: what answers tell of a card by its first digits.

use std::sync::LazyLock;

use scrip_core::{
    card::bin_data::{BinDigits, BinTable, Block, Brand, Country, Facts, Funding, Row},
    policy::{ApplicationKind, Permission, Settings, TenantKind},
};
use serde_json::{Value, json};

use crate::harness::server::{ACME, Keys, SHARED, Server, card, new_number, text};

static PRODUCTION: LazyLock<Keys> =
    LazyLock::new(|| SHARED.tenant_of(TenantKind::Production, Settings::default()));

fn details(server: &Server, key: &str, number: &str) -> Value {
    let body = json!({"type": "card", "data": {"number": number}});
    server.created(key, &body)["card"].take()
}

#[track_caller]
fn check(key: &str, number: &str, expected: &Value) {
    assert_eq!(&details(&SHARED, key, number), expected, "{number}");
}

#[test]
fn each_brand_is_known_by_its_ranges() {
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
        let shown = if number.len() < 16 { 6 } else { 8 };
        let last4 = &number[number.len() - 4..];
        let expected = json!({"bin": &number[..shown], "last4": last4, "brand": brand});
        check(&PRODUCTION.private, number, &expected);
    }
    // The state says in which country.
    let benefits = details(&SHARED, &PRODUCTION.private, "5076800000000001");
    assert_eq!(benefits["brand"], "ebt");
    assert_eq!(benefits["issuer_country"]["alpha2"], "US");
    assert!(benefits.get("authentication").is_none());
}

#[test]
fn a_second_network_is_additional() {
    let expected = json!({"bin": "305693", "last4": "5904", "brand": "diners-club",
        "additional": [{"brand": "discover"}]});
    check(&PRODUCTION.private, "30569309025904", &expected);
}

#[test]
fn what_is_not_known_is_left_out() {
    let expected = json!({"bin": "00000000", "last4": "0000"});
    check(&ACME.private, "0000000000000000", &expected);
}

#[test]
fn sandbox_cards_are_known_to_test_tenants_only() {
    let number = "4150580996517927";
    let france = json!({"alpha2": "FR", "name": "France", "numeric": "250"});
    let second = json!({"brand": "cartes-bancaires", "funding": "credit",
        "authentication": "sca_required"});
    let expected = json!({"bin": "41505809", "last4": "7927", "brand": "visa", "funding": "credit",
        "authentication": "sca_required", "issuer_country": france, "additional": [second]});
    check(&ACME.private, number, &expected);
    let plain = json!({"bin": "41505809", "last4": "7927", "brand": "visa"});
    check(&PRODUCTION.private, number, &plain);
}

#[test]
fn every_answer_about_a_card_tells_the_same() {
    let key = &ACME.private;
    let (number, once) = ("4242424242424242", "card-details-once");
    let body = json!({"type": "card", "data": {"number": number}});
    let ask = || SHARED.ask("POST", "/tokens").key(key).once(once).json(&body).send();
    let created = ask().is(201);
    let card = &created["card"];
    assert_eq!((&card["brand"], &card["funding"]), (&json!("visa"), &json!("credit")));
    assert_eq!(ask().is(201)["card"], *card);
    let id = text(&created, "id");
    assert_eq!(SHARED.get(key, &id).is(200)["card"], *card);
    let patched = SHARED.patch(key, &id, &json!({"metadata": {"a": "b"}}));
    assert_eq!(patched.is(200)["card"], *card);
    let list = SHARED.fetch(key, &format!("/tokens?id={id}")).is(200);
    assert_eq!(list["data"][0]["card"], *card);

    let alone = SHARED.created(key, &json!({"type": "card_number", "data": number}));
    assert_eq!(alone["card"], *card);
    let network = json!({"type": "network_token", "data": {"number": number}});
    let network = SHARED.created(key, &network);
    assert_eq!(network["network_token"], *card);
    assert!(network.get("card").is_none());
}

#[test]
fn imported_data_tells_more_and_a_masked_reader_sees_no_more_digits() {
    let server = Server::start();
    let keys = server.tenant_of(TenantKind::Production, Settings::default());
    let masked = server.permissions(
        &keys.tenant,
        ApplicationKind::Private,
        &[Permission::TokenCreate, Permission::TokenRead],
    );
    let row = |prefix: &str, country: &str, funding| {
        let bin_digits = Some(BinDigits::of_len(prefix.len()));
        let brand = Some(Brand::Visa);
        let country = Country::parse(country);
        let facts =
            Facts { brand, funding: Some(funding), country, bin_digits, ..Facts::default() };
        Row { range: Block::of_prefix(prefix).unwrap(), facts }
    };
    let rows = vec![
        row("401288", "DE", Funding::Debit),
        row("40128889", "US", Funding::Prepaid),
        row("37828224", "US", Funding::Credit),
    ];
    let before = details(&server, &masked, "4012888888881881");
    assert_eq!(before, json!({"bin": "40128888", "last4": "1881", "brand": "visa"}));
    server.app.vault.bins.replace(Some(BinTable::build(rows)));

    let germany = json!({"alpha2": "DE", "name": "Germany", "numeric": "276"});
    let expected = json!({"bin": "401288", "last4": "1881", "brand": "visa", "funding": "debit",
        "authentication": "sca_required", "issuer_country": germany});
    assert_eq!(details(&server, &masked, "4012888888881881"), expected);
    let narrower = details(&server, &masked, "4012888900000007");
    assert_eq!((&narrower["bin"], &narrower["funding"]), (&json!("40128889"), &json!("prepaid")));
    // Fifteen digits show six: what the seventh and eighth decide is not told.
    let amex = json!({"bin": "378282", "last4": "0005", "brand": "american-express"});
    assert_eq!(details(&server, &masked, "378282246310005"), amex);

    // A shorter BIN lets nobody see more, or less, of the number by a mask.
    let shown = json!({"type": "card", "data": {"number": "4012888888881881"},
        "mask": {"number": "{{ data.number }}"}});
    let shown = server.created(&masked, &shown);
    assert_eq!(shown["data"]["number"], "40128888XXXX1881");
}

#[test]
fn cards_without_sandbox_facts_are_plain_in_a_test_tenant() {
    let number = new_number();
    let expected = json!({"bin": &number[..8], "last4": &number[12..], "brand": "visa"});
    check(&ACME.private, &number, &expected);
}

/// Some of the sandbox's numbers have a wrong checksum. Only test tenants take them, as cards.
#[test]
fn sandbox_numbers_with_a_wrong_checksum_are_cards_of_test_tenants() {
    let number = "6011601160116011";
    let made = SHARED.created(&ACME.private, &card(number));
    assert_eq!(made["card"]["brand"], "discover");
    let patched =
        SHARED.patch(&ACME.private, made["id"].as_str().unwrap(), &json!({"data": {"cvc": "321"}}));
    assert_eq!(patched.is(200)["data"]["number"], number);
    let body = json!({"type": "card", "data": {"number": number}});
    SHARED.post(&ACME.private, "/token-intents", &body).is(201);
    let other = json!({"type": "card_number", "data": number});
    SHARED.create(&ACME.private, &other).invalid("data");
    SHARED.create(&ACME.private, &card("6011601160116012")).invalid("data.number");
}
