//! `/metrics` of the real program: on its own listener, or with a key on the client listener.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    time::Duration,
};

use scrip_testing::{
    process::{
        harness::{ProcessHarness, RunningServer, becomes_true},
        prometheus::ParsedMetricsPage,
        terminate, wait,
    },
    requests::http_client::BlockingClient,
};
use serde_json::json;

const KEY: &str = "the-key-of-the-operator";

fn get_with_key(url: &str, key: Option<&str>) -> (u16, String) {
    let mut request = BlockingClient::default().get(url);
    if let Some(key) = key {
        request = request.header("Authorization", format!("Bearer {key}"));
    }
    let response = request.send();
    (response.status, response.text())
}

#[track_caller]
pub(crate) fn scrape(server: &RunningServer) -> ParsedMetricsPage {
    let (status, text) =
        get_with_key(server.metrics.as_ref().expect("a metrics URL in the ready message"), None);
    assert_eq!(status, 200, "{text}");
    ParsedMetricsPage::parse(&text)
}

fn with_metrics_listener(process: ProcessHarness) -> ProcessHarness {
    process.with_variable("SCRIP_METRICS_LISTEN", "127.0.0.1:0")
}

fn write_key_file(process: &ProcessHarness) -> String {
    let path = process.path("metrics.key");
    fs::write(&path, format!("{KEY}\n")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path.display().to_string()
}

#[test]
fn metrics_are_off_by_default() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let server = process.serve();
    assert_eq!(server.metrics, None);
    assert!(becomes_true(|| server.status("/readyz") == 200));
    assert_eq!(server.status("/metrics"), 404);
}

#[test]
fn metrics_listener_responds_while_the_vault_is_sealed() {
    let process = with_metrics_listener(ProcessHarness::initialized(crate::SCRIP));
    let (file, moved_file) = (process.data().join("root.key"), process.path("moved"));
    fs::rename(&file, &moved_file).unwrap();
    let server = process.serve();
    assert_eq!(server.status("/metrics"), 503, "the client listener must not serve metrics");
    assert_eq!(server.status("/tokens/1"), 503);
    let page = scrape(&server);
    assert_eq!(page.value("scrip_sealed", &[]), 1.0);
    assert_eq!(page.value("scrip_requests_unrouted_total", &[("reason", "sealed")]), 2.0);

    fs::rename(&moved_file, &file).unwrap();
    assert!(becomes_true(|| server.status("/readyz") == 200));
    let page = scrape(&server);
    assert_eq!(page.value("scrip_sealed", &[]), 0.0);
    assert_eq!(page.value("scrip_build_info", &[("version", env!("CARGO_PKG_VERSION"))]), 1.0);
    assert_eq!(server.status("/metrics"), 404);

    let url = server.metrics.as_ref().unwrap();
    let tokens_url = url.replace("/metrics", "/tokens");
    assert_eq!(get_with_key(&tokens_url, None).0, 404);
    assert_eq!(get_with_key(&format!("{url}/more"), None).0, 404);
    assert_eq!(BlockingClient::default().post(url).body("x").send().status, 405);
}

#[test]
fn metrics_key_without_listener_enables_metrics_on_the_client_listener() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let file = write_key_file(&process);
    let process = process.with_variable("SCRIP_METRICS_KEY_FILE", &file);
    let root = process.data().join("root.key");
    let moved_file = process.path("moved");
    fs::rename(&root, &moved_file).unwrap();
    let server = process.serve();
    let url = format!("{}/metrics", server.url);
    assert_eq!(get_with_key(&url, None).0, 401);
    assert_eq!(get_with_key(&url, Some("the-key-of-the-operatos")).0, 401);
    let (status, text) = get_with_key(&url, Some(KEY));
    assert_eq!(status, 200);
    let sealed = ParsedMetricsPage::parse(&text).value("scrip_sealed", &[]);
    assert_eq!(sealed, 1.0, "the key must work while the vault is sealed");
    fs::rename(&moved_file, &root).unwrap();
    assert!(becomes_true(|| server.status("/readyz") == 200));
    assert_eq!(get_with_key(&url, None).0, 401);
    let page = ParsedMetricsPage::parse(&get_with_key(&url, Some(KEY)).1);
    assert_eq!(page.value("scrip_sealed", &[]), 0.0);
    assert!(!process.log().contains(KEY));
}

#[test]
fn metrics_listener_requires_the_configured_key() {
    let process = with_metrics_listener(ProcessHarness::initialized(crate::SCRIP));
    let file = write_key_file(&process);
    let process = process.with_variable("SCRIP_METRICS_KEY_FILE", &file);
    let server = process.serve();
    let url = server.metrics.clone().unwrap();
    assert_eq!(get_with_key(&url, None).0, 401);
    assert_eq!(get_with_key(&url, Some(KEY)).0, 200);
    assert!(becomes_true(|| server.status("/readyz") == 200));
    assert_eq!(get_with_key(&format!("{}/metrics", server.url), Some(KEY)).0, 404);
}

