//! Checks of unlock methods while the server runs, and sealing when their sources are lost.

mod sealed_reasons;

use std::fs;

use scrip_testing::process::harness::{ProcessHarness, RunningServer, becomes_true};

use crate::{
    SCRIP,
    keys::{
        assert_readable, assert_sealed, create_token, is_recorded, methods, read_vault_key, text,
    },
    operator::commands::{run_json, run_text},
    telemetry::metrics::scrape,
};

#[test]
fn loss_and_return_of_a_method_are_measured_recorded_and_reported() {
    let (process, key) = ProcessHarness::with_api_key(SCRIP);
    let process = process
        .with_variable("SCRIP_KEYS_CHECK_EVERY", "1s")
        .with_variable("SCRIP_METRICS_LISTEN", "127.0.0.1:0");
    let server = process.serve();
    let token = create_token(&server, &key);
    let file = process.path("unlock.key");
    let path = file.display().to_string();
    let added = run_json(&process, &["keys", "add", "file", &path, "--label", "second"]);
    let second = text(&added["method"]["id"]);
    let first = text(&methods(&process)[0]["id"]);
    let metric = |id: &str| scrape(&server).find("scrip_unlock_ok", &[("method", id)]);
    assert_eq!(metric(&second), Some(1.0), "adding a method checks it");
    let name = format!("unlock method file second ({second})");
    assert!(is_recorded(&process, &name, "failed", 0));

    fs::rename(&file, process.path("moved")).unwrap();
    assert!(becomes_true(|| metric(&second) == Some(0.0)));
    assert_eq!(metric(&first), Some(1.0));
    process.wait_for_log("an unlock method does not return the vault key");
    assert!(is_recorded(&process, &format!("{name} fails"), "failed", 1));
    let report = run_text(&process, &["doctor"]);
    let line = report.lines().find(|it| it.contains("second")).unwrap_or_default();
    assert!(line.starts_with("warning") && line.contains("unlock.key cannot be used"), "{report}");
    assert!(run_text(&process, &["keys", "list"]).contains("FAILING"));
    assert_readable(&server, &key, &token);

    fs::rename(process.path("moved"), &file).unwrap();
    assert!(becomes_true(|| metric(&second) == Some(1.0)));
    assert!(is_recorded(&process, &format!("{name} works again"), "completed", 1));
    assert!(!run_text(&process, &["keys", "list"]).contains("FAILING"));
    let report = run_text(&process, &["doctor"]);
    assert!(report.contains("second") && !report.contains("cannot be used"), "{report}");

    // A removal that fails changes no metric, and a removed method has none.
    run_json(&process, &["keys", "remove", &second]);
    assert_eq!(metric(&second), None);
    process.assert_fails(&["keys", "remove", &first], "is the last unlock method");
    assert_eq!(metric(&first), Some(1.0));
}

/// Whether the memory of a server contains these bytes. `None` without the rights to read it.
fn memory_contains(server: &RunningServer, bytes: &[u8]) -> Option<bool> {
    use std::os::unix::fs::FileExt;

    let folder = format!("/proc/{}", server.child.id());
    let memory = fs::File::open(format!("{folder}/mem")).ok()?;
    let maps = fs::read_to_string(format!("{folder}/maps")).ok()?;
    let finder = aho_corasick::AhoCorasick::new([bytes]).unwrap();
    let mut is_readable = false;
    for line in maps.lines().filter(|it| it.contains(" rw")) {
        let (start, rest) = line.split_once('-').unwrap();
        let end = rest.split(' ').next().unwrap();
        let [start, end] = [start, end].map(|it| u64::from_str_radix(it, 16).unwrap());
        // Pages that were never used cannot contain a key, and take long to read.
        for offset in (start..end).step_by(CHUNK_BYTES) {
            let mut chunk = vec![0; CHUNK_BYTES.min(usize::try_from(end - offset).unwrap())];
            if memory.read_exact_at(&mut chunk, offset).is_err() {
                continue;
            }
            is_readable = true;
            if finder.is_match(&chunk) {
                return Some(true);
            }
        }
    }
    is_readable.then_some(false)
}

const CHUNK_BYTES: usize = 1024 * 1024;

#[test]
fn lost_source_seals_the_vault_and_its_return_opens_it() {
    let (process, key) = ProcessHarness::with_api_key(SCRIP);
    let process = process.with_variable("SCRIP_KEYS_SEAL_WHEN_SOURCE_LOST", "2s");
    let server = process.serve();
    let token = create_token(&server, &key);
    let (vault_key, _) = read_vault_key(&process);
    let before = memory_contains(&server, &vault_key);
    assert_ne!(before, Some(false), "the control does not find the key in memory");

    let file = process.data().join("root.key");
    fs::rename(&file, process.path("moved")).unwrap();
    assert!(becomes_true(|| server.status("/readyz") == 503));
    assert_sealed(&process, &server, "root.key cannot be used: No such file");
    let response = server.request("GET", &format!("/tokens/{token}")).api_key(&key).send();
    assert_eq!(response.status, 503);
    assert_eq!(response.headers["content-type"], "application/problem+json");
    assert!(response.header("retry-after").is_some());
    assert!(response.text().contains("the vault is sealed"), "{response:?}");
    assert!(is_recorded(&process, "seal: no unlock method", "completed", 1));
    process.assert_fails(&["keys", "rotate", "vault"], "the vault is sealed");
    if before.is_some() {
        let is_gone = || memory_contains(&server, &vault_key) == Some(false);
        assert!(becomes_true(is_gone), "the vault key is still in memory");
    }

    fs::rename(process.path("moved"), &file).unwrap();
    assert_readable(&server, &key, &token);
    assert!(run_text(&process, &["status"]).contains("server"));
}
