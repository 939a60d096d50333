//! 3-D Secure sessions for tests: client requests, and the steps that lead to a state.

pub(crate) use scrip_testing::requests::payment;
use serde_json::{Value, json};

use crate::{
    harness::server::{
        TenantApiKeys, TestResponse, TestServer, card_body, text_field, unique_card_number,
    },
    threeds_sessions::scripted_servers::VAULT_URL,
};

pub(crate) const SESSIONS: &str = "/3ds/sessions";

/// Returns the device data that the browser SDK sends.
pub(crate) fn browser_info() -> Value {
    json!({
        "browser_color_depth": "30",
        "browser_javascript_enabled": true,
        "browser_java_enabled": false,
        "browser_language": "en-US@posix",
        "browser_screen_height": "600",
        "browser_screen_width": "800",
        "browser_tz": "-330",
        "browser_user_agent": "Browser/1.0",
    })
}

/// Returns the device data that an app SDK sends.
pub(crate) fn app_info() -> Value {
    let key = json!({"kty": "EC", "crv": "P-256", "x": "x".repeat(43), "y": "y".repeat(43)});
    json!({
        "sdk_transaction_id": "b2385523-a66c-4907-ac3c-91848e8c0067",
        "sdk_application_id": "a2385523-a66c-4907-ac3c-91848e8c0068",
        "sdk_encryption_data": "e30.e30.e30.e30.e30",
        "sdk_ephemeral_public_key": key.to_string(),
        "sdk_max_timeout": "05",
        "sdk_reference_number": "3DS_LOA_SDK_1",
        "sdk_render_options": {"sdk_interface": "01", "sdk_ui_type": ["01", "02", "03", "04"]},
    })
}

/// Returns the request of a merchant session, without a customer.
pub(crate) fn merchant_payment(cardholder: &str) -> Value {
    let mut payment = payment(cardholder);
    payment["authentication_type"] = "other-payment".into();
    payment["decoupled_challenge_max_time"] = 10.into();
    payment
}

impl TestServer {
    /// Creates a card token of this tenant and returns its id.
    pub(crate) fn card_token(&self, keys: &TenantApiKeys) -> String {
        self.token_with_number(keys, &unique_card_number())
    }

    pub(crate) fn token_with_number(&self, keys: &TenantApiKeys, number: &str) -> String {
        self.create_token_id(&keys.private, &card_body(number))
    }

    pub(crate) fn create_session(&self, key: &str, body: &Value) -> Value {
        self.create_entity(key, SESSIONS, body)
    }

    pub(crate) fn create_session_id(&self, key: &str, body: &Value) -> String {
        text_field(&self.create_session(key, body), "id")
    }

    pub(crate) fn get_session(&self, key: &str, session: &str) -> TestResponse {
        self.get_path(key, &format!("{SESSIONS}/{session}"))
    }

    /// Creates a token intent with a card and returns its id.
    pub(crate) fn create_card_intent(&self, keys: &TenantApiKeys) -> String {
        let response =
            self.post(&keys.private, "/token-intents", &card_body(&unique_card_number()));
        text_field(&response.expect_status(201), "id")
    }

    /// Creates a browser session, not yet authenticated.
    pub(crate) fn create_browser_session(&self, keys: &TenantApiKeys) -> String {
        self.create_browser_session_for(keys, &self.create_card_intent(keys))
    }

    pub(crate) fn create_browser_session_for(&self, keys: &TenantApiKeys, intent: &str) -> String {
        let body = json!({"token_intent_id": intent, "device_info": browser_info()});
        self.create_session_id(&keys.public, &body)
    }

    pub(crate) fn create_app_session(&self, key: &str, intent: &str) -> String {
        self.create_session_id(key, &json!({"token_intent_id": intent, "device": "app"}))
    }

    pub(crate) fn authenticate(&self, key: &str, session: &str, body: &Value) -> TestResponse {
        self.post(key, &format!("{SESSIONS}/{session}/authenticate"), body)
    }

