//! Sessions for tests: what clients send, and the steps that lead to a state.

pub(crate) use scrip_testing::requests::payment;
use serde_json::{Value, json};

use crate::{
    harness::server::{
        TenantApiKeys, TestResponse, TestServer, card_body, text_field, unique_card_number,
    },
    threeds_sessions::scripted_servers::VAULT_URL,
};

pub(crate) const SESSIONS: &str = "/3ds/sessions";

/// What the script of a browser tells of it.
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

/// What the SDK of an app tells.
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

/// The same by a merchant, of whose customer nobody is there.
pub(crate) fn merchant_payment(cardholder: &str) -> Value {
    let mut payment = payment(cardholder);
    payment["authentication_type"] = "other-payment".into();
    payment["decoupled_challenge_max_time"] = 10.into();
    payment
}

impl TestServer {
    /// A card of this tenant.
    pub(crate) fn card_token(&self, keys: &TenantApiKeys) -> String {
        self.token_with_number(keys, &unique_card_number())
    }

    pub(crate) fn token_with_number(&self, keys: &TenantApiKeys, number: &str) -> String {
        text_field(&self.create_token_ok(&keys.private, &card_body(number)), "id")
    }

    pub(crate) fn create_session(&self, key: &str, body: &Value) -> Value {
        self.post(key, SESSIONS, body).expect_status(201)
    }

    /// A card that waits to become one.
    pub(crate) fn create_card_intent(&self, keys: &TenantApiKeys) -> String {
        let reply = self.post(&keys.private, "/token-intents", &card_body(&unique_card_number()));
        text_field(&reply.expect_status(201), "id")
    }

    /// A browser's session, not yet authenticated.
    pub(crate) fn create_browser_session(&self, keys: &TenantApiKeys) -> String {
        self.create_browser_session_for(keys, &self.create_card_intent(keys))
    }

    pub(crate) fn create_browser_session_for(&self, keys: &TenantApiKeys, intent: &str) -> String {
        let body = json!({"token_intent_id": intent, "device_info": browser_info()});
        text_field(&self.create_session(&keys.public, &body), "id")
    }

    pub(crate) fn create_app_session(&self, key: &str, intent: &str) -> String {
        text_field(
            &self.create_session(key, &json!({"token_intent_id": intent, "device": "app"})),
            "id",
        )
    }

    pub(crate) fn authenticate(&self, key: &str, session: &str, body: &Value) -> TestResponse {
        self.post(key, &format!("{SESSIONS}/{session}/authenticate"), body)
    }

    pub(crate) fn get_challenge_result(&self, key: &str, session: &str) -> TestResponse {
        self.get_path(key, &format!("{SESSIONS}/{session}/challenge-result"))
    }

    /// A browser's session whose cardholder is being challenged.
    pub(crate) fn create_challenged_session(&self, keys: &TenantApiKeys) -> String {
        self.start_challenge(keys, self.create_browser_session(keys))
    }

    pub(crate) fn start_challenge(&self, keys: &TenantApiKeys, session: String) -> String {
        let outcome =
            self.authenticate(&keys.private, &session, &payment("Challenged")).expect_status(200);
        assert_eq!(outcome["authentication_status"], "challenge");
        session
    }

    /// The directory server tells how it ended.
    pub(crate) fn send_result(&self, session: &str, status: &str) -> Value {
        let path = self.directory_servers.results_path(session);
        self.request("POST", &path)
            .json(&self.directory_servers.result(session, status))
            .send()
            .expect_status(200)
    }

    /// A form, as a page posts it.
    pub(crate) fn post_form(&self, path: &str, fields: &[(&str, &str)]) -> TestResponse {
        let body: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.request("POST", path).body("application/x-www-form-urlencoded", &body.join("&")).send()
    }
}

pub(crate) fn notification_url(session: &str) -> String {
    format!("{VAULT_URL}{SESSIONS}/{session}/method-notification")
}

/// A page without a script, so that nobody takes it for a notification.
#[track_caller]
pub(crate) fn expect_rejection_page(reply: &TestResponse, status: u16) {
    assert_eq!(reply.status, status, "{}", reply.text);
    assert_eq!(reply.headers["content-type"], "text/html; charset=utf-8");
    assert!(!reply.text.contains("<script"), "{}", reply.text);
    assert!(reply.text.contains("could not be accepted"), "{}", reply.text);
    let policy = &reply.headers["content-security-policy"];
    assert_eq!(policy, "default-src 'none'; base-uri 'none'; form-action 'none'");
}

/// A page in any frame or window that runs its own script and nothing else; that script.
#[track_caller]
pub(crate) fn page_script(reply: &TestResponse) -> &str {
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(reply.headers["cache-control"], "no-store");
    for absent in ["x-frame-options", "cross-origin-opener-policy"] {
        assert!(!reply.headers.contains_key(absent), "{absent}");
    }
    let (_, rest) = reply.text.split_once("<script nonce=\"").unwrap();
    let (nonce, rest) = rest.split_once("\">").unwrap();
    assert!(nonce.len() == 32 && nonce.bytes().all(|it| it.is_ascii_hexdigit()), "{nonce}");
    let policy = &reply.headers["content-security-policy"];
    let expected = format!(
        "default-src 'none'; base-uri 'none'; form-action 'none'; script-src 'nonce-{nonce}'"
    );
    assert_eq!(policy, &expected);
    let (script, rest) = rest.split_once("</script>").unwrap();
    assert!(!rest.contains("<script") && reply.text.contains("<p>"), "{}", reply.text);
    script.trim()
}

/// What a script posts.
#[track_caller]
pub(crate) fn posted_message(script: &str) -> Value {
    let message = script.strip_prefix("var message = ").unwrap().split_once(";\n").unwrap().0;
    assert!(script.contains("window.opener.postMessage(message, \"*\")"), "{script}");
    assert!(script.contains("window.parent.postMessage(message, \"*\")"), "{script}");
    serde_json::from_str(message).unwrap()
}
