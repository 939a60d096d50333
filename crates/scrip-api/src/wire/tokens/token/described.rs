//! Tokens, described.

use scrip_core::{
    audit::Operation,
    tenant::DeduplicationBehavior,
    token_type::TokenType::{self, Bank, Card, NetworkToken},
};
use serde_json::{Value, json};

use crate::wire::{
    answer::render,
    described::{Description, Parameter, Tag, operation, parameter},
    policy::access::described::container,
    schema::{
        Attribute, Schema, always, answer, any, boolean, digits, instant, list, map, named,
        nothing, one_of, request, sometimes, text, uuid, whole,
    },
    tokens::{
        card,
        token::{BankBody, DetailBody, ExtrasBody, TokenBody, described::data::data_by_type},
    },
};

pub(crate) mod data;

pub(crate) fn components() -> Vec<(&'static str, Schema)> {
    let bank_details = answer([
        always("routing_number", digits(9, 9)),
        sometimes("account_number_last4", digits(4, 4).about("Absent when it would be the whole.")),
    ]);
    let extras = answer([
        always("deduplicated", boolean().about("Whether the token was there already.")),
        sometimes("deduplication_behavior", behavior()),
    ]);
    let mut components = vec![
        ("Token", token(always, None).examples(examples(Told::Found))),
        ("CreatedToken", token(sometimes, Some(always)).examples(examples(Told::Created))),
        ("UpdatedToken", token(sometimes, Some(sometimes)).examples(examples(Told::Updated))),
        ("CardDetails", card::described::card_details()),
        ("BankDetails", bank_details),
        ("TokenExtras", extras),
        ("NewToken", new_token()),
        ("TokenPatch", patch()),
    ];
    components.extend(data::components());
    components
}

/// How many entries a token's metadata has.
const METADATA_MAX: usize = 50;

