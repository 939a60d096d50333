//! Cardholders who are asked elsewhere.

use std::time::Duration;

use serde_json::json;

use crate::stage::{Stage, creq, patient, with};

const CARD: &str = "4200000000000004";

#[test]
fn time_runs_out_when_a_knob_says_so() {
    let mut settings = patient();
    settings.timers.decoupled_minute = Duration::from_millis(10);
    let stage = Stage::with(settings);
    stage.turn("/sim/knobs", &json!({ "decoupled": "timeout" }));
    let answer = stage.ask("visa", &stage.merchant_areq(CARD));
    let result = stage.result();
    assert_eq!(result["acsTransID"], answer["acsTransID"]);
    assert_eq!((&result["transStatus"], &result["transStatusReason"]), (&json!("N"), &json!("24")));
    assert_eq!(
        (&result["challengeCancel"], &result["authenticationType"]),
        (&json!("03"), &json!("04"))
    );
    assert!(result.get("authenticationValue").is_none());
}

#[test]
fn a_merchant_with_little_time_gets_no_answer() {
    let mut settings = patient();
    settings.timers.decoupled_minute = Duration::from_millis(1);
    let stage = Stage::with(settings);
    stage.ask("visa", &stage.merchant_areq(CARD));
    assert_eq!(stage.result()["transStatusReason"], "24");
}

#[test]
fn nobody_opens_a_page_for_it() {
    let mut settings = patient();
    settings.timers.decoupled = Duration::from_secs(200);
    let stage = Stage::with(settings);
    let decoupled =
        json!({ "threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00005" });
    let answer = stage.ask("visa", &with(stage.areq(CARD), &decoupled));
    assert_eq!(answer["transStatus"], "D");
    let page = stage.form("/sim/acs/challenge", &[("creq", &creq(&answer))]);
    assert_eq!(page.status, 400);
    let press = stage.press(&answer, &[("action", "submit"), ("code", "1234")]);
    assert_eq!((press.status, stage.result_now()), (400, None));
}
