//! Client encryption keys, and requests with data that is encrypted for them.

mod client_keys;
mod conversion_rules;
mod proxy_header;
mod requests;

use scrip_testing::requests::{client_encryption::encrypt_json, with_members};
use serde_json::{Value, json};

use crate::harness::server::{SERVER, TenantApiKeys, TestResponse, text_field, unique_card_number};

fn create_keys() -> TenantApiKeys {
    SERVER.create_default_tenant()
}

fn delete_client_key(keys: &TenantApiKeys, client_key: &Value) {
    let path = format!("/keys/{}", text_field(client_key, "key_id"));
    assert_eq!(SERVER.delete(&keys.management, &path).status, 204);
}

fn card_data(number: &str) -> Value {
    json!({"number": number, "expiration_month": 12, "expiration_year": 2030, "cvc": "123"})
}

/// A create request with an encrypted card, and other attributes.
fn encrypted_card(client_key: &Value, number: &str, attributes: Value) -> Value {
    let encrypted = encrypt_json(client_key, &card_data(number));
    with_members(json!({"type": "card", "encrypted": encrypted}), &attributes)
}

/// Posts a card to `/tokens`, and returns its number with the response.
fn post_card(key: &str, client_key: &Value, attributes: Value) -> (String, TestResponse) {
    let number = unique_card_number();
    let body = encrypted_card(client_key, &number, attributes);
    (number, SERVER.create_token(key, &body))
}
