//! Decoupled authentication.

use std::time::Duration;

use serde_json::json;

use crate::harness::{SimulatorHarness, creq, merge, settings_with_long_timers};

const CARD: &str = "4200000000000004";

#[test]
fn decoupled_timeout_behavior_reports_a_timeout() {
    let mut settings = settings_with_long_timers();
    settings.timers.decoupled_minute = Duration::from_millis(10);
    let harness = SimulatorHarness::with_settings(settings);
    harness.put_behavior("/sim/behavior", &json!({ "decoupled": "timeout" }));
    let ares = harness.send_message("visa", &harness.merchant_areq(CARD));
    let result = harness.next_result();
    assert_eq!(result["acsTransID"], ares["acsTransID"]);
    assert_eq!((&result["transStatus"], &result["transStatusReason"]), (&json!("N"), &json!("24")));
    assert_eq!(
        (&result["challengeCancel"], &result["authenticationType"]),
        (&json!("03"), &json!("04"))
    );
    assert!(result.get("authenticationValue").is_none());
}

#[test]
fn decoupled_max_time_shorter_than_response_reports_a_timeout() {
    let mut settings = settings_with_long_timers();
    settings.timers.decoupled_minute = Duration::from_millis(1);
    let harness = SimulatorHarness::with_settings(settings);
    harness.send_message("visa", &harness.merchant_areq(CARD));
    assert_eq!(harness.next_result()["transStatusReason"], "24");
}

#[test]
fn decoupled_challenge_has_no_browser_page() {
    let mut settings = settings_with_long_timers();
    settings.timers.decoupled = Duration::from_secs(200);
    let harness = SimulatorHarness::with_settings(settings);
    let decoupled =
        json!({ "threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00005" });
    let ares = harness.send_message("visa", &merge(harness.areq(CARD), &decoupled));
    assert_eq!(ares["transStatus"], "D");
    let page = harness.post_form("/sim/acs/challenge", &[("creq", &creq(&ares))]);
    assert_eq!(page.status, 400);
    let press = harness.press_button(&ares, &[("action", "submit"), ("code", "1234")]);
    assert_eq!((press.status, harness.try_next_result()), (400, None));
}
