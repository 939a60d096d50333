//! Every simulated behavior.

use std::time::Duration;

use scrip_simulator::behavior::{ResponseBehavior, SimulatedBehavior};
use serde_json::{Value, json};

use crate::harness::{JSON, SimulatorHarness, new_id, settings_with_long_timers};

const CARD: &str = "4200000000000004";

fn preq() -> Value {
    json!({
        "messageType": "PReq", "messageVersion": "2.2.0", "threeDSServerTransID": new_id(),
        "threeDSServerRefNumber": "ref",
    })
}

/// Checks the behavior for both messages of a directory server.
fn check_both_requests(
    harness: &SimulatorHarness,
    behavior: &Value,
    check: impl Fn(&Value, &crate::harness::PageResponse),
) {
    for (name, message) in [("preq", preq()), ("areq", harness.areq("4242424242424242"))] {
        let (status, body) = harness.put_behavior("/sim/behavior", &json!({ name: behavior }));
        assert_eq!(status, 200, "{body}");
        assert_eq!(&harness.get_behavior("/sim/behavior")[name], behavior);
        let response = harness.post("/sim/ds/visa", JSON, message.to_string().as_bytes());
        check(&message, &response);
        harness.reset_behavior("/sim/behavior");
        let expected = if name == "preq" { "PRes" } else { "ARes" };
        assert_eq!(harness.send_message("visa", &message)["messageType"], expected);
    }
}

#[test]
fn malformed_behavior_truncates_the_response() {
    check_both_requests(&SimulatorHarness::start(), &json!("malformed"), |_, response| {
        assert_eq!(response.status, 200);
        assert!(
            !response.text.is_empty() && serde_json::from_str::<Value>(&response.text).is_err()
        );
    });
}

#[test]
fn wrong_trans_id_behavior_changes_the_transaction_id() {
    check_both_requests(
        &SimulatorHarness::start(),
        &json!("wrong_trans_id"),
        |message, response| {
            let response_message: Value = serde_json::from_str(&response.text).unwrap();
            assert!(
                response_message["threeDSServerTransID"].is_string()
                    && response_message["dsTransID"].is_string()
            );
            assert_ne!(response_message["threeDSServerTransID"], message["threeDSServerTransID"]);
        },
    );
}

#[test]
fn http_500_behavior_returns_an_empty_500() {
    check_both_requests(&SimulatorHarness::start(), &json!("http_500"), |_, response| {
        assert_eq!((response.status, response.text.as_str()), (500, ""));
    });
}

#[test]
fn erro_behavior_returns_the_chosen_error_code() {
    check_both_requests(
        &SimulatorHarness::start(),
        &json!({ "erro": "303" }),
        |message, response| {
            let erro: Value = serde_json::from_str(&response.text).unwrap();
            assert_eq!((&erro["messageType"], &erro["errorCode"]), (&json!("Erro"), &json!("303")));
            assert_eq!(erro["errorMessageType"], message["messageType"]);
        },
    );
}

#[test]
fn delay_behavior_delays_a_normal_response() {
    check_both_requests(
        &SimulatorHarness::start(),
        &json!({ "delay_ms": 300 }),
        |message, response| {
            let response_message: Value = serde_json::from_str(&response.text).unwrap();
            assert_eq!(response_message["threeDSServerTransID"], message["threeDSServerTransID"]);
        },
    );
    let harness = SimulatorHarness::start();
    harness.put_behavior("/sim/behavior", &json!({ "areq": { "delay_ms": 300 } }));
    let started = tokio::time::Instant::now();
    harness.send_message("visa", &harness.areq("4242424242424242"));
    assert!(started.elapsed() >= Duration::from_millis(300));
}

#[test]
fn silence_behavior_lasts_for_the_configured_time() {
    let mut settings = settings_with_long_timers();
    settings.timers.silence = Duration::from_millis(300);
    let harness = SimulatorHarness::with_settings(settings);
    let started = tokio::time::Instant::now();
    check_both_requests(&harness, &json!("silence"), |_, response| {
        assert_eq!((response.status, response.text.as_str()), (504, ""));
    });
    assert!(started.elapsed() >= Duration::from_millis(600));
}

