//! `/metrics` on the client listener: the callers that may read it, its contents, and data that it
//! must not contain.

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::sleep,
    time::Duration,
};

use scrip_api::{app::body_memory::BodyMemory, limiter::Limiter, routes::ROUTES};
use scrip_core::{
    equality::bucket::GuessBudget,
    policy::rate_limit::RateLimitName,
    types::{Permission, Transform},
};
use scrip_server::{audit_sink::health::SinkHealth, node::metrics_key::MetricsKey};
use scrip_testing::process::prometheus::ParsedMetricsPage;
use serde_json::json;

use crate::harness::{
    engine::is_postgres,
    server::{SERVER, TestServer, card_body, grant, unique_card_number},
};

const KEY: &str = "the-key-of-the-operator";

pub(crate) fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    (0..1000).any(|_| {
        sleep(Duration::from_millis(20));
        condition()
    })
}

fn server_with_metrics_key() -> TestServer {
    TestServer::start_with(|app| app.node.metrics_key = Some(MetricsKey::parse(KEY).unwrap()))
}

/// Sends a request that is not in the OpenAPI document. Returns status, head and body.
fn send_raw_request(server: &TestServer, line: &str, authorization: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let head = format!("{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{authorization}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

pub(crate) fn scrape(server: &TestServer) -> ParsedMetricsPage {
    let (status, head, body) =
        send_raw_request(server, "GET /metrics", &format!("Authorization: Bearer {KEY}\r\n"));
    assert_eq!(status, 200, "{body}");
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    ParsedMetricsPage::parse(&body)
}

#[test]
fn metrics_path_is_404_without_a_configured_key() {
    SERVER.request("GET", "/metrics").send().expect_problem(404, "Not found.");
    let key = format!("Bearer {KEY}");
    assert_eq!(SERVER.request("GET", "/metrics").header("Authorization", &key).send().status, 404);
}

#[test]
fn metrics_require_the_configured_key() {
    let server = server_with_metrics_key();
    for headers in ["", "Authorization: Bearer another-key-entirely\r\n", "BT-API-KEY: x\r\n"] {
        let (status, head, body) = send_raw_request(&server, "GET /metrics", headers);
        assert_eq!(status, 401, "{headers}");
        assert!(head.contains("www-authenticate: bearer"), "{head}");
        assert!(head.contains("content-type: application/problem+json"), "{head}");
        assert!(!body.contains("scrip_"), "{body}");
    }
    let repeated_header = format!("Authorization: Bearer {KEY}\r\n").repeat(2);
    assert_eq!(send_raw_request(&server, "GET /metrics", &repeated_header).0, 400);
    assert_eq!(send_raw_request(&server, "POST /metrics", "").0, 405);
    scrape(&server);
    let valid_header = format!("Authorization: Bearer {KEY}\r\n");
    let status = send_raw_request(&server, "GET /metrics/", &valid_header).0;
    assert_eq!(status, 200, "a trailing slash is not ignored");
    assert_eq!(send_raw_request(&server, "HEAD /metrics", &valid_header).2, "");
}

/// A clock that advances by three milliseconds with each reading.
fn stepping_ticks() -> Duration {
    static READS: AtomicU64 = AtomicU64::new(0);
    Duration::from_millis(3 * READS.fetch_add(1, Ordering::SeqCst))
}

#[test]
fn every_request_is_counted_once_under_its_operation_and_status() {
    let server = TestServer::start_with(|app| {
        app.node.metrics_key = Some(MetricsKey::parse(KEY).unwrap());
        app.ticks = stepping_ticks;
    });
    let keys = server.create_default_tenant();
    let page_before = scrape(&server);
    assert_eq!(
        page_before.find("scrip_requests_total", &[("operation", "get_token"), ("status", "200")]),
        None
    );
    assert_eq!(
        page_before.value("scrip_requests_total", &[("operation", "get_token"), ("status", "503")]),
        0.0
    );

    let id = server.create_token_id(&keys.private, &card_body(&unique_card_number()));
    (0..5).for_each(|_| drop(server.get_token(&keys.private, &id).expect_status(200)));
    (0..3).for_each(|_| drop(server.get_token(&keys.private, "none").expect_status(404)));
    (0..2).for_each(|_| drop(server.get_token("nobodys", &id).expect_status(401)));
    server.request("GET", &format!("/tokens/{id}")).send().expect_status(401);
    server.get_token(&keys.public, &id).expect_status(403);
    server
        .create_token(&keys.private, &json!({"type": "card", "data": {"number": "1"}}))
        .expect_status(400);
    server.request("GET", "/no/such/path").send().expect_status(404);
    server.request("DELETE", "/tokens").send().expect_status(405);

    let page_after = scrape(&server);
    let value_of = |operation, status| {
        page_after.find("scrip_requests_total", &[("operation", operation), ("status", status)])
    };
    let expected = [
        ("create_token", "201", Some(1.0)),
        ("create_token", "400", Some(1.0)),
        ("get_token", "200", Some(5.0)),
        ("get_token", "404", Some(3.0)),
        ("get_token", "401", Some(3.0)),
        ("get_token", "403", Some(1.0)),
        ("get_token", "500", Some(0.0)),
        ("get_token", "other", None),
        ("delete_token", "204", None),
    ];
    for (operation, status, count) in expected {
        let counted = value_of(operation, status);
        assert_eq!(counted, count, "requests of {operation} with status {status}");
    }
    // Each response took the time between two clock readings.
    let value_of = |suffix: &str| {
        let name = format!("scrip_request_duration_seconds{suffix}");
        page_after.value(&name, &[("operation", "get_token")])
    };
    assert_eq!(value_of("_count"), 12.0);
    assert!((value_of("_sum") - 12.0 * 0.003).abs() < 1e-9, "{}", value_of("_sum"));
    let bucket = |le| {
        let labels = [("operation", "get_token"), ("le", le)];
        page_after.value("scrip_request_duration_seconds_bucket", &labels)
    };
    assert_eq!((bucket("0.0025"), bucket("0.005")), (0.0, 12.0));
    let count_unrouted =
        |reason| page_after.value("scrip_requests_unrouted_total", &[("reason", reason)]);
    assert_eq!(
        (
            count_unrouted("no_route"),
            count_unrouted("method_not_allowed"),
            count_unrouted("sealed")
        ),
        (1.0, 1.0, 0.0)
    );
}

#[test]
fn server_errors_are_counted_by_the_metrics() {
    let server = TestServer::start_with(|app| {
        app.node.metrics_key = Some(MetricsKey::parse(KEY).unwrap());
        app.memory.bodies = BodyMemory::new(1024 * 1024, 1);
    });
    let keys = server.create_default_tenant();
    let large_body = json!({"type": "token", "data": "x".repeat(100_000)});
    (0..4).for_each(|_| drop(server.create_token(&keys.private, &large_body).expect_status(503)));
    let value_of = |page: &ParsedMetricsPage| {
        let labels = [("operation", "create_token"), ("status", "503")];
        page.value("scrip_requests_total", &labels)
    };
    let page = scrape(&server);
    assert_eq!(value_of(&page), 4.0);
    server.create_token_ok(&keys.private, &json!({"type": "token", "data": 1}));
    let page = scrape(&server);
    assert_eq!(value_of(&page), 4.0);
    let free_bytes = page.value("scrip_body_memory_free_bytes", &[("pool", "keyed")]);
    assert_eq!(free_bytes, 1024.0 * 1024.0);
}

#[test]
fn authentication_failures_are_counted_by_reason() {
    let server = server_with_metrics_key();
    let keys = server.create_default_tenant();
    server.request("GET", "/tokens/1").send().expect_status(401);
    server.get_token("nobodys", "1").expect_status(401);
    server.get_token("nobodys", "1").expect_status(401);
    server
        .request("GET", "/tokens/1")
        .key(&keys.private)
        .key(&keys.private)
        .send()
        .expect_status(400);
    server.get_token(&keys.private, "1").expect_status(404);
    let page = scrape(&server);
    let value_of =
        |reason| page.value("scrip_authentication_failures_total", &[("reason", reason)]);
    assert_eq!(
        (
            value_of("missing"),
            value_of("unknown"),
            value_of("malformed"),
            value_of("policy_altered")
        ),
        (1.0, 2.0, 1.0, 0.0)
    );
}

/// Sends the head of a request. The body follows later.
fn send_head(server: &TestServer, key: &str, idempotency_key: &str, length: usize) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let head = format!(
        "POST /tokens HTTP/1.1\r\nHost: x\r\nConnection: close\r\nBT-API-KEY: {key}\r\n\
         BT-IDEMPOTENCY-KEY: {idempotency_key}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

#[test]
fn in_flight_requests_and_idempotency_outcomes_are_counted() {
    let server = server_with_metrics_key();
    let keys = server.create_default_tenant();
    let body = r#"{"type":"token","data":1}"#;
    let mut first = send_head(&server, &keys.private, "one", body.len());
    let turn = |page: &ParsedMetricsPage, turn| {
        page.value("scrip_idempotency_requests_total", &[("outcome", turn)])
    };
    assert!(eventually(|| turn(&scrape(&server), "first") == 1.0));
    // The scrape itself is the second request in flight.
    assert_eq!(scrape(&server).value("scrip_requests_in_flight", &[]), 2.0);
    let page = scrape(&server);
    assert!(page.value("scrip_connections", &[]) >= 2.0);
    assert!(page.value("scrip_connections_accepted_total", &[]) >= 4.0);

    let create_with_key = || {
        let body = serde_json::from_str(body).unwrap();
        server.post_once(&keys.private, "/tokens", "one", &body)
    };
    create_with_key().expect_status(409);
    first.write_all(body.as_bytes()).unwrap();
    let mut response = String::new();
    first.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 201"), "{response}");
    create_with_key().expect_status(201);
    create_with_key().expect_status(201);
    let page = scrape(&server);
    let turns = (turn(&page, "first"), turn(&page, "replay"), turn(&page, "conflict"));
    assert_eq!(turns, (1.0, 2.0, 1.0));
    assert_eq!(page.value("scrip_requests_in_flight", &[]), 1.0);

    // An aborted request is no longer in flight either.
    let broken_connection = send_head(&server, &keys.private, "two", body.len());
    assert!(eventually(|| turn(&scrape(&server), "first") == 2.0));
    drop(broken_connection);
    assert!(eventually(|| scrape(&server).value("scrip_requests_in_flight", &[]) == 1.0));
}

#[test]
fn commit_batch_metrics_count_writes_per_commit() {
    const WRITES: usize = 40;
    let server = server_with_metrics_key();
    let keys = server.create_default_tenant();
    let value_of = |page: &ParsedMetricsPage, name: &str| page.value(name, &[("log", "vault")]);
    let page_before = scrape(&server);
    std::thread::scope(|scope| {
        for _ in 0..WRITES {
            scope
                .spawn(|| server.create_token_ok(&keys.private, &card_body(&unique_card_number())));
        }
    });
    let page_after = scrape(&server);
    let rise = |name: &str| value_of(&page_after, name) - value_of(&page_before, name);
    // Background tasks write, too.
    let (writes, commits) =
        (rise("scrip_store_commit_batch_size_sum"), rise("scrip_store_commit_batch_size_count"));
    let is_grouped = writes >= 40.0 && commits >= 1.0 && commits <= writes;
    assert!(is_grouped, "{writes} writes in {commits} commits");
    assert_eq!(rise("scrip_store_commits_total"), commits);
    assert_eq!(rise("scrip_store_commit_failures_total"), 0.0);
    assert_eq!(value_of(&page_after, "scrip_store_queue_depth"), 0.0);
    assert_eq!(value_of(&page_after, "scrip_store_queue_max"), 4096.0);
    // PostgreSQL does not report these values to the vault: it has its own clock and its own WAL.
    if !is_postgres() {
        assert_eq!(rise("scrip_store_commit_duration_seconds_count"), commits);
        assert!(value_of(&page_after, "scrip_store_wal_bytes") > 0.0);
    }
    assert!(page_after.value("scrip_store_readers_opened_total", &[]) >= 1.0);
    assert_eq!(page_after.value("scrip_store_readers_busy", &[]), 0.0);
    let has_key = page_after.value("scrip_epoch_keys", &[]) >= 1.0;
    assert!(has_key, "no epoch key although cards have CVCs");
}

#[test]
fn directory_and_cache_metrics_are_exported() {
    let server = server_with_metrics_key();
    let page_before = scrape(&server);
    let keys = server.create_default_tenant();
    let page_after = scrape(&server);
    let rise = |name: &str, labels: &[(&str, &str)]| {
        page_after.value(name, labels) - page_before.value(name, labels)
    };
    assert!(rise("scrip_directory_version", &[]) >= 1.0);
    assert_eq!(rise("scrip_directory_tenants", &[]), 1.0);
    assert!(rise("scrip_directory_reloads_total", &[("outcome", "succeeded")]) >= 1.0);
    assert_eq!(page_after.value("scrip_directory_reloads_total", &[("outcome", "failed")]), 0.0);
    assert_eq!(page_after.value("scrip_sealed", &[]), 0.0);
    assert_eq!(page_after.value("scrip_policy_alterations", &[]), 0.0);
    // The cache belongs to the process, so other tests may use it at the same time.
    let token_with_mask =
        json!({"type": "token", "data": "abcdef", "mask": "{{ data | reveal_last: 3 }}"});
    (0..3).for_each(|_| drop(server.create_token_ok(&keys.private, &token_with_mask)));
    let cached = scrape(&server);
    let hits = |page: &ParsedMetricsPage| {
        page.value("scrip_cache_hits_total", &[("cache", "expressions")])
    };
    assert!(hits(&cached) >= hits(&page_after) + 2.0);
    assert!(cached.value("scrip_cache_misses_total", &[("cache", "expressions")]) >= 1.0);
    assert!(cached.value("scrip_cache_entries", &[("cache", "expressions")]) >= 1.0);
}

#[test]
fn sweepers_export_their_last_finish_time() {
    let server = server_with_metrics_key();
    let kinds = [
        "tokens",
        "token_intents",
        "verification_codes",
        "stored_responses",
        "access_sessions",
        "threeds_sessions",
        "client_keys",
        "webhook_deliveries",
        "deleted_tenants",
    ];
    let get_finish_time = |kind| {
        let name = "scrip_sweeper_last_finished_timestamp_seconds";
        scrape(&server).value(name, &[("kind", kind)])
    };
    for kind in kinds {
        assert!(eventually(|| get_finish_time(kind) > 1_700_000_000.0), "{kind}");
        assert_eq!(scrape(&server).value("scrip_sweeper_failures_total", &[("kind", kind)]), 0.0);
    }
}

#[test]
fn rate_limiter_decisions_are_exported() {
    let server = TestServer::start_with(|app| {
        app.limiter = Limiter::default();
        app.node.metrics_key = Some(MetricsKey::parse(KEY).unwrap());
    });
    let keys = server.create_default_tenant();
    for _ in 0..50 {
        server.get_path(&keys.private, "/permissions").expect_status(200);
    }
    server.get_path(&keys.private, "/permissions").expect_status(429);
    let page = scrape(&server);
    let decided = |row: &str, decision: &str| {
        page.value("scrip_limiter_decisions_total", &[("limit", row), ("decision", decision)])
    };
    let is = |row: &str, decision: &str, expected: f64| {
        let is_counted = (decided(row, decision) - expected).abs() < 0.5;
        assert!(is_counted, "decision {decision} of limit {row}");
    };
    is("test_tenant", "allowed", 50.0);
    is("test_tenant", "rejected", 1.0);
    is("private_application", "rejected", 0.0);
    assert!(page.value("scrip_limiter_counters", &[]) >= 1.0);
    assert_eq!(page.find("scrip_shared_counters_up", &[]), None);
}

/// Label values are fixed words, whatever clients and tenants send.
#[test]
fn metric_labels_contain_no_client_text() {
    const CLIENT_TEXT: &str = "hunter2";
    let server = server_with_metrics_key();
    let keys = server.create_default_tenant();
    let body = json!({"id": CLIENT_TEXT, "type": "token", "data": CLIENT_TEXT, "metadata": {CLIENT_TEXT: CLIENT_TEXT}});
    server.post_once(&keys.private, "/tokens", CLIENT_TEXT, &body).expect_status(201);
    server.get_token(&keys.private, CLIENT_TEXT).expect_status(200);
    server.get_token(CLIENT_TEXT, CLIENT_TEXT).expect_status(401);
    server.request("GET", "/hunter2").send().expect_status(404);
    server.get_path(&keys.private, "/v2/tokens?metadata.hunter2=hunter2").expect_status(200);
    let rule = grant("/hunter2/", Transform::Reveal, &[Permission::TokenRead]);
    server.key_with_rules(&keys.tenant, vec![rule]);

    let page = scrape(&server);
    let operations: BTreeSet<_> = ROUTES.iter().map(|it| it.operation.as_str()).collect();
    let words: BTreeSet<_> = "first replay conflict no_route method_not_allowed sealed missing \
        malformed unknown policy_altered succeeded failed tokens token_intents verification_codes \
        stored_responses access_sessions threeds_sessions client_keys webhook_deliveries guess_budgets deleted_tenants \
        audit_records usage_counters expressions vault read allowed rejected 200 201 204 400 401 403 404 408 409 410 \
        411 413 415 422 429 500 503 other keyed keyless pool network_share network_full full \
        no_first_byte response_not_read response_rate descriptors disk_full commit_failed \
        store_unreachable root_key starting shares unlock_key_missing unlock_key_wrong unlock_unavailable \
        unlock_denied unlock_settings vault_altered rotation_interrupted no_vault data answered maybe_sent not_sent replayed guard \
        lookup connect tls timeout closed malformed overloaded too_large transform record \
        delivered gone postponed exhausted dropped altered"
        .split_whitespace()
        .collect();
    let mut series = 0;
    for sample in page.samples() {
        series += 1;
        for (name, word) in &sample.labels {
            let is_known = match name.as_str() {
                "operation" => operations.contains(word.as_str()),
                "limit" => RateLimitName::ALL.iter().any(|it| it.as_str() == word),
                "le" => word == "+Inf" || word.parse::<f64>().is_ok(),
                "version" => word == env!("CARGO_PKG_VERSION"),
                "status" | "reason" | "outcome" | "kind" | "cache" | "log" | "decision"
                | "pool" | "directory" | "result" => words.contains(word.as_str()),
                "budget" => GuessBudget::ALL.iter().any(|it| it.as_str() == word),
                _ => false,
            };
            assert!(is_known, "{name}={word} of {}", sample.name);
        }
    }
    // The number of series is bounded, whatever clients send.
    let series_max = operations.len() * (17 + 19) + 300;
    assert!(series <= series_max, "{series} of {series_max}");
}

#[test]
fn failing_audit_sink_is_a_metric() {
    let sink = Arc::new(SinkHealth::default());
    let server = TestServer::start_with(|app| {
        app.node.metrics_key = Some(MetricsKey::parse(KEY).unwrap());
        app.node.audit_sink = Some(Arc::clone(&sink));
    });
    let value = || scrape(&server).value("scrip_audit_sink_up", &[]);
    assert_eq!(value(), 1.0);
    sink.set_cause(Some("no space left on device".to_owned()));
    assert_eq!(value(), 0.0);
}
