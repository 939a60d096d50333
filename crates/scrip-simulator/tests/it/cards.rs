//! Every card, with what its authentication and its result must say.

use serde_json::{Value, json};

use crate::stage::{Stage, with};

/// The table as the sandbox has it, written down a second time on purpose.
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
    // Of a known brand, and in no table.
    ("visa", "4999999999999999", "FS"),
    ("visa", "4000000000001", "FS"),
    ("mastercard", "2221000000000009", "FS"),
    ("american-express", "379999999999999", "FS"),
    ("discover", "36185973325993", "FS"),
    ("jcb", "3589999999999999", "FS"),
    ("unionpay", "6212345678901232", "FS"),
    ("unionpay", "6212345678901232123", "FS"),
    // Of another brand.
    ("visa", "5555555555554444", "NO"),
    ("cartes-bancaires", "4242424242424242", "NO"),
    ("unionpay", "9999999999999999", "NO"),
];

/// Status and reason, without a challenge or after one.
fn end(code: &str) -> (&'static str, Option<&'static str>) {
    match code {
        "FS" | "CS" | "CM" | "CX" | "CO" => ("Y", None),
        "A" | "CA" => ("A", None),
        "F" | "CF" | "CFO" => ("N", Some("01")),
        "U" | "CU" => ("U", Some("13")),
        "R" | "CR" => ("R", Some("11")),
        _ => panic!("{code} has no end"),
    }
}

fn assert_end(code: &str, scheme: &str, told: &Value) {
    let (status, reason) = end(code);
    assert_eq!(told["transStatus"], status, "{code} {told}");
    assert_eq!(told.get("transStatusReason").and_then(Value::as_str), reason, "{told}");
    let low = scheme == "mastercard";
    let eci = match status {
        "Y" => ["05", "02"],
        "A" => ["06", "01"],
        _ => ["07", "00"],
    };
    assert_eq!(told["eci"], eci[usize::from(low)]);
    let value = told.get("authenticationValue").and_then(Value::as_str);
    assert_eq!(value.map(str::len), matches!(status, "Y" | "A").then_some(28), "{told}");
}

fn assert_refused(code: &str, told: &Value) {
    let expected = if code == "DE" { "404" } else { "305" };
    assert_eq!(told["messageType"], "Erro", "{told}");
    assert_eq!((&told["errorCode"], &told["errorComponent"]), (&json!(expected), &json!("D")));
    assert_eq!(told["errorMessageType"], "AReq");
}

fn is_refused(code: &str) -> bool {
    matches!(code, "DE" | "SE" | "NO")
}

#[test]
fn a_customer_with_each_card() {
    let stage = Stage::set();
    for (scheme, number, code) in CARDS {
        let request = stage.areq(number);
        let answer = stage.ask(scheme, &request);
        if is_refused(code) {
            assert_refused(code, &answer);
            continue;
        }
        assert_eq!(answer["messageType"], "ARes", "{number} {answer}");
        assert_eq!(answer["threeDSServerTransID"], request["threeDSServerTransID"]);
        assert_eq!(answer["acsReferenceNumber"], "mock-acs-reference-number");
        assert_eq!(answer["dsReferenceNumber"], "mock-directory-server-a");
        if !code.starts_with('C') {
            assert_end(code, scheme, &answer);
            continue;
        }
        let out_of_band = matches!(*code, "CO" | "CFO");
        assert_eq!(answer["transStatus"], "C");
        assert_eq!(answer["acsChallengeMandated"], if *code == "CX" { "Y" } else { "N" });
        assert_eq!(answer["authenticationType"], if out_of_band { "03" } else { "01" });
        assert!(answer.get("eci").is_none() && answer.get("authenticationValue").is_none());
        challenge(&stage, scheme, code, &request, out_of_band);
    }
}

fn challenge(stage: &Stage, scheme: &str, code: &str, request: &Value, out_of_band: bool) {
    let request = with(request.clone(), &json!({ "threeDSServerTransID": crate::stage::new_id() }));
    let answer = stage.ask(scheme, &request);
    let path = crate::stage::acs_path(&answer);
    let page = stage.form(&path, &[("creq", &crate::stage::creq(&answer))]);
    assert_eq!(page.status, 200);
    let fields = [("action", if out_of_band { "continue" } else { "submit" }), ("code", "1234")];
    let last = stage.press(&answer, &fields);
    let result = stage.result_now().expect("the result comes before the browser goes");
    assert_end(code, scheme, &result);
    assert_eq!(result["messageType"], "RReq");
    assert_eq!(result["interactionCounter"], "01");
    assert_eq!(result["messageCategory"], "01");
    for id in ["threeDSServerTransID", "acsTransID", "dsTransID"] {
        assert_eq!(result[id], answer[id], "{id}");
    }
    let told = last.brings("cres");
    let passed = matches!(end(code).0, "Y" | "A");
    assert_eq!(told["transStatus"], if passed { "Y" } else { "N" });
    assert_eq!(told["challengeCompletionInd"], "Y");
    assert_eq!(told["acsTransID"], answer["acsTransID"]);
}

#[test]
fn a_merchant_with_each_card() {
    let stage = Stage::set();
    for (scheme, number, code) in CARDS {
        let answer = stage.ask(scheme, &stage.merchant_areq(number));
        if is_refused(code) {
            assert_refused(code, &answer);
        } else if !code.starts_with('C') {
            assert_end(code, scheme, &answer);
        } else {
            assert_eq!(
                (&answer["transStatus"], &answer["acsDecConInd"]),
                (&json!("D"), &json!("Y"))
            );
            assert_eq!(answer["authenticationType"], "04");
            assert!(answer["cardholderInfo"].is_string() && answer.get("acsURL").is_none());
            let result = stage.result();
            assert_eq!(result["threeDSServerTransID"], answer["threeDSServerTransID"]);
            assert_eq!(result["authenticationType"], "04");
            assert_end(code, scheme, &result);
            let not = stage.merchant_areq(number);
            let not = with(not, &json!({ "threeDSRequestorDecReqInd": "N" }));
            let answer = stage.ask(scheme, &not);
            assert_eq!(answer["transStatus"], "N");
            assert_eq!(answer["transStatusReason"], "23");
        }
    }
}

#[test]
fn what_a_request_may_ask_for() {
    let stage = Stage::set();
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
        let wishes = json!({ "messageVersion": version, "threeDSRequestorChallengeInd": wish });
        let answer = stage.ask("visa", &with(stage.areq(number), &wishes));
        assert_eq!(answer["transStatus"], expected, "{number} {wish}");
        assert_eq!(answer["messageVersion"], version);
    }
    let decoupled =
        json!({ "threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00005" });
    let answer = stage.ask("visa", &with(stage.areq("4200000000000004"), &decoupled));
    assert_eq!(answer["transStatus"], "D");
    let old = json!({ "messageVersion": "2.1.0", "messageCategory": "02", "threeRIInd": "03" });
    let answer = stage.ask("visa", &with(stage.merchant_areq("4200000000000004"), &old));
    assert_eq!((&answer["transStatus"], &answer["transStatusReason"]), (&json!("N"), &json!("01")));
}

#[test]
fn the_same_transaction_has_the_same_value() {
    let stage = Stage::set();
    let request = stage.areq("4242424242424242");
    let value = |request: &Value| stage.ask("visa", request)["authenticationValue"].clone();
    assert_eq!(value(&request), value(&request));
    assert_ne!(value(&request), value(&stage.areq("4242424242424242")));
}