/// The issuer processes the request although its response is lost: the outcome is then unknown to
/// the 3DS server.
#[test]
fn silent_areq_is_still_processed() {
    let mut settings = settings_with_long_timers();
    settings.timers.silence = Duration::ZERO;
    settings.timers.first_creq = Duration::from_millis(10);
    let harness = SimulatorHarness::with_settings(settings);
    harness.put_behavior("/sim/behavior", &json!({ "areq": "silence" }));
    let request = harness.areq(CARD);
    harness.post("/sim/ds/visa", JSON, request.to_string().as_bytes());
    let result = harness.next_result();
    assert_eq!(result["threeDSServerTransID"], request["threeDSServerTransID"]);
    assert_eq!(result["challengeCancel"], "05");
}

fn complete_challenge(harness: &SimulatorHarness) -> (Value, crate::harness::PageResponse) {
    let (ares, _) = harness.start_challenge("visa", CARD);
    let last = harness.press_button(&ares, &[("action", "submit"), ("code", "1234")]);
    (ares, last)
}

#[test]
fn twice_behavior_sends_the_result_twice() {
    let harness = SimulatorHarness::start();
    harness.put_behavior("/sim/behavior", &json!({ "rreq": "twice" }));
    complete_challenge(&harness);
    let first = harness.next_result();
    assert_eq!(first["transStatus"], "Y");
    assert_eq!(harness.next_result(), first);
}

#[test]
fn late_behavior_sends_the_result_after_the_browser_returns() {
    let mut settings = settings_with_long_timers();
    settings.timers.late_result = Duration::from_secs(1800);
    let harness = SimulatorHarness::with_settings(settings);
    harness.put_behavior("/sim/behavior", &json!({ "rreq": "late" }));
    assert_eq!(complete_challenge(&harness).1.decode_field("cres")["transStatus"], "Y");
    assert!(harness.try_next_result().is_none());

    let mut settings = settings_with_long_timers();
    settings.timers.late_result = Duration::from_millis(10);
    let harness = SimulatorHarness::with_settings(settings);
    harness.put_behavior("/sim/behavior", &json!({ "rreq": "late" }));
    complete_challenge(&harness);
    assert_eq!(harness.next_result()["transStatus"], "Y");
}

#[test]
fn never_behavior_sends_no_result() {
    let harness = SimulatorHarness::start();
    harness.put_behavior("/sim/behavior", &json!({ "rreq": "never" }));
    assert_eq!(complete_challenge(&harness).1.decode_field("cres")["transStatus"], "Y");
    harness.reset_behavior("/sim/behavior");
    let (ares, _) = complete_challenge(&harness);
    assert_eq!(harness.next_result()["acsTransID"], ares["acsTransID"], "the first was never sent");
}

#[test]
fn result_behaviors_send_wrong_ids_malformed_or_delayed_results() {
    let harness = SimulatorHarness::start();
    for (behavior, name) in
        [("wrong_trans_id", "threeDSServerTransID"), ("wrong_acs_trans_id", "acsTransID")]
    {
        harness.put_behavior("/sim/behavior", &json!({ "rreq": behavior }));
        let (ares, last) = complete_challenge(&harness);
        let result = harness.next_result();
        assert_ne!(result[name], ares[name]);
        assert_eq!(result["dsTransID"], ares["dsTransID"]);
        assert_eq!(last.decode_field("cres")["transStatus"], "Y");
    }
    harness.put_behavior("/sim/behavior", &json!({ "rreq": "malformed" }));
    complete_challenge(&harness);
    assert_eq!(harness.next_result(), Value::Null);
    harness.put_behavior("/sim/behavior", &json!({ "rreq": { "delay_ms": 10 } }));
    complete_challenge(&harness);
    assert_eq!(harness.next_result()["transStatus"], "Y");
}

