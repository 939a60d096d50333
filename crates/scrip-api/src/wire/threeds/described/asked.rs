//! What clients send, described by what the reader declares.

use scrip_threeds::{
    code::{
        AccountAge, AccountChange, AuthenticationCategory, AuthenticationType, CHANGE_WITHOUT_CODE,
        ChallengePreference, DeliveryTimeFrame, LoginMethod, PasswordChange, PaymentAccountAge,
        PriorMethod, SHIPPING_WITHOUT_CODE, SessionType, ShippingAddressUse, ShippingMethod,
        TransactionType,
    },
    request::{AuthenticateRequest, Part, Shape},
};
use serde_json::json;

use crate::wire::{
    schema::{
        Attribute, Schema, always, answer, any, boolean, either, list, map, one_of, request,
        sometimes, text, whole,
    },
    threeds::{device::Told, request::METADATA_MAX},
};

pub(super) fn new_session() -> Schema {
    let device = one_of(["browser", "app", "mobile"]).with("default", "browser");
    let kind = one_of(SessionType::ALL.iter().map(|it| it.name())).with("default", "customer");
    let one = |name: &str| json!({"required": [name]});
    let attributes = [
        sometimes("token_id", text().about("A token of the type `card`.")),
        sometimes("token_intent_id", text().about("A token intent of the type `card`.")),
        sometimes("pan", text().about("Deprecated: a token id.")),
        sometimes("type", kind),
        sometimes("device", device.about("Passed over in a session of a merchant.")),
        sometimes("device_info", part::<Told>("device_info", Side::Request)),
        sometimes("web_challenge_mode", one_of(["iframe", "redirect"]).with("default", "iframe")),
        sometimes("metadata", map(any()).with("maxProperties", METADATA_MAX)),
    ];
    request(attributes)
        .with("anyOf", vec![one("token_id"), one("token_intent_id"), one("pan")])
        .examples([json!({"token_id": "7c5d2b8e-4f10-4c1e-9a57-2e6b8d3f0a94", "type": "merchant"})])
}

pub(super) fn device() -> Schema {
    request([always("device_info", part::<Told>("device_info", Side::Request))])
}

/// The same, as it is shown.
pub(super) fn device_shown() -> Schema {
    part::<Told>("device_info", Side::Answer)
}

pub(super) fn authenticate() -> Schema {
    let Shape::Object(attributes) = AuthenticateRequest::shape() else { return any() };
    let brand = sometimes("card_brand", text().about("Which of the brands of the card."));
    let attributes = attributes.iter().map(|it| attribute("", it, Side::Request));
    let example = json!({
        "authentication_category": "payment",
        "authentication_type": "payment-transaction",
        "purchase_info": {
            "amount": "8000", "currency": "826", "exponent": "2", "date": "20260109141010",
            "transaction_type": "purchase",
        },
        "merchant_info": {
            "mid": "9876543210001", "acquirer_bin": "000000999", "name": "A shop",
            "category_code": "7922", "country_code": "826",
        },
        "requestor_info": {
            "id": "9876543210001", "name": "A shop", "url": "https://shop.example",
        },
        "cardholder_info": {"name": "Ada Lovelace", "email": "ada@mail.example"},
    });
    request(attributes.chain([brand])).examples([example])
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Request,
    Answer,
}

/// Rules without a condition; the others are in the table of rules.
const REQUIRED: &[&str] = &[
    "authentication_category",
    "authentication_type",
    "requestor_info",
    "requestor_info.id",
    "requestor_info.name",
    "requestor_info.url",
    "cardholder_info",
    "cardholder_info.name",
    "cardholder_info.email",
];

fn part<T: Part>(path: &str, side: Side) -> Schema {
    schema(path, &T::shape(), side)
}

fn attribute(path: &str, (name, shape): &(&'static str, Shape), side: Side) -> Attribute {
    let path = if path.is_empty() { (*name).to_owned() } else { format!("{path}.{name}") };
    let schema = schema(&path, shape, side);
    if side == Side::Request && REQUIRED.contains(&path.as_str()) {
        return always(name, schema);
    }
    sometimes(name, schema)
}

fn schema(path: &str, shape: &Shape, side: Side) -> Schema {
    match shape {
        Shape::Text => words(path).map_or_else(text, one_of),
        Shape::Boolean => boolean(),
        Shape::Whole => whole().between(1, 10_080),
        Shape::Any => match path {
            "device_info.sdk_ephemeral_public_key" => {
                either([any().with("type", "object"), text()])
            }
            "broadcast_info" => any().with("type", "object"),
            _ => any(),
        },
        Shape::List(item) => list(schema(path, item, side)),
        Shape::Object(attributes) => {
            let attributes = attributes.iter().map(|it| attribute(path, it, side));
            match side {
                Side::Request => request(attributes),
                Side::Answer => answer(attributes),
            }
        }
    }
}

macro_rules! names {
    ($Type:ty) => {
        <$Type>::ALL.iter().map(|it| it.name()).collect()
    };
}

/// Of a list in which schemes can have codes without a name.
macro_rules! known {
    ($Type:ty) => {
        <$Type>::ALL.iter().filter_map(|it| it.name()).collect()
    };
}

/// What a text may be, where that is a list.
fn words(path: &str) -> Option<Vec<&'static str>> {
    let found: Vec<&'static str> = match path {
        "authentication_category" => names!(AuthenticationCategory),
        "authentication_type" => names!(AuthenticationType),
        "challenge_preference" => known!(ChallengePreference),
        "purchase_info.transaction_type" => names!(TransactionType),
        "merchant_info.risk_info.delivery_time_frame" => names!(DeliveryTimeFrame),
        "merchant_info.risk_info.shipping_method" => names!(ShippingMethod),
        "cardholder_info.account_type" => vec!["debit", "credit"],
        "cardholder_info.billing_shipping_address_match" => vec!["Y", "N"],
        "cardholder_info.account_info.account_age" => names!(AccountAge),
        "cardholder_info.account_info.account_last_changed" => {
            let names: Vec<_> = names!(AccountChange);
            names.into_iter().chain(CHANGE_WITHOUT_CODE.iter().copied()).collect()
        }
        "cardholder_info.account_info.account_pwd_last_changed" => names!(PasswordChange),
        "cardholder_info.account_info.payment_account_created" => names!(PaymentAccountAge),
        "cardholder_info.account_info.shipping_address_first_used" => {
            let names: Vec<_> = names!(ShippingAddressUse);
            names.into_iter().chain(SHIPPING_WITHOUT_CODE.iter().copied()).collect()
        }
        "cardholder_info.authentication_info.method" => known!(LoginMethod),
        "cardholder_info.prior_authentication_info.method" => known!(PriorMethod),
        _ => return None,
    };
    Some(found)
}
