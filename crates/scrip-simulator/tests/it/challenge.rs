//! A challenge in a browser, from its first page to the last.

use serde_json::{Value, json};

use crate::stage::{Stage, acs_path, creq, creq_json, creq_of, with};

const CARD: &str = "4200000000000004";

#[test]
fn a_person_sees_what_is_asked() {
    let stage = Stage::set();
    let (answer, page) = stage.challenged("visa", CARD);
    assert_eq!((page.status, page.caching.as_str()), (200, "no-store"));
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
    let id = answer["acsTransID"].as_str().unwrap();
    let action = format!("action=\"{}/sim/acs/challenge/{id}\"", stage.simulator.base_url());
    assert!(page.text.contains(&action));
    assert!(page.policy.starts_with("default-src 'none';"), "{}", page.policy);
    assert!(!page.policy.contains("frame-ancestors") && !page.policy.contains("unsafe"));
}

#[test]
fn the_last_page_sends_itself_and_has_a_button() {
    let stage = Stage::set();
    let (answer, _) = stage.challenged("visa", CARD);
    let last = stage.press(&answer, &[("action", "submit"), ("code", " 1234 ")]);
    assert!(last.text.contains(&format!("action=\"{}/notification\"", stage.server)));
    assert!(last.policy.contains(&format!("form-action 'self' {};", stage.server)));
    assert!(last.text.contains("<noscript><button"));
    let nonce = last.policy.split("script-src 'nonce-").nth(1).unwrap().split('\'').next().unwrap();
    let script = format!("<script nonce=\"{nonce}\">document.forms[0].submit()</script>");
    assert!(last.text.contains(&script));
    assert_eq!(last.text.matches("<script").count(), 1);
    assert_eq!(stage.result()["transStatus"], "Y");
}

#[test]
fn a_wrong_code_may_be_typed_again() {
    let stage = Stage::set();
    let (answer, _) = stage.challenged("visa", CARD);
    for code in ["4321", ""] {
        let page = stage.press(&answer, &[("action", "submit"), ("code", code)]);
        assert!(page.text.contains("role=\"alert\"") && page.field("cres").is_none());
    }
    let page = stage.press(&answer, &[("action", "resend")]);
    assert!(page.text.contains("role=\"status\"") && stage.result_now().is_none());
    let last = stage.press(&answer, &[("action", "submit"), ("code", "1234")]);
    assert_eq!(last.brings("cres")["transStatus"], "Y");
    let result = stage.result();
    assert_eq!(
        (&result["transStatus"], &result["interactionCounter"]),
        (&json!("Y"), &json!("03"))
    );
}

#[test]
fn three_wrong_codes_are_the_end() {
    let stage = Stage::set();
    let (answer, _) = stage.challenged("visa", CARD);
    let press = || stage.press(&answer, &[("action", "submit"), ("code", "9")]);
    assert!(press().field("cres").is_none() && press().field("cres").is_none());
    assert_eq!(press().brings("cres")["transStatus"], "N");
    let result = stage.result();
    assert_eq!((&result["transStatus"], &result["transStatusReason"]), (&json!("N"), &json!("19")));
    assert!(result.get("challengeCancel").is_none());
    assert_eq!(result["interactionCounter"], "03");
}

#[test]
fn who_does_not_want_to_can_leave() {
    let stage = Stage::set();
    for card in [CARD, "4200000000000016"] {
        let (answer, _) = stage.challenged("visa", card);
        let last = stage.press(&answer, &[("action", "cancel")]);
        assert_eq!(last.brings("cres")["transStatus"], "N");
        let result = stage.result();
        assert_eq!(
            (&result["transStatus"], &result["challengeCancel"]),
            (&json!("N"), &json!("01"))
        );
        assert_eq!(result["interactionCounter"], "00");
    }
}

#[test]
fn out_of_band_has_no_code() {
    let stage = Stage::set();
    let (answer, page) = stage.challenged("visa", "4200000000000016");
    assert!(page.text.contains("value=\"continue\"") && !page.text.contains("name=\"code\""));
    let still = stage.press(&answer, &[("action", "submit"), ("code", "1234")]);
    assert!(still.field("cres").is_none());
    let last = stage.press(&answer, &[("action", "continue")]);
    assert_eq!(last.brings("cres")["transStatus"], "Y");
}

