//! Messages of clients and directory servers about 3DS sessions.

use scrip_core::Error;
use scrip_threeds::request::{AuthenticateRequest, DeviceInfo};
use serde_json::{Value, json};

use crate::sessions::model::ModelDevice;

pub(crate) fn browser() -> DeviceInfo {
    let message = json!({
        "browser_accept_header": "*/*", "browser_ip": "192.0.2.7",
        "browser_javascript_enabled": true, "browser_java_enabled": false,
        "browser_language": "en", "browser_color_depth": "24", "browser_screen_height": "600",
        "browser_screen_width": "800", "browser_tz": "-60", "browser_user_agent": "Browser/1.0",
    });
    serde_json::from_value(message).unwrap()
}

pub(crate) fn app() -> DeviceInfo {
    let key = json!({"kty": "EC", "crv": "P-256", "x": "x".repeat(43), "y": "y".repeat(43)});
    let message = json!({
        "sdk_transaction_id": "b2385523-a66c-4907-ac3c-91848e8c0067",
        "sdk_application_id": "dbd64fcb-c19a-4728-8849-e3d50bfdde39",
        "sdk_encryption_data": "a.b.c.d.e", "sdk_ephemeral_public_key": key.to_string(),
        "sdk_max_timeout": "05", "sdk_reference_number": "3DS_SDK",
        "sdk_render_options": {"sdk_interface": "01", "sdk_ui_type": ["01", "02"]},
    });
    serde_json::from_value(message).unwrap()
}

/// An authentication of a payment. A merchant requests a recurring payment.
pub(crate) fn authenticate_request(kind: ModelDevice, decoupled: bool) -> AuthenticateRequest {
    let is_merchant = kind == ModelDevice::Merchant;
    let transaction_type =
        if is_merchant { "recurring-transaction" } else { "payment-transaction" };
    let mut request = json!({
        "authentication_category": "payment", "authentication_type": transaction_type,
        "request_decoupled_challenge": decoupled,
        "purchase_info": {
            "amount": "80000", "currency": "826", "exponent": "2", "date": "20261115010203",
            "recurring_expiration": "20271115", "recurring_frequency": "30",
        },
        "merchant_info": {
            "mid": "MID1", "acquirer_bin": "444444", "name": "Shop", "country_code": "826",
            "category_code": "7922",
        },
        "requestor_info": {"id": "MID1", "name": "Shop", "url": "https://shop.example"},
        "cardholder_info": {"name": "Jo Holder", "email": "jo@holder.example"},
    });
    if decoupled || is_merchant {
        request["decoupled_challenge_max_time"] = 5.into();
    }
    serde_json::from_value(request).unwrap()
}

/// A result message with the transaction ids of the 3DS server, the ACS and the directory server.
pub(crate) fn result_message([server, acs, ds]: &[String; 3], status: &str) -> Value {
    let mut object = json!({
        "messageType": "RReq", "messageVersion": "2.2.0", "threeDSServerTransID": server,
        "acsTransID": acs, "dsTransID": ds, "messageCategory": "01", "transStatus": status,
        "interactionCounter": "01", "eci": "05", "authenticationType": "02",
    });
    match status {
        "Y" | "A" => object["authenticationValue"] = "AAECAwQFBgcICQoLDA0ODxAREhM=".into(),
        _ => object["transStatusReason"] = "11".into(),
    }
    object
}

/// The secret in the address to which the result is posted.
pub(crate) fn secret_of(message: &[u8]) -> String {
    let message: Value = serde_json::from_slice(message).unwrap();
    let url = message["threeDSServerURL"].as_str().unwrap();
    url.rsplit('/').next().unwrap().to_owned()
}

/// A short name of the outcome of an operation.
pub(crate) fn outcome_name(outcome: &Result<String, Error>) -> String {
    let name = match outcome {
        Ok(name) => name,
        Err(Error::NotFound) => "not found",
        Err(Error::NotFoundBecause { .. }) => "nothing yet",
        Err(Error::Conflict { .. }) => "conflict",
        Err(Error::Invalid(_)) => "invalid",
        Err(Error::Service(_)) => "service",
        Err(Error::Unavailable(_)) => "unavailable",
        Err(_) => "something else",
    };
    name.to_owned()
}