    /// Authenticates a session with a payment of this cardholder, who decides the outcome.
    pub(crate) fn authenticate_as(
        &self,
        key: &str,
        session: &str,
        cardholder: &str,
    ) -> TestResponse {
        self.authenticate(key, session, &payment(cardholder))
    }

    pub(crate) fn get_challenge_result(&self, key: &str, session: &str) -> TestResponse {
        self.get_path(key, &format!("{SESSIONS}/{session}/challenge-result"))
    }

    /// Creates a browser session with a started challenge.
    pub(crate) fn create_challenged_session(&self, keys: &TenantApiKeys) -> String {
        self.start_challenge(keys, self.create_browser_session(keys))
    }

    pub(crate) fn start_challenge(&self, keys: &TenantApiKeys, session: String) -> String {
        let outcome =
            self.authenticate_as(&keys.private, &session, "Challenged").expect_status(200);
        assert_eq!(outcome["authentication_status"], "challenge");
        session
    }

    /// Posts the challenge result as the directory server does.
    pub(crate) fn send_result(&self, session: &str, status: &str) -> Value {
        let path = self.directory_servers.results_path(session);
        self.request("POST", &path)
            .json(&self.directory_servers.result(session, status))
            .send()
            .expect_status(200)
    }

    /// Posts a form like a page does.
    pub(crate) fn post_form(&self, path: &str, fields: &[(&str, &str)]) -> TestResponse {
        let body: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.request("POST", path).body("application/x-www-form-urlencoded", &body.join("&")).send()
    }
}

pub(crate) fn notification_url(session: &str) -> String {
    format!("{VAULT_URL}{SESSIONS}/{session}/method-notification")
}

/// Expects a page without a script, so that the opener does not handle it as a notification.
#[track_caller]
pub(crate) fn expect_rejection_page(response: &TestResponse, status: u16) {
    assert_eq!(response.status, status, "{}", response.text);
    assert_eq!(response.headers["content-type"], "text/html; charset=utf-8");
    assert!(!response.text.contains("<script"), "{}", response.text);
    assert!(response.text.contains("The request was rejected"), "{}", response.text);
    let policy = &response.headers["content-security-policy"];
    assert_eq!(policy, "default-src 'none'; base-uri 'none'; form-action 'none'");
}

/// Expects a page that works in any frame or window and runs only its own script. Returns the
/// script.
#[track_caller]
pub(crate) fn page_script(response: &TestResponse) -> &str {
    assert_eq!(response.status, 200, "{}", response.text);
    assert_eq!(response.headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(response.headers["cache-control"], "no-store");
    for header_name in ["x-frame-options", "cross-origin-opener-policy"] {
        assert!(!response.headers.contains_key(header_name), "{header_name}");
    }
    let (_, rest) = response.text.split_once("<script nonce=\"").unwrap();
    let (nonce, rest) = rest.split_once("\">").unwrap();
    assert!(nonce.len() == 32 && nonce.bytes().all(|it| it.is_ascii_hexdigit()), "{nonce}");
    let policy = &response.headers["content-security-policy"];
    let expected = format!(
        "default-src 'none'; base-uri 'none'; form-action 'none'; script-src 'nonce-{nonce}'"
    );
    assert_eq!(policy, &expected);
    let (script, rest) = rest.split_once("</script>").unwrap();
    assert!(!rest.contains("<script") && response.text.contains("<p>"), "{}", response.text);
    script.trim()
}

/// Returns the message that a script posts.
#[track_caller]
pub(crate) fn posted_message(script: &str) -> Value {
    let message = script.strip_prefix("var message = ").unwrap().split_once(";\n").unwrap().0;
    assert!(script.contains("window.opener.postMessage(message, \"*\")"), "{script}");
    assert!(script.contains("window.parent.postMessage(message, \"*\")"), "{script}");
    serde_json::from_str(message).unwrap()
}