type Presence = fn(&'static str, Schema) -> Attribute;

/// `detail` is how surely the caller may read the token, and `extras` whether there are any.
fn token(detail: Presence, extras: Option<Presence>) -> Schema {
    let attributes = [
        always("id", text()),
        always("tenant_id", uuid()),
        always("type", token_type()),
        sometimes("fingerprint", fingerprint()),
        always("containers", list(container()).with("minItems", 1)),
        sometimes("data", any().about("As much as the caller's transform lets be seen.")),
        sometimes("mask", any()),
        sometimes("card", named("CardDetails")),
        sometimes("network_token", named("CardDetails")),
        sometimes("bank", named("BankDetails")),
        sometimes("metadata", map(text()).with("maxProperties", METADATA_MAX)),
        sometimes("search_indexes", list(text())),
        sometimes("fingerprint_expression", text()),
        sometimes("expires_at", instant()),
        detail("created_by", uuid()),
        detail("created_at", instant()),
        sometimes("modified_by", uuid()),
        sometimes("modified_at", instant()),
    ];
    let extras = extras.map(|it| it("_extras", named("TokenExtras")));
    answer(attributes.into_iter().chain(extras))
}

pub(crate) fn fingerprint() -> Schema {
    text()
        .pattern("^[1-9A-HJ-NP-Za-km-z]+$")
        .about("The same for the same contents in this tenant and type.")
}

pub(crate) fn token_type() -> Schema {
    one_of(TokenType::ALL.iter().map(|it| it.as_str()))
}

fn behavior() -> Schema {
    one_of(DeduplicationBehavior::ALL.map(DeduplicationBehavior::as_str))
}

fn month() -> Schema {
    whole().between(1, 12)
}

fn year() -> Schema {
    whole().between(1000, 9999)
}

/// In the forms that are read. That it lies in the future no schema can say.
pub(crate) fn expiry() -> Schema {
    text()
        .pattern(concat!(
            r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?",
            r"([Zz]|[+-][0-9]{2}:[0-9]{2})?$",
            r"|^[0-9]{1,4}/[0-9]{1,4}/[0-9]{4}( [0-9]{1,4}:[0-9]{1,4}:[0-9]{1,4} [AP]M [+-][0-9]{2}:[0-9]{2})?$",
        ))
        .about(
            "RFC 3339, or the same without offset, which means UTC; or `8/27/2030`, which means \
             midnight UTC; or `8/27/2030 7:23:57 PM +02:00`. In the future.",
        )
}

/// What a client can say of a new token and of one that is there.
fn common(metadata: Schema) -> [Attribute; 6] {
    [
        sometimes(
            "containers",
            list(container()).sized(1, 16).about("By default those of the type."),
        ),
        sometimes("search_indexes", list(text().with("minLength", 1)).with("maxItems", 16)),
        sometimes("fingerprint_expression", text()),
        sometimes("deduplicate_token", boolean().about("By default as the tenant's setting says.")),
        sometimes("expires_at", expiry()),
        sometimes("metadata", metadata),
    ]
}

fn new_token() -> Schema {
    let id = text().pattern(format!(r"{ID_PATTERN}|\{{\{{|\{{%")).except("search").about(
        "3 to 400 characters, none of `# / \\ + ? [ ] | & = % < > { } ^`, and not `search`; or an \
         expression. A UUID when nothing is said.",
    );
    let mask = any().about("What is left of the data for whoever sees only the mask.");
    let others = [
        sometimes("id", id),
        sometimes("type", token_type()),
        sometimes("data", any().about("Of the form that the type asks for.")),
        sometimes(
            "token_intent_id",
            uuid().about("Whose type and data these are, in the place of both. The intent ends."),
        ),
        sometimes("mask", mask),
    ];
    let card = json!({
        "type": "card",
        "data": {"number": "4242424242424242", "expiration_month": 12, "expiration_year": 2031, "cvc": "123"},
        "metadata": {"customer": "7"},
    });
    let open = json!({
        "type": "token", "data": {"iban": "DE89370400440532013000"}, "containers": ["/bank/"],
        "deduplicate_token": true,
    });
    let converted = json!({
        "token_intent_id": "7c5d2b8e-4f10-4c1e-9a57-2e6b8d3f0a94", "containers": ["/pci/high/"],
    });
    let mut sources = data_by_type(|_| sometimes("token_intent_id", nothing()));
    let absent = [sometimes("type", nothing()), sometimes("data", nothing())];
    let intent = request(absent.into_iter().chain([always("token_intent_id", uuid())]));
    sources.push(intent.into_value());
    let metadata = map(text().or_null()).with("maxProperties", METADATA_MAX);
    request(others.into_iter().chain(common(metadata)))
        .with("oneOf", sources)
        .examples([card, open, converted])
}

fn patch() -> Schema {
    let merged = [
        sometimes("data", any().about("Merged (RFC 7386), then checked by the token's type.")),
        sometimes("mask", any().about("Merged. Changing it needs a reveal right.")),
    ];
    let example = json!({"data": {"expiration_year": 2032}, "metadata": {"customer": null}});
    let metadata = map(text().or_null()).about("Merged. A token has at most 50 entries.");
    request(merged.into_iter().chain(common(metadata)))
        .about("What is absent stays as it is; null takes it back to what the type assumes.")
        .examples([example])
}

/// As Get Token shows them.
pub(crate) fn examples_of_found() -> Vec<Value> {
    examples(Told::Found)
}

/// Which answer an example is of.
#[derive(Clone, Copy)]
enum Told {
    Found,
    Created,
    Updated,
}

/// Between them they have every attribute that there is.
fn examples(told: Told) -> Vec<Value> {
    let number = "XXXXXXXXXXXX4242";
    let bank = BankBody { routing_number: "021000021", account_number_last4: Some("6789") };
    let account = json!({"routing_number": "021000021", "account_number": "000123456789"});
    let whole = json!({
        "number": "4242424242424242", "expiration_month": 12, "expiration_year": 2031, "cvc": "123",
    });
    let masked = json!({"number": number, "expiration_month": 12, "expiration_year": 2031});
    [
        (Card, DetailBody { card: Some(card::described::example()), ..detail(Card) }, whole),
        (
            NetworkToken,
            DetailBody { network_token: Some(card::described::example()), ..detail(NetworkToken) },
            masked,
        ),
        (Bank, DetailBody { bank: Some(bank), ..detail(Bank) }, account),
    ]
    .into_iter()
    .map(|(token_type, mut detail, data)| {
        if let (Told::Created, Card) = (told, token_type) {
            (detail.modified_by, detail.modified_at) = (None, None);
        }
        let body = TokenBody {
            id: "c06d0789-0a38-40be-b7cc-c28a6f76f1f1",
            tenant_id: "5f8d1a3e-2b07-4f7e-9d0c-6c1b9f4e2a71".to_owned(),
            r#type: token_type.as_str(),
            fingerprint: Some("CC2XvyoohnqecEq4r3FtXv6MdCx4TbaW1UUTdCCN5MNL".to_owned()),
            containers: vec!["/pci/high/"],
            expires_at: None,
            detail: Some(detail),
            extras: extras(told, token_type),
        };
        let mut object = serde_json::from_str(&render(200, &body).body).unwrap_or_default();
        if let Value::Object(object) = &mut object {
            object.insert("data".to_owned(), data);
        }
        object
    })
    .collect()
}

fn detail(token_type: TokenType) -> DetailBody<'static> {
    DetailBody {
        mask: token_type.default_mask(),
        card: None,
        network_token: None,
        bank: None,
        metadata: Some(&METADATA),
        search_indexes: Some(&[]),
        fingerprint_expression: Some(token_type.default_fingerprint_expression()),
        expires_at: Some("2031-12-31T00:00:00+00:00".to_owned()),
        created_by: "d3c1f0a4-6b7e-4e52-9a1d-8f5b2c7e4a60".to_owned(),
        created_at: "2026-11-01T09:30:00+00:00".to_owned(),
        modified_by: Some("d3c1f0a4-6b7e-4e52-9a1d-8f5b2c7e4a60".to_owned()),
        modified_at: Some("2026-11-02T10:00:00+00:00".to_owned()),
    }
}

