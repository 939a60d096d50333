//! What each type of token asks of its data, described.

use scrip_core::token_type::TokenType;
use serde_json::{Value, json};

use crate::wire::{
    schema::{
        Attribute, Schema, always, any, digits, either, named, one_of, request, sometimes, text,
        whole,
    },
    tokens::token::described::{month, year},
};

pub(crate) fn components() -> Vec<(&'static str, Schema)> {
    let cvc = either([digits(3, 4), whole().between(100, 9999)])
        .about("Kept apart from the card, for a while only. A number becomes text.");
    let card = request([
        always("number", card_number(12)),
        sometimes("expiration_month", month()),
        sometimes("expiration_year", year()),
        sometimes("cvc", cvc),
    ]);
    let bank = request([
        always("routing_number", routing_number()),
        always("account_number", digits(1, 17)),
    ]);
    let card_example =
        json!({"number": "4242424242424242", "expiration_month": 12, "expiration_year": 2031});
    let bank_example = json!({"routing_number": "021000021", "account_number": "000123456789"});
    vec![("CardData", card.examples([card_example])), ("BankData", bank.examples([bank_example]))]
}

/// One branch for each type, with what else depends on it.
pub(crate) fn data_by_type(beside: impl Fn(TokenType) -> Attribute) -> Vec<Value> {
    let branch = |it: &TokenType| {
        let own = [always("type", one_of([it.as_str()])), always("data", data(*it)), beside(*it)];
        request(own).with("title", it.as_str()).into_value()
    };
    TokenType::ALL.iter().map(branch).collect()
}

fn data(token_type: TokenType) -> Schema {
    match token_type {
        TokenType::Token => {
            any().with("type", json!(["object", "array", "string", "number", "boolean"]))
        }
        TokenType::Card | TokenType::NetworkToken => named("CardData"),
        TokenType::CardNumber => card_number(13),
        TokenType::Bank => named("BankData"),
        TokenType::UsBankAccountNumber => digits(3, 17),
        TokenType::UsBankRoutingNumber => routing_number(),
        TokenType::SocialSecurityNumber | TokenType::EmployerIdNumber => text()
            .pattern("^-{0,2}([0-9]-{0,2}){9}$")
            .with("maxLength", 11)
            .about("Nine digits; `-` is allowed."),
    }
}

fn card_number(least: usize) -> Schema {
    let about = format!("{least} to 19 digits. The Luhn checksum has to hold.");
    digits(least, 19).with("format", "card-number").about(&about)
}

fn routing_number() -> Schema {
    digits(9, 9).with("format", "routing-number").about("9 digits. The ABA checksum has to hold.")
}
