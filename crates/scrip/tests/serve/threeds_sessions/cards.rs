//! Every sandbox card in a customer session and a merchant session, through the real program and
//! its simulator: each response of the vault, and the final browser message.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use scrip_testing::{
    process::harness::{ProcessHarness, RunningServer, becomes_true},
    requests::http_client::BlockingClient,
};
use serde_json::{Value, json};

/// All sandbox cards: number, brand and expected outcome. The list is written independently of the
/// simulator.
const CARDS: &[(&str, &str, &str)] = &[
    ("5204247750001471", "Mastercard", "FS"),
    ("6011601160116011", "Discover", "FS"),
    ("340000000004001", "American Express", "FS"),
    ("4000020000000000", "Visa", "CS"),
    ("370000000000002", "American Express", "CS"),
    ("3566002020360505", "JCB", "CS"),
    ("3566006663297692", "JCB", "CS"),
    ("4005562231212123", "Visa", "CM"),
    ("4761369980320253", "Visa", "CX"),
    ("5200000000001104", "Mastercard", "CX"),
    ("4000000000000341", "Visa", "CO"),
    ("4005571701111111", "Visa", "CA"),
    ("4111111111111111", "Visa", "A"),
    ("5424180011113336", "Mastercard", "A"),
    ("4264281511112228", "Visa", "F"),
    ("5424180000000171", "Mastercard", "F"),
    ("5405001111111165", "Mastercard", "U"),
    ("5405001111111116", "Mastercard", "R"),
    ("4055011111111111", "Visa", "CF"),
    ("5427660064241339", "Mastercard", "CF"),
    ("6011361011110004", "Discover", "CFO"),
    ("6011361000008888", "Discover", "CU"),
    ("6011361000001115", "Discover", "CR"),
    ("4264281500003339", "Visa", "DE"),
    ("5424180011110001", "Mastercard", "DE"),
    ("4264281500001119", "Visa", "SE"),
    ("4150580996517927", "Visa", "CS"),
    ("4200000000000002", "Visa", "FS"),
    ("4200000000000003", "Visa", "A"),
    ("4200000000000004", "Visa", "CS"),
    ("4200000000000005", "Visa", "F"),
    ("4200000000000006", "Visa", "U"),
    ("4200000000000007", "Visa", "R"),
    ("4200000000000008", "Visa", "CA"),
    ("4200000000000009", "Visa", "CF"),
    ("4200000000000010", "Visa", "CU"),
    ("4200000000000011", "Visa", "CR"),
    ("4200000000000012", "Visa", "DE"),
    ("4200000000000013", "Visa", "SE"),
    ("4200000000000014", "Visa", "CM"),
    ("4200000000000015", "Visa", "CX"),
    ("4200000000000016", "Visa", "CO"),
    ("4200000000000017", "Visa", "CFO"),
    ("4917610000000000", "Visa", "CS"),
    ("5555555555554444", "Mastercard", "FS"),
    ("34343434343434", "American Express", "FS"),
    ("4242424242424242", "Visa", "FS"),
    ("5454545454545454", "Mastercard", "A"),
    ("4462030000000000", "Visa", "F"),
    ("36148900647913", "Discover", "U"),
    ("6759649826438453", "Mastercard", "R"),
    ("36700102000000", "Discover", "CF"),
    ("6011000400000000", "Discover", "CU"),
    ("3528000700000000", "JCB", "CA"),
    ("5019717010103742", "Mastercard", "SE"),
    ("4100000000000003", "Visa", "NO"),
];

/// Returns the status, the status code and the reason, without a challenge or after one.
fn expected_outcome(code: &str) -> (&'static str, &'static str, Option<&'static str>) {
    match code {
        "FS" | "CS" | "CM" | "CX" | "CO" => ("successful", "Y", None),
        "A" | "CA" => ("attempted", "A", None),
        "F" | "CF" | "CFO" => ("failed", "N", Some("card-authentication-failed")),
        "U" | "CU" => ("unavailable", "U", Some("cardholder-not-enrolled")),
        // The remaining codes are "R" and "CR".
        _ => ("rejected", "R", Some("suspected-fraud")),
    }
}

pub(crate) struct SandboxShop {
    pub(crate) server: RunningServer,
    public: String,
    pub(crate) private: String,
    client: BlockingClient,
}

impl SandboxShop {
    pub(crate) fn open(process: &ProcessHarness) -> Self {
        let server = process.start(&["dev", "--json"]);
        let keys = std::fs::read_to_string(process.data().join("dev-keys.json")).unwrap();
        let keys: Value = serde_json::from_str(&keys).unwrap();
        let key = |kind: &str| keys["keys"][kind].as_str().unwrap().to_owned();
        let client = BlockingClient::default();
        let shop = Self { server, public: key("public"), private: key("private"), client };
        // The card ranges are fetched in the background.
        let card = shop.create_intent("4242424242424242");
        let is_ready =
            || shop.create_session(&json!({"token_intent_id": card, "type": "merchant"})).0 == 201;
        assert!(becomes_true(is_ready), "{}", process.log());
        shop
    }

