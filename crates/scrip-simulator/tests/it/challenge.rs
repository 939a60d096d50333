//! The challenge of a browser, from the first page to the last.

use serde_json::{Value, json};

use crate::harness::{SimulatorHarness, acs_path, creq, creq_json, encode_message, merge};

const CARD: &str = "4200000000000004";

#[test]
fn challenge_page_shows_purchase_and_code_form() {
    let harness = SimulatorHarness::start();
    let (ares, page) = harness.start_challenge("visa", CARD);
    assert_eq!((page.status, page.cache_control.as_str()), (200, "no-store"));
    for text in
        ["Little Shop", "1,234.56 USD", "\u{2022}\u{2022}\u{2022}\u{2022} 0004", "1234", "Visa"]
    {
        assert!(page.text.contains(text), "{text}");
    }
    for part in [
        "<label for=\"code\">",
        "id=\"code\" name=\"code\"",
        "value=\"submit\"",
        "value=\"resend\" formnovalidate",
        "value=\"cancel\" formnovalidate",
        "lang=\"en\"",
    ] {
        assert!(page.text.contains(part), "{part}");
    }
    assert!(!page.text.contains(CARD) && !page.text.contains("<script"));
    let id = ares["acsTransID"].as_str().unwrap();
    let action = format!("action=\"{}/sim/acs/challenge/{id}\"", harness.simulator.base_url());
    assert!(page.text.contains(&action));
    assert!(page.policy.starts_with("default-src 'none';"), "{}", page.policy);
    assert!(!page.policy.contains("frame-ancestors") && !page.policy.contains("unsafe"));
}

#[test]
fn return_page_submits_itself_and_has_a_noscript_button() {
    let harness = SimulatorHarness::start();
    let (ares, _) = harness.start_challenge("visa", CARD);
    let last = harness.press_button(&ares, &[("action", "submit"), ("code", " 1234 ")]);
    assert!(last.text.contains(&format!("action=\"{}/notification\"", harness.server_url)));
    assert!(last.policy.contains(&format!("form-action 'self' {};", harness.server_url)));
    assert!(last.text.contains("<noscript><button"));
    let nonce = last.policy.split("script-src 'nonce-").nth(1).unwrap().split('\'').next().unwrap();
    let script = format!("<script nonce=\"{nonce}\">document.forms[0].submit()</script>");
    assert!(last.text.contains(&script));
    assert_eq!(last.text.matches("<script").count(), 1);
    assert_eq!(harness.next_result()["transStatus"], "Y");
}

#[test]
fn wrong_code_can_be_retried() {
    let harness = SimulatorHarness::start();
    let (ares, _) = harness.start_challenge("visa", CARD);
    for code in ["4321", ""] {
        let page = harness.press_button(&ares, &[("action", "submit"), ("code", code)]);
        assert!(page.text.contains("role=\"alert\"") && page.field("cres").is_none());
    }
    let page = harness.press_button(&ares, &[("action", "resend")]);
    assert!(page.text.contains("role=\"status\"") && harness.try_next_result().is_none());
    let last = harness.press_button(&ares, &[("action", "submit"), ("code", "1234")]);
    assert_eq!(last.decode_field("cres")["transStatus"], "Y");
    let result = harness.next_result();
    assert_eq!(
        (&result["transStatus"], &result["interactionCounter"]),
        (&json!("Y"), &json!("03"))
    );
}

#[test]
fn third_wrong_code_fails_the_challenge() {
    let harness = SimulatorHarness::start();
    let (ares, _) = harness.start_challenge("visa", CARD);
    let press = || harness.press_button(&ares, &[("action", "submit"), ("code", "9")]);
    assert!(press().field("cres").is_none() && press().field("cres").is_none());
    assert_eq!(press().decode_field("cres")["transStatus"], "N");
    let result = harness.next_result();
    assert_eq!((&result["transStatus"], &result["transStatusReason"]), (&json!("N"), &json!("19")));
    assert!(result.get("challengeCancel").is_none());
    assert_eq!(result["interactionCounter"], "03");
}

#[test]
fn cardholder_can_cancel_the_challenge() {
    let harness = SimulatorHarness::start();
    for card in [CARD, "4200000000000016"] {
        let (ares, _) = harness.start_challenge("visa", card);
        let last = harness.press_button(&ares, &[("action", "cancel")]);
        assert_eq!(last.decode_field("cres")["transStatus"], "N");
        let result = harness.next_result();
        assert_eq!(
            (&result["transStatus"], &result["challengeCancel"]),
            (&json!("N"), &json!("01"))
        );
        assert_eq!(result["interactionCounter"], "00");
    }
}

