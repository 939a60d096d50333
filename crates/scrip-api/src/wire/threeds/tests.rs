//! Compares the examples of the OpenAPI document with rendered responses, and its attributes with
//! the parser.

mod attributes;

use scrip_threeds::request::{DeviceInfo, SdkRenderOptions};
use serde_json::{Map, Value, json};

use crate::{
    openapi::tests::{assert_examples, assert_limit_usize},
    wire::threeds::{
        authentication::{AuthenticationBody, CardReferenceBody, ExtensionBody, RenderingBody},
        device,
        request::METADATA_MAX,
        session::{CreatedThreeDsSessionBody, MethodBody, ThreeDsSessionResponseBody, VersionBody},
    },
};

#[test]
fn documented_threeds_examples_match_rendered_bodies() {
    assert_examples("CreatedThreedsSession", [created_example()]);
    assert_examples("ThreedsSession", [session_example()]);
    assert_examples("ThreedsAuthentication", [authentication_example()]);
}

#[test]
fn documented_metadata_limit_matches_the_code() {
    for schema in ["NewThreedsSession", "CreatedThreedsSession", "ThreedsSession"] {
        assert_limit_usize(&[&format!("{schema}.metadata")], "maxProperties", METADATA_MAX);
    }
}

const ID: &str = "7c5d2b8e-4f10-4c1e-9a57-2e6b8d3f0a94";
const OTHER_ID: &str = "b8a3f6f4-7d1e-4e0c-8c33-90b1d7a2c5e6";
const TIME: &str = "2026-11-01T09:30:00+00:00";

fn card() -> CardReferenceBody {
    CardReferenceBody {
        pan_token_id: Some(OTHER_ID.to_owned()),
        token_id: Some(OTHER_ID.to_owned()),
        token_intent_id: Some(OTHER_ID.to_owned()),
    }
}

fn metadata() -> Map<String, Value> {
    Map::from_iter([("order".to_owned(), json!({"number": 7}))])
}

fn created_example() -> Value {
    let metadata = metadata();
    json!(CreatedThreeDsSessionBody {
        id: ID.to_owned(),
        r#type: "customer",
        card: card(),
        card_brand: "Visa",
        card_brand_camel_case: "Visa",
        additional_card_brands: Some(vec!["Visa", "Cartes Bancaires"]),
        method_url: Some("https://acs.example/method"),
        method_notification_url: "https://vault.example/3ds/sessions/7c5d2b8e-4f10-4c1e-9a57-2e6b8d3f0a94/method-notification",
        directory_server_id: "A000000003",
        recommended_version: "2.2.0",
        metadata: Some(&metadata),
    })
}

fn session_example() -> Value {
    let metadata = metadata();
    json!(ThreeDsSessionResponseBody {
        id: ID.to_owned(),
        tenant_id: OTHER_ID.to_owned(),
        r#type: "customer",
        card: card(),
        card_brand: "Visa",
        additional_card_brands: Some(vec!["Visa", "Cartes Bancaires"]),
        expiration_date: TIME.to_owned(),
        created_date: TIME.to_owned(),
        created_by: OTHER_ID.to_owned(),
        modified_date: Some(TIME.to_owned()),
        modified_by: Some(OTHER_ID.to_owned()),
        device: Some("browser"),
        device_info: device::device_info_json(&device_info()),
        web_challenge_mode: Some("iframe"),
        version: Some(VersionBody {
            recommended_version: "2.2.0",
            available_version: vec!["2.1.0", "2.2.0"],
            available_versions: vec!["2.1.0", "2.2.0"],
            earliest_acs_supported_version: "2.1.0".to_owned(),
            earliest_ds_supported_version: "2.1.0".to_owned(),
            latest_acs_supported_version: "2.2.0".to_owned(),
            latest_ds_supported_version: "2.2.0".to_owned(),
            acs_information: vec!["threeds-auth-available".to_owned()],
        }),
        method: Some(MethodBody {
            method_url: Some("https://acs.example/method"),
            method_completion_indicator: Some("Y"),
        }),
        authentication: Some(authentication_body(&Map::new())),
        metadata: Some(&metadata),
    })
}

fn device_info() -> DeviceInfo {
    let text = |it: &str| Some(it.to_owned());
    DeviceInfo {
        browser_accept_header: text("*/*"),
        browser_ip: text("203.0.113.7"),
        browser_javascript_enabled: Some(true),
        browser_java_enabled: Some(false),
        browser_language: text("en-GB"),
        browser_color_depth: text("24"),
        browser_screen_height: text("600"),
        browser_screen_width: text("800"),
        browser_tz: text("-60"),
        browser_user_agent: text("Mozilla/5.0"),
        sdk_render_options: Some(SdkRenderOptions {
            sdk_interface: text("03"),
            sdk_ui_type: Some(vec!["01".to_owned()]),
        }),
        ..DeviceInfo::default()
    }
}

fn authentication_example() -> Value {
    json!(authentication_body(&metadata()))
}

fn authentication_body(data: &Map<String, Value>) -> AuthenticationBody<'_> {
    AuthenticationBody {
        session_id: ID.to_owned(),
        threeds_version: "2.2.0",
        acs_transaction_id: OTHER_ID,
        ds_transaction_id: OTHER_ID,
        sdk_transaction_id: Some(OTHER_ID),
        acs_reference_number: "ACS-1",
        ds_reference_number: "DS-1",
        acs_operator_id: Some("OPERATOR-1"),
        card: card(),
        authentication_value: Some("AAABBEg0VhI0VniQEjRWAAAAAAA="),
        authentication_status: "failed",
        authentication_status_code: "N",
        directory_status_code: "C",
        authentication_status_reason: Some("card-authentication-failed"),
        authentication_status_reason_code: Some("01".to_owned()),
        eci: Some("07"),
        liability_shifted: false,
        acs_challenge_mandated: Some("Y"),
        acs_decoupled_authentication: Some("N"),
        authentication_challenge_type: Some("dynamic"),
        acs_challenge_url: Some("https://acs.example/challenge"),
        acs_signed_content: Some("e30.e30.AA"),
        acs_rendering_type: Some(RenderingBody { acs_interface: "01", acs_ui_template: "01" }),
        challenge_preference: Some("no-preference"),
        challenge_preference_code: Some("01".to_owned()),
        challenge_attempts: Some("01"),
        challenge_cancel_reason: Some("cardholder-canceled"),
        challenge_cancel_reason_code: Some("01".to_owned()),
        cardholder_info: Some("Call your bank."),
        whitelist_status: Some("not-eligible"),
        whitelist_status_source: Some("acs"),
        message_extensions: Some(vec![ExtensionBody {
            id: "A000000042_CB-SCORE",
            name: "CB-SCORE",
            critical: false,
            data,
        }]),
    }
}