    fn post(&self, key: &str, path: &str, body: &Value) -> (u16, Value) {
        let url = format!("{}{path}", self.server.url);
        let response = self.client.post(url).api_key(key).json(body).send();
        (response.status, response.json())
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        let url = format!("{}{path}", self.server.url);
        let response = self.client.get(url).api_key(&self.private).send();
        (response.status, response.json())
    }

    /// Posts a form as a browser does, and returns the response page.
    fn post_form(&self, url: &str, fields: &[(&str, &str)]) -> String {
        let response = self.client.post(url).form(fields).send();
        assert_eq!(response.status, 200, "{url}");
        response.text()
    }

    pub(crate) fn create_intent(&self, number: &str) -> String {
        let data = json!({"number": number, "expiration_month": 12, "expiration_year": 2035});
        let body = json!({"type": "card", "data": data});
        let (status, intent) = self.post(&self.public, "/token-intents", &body);
        assert_eq!(status, 201, "{number}: {intent}");
        intent["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn create_session(&self, body: &Value) -> (u16, Value) {
        self.post(&self.public, "/3ds/sessions", body)
    }

    pub(crate) fn authenticate(&self, id: &str, kind: &str) -> (u16, Value) {
        let body = payment_body(kind);
        self.post(&self.private, &format!("/3ds/sessions/{id}/authenticate"), &body)
    }

    fn get_result(&self, id: &str) -> (u16, Value) {
        self.get(&format!("/3ds/sessions/{id}/challenge-result"))
    }

    /// Loads the method page and posts the form that it contains.
    pub(crate) fn run_method(&self, session: &Value) {
        let id = session["id"].as_str().unwrap();
        let data = json!({
            "threeDSServerTransID": id,
            "threeDSMethodNotificationURL": session["method_notification_url"],
        });
        let data = URL_SAFE_NO_PAD.encode(data.to_string());
        let url = session["method_url"].as_str().unwrap();
        let page = self.post_form(url, &[("threeDSMethodData", &data)]);
        let (target, method_data) = (form_action(&page), form_value(&page, "threeDSMethodData"));
        let page = self.post_form(&target, &[("threeDSMethodData", &method_data)]);
        assert!(page.contains(id) && page.contains("\"method\""), "{page}");
    }

    /// Completes the challenge as a browser and a person do. Returns the last page.
    pub(crate) fn complete_challenge(&self, id: &str, authentication: &Value) -> String {
        let creq = json!({
            "messageType": "CReq", "messageVersion": authentication["threeds_version"],
            "threeDSServerTransID": id, "acsTransID": authentication["acs_transaction_id"],
            "challengeWindowSize": "03",
        });
        let creq = URL_SAFE_NO_PAD.encode(creq.to_string());
        let page = self
            .post_form(authentication["acs_challenge_url"].as_str().unwrap(), &[("creq", &creq)]);
        let steps = form_action(&page);
        let out_of_band = authentication["authentication_challenge_type"] == "out-of-band";
        let last_page = if out_of_band {
            self.post_form(&steps, &[("action", "continue")])
        } else {
            self.post_form(&steps, &[("action", "submit"), ("code", "1234")])
        };
        // The result is stored before the browser is redirected.
        assert_eq!(self.get_result(id).0, 200);
        self.post_form(&form_action(&last_page), &[("cres", &form_value(&last_page, "cres"))])
    }
}

/// Returns the authentication request of a shop backend.
pub(crate) fn payment_body(authentication_type: &str) -> Value {
    let mut payment = scrip_testing::requests::payment("Ada");
    payment["authentication_type"] = authentication_type.into();
    payment["decoupled_challenge_max_time"] = 5.into();
    payment["requestor_info"]["id"] = "1".into();
    payment
}

/// Returns the text between two markers.
#[track_caller]
fn between<'a>(page: &'a str, before: &str, after: &str) -> &'a str {
    assert!(page.contains(before), "{before}: {page}");
    page.split_once(before).unwrap().1.split_once(after).unwrap().0
}

fn form_action(page: &str) -> String {
    between(page, "action=\"", "\"").replace("&amp;", "&")
}

fn form_value(page: &str, name: &str) -> String {
    let field = between(page, &format!("name=\"{name}\""), ">");
    between(field, "value=\"", "\"").to_owned()
}

#[track_caller]
fn assert_outcome(code: &str, brand: &str, authentication: &Value) {
    let (status, letter, reason) = expected_outcome(code);
    let shown = &authentication["authentication_status"];
    assert_eq!(*shown, status, "card code {code}: {authentication}");
    assert_eq!(authentication["authentication_status_code"], letter);
    assert_eq!(authentication.get("authentication_status_reason").and_then(Value::as_str), reason);
    let has_proof = matches!(letter, "Y" | "A");
    assert_eq!(authentication.get("authentication_value").is_some(), has_proof, "{authentication}");
    assert_eq!(authentication["liability_shifted"], has_proof);
    let eci = match letter {
        "Y" => ["05", "02"],
        "A" => ["06", "01"],
        _ => ["07", "00"],
    };
    let expected_eci = eci[usize::from(brand == "Mastercard")];
    assert_eq!(authentication["eci"], expected_eci, "card code {code}: {authentication}");
}