static METADATA: std::sync::LazyLock<std::collections::BTreeMap<String, String>> =
    std::sync::LazyLock::new(|| [("customer".to_owned(), "7".to_owned())].into());

/// The card is new, and the others were there already.
fn extras(told: Told, token_type: TokenType) -> Option<ExtrasBody> {
    let deduplicated = token_type != Card;
    let behavior = deduplicated.then(|| DeduplicationBehavior::ReadExisting.as_str());
    let extras = ExtrasBody { deduplicated, deduplication_behavior: behavior };
    match told {
        Told::Created => Some(extras),
        Told::Updated if deduplicated => Some(extras),
        Told::Updated | Told::Found => None,
    }
}

fn id() -> Parameter {
    let id = text().pattern(ID_PATTERN).about("3 to 400 characters.");
    parameter("id", id, "The token.")
}

/// As [`scrip_core::id::TokenId`] reads it, `search` apart.
const ID_PATTERN: &str = r"^[^#/\\+?\[\]|&=%<>{}^\u0000-\u001f\u007f-\u009f]{3,400}$";

pub(crate) fn create() -> Description {
    use Operation::{DeleteToken, GetToken, UpdateToken};
    operation(Tag::Tokens, "Create a token")
        .about(
            "With deduplication, a token of the same type, fingerprint and containers that is there \
             already is given back instead; a caller that may not read it is told no more than its \
             id, type, tenant, fingerprint and containers.

With `token_intent_id`, type and data are those of an intent, which ends with it; its cvc is not taken \
             over. Who may not see the data in clear gives only expressions that do not tell it.",
        )
        .body(named("NewToken"))
        .answer(201, "The token, new or found.", named("CreatedToken"))
        .leads_to(&[GetToken, UpdateToken, DeleteToken], &[("id", "$response.body#/id")])
}

pub(crate) fn get() -> Description {
    operation(Tag::Tokens, "Get a token")
        .about("As much of its data is shown as the caller's transform lets be seen.")
        .path(id())
        .answer(200, "The token.", named("Token"))
}

pub(crate) fn update() -> Description {
    operation(Tag::Tokens, "Update a token")
        .about(
            "By a merge patch. One that would make the token a duplicate while deduplication is on \
             is not applied; the answer then shows the token that is there already.",
        )
        .path(id())
        .body(named("TokenPatch"))
        .answer(200, "The token as it is now.", named("UpdatedToken"))
}

pub(crate) fn delete() -> Description {
    operation(Tag::Tokens, "Delete a token").path(id()).done("It is gone.")
}
