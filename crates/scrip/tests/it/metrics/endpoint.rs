//! `/metrics` on the clients' listener: who is shown it, what it says, and what it never says.

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicU64, Ordering},
    thread::sleep,
    time::Duration,
};

use scrip_api::{app::body_memory::BodyMemory, limiter::Limiter, routes::ROUTES};
use scrip_core::policy::{
    Permission, Settings, Transform, guessing_budget::Budget, rate_limit::Row,
};
use scrip_server::metrics::key::MetricsKey;
use scrip_testing::process::prometheus::Page;
use serde_json::json;

use crate::harness::{
    engine::is_postgres,
    server::{SHARED, Server, card, grant, new_number, text},
};

const KEY: &str = "the-key-of-the-operator";

pub(crate) fn eventually(mut what: impl FnMut() -> bool) -> bool {
    (0..1000).any(|_| {
        sleep(Duration::from_millis(20));
        what()
    })
}

fn with_key() -> Server {
    Server::with(|app| app.node.metrics_key = Some(MetricsKey::parse(KEY).unwrap()))
}

/// Status, head and body of a request that the document knows nothing of.
fn ask(server: &Server, line: &str, authorization: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let head = format!("{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{authorization}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

pub(crate) fn scrape(server: &Server) -> Page {
    let (status, head, body) =
        ask(server, "GET /metrics", &format!("Authorization: Bearer {KEY}\r\n"));
    assert_eq!(status, 200, "{body}");
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    Page::parse(&body)
}

#[test]
fn without_a_key_there_is_nothing_at_that_path() {
    SHARED.ask("GET", "/metrics").send().refused(404, "nothing at this path");
    let key = format!("Bearer {KEY}");
    assert_eq!(SHARED.ask("GET", "/metrics").header("Authorization", &key).send().status, 404);
}

#[test]
fn a_key_is_asked_for_and_believed() {
    let server = with_key();
    for sent in ["", "Authorization: Bearer another-key-entirely\r\n", "BT-API-KEY: x\r\n"] {
        let (status, head, body) = ask(&server, "GET /metrics", sent);
        assert_eq!(status, 401, "{sent}");
        assert!(head.contains("www-authenticate: bearer"), "{head}");
        assert!(head.contains("content-type: application/problem+json"), "{head}");
        assert!(!body.contains("scrip_"), "{body}");
    }
    let twice = format!("Authorization: Bearer {KEY}\r\n").repeat(2);
    assert_eq!(ask(&server, "GET /metrics", &twice).0, 400);
    assert_eq!(ask(&server, "POST /metrics", "").0, 405);
    scrape(&server);
    let good = format!("Authorization: Bearer {KEY}\r\n");
    assert_eq!(ask(&server, "GET /metrics/", &good).0, 200, "as everywhere, a slash more");
    assert_eq!(ask(&server, "HEAD /metrics", &good).2, "");
}

/// Three milliseconds between any two looks.
fn stepping() -> Duration {
    static LOOKS: AtomicU64 = AtomicU64::new(0);
    Duration::from_millis(3 * LOOKS.fetch_add(1, Ordering::SeqCst))
}

#[test]
fn every_request_is_counted_once_under_its_operation_and_status() {
    let server = Server::with(|app| {
        app.node.metrics_key = Some(MetricsKey::parse(KEY).unwrap());
        app.ticks = stepping;
    });
    let keys = server.tenant(Settings::default());
    let before = scrape(&server);
    assert_eq!(
        before.find("scrip_requests_total", &[("operation", "get_token"), ("status", "200")]),
        None
    );
    assert_eq!(
        before.value("scrip_requests_total", &[("operation", "get_token"), ("status", "503")]),
        0.0
    );

    let id = text(&server.created(&keys.private, &card(&new_number())), "id");
    (0..5).for_each(|_| drop(server.get(&keys.private, &id).is(200)));
    (0..3).for_each(|_| drop(server.get(&keys.private, "none").is(404)));
    (0..2).for_each(|_| drop(server.get("nobodys", &id).is(401)));
    server.ask("GET", &format!("/tokens/{id}")).send().is(401);
    server.get(&keys.public, &id).is(403);
    server.create(&keys.private, &json!({"type": "card", "data": {"number": "1"}})).is(400);
    server.ask("GET", "/no/such/path").send().is(404);
    server.ask("DELETE", "/tokens").send().is(405);

    let after = scrape(&server);
    let of = |operation, status| {
        after.find("scrip_requests_total", &[("operation", operation), ("status", status)])
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
        assert_eq!(of(operation, status), count, "{operation} {status}");
    }
    // Every answer took as long as there is between two looks.
    let of = |suffix: &str| {
        let name = format!("scrip_request_duration_seconds{suffix}");
        after.value(&name, &[("operation", "get_token")])
    };
    assert_eq!(of("_count"), 12.0);
    assert!((of("_sum") - 12.0 * 0.003).abs() < 1e-9, "{}", of("_sum"));
    let bucket = |le| {
        let labels = [("operation", "get_token"), ("le", le)];
        after.value("scrip_request_duration_seconds_bucket", &labels)
    };
    assert_eq!((bucket("0.0025"), bucket("0.005")), (0.0, 12.0));
    let refused = |reason| after.value("scrip_requests_refused_total", &[("reason", reason)]);
    assert_eq!(
        (refused("no_route"), refused("method_not_allowed"), refused("sealed")),
        (1.0, 1.0, 0.0)
    );
}

#[test]
fn our_own_failures_are_counted() {
    let server = Server::with(|app| {
        app.node.metrics_key = Some(MetricsKey::parse(KEY).unwrap());
        app.body_memory = BodyMemory::new(1024 * 1024, 1);
    });
    let keys = server.tenant(Settings::default());
    let large = json!({"type": "token", "data": "x".repeat(100_000)});
    (0..4).for_each(|_| drop(server.create(&keys.private, &large).is(503)));
    let of = |page: &Page| {
        let labels = [("operation", "create_token"), ("status", "503")];
        page.value("scrip_requests_total", &labels)
    };
    let page = scrape(&server);
    assert_eq!(of(&page), 4.0);
    server.created(&keys.private, &json!({"type": "token", "data": 1}));
    let page = scrape(&server);
    assert_eq!(of(&page), 4.0);
    let free = page.value("scrip_body_memory_free_bytes", &[("pool", "keyed")]);
    assert_eq!(free, 1024.0 * 1024.0);
}

#[test]
fn keys_that_do_not_open_are_counted_by_reason() {
    let server = with_key();
    let keys = server.tenant(Settings::default());
    server.ask("GET", "/tokens/1").send().is(401);
    server.get("nobodys", "1").is(401);
    server.get("nobodys", "1").is(401);
    server.ask("GET", "/tokens/1").key(&keys.private).key(&keys.private).send().is(400);
    server.get(&keys.private, "1").is(404);
    let page = scrape(&server);
    let of = |reason| page.value("scrip_authentication_failures_total", &[("reason", reason)]);
    assert_eq!(
        (of("missing"), of("unknown"), of("malformed"), of("refused")),
        (1.0, 2.0, 1.0, 0.0)
    );
}

/// The head of a request whose body is to follow.
fn begin(server: &Server, key: &str, once: &str, length: usize) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let head = format!(
        "POST /tokens HTTP/1.1\r\nHost: x\r\nConnection: close\r\nBT-API-KEY: {key}\r\n\
         BT-IDEMPOTENCY-KEY: {once}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

#[test]
fn a_request_is_in_flight_until_it_is_answered_and_its_key_takes_one_turn() {
    let server = with_key();
    let keys = server.tenant(Settings::default());
    let body = r#"{"type":"token","data":1}"#;
    let mut first = begin(&server, &keys.private, "one", body.len());
    let turn = |page: &Page, turn| page.value("scrip_idempotency_turns_total", &[("turn", turn)]);
    assert!(eventually(|| turn(&scrape(&server), "first") == 1.0));
    // The scrape itself is the second.
    assert_eq!(scrape(&server).value("scrip_requests_in_flight", &[]), 2.0);
    let page = scrape(&server);
    assert!(page.value("scrip_connections", &[]) >= 2.0);
    assert!(page.value("scrip_connections_accepted_total", &[]) >= 4.0);

    let again = || {
        let body = serde_json::from_str(body).unwrap();
        server.ask("POST", "/tokens").key(&keys.private).once("one").json(&body).send()
    };
    again().is(409);
    first.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    first.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    again().is(201);
    again().is(201);
    let page = scrape(&server);
    assert_eq!(
        (turn(&page, "first"), turn(&page, "replay"), turn(&page, "conflict")),
        (1.0, 2.0, 1.0)
    );
    assert_eq!(page.value("scrip_requests_in_flight", &[]), 1.0);

    // One that is broken off ends too.
    let broken = begin(&server, &keys.private, "two", body.len());
    assert!(eventually(|| turn(&scrape(&server), "first") == 2.0));
    drop(broken);
    assert!(eventually(|| scrape(&server).value("scrip_requests_in_flight", &[]) == 1.0));
}

#[test]
fn writes_are_counted_by_the_commits_that_they_share() {
    const WRITES: usize = 40;
    let server = with_key();
    let keys = server.tenant(Settings::default());
    let of = |page: &Page, name: &str| page.value(name, &[("log", "vault")]);
    let before = scrape(&server);
    std::thread::scope(|scope| {
        for _ in 0..WRITES {
            scope.spawn(|| server.created(&keys.private, &card(&new_number())));
        }
    });
    let after = scrape(&server);
    let rise = |name: &str| of(&after, name) - of(&before, name);
    // Background work writes as well, a little.
    let (writes, commits) =
        (rise("scrip_store_commit_batch_size_sum"), rise("scrip_store_commit_batch_size_count"));
    assert!(writes >= 40.0 && commits >= 1.0 && commits <= writes, "{writes} {commits}");
    assert_eq!(rise("scrip_store_commits_total"), commits);
    assert_eq!(rise("scrip_store_commit_failures_total"), 0.0);
    assert_eq!(of(&after, "scrip_store_queue_depth"), 0.0);
    assert_eq!(of(&after, "scrip_store_queue_max"), 4096.0);
    // PostgreSQL has its own clock and its own log, of which it tells itself.
    if !is_postgres() {
        assert_eq!(rise("scrip_store_commit_duration_seconds_count"), commits);
        assert!(of(&after, "scrip_store_wal_bytes") > 0.0);
    }
    assert!(after.value("scrip_store_readers_opened_total", &[]) >= 1.0);
    assert_eq!(after.value("scrip_store_readers_busy", &[]), 0.0);
    assert!(after.value("scrip_epoch_keys", &[]) >= 1.0, "the cards had codes");
}

#[test]
fn the_directory_and_the_caches_are_shown() {
    let server = with_key();
    let before = scrape(&server);
    let keys = server.tenant(Settings::default());
    let after = scrape(&server);
    let rise = |name: &str, labels: &[(&str, &str)]| {
        after.value(name, labels) - before.value(name, labels)
    };
    assert!(rise("scrip_directory_version", &[]) >= 1.0);
    assert_eq!(rise("scrip_directory_tenants", &[]), 1.0);
    assert!(rise("scrip_directory_reloads_total", &[("outcome", "done")]) >= 1.0);
    assert_eq!(after.value("scrip_directory_reloads_total", &[("outcome", "failed")]), 0.0);
    assert_eq!(after.value("scrip_sealed", &[]), 0.0);
    assert_eq!(after.value("scrip_policy_alterations", &[]), 0.0);
    // The cache is the process's, so others may use it meanwhile.
    let masked = json!({"type": "token", "data": "abcdef", "mask": "{{ data | reveal_last: 3 }}"});
    (0..3).for_each(|_| drop(server.created(&keys.private, &masked)));
    let cached = scrape(&server);
    let hits = |page: &Page| page.value("scrip_cache_hits_total", &[("cache", "expressions")]);
    assert!(hits(&cached) >= hits(&after) + 2.0);
    assert!(cached.value("scrip_cache_misses_total", &[("cache", "expressions")]) >= 1.0);
    assert!(cached.value("scrip_cache_entries", &[("cache", "expressions")]) >= 1.0);
}

#[test]
fn sweepers_tell_that_they_were_there() {
    let server = with_key();
    let kinds = [
        "tokens",
        "token_intents",
        "verification_codes",
        "answers",
        "access_sessions",
        "sessions",
        "session_events",
        "deleted_tenants",
    ];
    let finished = |kind| {
        let name = "scrip_sweeper_last_finished_timestamp_seconds";
        scrape(&server).value(name, &[("kind", kind)])
    };
    for kind in kinds {
        assert!(eventually(|| finished(kind) > 1_700_000_000.0), "{kind}");
        assert_eq!(scrape(&server).value("scrip_sweeper_failures_total", &[("kind", kind)]), 0.0);
    }
}

#[test]
fn the_limiter_tells_what_it_decided() {
    let server = Server::with(|app| {
        app.limiter = Limiter::default();
        app.node.metrics_key = Some(MetricsKey::parse(KEY).unwrap());
    });
    let keys = server.tenant(Settings::default());
    for _ in 0..50 {
        server.fetch(&keys.private, "/permissions").is(200);
    }
    server.fetch(&keys.private, "/permissions").is(429);
    let page = scrape(&server);
    let decided = |row: &str, decision: &str| {
        page.value("scrip_limiter_decisions_total", &[("row", row), ("decision", decision)])
    };
    let is = |row: &str, decision: &str, expected: f64| {
        assert!((decided(row, decision) - expected).abs() < 0.5, "{row} {decision}");
    };
    is("test_tenant", "allowed", 50.0);
    is("test_tenant", "refused", 1.0);
    is("private_application", "refused", 0.0);
    assert!(page.value("scrip_limiter_counters", &[]) >= 1.0);
    assert_eq!(page.find("scrip_shared_counters_up", &[]), None);
}

/// Whatever clients and tenants write, a label is one of our own words.
#[test]
fn labels_are_words_of_ours() {
    const MARK: &str = "hunter2";
    let server = with_key();
    let keys = server.tenant(Settings::default());
    let body = json!({"id": MARK, "type": "token", "data": MARK, "metadata": {MARK: MARK}});
    server.ask("POST", "/tokens").key(&keys.private).once(MARK).json(&body).send().is(201);
    server.get(&keys.private, MARK).is(200);
    server.get(MARK, MARK).is(401);
    server.ask("GET", "/hunter2").send().is(404);
    server.fetch(&keys.private, "/v2/tokens?metadata.hunter2=hunter2").is(200);
    let rule = grant("/hunter2/", Transform::Reveal, &[Permission::TokenRead]);
    server.rules(&keys.tenant, vec![rule]);

    let page = scrape(&server);
    let operations: BTreeSet<_> = ROUTES.iter().map(|it| it.operation.as_str()).collect();
    let words: BTreeSet<_> = "first replay conflict no_route method_not_allowed sealed missing \
        malformed unknown refused done failed tokens token_intents verification_codes answers \
        access_sessions sessions session_events guesses deleted_tenants records usage expressions vault access allowed 200 201 204 400 401 403 404 408 409 410 \
        411 413 415 422 429 500 503 other keyed keyless pool network_share network_full full \
        no_first_byte answer_not_read answer_rate descriptors"
        .split_whitespace()
        .collect();
    let mut series = 0;
    for sample in page.samples() {
        series += 1;
        for (name, word) in &sample.labels {
            let known = match name.as_str() {
                "operation" => operations.contains(word.as_str()),
                "row" => Row::ALL.iter().any(|it| it.as_str() == word),
                "le" => word == "+Inf" || word.parse::<f64>().is_ok(),
                "version" => word == env!("CARGO_PKG_VERSION"),
                "status" | "reason" | "turn" | "outcome" | "kind" | "cache" | "log"
                | "decision" | "pool" => words.contains(word.as_str()),
                "budget" => Budget::ALL.iter().any(|it| it.as_str() == word),
                _ => false,
            };
            assert!(known, "{name}={word} of {}", sample.name);
        }
    }
    // Bounded, whoever asks for what.
    let bound = operations.len() * (17 + 19) + 300;
    assert!(series <= bound, "{series} of {bound}");
}