#[test]
fn unusable_metrics_key_file_prevents_start() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let file = write_key_file(&process);
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let process = process.with_variable("SCRIP_METRICS_KEY_FILE", &file);
    process.assert_fails(&["serve"], "is accessible to other users");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    fs::write(&file, "short").unwrap();
    process.assert_fails(&["serve"], "at least 16 printable");
    fs::remove_file(&file).unwrap();
    process.assert_fails(&["serve"], "metrics.key_file");

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let used_address = listener.local_addr().unwrap().to_string();
    let process = ProcessHarness::initialized(crate::SCRIP)
        .with_variable("SCRIP_METRICS_LISTEN", &used_address);
    process.assert_fails(&["serve"], "metrics.listen: cannot listen on");
    drop(listener);
}

#[test]
fn commit_duration_and_process_metrics_are_exported() {
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let process = with_metrics_listener(process);
    let server = process.serve();
    assert!(becomes_true(|| server.status("/readyz") == 200));
    let body = json!({"type": "token", "data": 1});
    for _ in 0..5 {
        let request = server.request("POST", "/tokens").api_key(&key);
        assert_eq!(request.json(&body).send().status, 201);
    }
    let page = scrape(&server);
    let value_of = |name: &str| page.value(name, &[("log", "vault")]);
    assert!(value_of("scrip_store_commit_duration_seconds_count") >= 5.0);
    assert!(value_of("scrip_store_commit_duration_seconds_sum") > 0.0);
    let created =
        page.value("scrip_request_duration_seconds_sum", &[("operation", "create_token")]);
    assert!(created > 0.0);
    assert!(page.value("scrip_process_start_time_seconds", &[]) > 1_700_000_000.0);
    if cfg!(target_os = "linux") {
        // These metrics are missing if the process may not read its own /proc entries.
        assert!(page.value("scrip_process_resident_memory_bytes", &[]) > 1e6);
        assert!(page.value("scrip_process_anonymous_memory_bytes", &[]) > 1e5);
        assert!(page.value("scrip_process_open_fds", &[]) >= 5.0);
        assert!(page.value("scrip_process_max_fds", &[]) >= 5.0);
    }
}

/// A server sweeps when it starts, so earlier expirations are counted soon.
#[test]
fn sweeper_removals_are_counted() {
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let process = with_metrics_listener(process);
    let mut server = process.serve();
    assert!(becomes_true(|| server.status("/readyz") == 200));
    for _ in 0..3 {
        let body = json!({"type": "token", "data": 1});
        let request = server.request("POST", "/tokens").api_key(&key);
        assert_eq!(request.json(&body).send().status, 201);
    }
    terminate(&server.child);
    assert!(wait(&mut server.child, Duration::from_secs(20)).is_some());
    let database = rusqlite::Connection::open(process.data().join("scrip.db")).unwrap();
    assert_eq!(database.execute("UPDATE tokens SET expires_at = 1", []).unwrap(), 3);
    drop(database);

    let server = process.serve();
    let count_removed =
        |kind| scrape(&server).value("scrip_sweeper_removed_total", &[("kind", kind)]);
    assert!(becomes_true(|| count_removed("tokens") == 3.0), "{}", count_removed("tokens"));
    assert_eq!(count_removed("token_intents"), 0.0);
    let get_finish_time = || {
        let name = "scrip_sweeper_last_finished_timestamp_seconds";
        scrape(&server).value(name, &[("kind", "tokens")])
    };
    assert!(becomes_true(|| get_finish_time() > 1_700_000_000.0));
}

#[test]
fn dev_serves_metrics_on_loopback_and_prints_the_url() {
    let process = ProcessHarness::new(crate::SCRIP);
    let server = process.start(&["dev", "--json"]);
    assert!(server.metrics.as_ref().unwrap().starts_with("http://127.0.0.1:"));
    assert_eq!(scrape(&server).value("scrip_sealed", &[]), 0.0);
    // Two instances do not conflict.
    let other = ProcessHarness::new(crate::SCRIP);
    let other = other.start(&["dev", "--json"]);
    assert_ne!(server.metrics, other.metrics);
}

#[test]
fn metrics_listener_responds_to_probes_and_rejects_unknown_host_names() {
    let process = with_metrics_listener(ProcessHarness::initialized(crate::SCRIP))
        .with_variable("SCRIP_METRICS_HOSTS", "scrip.internal");
    let (file, moved_file) = (process.data().join("root.key"), process.path("moved"));
    fs::rename(&file, &moved_file).unwrap();
    let server = process.serve();
    let url = server.metrics.clone().unwrap();
    let get_status = |path: &str, host: &str| {
        let request = BlockingClient::default().get(url.replace("/metrics", path));
        request.header("Host", host).send().status
    };
    assert_eq!(get_status("/healthz", "localhost"), 200);
    assert_eq!(get_status("/readyz", "localhost"), 503, "sealed");
    fs::rename(&moved_file, &file).unwrap();
    assert!(becomes_true(|| get_status("/readyz", "localhost") == 200));
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(get_status(path, "scrip.internal:9464"), 200, "{path}");
        assert_eq!(get_status(path, "10.0.0.1"), 200, "{path}");
        assert_eq!(get_status(path, "attacker.example"), 421, "{path}");
    }
}