#[track_caller]
fn assert_failed(status: u16, body: &Value) {
    assert_eq!(status, 424, "{body}");
    assert_eq!((&body["title"], &body["status"]), (&json!("3DS Service Error"), &json!(424)));
    for name in ["service_status", "error_source", "message", "detail"] {
        assert!(body["error"][name].is_string(), "{name}: {body}");
    }
}

#[test]
fn every_sandbox_card_has_its_outcome_in_a_customer_session() {
    let process = ProcessHarness::new(crate::SCRIP);
    let shop = SandboxShop::open(&process);
    for &(number, brand, code) in CARDS {
        let device = json!({
            "browser_color_depth": "24", "browser_javascript_enabled": true,
            "browser_java_enabled": false, "browser_language": "en-US",
            "browser_screen_height": "600", "browser_screen_width": "800", "browser_tz": "0",
            "browser_user_agent": "Browser/1.0",
        });
        let body = json!({"token_intent_id": shop.create_intent(number), "device_info": device});
        let created = shop.create_session(&body);
        if matches!(code, "SE" | "NO") {
            assert_failed(created.0, &created.1);
            continue;
        }
        let (status, session) = created;
        assert_eq!(status, 201, "card code {code}: {session}");
        assert_eq!((&session["card_brand"], &session["cardBrand"]), (&json!(brand), &json!(brand)));
        let id = session["id"].as_str().unwrap();
        let has_method = session.get("method_url").is_some();
        assert_eq!(has_method, !matches!(code, "CM"), "card code {code}: {session}");
        if has_method {
            shop.run_method(&session);
        }
        let authenticated = shop.authenticate(id, "payment-transaction");
        if code == "DE" {
            assert_failed(authenticated.0, &authenticated.1);
            assert_eq!(shop.authenticate(id, "payment-transaction").0, 409);
            continue;
        }
        let (status, authentication) = authenticated;
        assert_eq!(status, 200, "card code {code}: {authentication}");
        let (_, session_data) = shop.get(&format!("/3ds/sessions/{id}"));
        let indicator = if has_method { "Y" } else { "U" };
        let shown = &session_data["method"]["method_completion_indicator"];
        assert_eq!(*shown, indicator, "card code {code}: {session_data}");
        if !code.starts_with('C') {
            assert_outcome(code, brand, &authentication);
            assert_eq!(shop.get_result(id).0, 404);
            continue;
        }
        let status = &authentication["authentication_status"];
        assert_eq!(*status, "challenge", "card code {code}: {authentication}");
        assert_eq!(authentication["acs_challenge_mandated"], if code == "CX" { "Y" } else { "N" });
        let out_of_band = matches!(code, "CO" | "CFO");
        assert_eq!(authentication["authentication_challenge_type"] == "out-of-band", out_of_band);
        assert_eq!(shop.get_result(id).0, 404);
        let page = shop.complete_challenge(id, &authentication);
        let is_successful = matches!(expected_outcome(code).1, "Y" | "A");
        let word = if is_successful { "successful" } else { "failed" };
        assert!(page.contains(id) && page.contains(word), "card code {code}: {page}");
        let (status, result) = shop.get_result(id);
        assert_eq!(status, 200, "{result}");
        assert_outcome(code, brand, &result);
        assert_eq!(result["directory_status_code"], "C");
        assert_eq!(result["challenge_attempts"], "01");
    }
}

#[test]
fn every_sandbox_card_has_its_outcome_in_a_merchant_session() {
    let process = ProcessHarness::new(crate::SCRIP);
    let shop = SandboxShop::open(&process);
    let mut challenged_sessions = Vec::new();
    for &(number, brand, code) in CARDS {
        let created = shop.create_session(
            &json!({"token_intent_id": shop.create_intent(number), "type": "merchant"}),
        );
        if matches!(code, "SE" | "NO") {
            assert_failed(created.0, &created.1);
            continue;
        }
        let (status, session) = created;
        assert_eq!(status, 201, "card code {code}: {session}");
        let id = session["id"].as_str().unwrap();
        let authenticated = shop.authenticate(id, "other-payment");
        if code == "DE" {
            assert_failed(authenticated.0, &authenticated.1);
            continue;
        }
        let (status, authentication) = authenticated;
        assert_eq!(status, 200, "card code {code}: {authentication}");
        if !code.starts_with('C') {
            assert_outcome(code, brand, &authentication);
            continue;
        }
        let status = &authentication["authentication_status"];
        assert_eq!(*status, "decoupled_challenge", "card code {code}: {authentication}");
        assert!(authentication["cardholder_info"].is_string());
        assert!(authentication.get("acs_challenge_url").is_none());
        challenged_sessions.push((id.to_owned(), brand, code));
    }
    assert!(challenged_sessions.len() > 20);
    for (id, brand, code) in challenged_sessions {
        assert!(becomes_true(|| shop.get_result(&id).0 == 200), "{code}");
        assert_outcome(code, brand, &shop.get_result(&id).1);
    }
}