#[test]
fn what_is_sent_again_changes_nothing() {
    let stage = Stage::set();
    let (answer, first) = stage.challenged("visa", CARD);
    let again = || stage.form(&acs_path(&answer), &[("creq", &creq(&answer))]);
    assert_eq!(again().text.len(), first.text.len());
    stage.press(&answer, &[("action", "submit"), ("code", "0")]);
    let last = stage.press(&answer, &[("action", "submit"), ("code", "1234")]);
    for page in [again(), stage.press(&answer, &[("action", "cancel")])] {
        assert_eq!(page.brings("cres"), last.brings("cres"));
    }
    assert_eq!(stage.result()["interactionCounter"], "02");
    assert!(stage.result_now().is_none(), "one result");
}

#[test]
fn session_data_goes_there_and_back() {
    let stage = Stage::set();
    let answer = stage.ask("visa", &stage.areq(CARD));
    let fields = [("creq", creq(&answer)), ("threeDSSessionData", "c2hvcA\"><script>".to_owned())];
    let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
    stage.form(&acs_path(&answer), &fields);
    let last = stage.press(&answer, &[("action", "cancel")]);
    assert_eq!(last.field("threeDSSessionData").unwrap(), "c2hvcA&quot;&gt;&lt;script&gt;");
}

#[test]
fn a_creq_that_is_wrong_ends_nothing() {
    let stage = Stage::set();
    let answer = stage.ask("visa", &stage.areq(CARD));
    let right = creq_json(&answer);
    let send = |json: &Value| stage.form(&acs_path(&answer), &[("creq", &creq_of(json))]);
    for (change, code) in [
        (json!({ "threeDSServerTransID": crate::stage::new_id() }), "301"),
        (json!({ "messageVersion": "2.1.0" }), "203"),
        (json!({ "messageVersion": "9.9.9" }), "102"),
        (json!({ "messageType": "CRes" }), "101"),
        (json!({ "challengeWindowSize": "06" }), "203"),
    ] {
        let told = send(&with(right.clone(), &change)).brings("erro");
        assert_eq!(
            (&told["errorCode"], &told["errorComponent"]),
            (&json!(code), &json!("A")),
            "{change}"
        );
        assert_eq!(told["threeDSServerTransID"], answer["threeDSServerTransID"]);
    }
    let mut none = right.clone();
    none.as_object_mut().unwrap().remove("challengeWindowSize");
    assert_eq!(send(&none).brings("erro")["errorCode"], "201");
    let unknown = with(right.clone(), &json!({ "acsTransID": crate::stage::new_id() }));
    assert_eq!(send(&unknown).status, 400);
    assert_eq!(stage.form(&acs_path(&answer), &[("creq", "%%%")]).status, 400);
    assert_eq!(stage.form(&acs_path(&answer), &[]).status, 400);
    // Nobody has been shown a page yet.
    assert_eq!(stage.press(&answer, &[("action", "submit"), ("code", "1234")]).status, 400);
    assert!(send(&right).text.contains("name=\"code\"") && stage.result_now().is_none());
}

#[test]
fn ids_may_come_in_another_case() {
    let stage = Stage::set();
    let answer = stage.ask("visa", &stage.areq(CARD));
    let upper = |name: &str| json!(answer[name].as_str().unwrap().to_uppercase());
    let ids = json!({ "acsTransID": upper("acsTransID"), "threeDSServerTransID": upper("threeDSServerTransID") });
    let request = creq_of(&with(creq_json(&answer), &ids));
    let page = stage.form(&acs_path(&answer), &[("creq", &request)]);
    assert!(page.text.contains("name=\"code\""));
}

#[test]
fn without_a_payment_there_is_no_amount() {
    let stage = Stage::set();
    let mut request = with(stage.areq(CARD), &json!({ "messageCategory": "02" }));
    for name in ["purchaseAmount", "purchaseCurrency", "merchantName"] {
        request.as_object_mut().unwrap().remove(name);
    }
    request["threeDSRequestorAuthenticationInd"] = json!("04");
    let answer = stage.ask("visa", &request);
    let page = stage.form(&acs_path(&answer), &[("creq", &creq(&answer))]);
    assert!(page.text.contains("Confirm it is you") && !page.text.contains("Amount"));
    assert!(page.text.contains("<dd>name</dd>"));
}