#[test]
fn out_of_band_page_ignores_codes_and_continues() {
    let harness = SimulatorHarness::start();
    let (ares, page) = harness.start_challenge("visa", "4200000000000016");
    assert!(page.text.contains("value=\"continue\"") && !page.text.contains("name=\"code\""));
    let page = harness.press_button(&ares, &[("action", "submit"), ("code", "1234")]);
    assert!(page.field("cres").is_none());
    let last = harness.press_button(&ares, &[("action", "continue")]);
    assert_eq!(last.decode_field("cres")["transStatus"], "Y");
}

#[test]
fn repeated_requests_send_only_one_result() {
    let harness = SimulatorHarness::start();
    let (ares, first) = harness.start_challenge("visa", CARD);
    let send_creq_again = || harness.post_form(&acs_path(&ares), &[("creq", &creq(&ares))]);
    assert_eq!(send_creq_again().text.len(), first.text.len());
    harness.press_button(&ares, &[("action", "submit"), ("code", "0")]);
    let last = harness.press_button(&ares, &[("action", "submit"), ("code", "1234")]);
    for page in [send_creq_again(), harness.press_button(&ares, &[("action", "cancel")])] {
        assert_eq!(page.decode_field("cres"), last.decode_field("cres"));
    }
    assert_eq!(harness.next_result()["interactionCounter"], "02");
    assert!(harness.try_next_result().is_none(), "one result");
}

#[test]
fn session_data_is_returned_escaped() {
    let harness = SimulatorHarness::start();
    let ares = harness.send_message("visa", &harness.areq(CARD));
    let fields = [("creq", creq(&ares)), ("threeDSSessionData", "c2hvcA\"><script>".to_owned())];
    let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
    harness.post_form(&acs_path(&ares), &fields);
    let last = harness.press_button(&ares, &[("action", "cancel")]);
    assert_eq!(last.field("threeDSSessionData").unwrap(), "c2hvcA&quot;&gt;&lt;script&gt;");
}

#[test]
fn invalid_creq_returns_an_error_without_ending_the_challenge() {
    let harness = SimulatorHarness::start();
    let ares = harness.send_message("visa", &harness.areq(CARD));
    let right = creq_json(&ares);
    let send =
        |json: &Value| harness.post_form(&acs_path(&ares), &[("creq", &encode_message(json))]);
    for (change, code) in [
        (json!({ "threeDSServerTransID": crate::harness::new_id() }), "301"),
        (json!({ "messageVersion": "2.1.0" }), "203"),
        (json!({ "messageVersion": "9.9.9" }), "102"),
        (json!({ "messageType": "CRes" }), "101"),
        (json!({ "challengeWindowSize": "06" }), "203"),
    ] {
        let erro = send(&merge(right.clone(), &change)).decode_field("erro");
        assert_eq!(
            (&erro["errorCode"], &erro["errorComponent"]),
            (&json!(code), &json!("A")),
            "{change}"
        );
        assert_eq!(erro["threeDSServerTransID"], ares["threeDSServerTransID"]);
    }
    let mut none = right.clone();
    none.as_object_mut().unwrap().remove("challengeWindowSize");
    assert_eq!(send(&none).decode_field("erro")["errorCode"], "201");
    let unknown = merge(right.clone(), &json!({ "acsTransID": crate::harness::new_id() }));
    assert_eq!(send(&unknown).status, 400);
    assert_eq!(harness.post_form(&acs_path(&ares), &[("creq", "%%%")]).status, 400);
    assert_eq!(harness.post_form(&acs_path(&ares), &[]).status, 400);
    // No page is open yet.
    assert_eq!(harness.press_button(&ares, &[("action", "submit"), ("code", "1234")]).status, 400);
    assert!(send(&right).text.contains("name=\"code\"") && harness.try_next_result().is_none());
}

#[test]
fn transaction_ids_are_case_insensitive() {
    let harness = SimulatorHarness::start();
    let ares = harness.send_message("visa", &harness.areq(CARD));
    let upper = |name: &str| json!(ares[name].as_str().unwrap().to_uppercase());
    let ids = json!({ "acsTransID": upper("acsTransID"), "threeDSServerTransID": upper("threeDSServerTransID") });
    let request = encode_message(&merge(creq_json(&ares), &ids));
    let page = harness.post_form(&acs_path(&ares), &[("creq", &request)]);
    assert!(page.text.contains("name=\"code\""));
}

#[test]
fn non_payment_challenge_page_shows_no_amount() {
    let harness = SimulatorHarness::start();
    let mut request = merge(harness.areq(CARD), &json!({ "messageCategory": "02" }));
    for name in ["purchaseAmount", "purchaseCurrency", "merchantName"] {
        request.as_object_mut().unwrap().remove(name);
    }
    request["threeDSRequestorAuthenticationInd"] = json!("04");
    let ares = harness.send_message("visa", &request);
    let page = harness.post_form(&acs_path(&ares), &[("creq", &creq(&ares))]);
    assert!(page.text.contains("Confirm it is you") && !page.text.contains("Amount"));
    assert!(page.text.contains("<dd>name</dd>"));
}
