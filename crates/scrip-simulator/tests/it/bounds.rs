//! Limits of stored transactions, and invalid settings.

use std::time::Duration;

use scrip_simulator::{Simulator, SimulatorSettings, StartError};

use crate::harness::{SimulatorHarness, acs_path, creq, settings_with_long_timers};

const CARD: &str = "4200000000000004";

#[test]
fn oldest_transaction_is_evicted_at_capacity() {
    let mut settings = settings_with_long_timers();
    settings.transactions_max = 2;
    let harness = SimulatorHarness::with_settings(settings);
    let responses: Vec<_> =
        (0..3).map(|_| harness.send_message("visa", &harness.areq(CARD))).collect();
    let status = |index: usize| {
        harness
            .post_form(&acs_path(&responses[index]), &[("creq", &creq(&responses[index]))])
            .status
    };
    assert_eq!([status(0), status(1), status(2)], [400, 200, 200]);
}

#[test]
fn transaction_expires_after_its_lifetime() {
    let mut settings = settings_with_long_timers();
    settings.timers.transaction_lifetime = Duration::ZERO;
    let harness = SimulatorHarness::with_settings(settings);
    let ares = harness.send_message("visa", &harness.areq(CARD));
    assert_eq!(harness.post_form(&acs_path(&ares), &[("creq", &creq(&ares))]).status, 400);
}

/// Evicting a transaction stops its timer.
#[test]
fn evicted_transaction_sends_no_result() {
    let mut settings = settings_with_long_timers();
    settings.transactions_max = 1;
    settings.timers.first_creq = Duration::from_millis(200);
    let harness = SimulatorHarness::with_settings(settings);
    let first = harness.send_message("visa", &harness.areq(CARD));
    let second = harness.send_message("visa", &harness.areq(CARD));
    let result = harness.next_result();
    if result["acsTransID"] == first["acsTransID"] {
        // The first timer fired before the second request: this run proves nothing.
        return;
    }
    assert_eq!(result["acsTransID"], second["acsTransID"]);
    std::thread::sleep(Duration::from_millis(400));
    assert!(harness.try_next_result().is_none());
}

#[test]
fn invalid_settings_are_rejected() {
    let with_url = |url: &str| SimulatorSettings {
        base_url: Some(url.to_owned()),
        ..SimulatorSettings::default()
    };
    for url in [
        "",
        "sim.example",
        "http://sim.example/",
        "http://a b",
        "http://a?b",
        "ftp://a",
        "http://a;b",
    ] {
        assert!(matches!(Simulator::new(with_url(url)), Err(StartError::BaseUrl)), "{url}");
    }
    assert_eq!(
        Simulator::new(with_url("https://sim.example/3ds")).unwrap().base_url(),
        "https://sim.example/3ds"
    );
    let mut roots = with_url("http://sim.example");
    roots.trusted_roots = b"not a certificate".to_vec();
    assert!(matches!(Simulator::new(roots), Err(StartError::TrustedRoots)));
}

#[test]
fn debug_output_contains_no_card_or_result_address() {
    let harness = SimulatorHarness::start();
    harness.start_challenge("visa", CARD);
    let printed = format!("{:?}", harness.simulator);
    assert!(printed.contains("Transaction") && !printed.contains(CARD));
    assert!(
        !printed.contains(&harness.server_url) && !printed.contains("results/secret"),
        "{printed}"
    );
}
