//! Every knob, and what it does.

use std::time::Duration;

use scrip_simulator::knob::{Answering, Knobs};
use serde_json::{Value, json};

use crate::stage::{JSON, Stage, new_id, patient};

const CARD: &str = "4200000000000004";

fn preq() -> Value {
    json!({
        "messageType": "PReq", "messageVersion": "2.2.0", "threeDSServerTransID": new_id(),
        "threeDSServerRefNumber": "ref",
    })
}

/// Both messages of a directory have the same knob.
fn each(stage: &Stage, knob: &Value, check: impl Fn(&Value, &crate::stage::Answer)) {
    for (name, message) in [("preq", preq()), ("areq", stage.areq("4242424242424242"))] {
        let (status, told) = stage.turn("/sim/knobs", &json!({ name: knob }));
        assert_eq!(status, 200, "{told}");
        assert_eq!(&stage.look("/sim/knobs")[name], knob);
        let answer = stage.post("/sim/ds/visa", JSON, message.to_string().as_bytes());
        check(&message, &answer);
        stage.reset("/sim/knobs");
        let right = if name == "preq" { "PRes" } else { "ARes" };
        assert_eq!(stage.ask("visa", &message)["messageType"], right);
    }
}

#[test]
fn half_an_answer() {
    each(&Stage::set(), &json!("malformed"), |_, answer| {
        assert_eq!(answer.status, 200);
        assert!(!answer.text.is_empty() && serde_json::from_str::<Value>(&answer.text).is_err());
    });
}

#[test]
fn an_answer_about_something_else() {
    each(&Stage::set(), &json!("wrong_trans_id"), |message, answer| {
        let told: Value = serde_json::from_str(&answer.text).unwrap();
        assert!(told["threeDSServerTransID"].is_string() && told["dsTransID"].is_string());
        assert_ne!(told["threeDSServerTransID"], message["threeDSServerTransID"]);
    });
}

#[test]
fn no_message_at_all() {
    each(&Stage::set(), &json!("http_500"), |_, answer| {
        assert_eq!((answer.status, answer.text.as_str()), (500, ""));
    });
}

#[test]
fn an_error_of_choice() {
    each(&Stage::set(), &json!({ "erro": "303" }), |message, answer| {
        let told: Value = serde_json::from_str(&answer.text).unwrap();
        assert_eq!((&told["messageType"], &told["errorCode"]), (&json!("Erro"), &json!("303")));
        assert_eq!(told["errorMessageType"], message["messageType"]);
    });
}

#[test]
fn a_delay_and_then_the_answer() {
    each(&Stage::set(), &json!({ "delay_ms": 300 }), |message, answer| {
        let told: Value = serde_json::from_str(&answer.text).unwrap();
        assert_eq!(told["threeDSServerTransID"], message["threeDSServerTransID"]);
    });
    let stage = Stage::set();
    stage.turn("/sim/knobs", &json!({ "areq": { "delay_ms": 300 } }));
    let before = tokio::time::Instant::now();
    stage.ask("visa", &stage.areq("4242424242424242"));
    assert!(before.elapsed() >= Duration::from_millis(300));
}

#[test]
fn silence_lasts_as_long_as_it_is_set_to() {
    let mut settings = patient();
    settings.timers.silence = Duration::from_millis(300);
    let stage = Stage::with(settings);
    let before = tokio::time::Instant::now();
    each(&stage, &json!("silence"), |_, answer| {
        assert_eq!((answer.status, answer.text.as_str()), (504, ""));
    });
    assert!(before.elapsed() >= Duration::from_millis(600));
}

/// The bank has decided although nobody heard it: the fate of such a request is not known.
#[test]
fn what_is_silent_has_still_happened() {
    let mut settings = patient();
    settings.timers.silence = Duration::ZERO;
    settings.timers.first_creq = Duration::from_millis(10);
    let stage = Stage::with(settings);
    stage.turn("/sim/knobs", &json!({ "areq": "silence" }));
    let request = stage.areq(CARD);
    stage.post("/sim/ds/visa", JSON, request.to_string().as_bytes());
    let result = stage.result();
    assert_eq!(result["threeDSServerTransID"], request["threeDSServerTransID"]);
    assert_eq!(result["challengeCancel"], "05");
}

fn finish(stage: &Stage) -> (Value, crate::stage::Answer) {
    let (answer, _) = stage.challenged("visa", CARD);
    let last = stage.press(&answer, &[("action", "submit"), ("code", "1234")]);
    (answer, last)
}

#[test]
fn results_that_come_twice() {
    let stage = Stage::set();
    stage.turn("/sim/knobs", &json!({ "rreq": "twice" }));
    finish(&stage);
    let first = stage.result();
    assert_eq!(first["transStatus"], "Y");
    assert_eq!(stage.result(), first);
}

#[test]
fn results_that_come_late() {
    let mut settings = patient();
    settings.timers.late_result = Duration::from_secs(1800);
    let stage = Stage::with(settings);
    stage.turn("/sim/knobs", &json!({ "rreq": "late" }));
    assert_eq!(finish(&stage).1.brings("cres")["transStatus"], "Y");
    assert!(stage.result_now().is_none());

    let mut settings = patient();
    settings.timers.late_result = Duration::from_millis(10);
    let stage = Stage::with(settings);
    stage.turn("/sim/knobs", &json!({ "rreq": "late" }));
    finish(&stage);
    assert_eq!(stage.result()["transStatus"], "Y");
}

