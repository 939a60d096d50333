//! What happens when nobody does anything.

use std::time::Duration;

use scrip_simulator::{Settings, Timers};
use serde_json::json;
use tokio::time::Instant;

use crate::stage::{Stage, acs_path, creq, patient};

const CARD: &str = "4200000000000004";
const SHORT: Duration = Duration::from_millis(20);

fn with(change: impl FnOnce(&mut Timers)) -> Stage {
    let mut settings: Settings = patient();
    change(&mut settings.timers);
    Stage::with(settings)
}

#[test]
fn a_browser_that_does_not_come() {
    let stage = with(|it| it.first_creq = SHORT);
    let answer = stage.ask("visa", &stage.areq(CARD));
    let result = stage.result();
    assert_eq!(result["threeDSServerTransID"], answer["threeDSServerTransID"]);
    assert_eq!((&result["transStatus"], &result["transStatusReason"]), (&json!("N"), &json!("14")));
    assert_eq!(result["challengeCancel"], "05");
    // It comes after all, and is sent back.
    let page = stage.form(&acs_path(&answer), &[("creq", &creq(&answer))]);
    assert_eq!(page.brings("cres")["transStatus"], "N");
    assert!(stage.result_now().is_none());
}

#[test]
fn a_cardholder_who_falls_asleep() {
    let stage = with(|it| it.interaction = SHORT);
    let (answer, _) = stage.challenged("visa", CARD);
    let result = stage.result();
    assert_eq!((&result["transStatus"], &result["transStatusReason"]), (&json!("N"), &json!("14")));
    assert_eq!(result["challengeCancel"], "04");
    let last = stage.press(&answer, &[("action", "submit"), ("code", "1234")]);
    assert_eq!(last.brings("cres")["transStatus"], "N");
}

/// The first timer is over once the page is there, however long that takes.
#[test]
fn who_came_in_time_is_not_too_late() {
    let stage = with(|it| it.first_creq = Duration::from_millis(1500));
    let (answer, page) = stage.challenged("visa", CARD);
    if page.field("cres").is_some() {
        // The machine was asleep for longer than the timer: nothing to be seen today.
        return;
    }
    std::thread::sleep(Duration::from_millis(2000));
    assert!(stage.result_now().is_none());
    stage.press(&answer, &[("action", "submit"), ("code", "1234")]);
    assert_eq!(stage.result()["transStatus"], "Y");
}

/// Each step begins the time anew: all of them together take longer than one may.
#[test]
fn who_is_slow_and_awake_is_waited_for() {
    let most = Duration::from_secs(2);
    let stage = with(|it| it.interaction = most);
    let (answer, _) = stage.challenged("visa", CARD);
    for _ in 0..5 {
        let before = Instant::now();
        std::thread::sleep(Duration::from_millis(500));
        stage.press(&answer, &[("action", "resend")]);
        if before.elapsed() > Duration::from_millis(1500) {
            // The machine was asleep, which looks like a cardholder who was.
            return;
        }
    }
    assert!(stage.result_now().is_none());
}

#[test]
fn strict_timers_are_those_of_emv() {
    let (strict, relaxed) = (Timers::strict(), Timers::default());
    assert_eq!((strict.first_creq.as_secs(), strict.interaction.as_secs()), (30, 600));
    assert!(relaxed.first_creq > strict.first_creq);
}
