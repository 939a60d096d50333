//! The authentication and the result of every card.

use serde_json::{Value, json};

use crate::harness::{SimulatorHarness, merge};

/// A second copy of the card table, independent of the code on purpose.
pub(crate) const CARDS: &[(&str, &str, &str)] = &[
    ("mastercard", "5204247750001471", "FS"),
    ("discover", "6011601160116011", "FS"),
    ("american-express", "340000000004001", "FS"),
    ("visa", "4000020000000000", "CS"),
    ("american-express", "370000000000002", "CS"),
    ("jcb", "3566002020360505", "CS"),
    ("jcb", "3566006663297692", "CS"),
    ("visa", "4005562231212123", "CM"),
    ("visa", "4761369980320253", "CX"),
    ("mastercard", "5200000000001104", "CX"),
    ("visa", "4000000000000341", "CO"),
    ("visa", "4005571701111111", "CA"),
    ("visa", "4111111111111111", "A"),
    ("mastercard", "5424180011113336", "A"),
    ("visa", "4264281511112228", "F"),
    ("mastercard", "5424180000000171", "F"),
    ("mastercard", "5405001111111165", "U"),
    ("mastercard", "5405001111111116", "R"),
    ("visa", "4055011111111111", "CF"),
    ("mastercard", "5427660064241339", "CF"),
    ("discover", "6011361011110004", "CFO"),
    ("discover", "6011361000008888", "CU"),
    ("discover", "6011361000001115", "CR"),
    ("visa", "4264281500003339", "DE"),
    ("mastercard", "5424180011110001", "DE"),
    ("visa", "4264281500001119", "SE"),
    ("visa", "4150580996517927", "CS"),
    ("cartes-bancaires", "4150580996517927", "CS"),
    ("visa", "4200000000000002", "FS"),
    ("visa", "4200000000000003", "A"),
    ("visa", "4200000000000004", "CS"),
    ("visa", "4200000000000005", "F"),
    ("visa", "4200000000000006", "U"),
    ("visa", "4200000000000007", "R"),
    ("visa", "4200000000000008", "CA"),
    ("visa", "4200000000000009", "CF"),
    ("visa", "4200000000000010", "CU"),
    ("visa", "4200000000000011", "CR"),
    ("visa", "4200000000000012", "DE"),
    ("visa", "4200000000000013", "SE"),
    ("visa", "4200000000000014", "CM"),
    ("visa", "4200000000000015", "CX"),
    ("visa", "4200000000000016", "CO"),
    ("visa", "4200000000000017", "CFO"),
    ("visa", "4917610000000000", "CS"),
    ("mastercard", "5555555555554444", "FS"),
    ("american-express", "34343434343434", "FS"),
    ("visa", "4242424242424242", "FS"),
    ("mastercard", "5454545454545454", "A"),
    ("visa", "4462030000000000", "F"),
    ("discover", "36148900647913", "U"),
    ("mastercard", "6759649826438453", "R"),
    ("discover", "36700102000000", "CF"),
    ("discover", "6011000400000000", "CU"),
    ("jcb", "3528000700000000", "CA"),
    ("discover", "122000000000003", "DE"),
    ("mastercard", "5019717010103742", "SE"),
    ("visa", "4100000000000003", "NO"),
    // Cards of a known brand that are not in the table.
    ("visa", "4999999999999999", "FS"),
    ("visa", "4000000000001", "FS"),
    ("mastercard", "2221000000000009", "FS"),
    ("american-express", "379999999999999", "FS"),
    ("discover", "36185973325993", "FS"),
    ("jcb", "3589999999999999", "FS"),
    ("unionpay", "6212345678901232", "FS"),
    ("unionpay", "6212345678901232123", "FS"),
    // Cards of another brand.
    ("visa", "5555555555554444", "NO"),
    ("cartes-bancaires", "4242424242424242", "NO"),
    ("unionpay", "9999999999999999", "NO"),
];

/// Status and reason, without a challenge or after one.
fn expected_outcome(code: &str) -> (&'static str, Option<&'static str>) {
    match code {
        "FS" | "CS" | "CM" | "CX" | "CO" => ("Y", None),
        "A" | "CA" => ("A", None),
        "F" | "CF" | "CFO" => ("N", Some("01")),
        "U" | "CU" => ("U", Some("13")),
        "R" | "CR" => ("R", Some("11")),
        _ => panic!("{code} has no outcome"),
    }
}

fn assert_outcome(code: &str, scheme: &str, message: &Value) {
    let (status, reason) = expected_outcome(code);
    assert_eq!(message["transStatus"], status, "scenario {code}: {message}");
    assert_eq!(message.get("transStatusReason").and_then(Value::as_str), reason, "{message}");
    let is_mastercard = scheme == "mastercard";
    let eci = match status {
        "Y" => ["05", "02"],
        "A" => ["06", "01"],
        _ => ["07", "00"],
    };
    assert_eq!(message["eci"], eci[usize::from(is_mastercard)]);
    let value = message.get("authenticationValue").and_then(Value::as_str);
    assert_eq!(value.map(str::len), matches!(status, "Y" | "A").then_some(28), "{message}");
}

fn assert_rejected(code: &str, erro: &Value) {
    let expected = if code == "DE" { "404" } else { "305" };
    assert_eq!(erro["messageType"], "Erro", "{erro}");
    assert_eq!((&erro["errorCode"], &erro["errorComponent"]), (&json!(expected), &json!("D")));
    assert_eq!(erro["errorMessageType"], "AReq");
}

fn is_rejected(code: &str) -> bool {
    matches!(code, "DE" | "SE" | "NO")
}