#[test]
fn cres_behaviors_change_what_the_browser_returns() {
    let harness = SimulatorHarness::start();
    harness.put_behavior("/sim/behavior", &json!({ "cres": "wrong_trans_id" }));
    let (ares, last) = complete_challenge(&harness);
    assert_ne!(last.decode_field("cres")["threeDSServerTransID"], ares["threeDSServerTransID"]);
    harness.put_behavior("/sim/behavior", &json!({ "cres": "malformed" }));
    let field = complete_challenge(&harness).1.field("cres").unwrap();
    let half = scrip_threeds::encoding::decode(&field).unwrap();
    assert!(serde_json::from_slice::<Value>(&half).is_err());
    harness.put_behavior("/sim/behavior", &json!({ "cres": "erro" }));
    let (ares, last) = complete_challenge(&harness);
    assert!(last.field("cres").is_none());
    assert_eq!(last.decode_field("erro")["threeDSServerTransID"], ares["threeDSServerTransID"]);
    for _ in 0..3 {
        assert_eq!(harness.next_result()["transStatus"], "Y");
    }
}

#[test]
fn simulator_behavior_of_a_scheme_overrides_the_common_behavior() {
    let harness = SimulatorHarness::start();
    harness.put_behavior("/sim/behavior", &json!({ "areq": { "erro": "403" } }));
    harness.put_behavior("/sim/behavior/visa", &json!({ "preq": { "erro": "101" } }));
    assert_eq!(harness.send_message("visa", &harness.areq("4242424242424242"))["transStatus"], "Y");
    assert_eq!(harness.send_message("visa", &preq())["errorCode"], "101");
    let mastercard_areq = harness.areq("5555555555554444");
    assert_eq!(harness.send_message("mastercard", &mastercard_areq)["errorCode"], "403");
    assert_eq!(harness.get_behavior("/sim/behavior/mastercard")["areq"], json!({ "erro": "403" }));
    harness.reset_behavior("/sim/behavior/visa");
    assert_eq!(harness.send_message("visa", &harness.areq("4242424242424242"))["errorCode"], "403");
    harness.put_behavior("/sim/behavior/visa", &json!({ "areq": { "erro": "402" } }));
    harness.reset_behavior("/sim/behavior");
    assert_eq!(harness.send_message("visa", &harness.areq("4242424242424242"))["transStatus"], "Y");
    assert_eq!(harness.send_message("mastercard", &mastercard_areq)["transStatus"], "Y");
}

#[test]
fn invalid_behavior_is_rejected_and_changes_nothing() {
    let harness = SimulatorHarness::start();
    let behavior_before = harness.get_behavior("/sim/behavior");
    for behavior in [
        json!({ "areq": "loud" }),
        json!({ "arek": "silence" }),
        json!({ "areq": { "delay_ms": -1 } }),
        json!({ "areq": { "erro": "999" } }),
        json!([1]),
    ] {
        assert_eq!(harness.put_behavior("/sim/behavior", &behavior).0, 400, "{behavior}");
    }
    assert_eq!(harness.put_behavior("/sim/behavior/maestro", &json!({})).0, 404);
    assert_eq!(harness.get_behavior("/sim/behavior"), behavior_before);
}

#[test]
fn reset_restores_the_behavior_from_settings() {
    let mut settings = settings_with_long_timers();
    settings.behavior =
        SimulatedBehavior { areq: ResponseBehavior::Http500, ..SimulatedBehavior::default() };
    let harness = SimulatorHarness::with_settings(settings);
    let status = || {
        let request = harness.areq("4242424242424242").to_string();
        harness.post("/sim/ds/visa", JSON, request.as_bytes()).status
    };
    assert_eq!(status(), 500);
    harness.put_behavior("/sim/behavior", &json!({}));
    assert_eq!(status(), 200);
    harness.reset_behavior("/sim/behavior");
    assert_eq!(status(), 500);
    harness.simulator.set_behavior(SimulatedBehavior::default());
    assert_eq!(status(), 200);
}
