//! Timeouts of the simulator.

use std::time::Duration;

use scrip_simulator::{SimulatorSettings, Timers};
use serde_json::json;
use tokio::time::Instant;

use crate::harness::{SimulatorHarness, acs_path, creq, settings_with_long_timers};

const CARD: &str = "4200000000000004";
const SHORT: Duration = Duration::from_millis(20);

fn harness_with_timers(change: impl FnOnce(&mut Timers)) -> SimulatorHarness {
    let mut settings: SimulatorSettings = settings_with_long_timers();
    change(&mut settings.timers);
    SimulatorHarness::with_settings(settings)
}

#[test]
fn missing_creq_times_out_with_a_failed_result() {
    let harness = harness_with_timers(|it| it.first_creq = SHORT);
    let ares = harness.send_message("visa", &harness.areq(CARD));
    let result = harness.next_result();
    assert_eq!(result["threeDSServerTransID"], ares["threeDSServerTransID"]);
    assert_eq!((&result["transStatus"], &result["transStatusReason"]), (&json!("N"), &json!("14")));
    assert_eq!(result["challengeCancel"], "05");
    // A `CReq` after the timeout returns the browser at once.
    let page = harness.post_form(&acs_path(&ares), &[("creq", &creq(&ares))]);
    assert_eq!(page.decode_field("cres")["transStatus"], "N");
    assert!(harness.try_next_result().is_none());
}

#[test]
fn idle_cardholder_times_out_with_a_failed_result() {
    let harness = harness_with_timers(|it| it.interaction = SHORT);
    let (ares, _) = harness.start_challenge("visa", CARD);
    let result = harness.next_result();
    assert_eq!((&result["transStatus"], &result["transStatusReason"]), (&json!("N"), &json!("14")));
    assert_eq!(result["challengeCancel"], "04");
    let last = harness.press_button(&ares, &[("action", "submit"), ("code", "1234")]);
    assert_eq!(last.decode_field("cres")["transStatus"], "N");
}

/// The first timer stops when the page opens, however long that takes.
#[test]
fn first_creq_timer_stops_once_the_page_is_open() {
    let harness = harness_with_timers(|it| it.first_creq = Duration::from_millis(1500));
    let (ares, page) = harness.start_challenge("visa", CARD);
    if page.field("cres").is_some() {
        // The machine paused for longer than the timer: this run proves nothing.
        return;
    }
    std::thread::sleep(Duration::from_millis(2000));
    assert!(harness.try_next_result().is_none());
    harness.press_button(&ares, &[("action", "submit"), ("code", "1234")]);
    assert_eq!(harness.next_result()["transStatus"], "Y");
}

/// Each step restarts the timer: all steps together take longer than one timeout.
#[test]
fn each_interaction_restarts_the_timer() {
    let interaction_timeout = Duration::from_secs(2);
    let harness = harness_with_timers(|it| it.interaction = interaction_timeout);
    let (ares, _) = harness.start_challenge("visa", CARD);
    for _ in 0..5 {
        let started = Instant::now();
        std::thread::sleep(Duration::from_millis(500));
        harness.press_button(&ares, &[("action", "resend")]);
        if started.elapsed() > Duration::from_millis(1500) {
            // The machine paused, which cannot be distinguished from an idle cardholder.
            return;
        }
    }
    assert!(harness.try_next_result().is_none());
}

#[test]
fn strict_timers_match_emv_timeouts() {
    let (strict, relaxed) = (Timers::strict(), Timers::default());
    assert_eq!((strict.first_creq.as_secs(), strict.interaction.as_secs()), (30, 600));
    assert!(relaxed.first_creq > strict.first_creq);
}
