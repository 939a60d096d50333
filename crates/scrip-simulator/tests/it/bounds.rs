//! What is remembered, and for how long; and settings that cannot be.

use std::time::Duration;

use scrip_simulator::{Settings, Simulator, Unusable};

use crate::stage::{Stage, acs_path, creq, patient};

const CARD: &str = "4200000000000004";

#[test]
fn the_oldest_goes_for_the_next() {
    let mut settings = patient();
    settings.transactions_max = 2;
    let stage = Stage::with(settings);
    let answers: Vec<_> = (0..3).map(|_| stage.ask("visa", &stage.areq(CARD))).collect();
    let status =
        |at: usize| stage.form(&acs_path(&answers[at]), &[("creq", &creq(&answers[at]))]).status;
    assert_eq!([status(0), status(1), status(2)], [400, 200, 200]);
}

#[test]
fn nothing_is_kept_for_ever() {
    let mut settings = patient();
    settings.timers.keep = Duration::ZERO;
    let stage = Stage::with(settings);
    let answer = stage.ask("visa", &stage.areq(CARD));
    assert_eq!(stage.form(&acs_path(&answer), &[("creq", &creq(&answer))]).status, 400);
}

/// What was forgotten does nothing any more: its timer went with it.
#[test]
fn a_forgotten_transaction_has_no_result() {
    let mut settings = patient();
    settings.transactions_max = 1;
    settings.timers.first_creq = Duration::from_millis(200);
    let stage = Stage::with(settings);
    let first = stage.ask("visa", &stage.areq(CARD));
    let second = stage.ask("visa", &stage.areq(CARD));
    let result = stage.result();
    if result["acsTransID"] == first["acsTransID"] {
        // The second question took longer than the first one's timer: nothing to be seen today.
        return;
    }
    assert_eq!(result["acsTransID"], second["acsTransID"]);
    std::thread::sleep(Duration::from_millis(400));
    assert!(stage.result_now().is_none());
}

#[test]
fn settings_that_cannot_be() {
    let with_url = |url: &str| Settings { base_url: Some(url.to_owned()), ..Settings::default() };
    for url in [
        "",
        "sim.example",
        "http://sim.example/",
        "http://a b",
        "http://a?b",
        "ftp://a",
        "http://a;b",
    ] {
        assert!(matches!(Simulator::new(with_url(url)), Err(Unusable::BaseUrl)), "{url}");
    }
    assert_eq!(
        Simulator::new(with_url("https://sim.example/3ds")).unwrap().base_url(),
        "https://sim.example/3ds"
    );
    let mut roots = with_url("http://sim.example");
    roots.trusted_roots = b"not a certificate".to_vec();
    assert!(matches!(Simulator::new(roots), Err(Unusable::TrustedRoots)));
}

#[test]
fn nothing_prints_a_card() {
    let stage = Stage::set();
    stage.challenged("visa", CARD);
    let printed = format!("{:?}", stage.simulator);
    assert!(printed.contains("Transaction") && !printed.contains(CARD));
    assert!(!printed.contains(&stage.server) && !printed.contains("results/secret"), "{printed}");
}
