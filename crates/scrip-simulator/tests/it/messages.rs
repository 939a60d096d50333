//! Invalid messages and unknown paths.

use serde_json::{Value, json};

use crate::harness::{JSON, SimulatorHarness, merge};

fn expect_error(harness: &SimulatorHarness, body: &[u8]) -> Value {
    let response = harness.post("/sim/ds/visa", JSON, body);
    assert_eq!(response.status, 200);
    let erro: Value = serde_json::from_str(&response.text).unwrap();
    assert_eq!(erro["messageType"], "Erro", "{erro}");
    assert_eq!(erro["errorComponent"], "D");
    erro
}

#[test]
fn unreadable_messages_return_erro_101_or_204() {
    let harness = SimulatorHarness::start();
    for body in ["", "{", "[]", "null", "{}", "{\"messageType\":\"XReq\"}", "\u{0}"] {
        assert_eq!(expect_error(&harness, body.as_bytes())["errorCode"], "101", "{body}");
    }
    assert_eq!(expect_error(&harness, &[0xff, 0xfe])["errorCode"], "101");
    let too_long = format!("{{\"messageType\":\"AReq\",\"x\":\"{}\"}}", "x".repeat(300_000));
    assert_eq!(expect_error(&harness, too_long.as_bytes())["errorCode"], "101");
    let duplicate_element = "{\"messageType\":\"AReq\",\"mcc\":\"1\",\"mcc\":\"1\"}";
    assert_eq!(expect_error(&harness, duplicate_element.as_bytes())["errorCode"], "204");
}

#[test]
fn invalid_areq_error_names_code_and_element() {
    let harness = SimulatorHarness::start();
    let valid_areq = harness.areq("4242424242424242");
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
        let erro =
            expect_error(&harness, merge(valid_areq.clone(), &change).to_string().as_bytes());
        assert_eq!(
            (erro["errorCode"].as_str(), erro["errorDetail"].as_str()),
            (Some(code), Some(detail)),
            "{change}"
        );
        assert_eq!(erro["threeDSServerTransID"], valid_areq["threeDSServerTransID"]);
    }
    for name in ["threeDSServerURL", "merchantName", "browserUserAgent", "threeDSCompInd"] {
        let mut less = valid_areq.clone();
        less.as_object_mut().unwrap().remove(name);
        let erro = expect_error(&harness, less.to_string().as_bytes());
        assert_eq!((&erro["errorCode"], &erro["errorDetail"]), (&json!("201"), &json!(name)));
    }
}

/// Only the issuer sends results, through its directory server.
#[test]
fn directory_rejects_other_message_types() {
    let harness = SimulatorHarness::start();
    for message_type in ["PRes", "ARes", "CReq", "CRes", "RReq", "RRes", "Erro"] {
        let erro =
            expect_error(&harness, json!({ "messageType": message_type }).to_string().as_bytes());
        assert_eq!(erro["errorCode"], "101", "{message_type}");
    }
    assert!(harness.try_next_result().is_none());
}

#[test]
fn unknown_paths_return_404() {
    let harness = SimulatorHarness::start();
    for path in ["/", "/sim", "/sim/ds/maestro", "/sim/acs/maestro/method", "/sim/ds/visa/x"] {
        assert_eq!(harness.post(path, JSON, b"{}").status, 404, "{path}");
    }
}