#[test]
fn results_that_never_come() {
    let stage = Stage::set();
    stage.turn("/sim/knobs", &json!({ "rreq": "never" }));
    assert_eq!(finish(&stage).1.brings("cres")["transStatus"], "Y");
    stage.reset("/sim/knobs");
    let (answer, _) = finish(&stage);
    assert_eq!(stage.result()["acsTransID"], answer["acsTransID"], "the first was never sent");
}

#[test]
fn results_that_are_wrong() {
    let stage = Stage::set();
    for (knob, name) in
        [("wrong_trans_id", "threeDSServerTransID"), ("wrong_acs_trans_id", "acsTransID")]
    {
        stage.turn("/sim/knobs", &json!({ "rreq": knob }));
        let (answer, last) = finish(&stage);
        let result = stage.result();
        assert_ne!(result[name], answer[name]);
        assert_eq!(result["dsTransID"], answer["dsTransID"]);
        assert_eq!(last.brings("cres")["transStatus"], "Y");
    }
    stage.turn("/sim/knobs", &json!({ "rreq": "malformed" }));
    finish(&stage);
    assert_eq!(stage.result(), Value::Null);
    stage.turn("/sim/knobs", &json!({ "rreq": { "delay_ms": 10 } }));
    finish(&stage);
    assert_eq!(stage.result()["transStatus"], "Y");
}

#[test]
fn what_a_browser_brings_back() {
    let stage = Stage::set();
    stage.turn("/sim/knobs", &json!({ "cres": "wrong_trans_id" }));
    let (answer, last) = finish(&stage);
    assert_ne!(last.brings("cres")["threeDSServerTransID"], answer["threeDSServerTransID"]);
    stage.turn("/sim/knobs", &json!({ "cres": "malformed" }));
    let field = finish(&stage).1.field("cres").unwrap();
    let half = scrip_threeds::encoding::decode(&field).unwrap();
    assert!(serde_json::from_slice::<Value>(&half).is_err());
    stage.turn("/sim/knobs", &json!({ "cres": "erro" }));
    let (answer, last) = finish(&stage);
    assert!(last.field("cres").is_none());
    assert_eq!(last.brings("erro")["threeDSServerTransID"], answer["threeDSServerTransID"]);
    for _ in 0..3 {
        assert_eq!(stage.result()["transStatus"], "Y");
    }
}

#[test]
fn a_scheme_can_have_its_own() {
    let stage = Stage::set();
    stage.turn("/sim/knobs", &json!({ "areq": { "erro": "403" } }));
    stage.turn("/sim/knobs/visa", &json!({ "preq": { "erro": "101" } }));
    assert_eq!(stage.ask("visa", &stage.areq("4242424242424242"))["transStatus"], "Y");
    assert_eq!(stage.ask("visa", &preq())["errorCode"], "101");
    let other = stage.areq("5555555555554444");
    assert_eq!(stage.ask("mastercard", &other)["errorCode"], "403");
    assert_eq!(stage.look("/sim/knobs/mastercard")["areq"], json!({ "erro": "403" }));
    stage.reset("/sim/knobs/visa");
    assert_eq!(stage.ask("visa", &stage.areq("4242424242424242"))["errorCode"], "403");
    stage.turn("/sim/knobs/visa", &json!({ "areq": { "erro": "402" } }));
    stage.reset("/sim/knobs");
    assert_eq!(stage.ask("visa", &stage.areq("4242424242424242"))["transStatus"], "Y");
    assert_eq!(stage.ask("mastercard", &other)["transStatus"], "Y");
}

#[test]
fn knobs_that_are_not_there() {
    let stage = Stage::set();
    let before = stage.look("/sim/knobs");
    for knobs in [
        json!({ "areq": "loud" }),
        json!({ "arek": "silence" }),
        json!({ "areq": { "delay_ms": -1 } }),
        json!({ "areq": { "erro": "999" } }),
        json!([1]),
    ] {
        assert_eq!(stage.turn("/sim/knobs", &knobs).0, 400, "{knobs}");
    }
    assert_eq!(stage.turn("/sim/knobs/maestro", &json!({})).0, 404);
    assert_eq!(stage.look("/sim/knobs"), before);
}

#[test]
fn the_settings_say_how_they_are_at_first() {
    let mut settings = patient();
    settings.knobs = Knobs { areq: Answering::Http500, ..Knobs::default() };
    let stage = Stage::with(settings);
    let status = || {
        let request = stage.areq("4242424242424242").to_string();
        stage.post("/sim/ds/visa", JSON, request.as_bytes()).status
    };
    assert_eq!(status(), 500);
    stage.turn("/sim/knobs", &json!({}));
    assert_eq!(status(), 200);
    stage.reset("/sim/knobs");
    assert_eq!(status(), 500);
    stage.simulator.turn(Knobs::default());
    assert_eq!(status(), 200);
}