#[test]
fn browser_authentication_follows_each_cards_scenario() {
    let harness = SimulatorHarness::start();
    for (scheme, number, code) in CARDS {
        let request = harness.areq(number);
        let response = harness.send_message(scheme, &request);
        if is_rejected(code) {
            assert_rejected(code, &response);
            continue;
        }
        assert_eq!(response["messageType"], "ARes", "card {number}: {response}");
        assert_eq!(response["threeDSServerTransID"], request["threeDSServerTransID"]);
        assert_eq!(response["acsReferenceNumber"], "mock-acs-reference-number");
        assert_eq!(response["dsReferenceNumber"], "mock-directory-server-a");
        if !code.starts_with('C') {
            assert_outcome(code, scheme, &response);
            continue;
        }
        let out_of_band = matches!(*code, "CO" | "CFO");
        assert_eq!(response["transStatus"], "C");
        assert_eq!(response["acsChallengeMandated"], if *code == "CX" { "Y" } else { "N" });
        assert_eq!(response["authenticationType"], if out_of_band { "03" } else { "01" });
        assert!(response.get("eci").is_none() && response.get("authenticationValue").is_none());
        complete_challenge(&harness, scheme, code, &request, out_of_band);
    }
}

fn complete_challenge(
    harness: &SimulatorHarness,
    scheme: &str,
    code: &str,
    request: &Value,
    out_of_band: bool,
) {
    let request =
        merge(request.clone(), &json!({ "threeDSServerTransID": crate::harness::new_id() }));
    let ares = harness.send_message(scheme, &request);
    let path = crate::harness::acs_path(&ares);
    let page = harness.post_form(&path, &[("creq", &crate::harness::creq(&ares))]);
    assert_eq!(page.status, 200);
    let fields = [("action", if out_of_band { "continue" } else { "submit" }), ("code", "1234")];
    let last = harness.press_button(&ares, &fields);
    let result = harness.try_next_result().expect("the result arrives before the browser returns");
    assert_outcome(code, scheme, &result);
    assert_eq!(result["messageType"], "RReq");
    assert_eq!(result["interactionCounter"], "01");
    assert_eq!(result["messageCategory"], "01");
    for id in ["threeDSServerTransID", "acsTransID", "dsTransID"] {
        assert_eq!(result[id], ares[id], "{id}");
    }
    let cres = last.decode_field("cres");
    let passed = matches!(expected_outcome(code).0, "Y" | "A");
    assert_eq!(cres["transStatus"], if passed { "Y" } else { "N" });
    assert_eq!(cres["challengeCompletionInd"], "Y");
    assert_eq!(cres["acsTransID"], ares["acsTransID"]);
}

#[test]
fn requestor_initiated_authentication_follows_each_cards_scenario() {
    let harness = SimulatorHarness::start();
    for (scheme, number, code) in CARDS {
        let response = harness.send_message(scheme, &harness.merchant_areq(number));
        if is_rejected(code) {
            assert_rejected(code, &response);
        } else if !code.starts_with('C') {
            assert_outcome(code, scheme, &response);
        } else {
            assert_eq!(
                (&response["transStatus"], &response["acsDecConInd"]),
                (&json!("D"), &json!("Y"))
            );
            assert_eq!(response["authenticationType"], "04");
            assert!(response["cardholderInfo"].is_string() && response.get("acsURL").is_none());
            let result = harness.next_result();
            assert_eq!(result["threeDSServerTransID"], response["threeDSServerTransID"]);
            assert_eq!(result["authenticationType"], "04");
            assert_outcome(code, scheme, &result);
            let without_decoupled = harness.merchant_areq(number);
            let without_decoupled =
                merge(without_decoupled, &json!({ "threeDSRequestorDecReqInd": "N" }));
            let ares = harness.send_message(scheme, &without_decoupled);
            assert_eq!(ares["transStatus"], "N");
            assert_eq!(ares["transStatusReason"], "23");
        }
    }
}

#[test]
fn challenge_preference_and_decoupled_request_change_the_status() {
    let harness = SimulatorHarness::start();
    for (number, version, wish, expected) in [
        ("4242424242424242", "2.2.0", "06", "I"),
        ("4242424242424242", "2.2.0", "05", "I"),
        ("4242424242424242", "2.2.0", "07", "I"),
        ("4242424242424242", "2.2.0", "02", "Y"),
        ("4242424242424242", "2.2.0", "04", "Y"),
        ("4200000000000004", "2.2.0", "06", "I"),
        ("4200000000000004", "2.2.0", "05", "C"),
        ("4200000000000004", "2.1.0", "02", "C"),
        ("4200000000000005", "2.2.0", "06", "N"),
    ] {
        let changes = json!({ "messageVersion": version, "threeDSRequestorChallengeInd": wish });
        let ares = harness.send_message("visa", &merge(harness.areq(number), &changes));
        assert_eq!(ares["transStatus"], expected, "card {number} with preference {wish}");
        assert_eq!(ares["messageVersion"], version);
    }
    let decoupled =
        json!({ "threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00005" });
    let ares = harness.send_message("visa", &merge(harness.areq("4200000000000004"), &decoupled));
    assert_eq!(ares["transStatus"], "D");
    let old = json!({ "messageVersion": "2.1.0", "messageCategory": "02", "threeRIInd": "03" });
    let ares =
        harness.send_message("visa", &merge(harness.merchant_areq("4200000000000004"), &old));
    assert_eq!((&ares["transStatus"], &ares["transStatusReason"]), (&json!("N"), &json!("01")));
}

#[test]
fn authentication_value_is_deterministic_per_transaction() {
    let harness = SimulatorHarness::start();
    let request = harness.areq("4242424242424242");
    let value =
        |request: &Value| harness.send_message("visa", request)["authenticationValue"].clone();
    assert_eq!(value(&request), value(&request));
    assert_ne!(value(&request), value(&harness.areq("4242424242424242")));
}
