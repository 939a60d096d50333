//! Certificates that have expired, expire soon, or are not valid yet: at the start, at a reload, in
//! the report of `scrip doctor`, and in the metrics.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    time::Duration,
};

use rcgen::{CertificateParams, date_time_ymd};
use scrip_core::types::time::Clock;
use scrip_server::clock::SystemClock;
use scrip_testing::process::harness::{ProcessHarness, RunningServer, becomes_true};
use serde_json::Value;

use crate::{
    network::{
        tls::{is_certificate_served, runtime},
        tls_client::{create_certificate, create_certificate_with, with_tls},
    },
    telemetry::metrics::scrape,
};

const METRIC: &str = "scrip_tls_certificate_expiry_timestamp_seconds";
/// 2020-02-01 and 4096-01-01, the end of the certificates of these tests.
const END_2020: f64 = 1_580_515_200.0;
const END_4096: f64 = 67_090_118_400.0;

fn january_of_2020(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2020, 2, 1);
}

fn unix_time() -> Duration {
    Duration::from_millis(u64::try_from(SystemClock.now().unix_ms).unwrap())
}

fn tls_process() -> ProcessHarness {
    with_tls(ProcessHarness::initialized(crate::SCRIP))
        .with_variable("SCRIP_METRICS_LISTEN", "127.0.0.1:0")
}

fn expiry_metric(server: &RunningServer) -> f64 {
    scrape(server).value(METRIC, &[])
}

/// Returns whether all checks of the doctor passed, and its finding about TLS.
fn check_tls(process: &ProcessHarness) -> (bool, String, String) {
    let output = process.run(&["doctor", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let finding = report["checks"].as_array().unwrap().iter().find(|it| it["check"] == "tls");
    let text = |name: &str| finding.unwrap()[name].as_str().unwrap().to_owned();
    (output.status.success(), text("verdict"), text("message"))
}

#[test]
fn expired_certificate_is_rejected_at_reload_and_the_old_one_stays() {
    let process = tls_process();
    let first = create_certificate(&process);
    let server = process.serve();
    let runtime = runtime();
    assert_eq!(expiry_metric(&server), END_4096);
    create_certificate_with(&process, january_of_2020);
    process.wait_for_log("cert.pem expired at 2020-02-01T00:00:00+00:00; write a renewed");
    process.wait_for_log("the old one stays in force");
    assert!(is_certificate_served(&runtime, &server, &first));
    assert_eq!(expiry_metric(&server), END_4096);

    let renewed = create_certificate_with(&process, |it| it.not_after = date_time_ymd(3000, 1, 1));
    assert!(becomes_true(|| is_certificate_served(&runtime, &server, &renewed)));
    assert!(becomes_true(|| expiry_metric(&server) < END_4096));
}

#[test]
fn key_that_other_users_can_read_is_rejected_at_reload() {
    let process = tls_process();
    let first = create_certificate(&process);
    let server = process.serve();
    let key = process.path("key.pem");
    let set_mode = |mode| fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
    set_mode(0o644);
    process.wait_for_log("is accessible to other users (mode 644); run: chmod 640");
    assert!(is_certificate_served(&runtime(), &server, &first));
    set_mode(0o600);
    process.wait_for_log("reloaded the certificate");
}

#[test]
fn server_with_an_expired_certificate_starts_and_reports_it() {
    let process = tls_process();
    create_certificate_with(&process, january_of_2020);
    let server = process.serve();
    process.wait_for_log("the certificate in use has expired");
    assert_eq!(expiry_metric(&server), END_2020);
    let (is_ok, verdict, message) = check_tls(&process);
    assert_eq!((is_ok, verdict.as_str()), (false, "failed"), "{message}");
    assert!(message.contains("cert.pem expired at 2020-02-01T00:00:00+00:00"), "{message}");

    let renewed = create_certificate(&process);
    assert!(becomes_true(|| is_certificate_served(&runtime(), &server, &renewed)));
    let (is_ok, verdict, message) = check_tls(&process);
    assert_eq!((is_ok, verdict.as_str()), (true, "passed"), "{message}");
    assert!(message.contains("valid until 4096-01-01"), "{message}");
    let error_count = process.log().matches("the certificate in use has expired").count();
    assert_eq!(error_count, 1, "{}", process.log());
}

#[test]
fn certificate_that_expires_soon_is_a_warning() {
    let process = tls_process();
    let days = |count: u64| unix_time() + Duration::from_secs(count * 24 * 60 * 60 + 600);
    let create = |count| {
        create_certificate_with(&process, |it| {
            it.not_after = date_time_ymd(1970, 1, 1) + days(count);
        })
    };
    create(31);
    assert_eq!(check_tls(&process).1, "passed");
    create(12);
    let (is_ok, verdict, message) = check_tls(&process);
    assert_eq!((is_ok, verdict.as_str()), (true, "warning"), "{message}");
    assert!(message.contains("expires in 12 days, at 20"), "{message}");
    let _server = process.serve();
    process.wait_for_log("the certificate in use expires soon");
}

#[test]
fn certificate_that_is_not_valid_yet_is_loaded_when_it_is_valid() {
    let process = tls_process();
    let first = create_certificate(&process);
    let server = process.serve();
    let runtime = runtime();
    let future = create_certificate_with(&process, |it| {
        it.not_before = date_time_ymd(1970, 1, 1) + unix_time() + Duration::from_secs(4);
    });
    process.wait_for_log("cert.pem is not valid before");
    assert!(is_certificate_served(&runtime, &server, &first));
    let (_, verdict, message) = check_tls(&process);
    assert!(verdict == "failed" || message.contains("valid until"), "{message}");
    assert!(becomes_true(|| is_certificate_served(&runtime, &server, &future)));
}
