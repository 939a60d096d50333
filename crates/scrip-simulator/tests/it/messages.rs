//! Messages that are wrong, and addresses that are not there.

use serde_json::{Value, json};

use crate::stage::{JSON, Stage, with};

fn refusal(stage: &Stage, body: &[u8]) -> Value {
    let answer = stage.post("/sim/ds/visa", JSON, body);
    assert_eq!(answer.status, 200);
    let told: Value = serde_json::from_str(&answer.text).unwrap();
    assert_eq!(told["messageType"], "Erro", "{told}");
    assert_eq!(told["errorComponent"], "D");
    told
}

#[test]
fn what_is_no_message() {
    let stage = Stage::set();
    for body in ["", "{", "[]", "null", "{}", "{\"messageType\":\"XReq\"}", "\u{0}"] {
        assert_eq!(refusal(&stage, body.as_bytes())["errorCode"], "101", "{body}");
    }
    assert_eq!(refusal(&stage, &[0xff, 0xfe])["errorCode"], "101");
    let long = format!("{{\"messageType\":\"AReq\",\"x\":\"{}\"}}", "x".repeat(300_000));
    assert_eq!(refusal(&stage, long.as_bytes())["errorCode"], "101");
    let twice = "{\"messageType\":\"AReq\",\"mcc\":\"1\",\"mcc\":\"1\"}";
    assert_eq!(refusal(&stage, twice.as_bytes())["errorCode"], "204");
}

#[test]
fn what_is_wrong_with_a_request_is_named() {
    let stage = Stage::set();
    let right = stage.areq("4242424242424242");
    for (change, code, detail) in [
        (json!({ "messageVersion": "2.3.1" }), "102", "messageVersion"),
        (json!({ "acctNumber": "42" }), "203", "acctNumber"),
        (json!({ "notificationURL": "https://a;script-src/x" }), "203", "notificationURL"),
        (json!({ "notificationURL": "javascript:alert(1)" }), "203", "notificationURL"),
        (json!({ "purchaseCurrency": "999" }), "304", "purchaseCurrency"),
        (
            json!({ "messageExtension": [{ "id": "a", "name": "a", "criticalityIndicator": true,
            "data": {} }] }),
            "202",
            "messageExtension",
        ),
    ] {
        let told = refusal(&stage, with(right.clone(), &change).to_string().as_bytes());
        assert_eq!(
            (told["errorCode"].as_str(), told["errorDetail"].as_str()),
            (Some(code), Some(detail)),
            "{change}"
        );
        assert_eq!(told["threeDSServerTransID"], right["threeDSServerTransID"]);
    }
    for name in ["threeDSServerURL", "merchantName", "browserUserAgent", "threeDSCompInd"] {
        let mut less = right.clone();
        less.as_object_mut().unwrap().remove(name);
        let told = refusal(&stage, less.to_string().as_bytes());
        assert_eq!((&told["errorCode"], &told["errorDetail"]), (&json!("201"), &json!(name)));
    }
}

/// A result comes from the bank, through its directory; nobody else brings one.
#[test]
fn messages_that_are_not_for_a_directory() {
    let stage = Stage::set();
    for kind in ["PRes", "ARes", "CReq", "CRes", "RReq", "RRes", "Erro"] {
        let told = refusal(&stage, json!({ "messageType": kind }).to_string().as_bytes());
        assert_eq!(told["errorCode"], "101", "{kind}");
    }
    assert!(stage.result_now().is_none());
}

#[test]
fn addresses() {
    let stage = Stage::set();
    for path in ["/", "/sim", "/sim/ds/maestro", "/sim/acs/maestro/method", "/sim/ds/visa/x"] {
        assert_eq!(stage.post(path, JSON, b"{}").status, 404, "{path}");
    }
}
