//! A full disk: readiness, responses, metrics, log and `scrip doctor` name the cause, and the server
//! recovers without a client.

use std::{
    fs,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use scrip_api::{app::readiness::NotReadyReason, metrics::label::Label};
use scrip_testing::{
    process::{
        client::HttpResponse,
        harness::{RunningServer, becomes_true},
        prometheus::ParsedMetricsPage,
    },
    requests::card_number,
};
use serde_json::json;

use crate::{
    operator::backup::BackupHarness,
    storage::small_disk::{SmallDisk, run_in_namespace},
    telemetry::metrics::scrape,
};

const FULL: &str = "disk full: writes and reads are refused";
const RECOVERED: &str = "the disk has recovered: writes and reads are accepted again";

fn create(harness: &BackupHarness, server: &RunningServer, number: u64) -> HttpResponse {
    let body = json!({ "type": "card", "data": { "number": card_number(number) } });
    let headers = [("Content-Type", "application/json")];
    let mut client = harness.client(server);
    client.send("POST /tokens", &headers, &body.to_string()).expect("a response")
}

/// Sends creates from several clients at the same time until one of them gets 503. Returns the
/// bodies of these responses.
fn create_until_rejected(harness: &BackupHarness, server: &RunningServer) -> Vec<String> {
    let next_number = AtomicU64::new(1000);
    let create_some = || {
        let mut rejections = Vec::new();
        for _ in 0..300 {
            let number = next_number.fetch_add(1, Ordering::Relaxed);
            let response = create(harness, server, number);
            assert!([201, 503].contains(&response.status), "{}", response.body);
            if response.status == 503 {
                rejections.push(response.body);
            }
            if rejections.len() == 5 {
                break;
            }
        }
        rejections
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(create_some)).collect();
        clients.into_iter().flat_map(|it| it.join().unwrap()).collect()
    })
}

/// Returns the reasons that the metrics report. Every reason has a series.
fn reported_reasons(page: &ParsedMetricsPage) -> Vec<&'static str> {
    let is_reported = |reason: &&str| page.value("scrip_not_ready", &[("reason", reason)]) == 1.0;
    NotReadyReason::ALL.iter().map(|it| it.as_str()).filter(is_reported).collect()
}

/// The backup itself needs no space on the full disk, so the message names the way without a record.
#[track_caller]
fn assert_backup_names_the_full_disk(harness: &BackupHarness) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup").display().to_string();
    let output = harness.process.run(&["backup", &file]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{message}");
    // The record may fit into the space that the log already has; then the head file does not.
    let causes = [
        "the disk of the vault is full, so this command cannot be recorded in the audit log",
        "the disk of the head file is full, so the record cannot be secured",
    ];
    assert!(causes.iter().any(|it| message.contains(it)), "{message}");
    let expected = "Free some space; or use --without-root-key to run without a record";
    assert!(message.contains(expected), "{message}");
    let output = harness.process.run(&["backup", "--without-root-key", &file]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn full_disk_makes_the_server_not_ready_until_a_probe_write_succeeds() {
    let mut harness = BackupHarness::new();
    harness.process = harness.process.with_variable("SCRIP_METRICS_LISTEN", "127.0.0.1:0");
    let Some(disk) = SmallDisk::mount(&harness.process, "6m") else {
        return run_in_namespace(
            "storage::full_disk::full_disk_makes_the_server_not_ready_until_a_probe_write_succeeds",
        );
    };
    let server = harness.serve();
    assert_eq!(create(&harness, &server, 0).status, 201);
    let data = [("directory", "data")];
    for outage in 1..=2 {
        let filler = disk.fill();
        let rejections = create_until_rejected(&harness, &server);
        assert!(!rejections.is_empty(), "the disk is not full");
        // No client writes now. The server must not become ready by itself.
        for _ in 0..50 {
            let response = server.send("GET", "/readyz");
            assert_eq!((response.status, response.header("retry-after")), (503, Some("1")));
            assert!(response.text().contains("the disk of the vault is full"));
        }
        for body in &rejections {
            assert!(body.contains("the disk of the vault is full"), "{body}");
        }
        let page = scrape(&server);
        assert_eq!(page.value("scrip_store_up", &[]), 0.0);
        assert_eq!(reported_reasons(&page), ["disk_full"]);
        assert_eq!(page.value("scrip_sealed", &[]), 0.0);
        assert!(page.value("scrip_disk_free_bytes", &data) < 1024.0 * 1024.0);
        let doctor = harness.process.run(&["doctor"]);
        let report = String::from_utf8_lossy(&doctor.stdout);
        assert!(!doctor.status.success(), "{report}");
        assert!(report.contains("ERROR    server"), "{report}");
        assert!(report.contains("the disk is full"), "{report}");
        assert!(report.contains("ERROR    disk"), "{report}");
        assert_backup_names_the_full_disk(&harness);

        fs::remove_file(&filler).unwrap();
        assert!(becomes_true(|| server.status("/readyz") == 200), "{}", harness.process.log());
        let page = scrape(&server);
        assert_eq!((page.value("scrip_store_up", &[]), reported_reasons(&page)), (1.0, vec![]));
        assert_eq!(page.value("scrip_disk_size_bytes", &data), 6.0 * 1024.0 * 1024.0);
        assert!(page.value("scrip_disk_free_bytes", &data) > 1024.0 * 1024.0);
        assert_eq!(create(&harness, &server, outage).status, 201);
        let log = harness.process.log();
        let counts = [FULL, RECOVERED].map(|it| log.matches(it).count());
        assert_eq!(counts, [usize::try_from(outage).unwrap(); 2], "{log}");
        for debug_text in ["Unavailable(", "Some("] {
            assert!(!log.contains(debug_text), "{debug_text}: {log}");
        }
    }
    drop(server);
    drop(disk);
}
