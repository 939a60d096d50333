//! The real program on PostgreSQL: creation, two nodes, operator commands, and database outages.

use std::fs;

use scrip_api::{app::readiness::NotReadyReason, metrics::label::Label};
use scrip_testing::{
    directory_server::authority::CertificateAuthority,
    postgres::cluster::Cluster,
    process::{
        harness::{ProcessHarness, RunningServer, becomes_true},
        prometheus::ParsedMetricsPage,
        redis::RedisServer,
    },
};
use serde_json::Value;

use crate::{
    operator::commands::{doctor_report, run_json, run_text},
    process::verification_codes::send_request,
    telemetry::metrics::scrape,
};

/// A PostgreSQL setting that turns off durable writes, which a test does not need.
pub(crate) const NO_FSYNC: &str = "fsync=off";
const PASSWORD: &str = "4242-4242";

/// Creates a node process on this cluster. PostgreSQL does not check the password, but the password
/// must not appear in any output.
fn process_on_cluster(cluster: &Cluster) -> ProcessHarness {
    let url = cluster.url().replace("scrip@", &format!("scrip:{PASSWORD}@"));
    let process = ProcessHarness::new(crate::SCRIP)
        .with_variable("SCRIP_STORAGE_URL", &url)
        .with_variable("SCRIP_SERVER_LOCK_MEMORY", "off");
    // Not always true, but only one test here depends on CVCs, and it configures their keys.
    process.with_variable("SCRIP_STORAGE_SINGLE_NODE", "true")
}

/// Creates a vault, a tenant, and an application key with all permissions.
pub(crate) fn create_vault(cluster: &Cluster) -> (ProcessHarness, Value) {
    let process = process_on_cluster(cluster);
    let output = run_text(&process, &["init"]);
    assert!(output.contains("created a vault in postgres://scrip:***@127.0.0.1"));
    run_text(&process, &["tenant", "create", "Acme", "--type", "test"]);
    let application = create_application(&process);
    (process, application)
}

fn create_application(process: &ProcessHarness) -> Value {
    let create_command =
        ["application", "create", "--tenant", "Acme", "--name", "A", "--type", "private"];
    run_json(process, &[&create_command[..], &["--all"]].concat())
}

/// Creates a node on another machine. Only the root key is the same.
pub(crate) fn another_node(first: &ProcessHarness, cluster: &Cluster) -> ProcessHarness {
    let key = fs::read_to_string(first.data().join("root.key")).unwrap();
    process_on_cluster(cluster).with_variable("SCRIP_ROOT_KEY", key.trim())
}

fn key(application: &Value) -> &str {
    application["key"].as_str().unwrap()
}

fn wait_until_ready(server: &RunningServer) -> bool {
    becomes_true(|| server.status("/readyz") == 200)
}

fn create_token(server: &RunningServer, key: &str) -> u16 {
    let body = serde_json::json!({"type": "token", "data": "x"});
    server.request("POST", "/tokens").api_key(key).json(&body).send().status
}

#[test]
fn vault_on_postgres_can_be_created_and_operated() {
    let cluster = Cluster::start(&[]);
    let empty_process = process_on_cluster(&cluster);
    empty_process.assert_fails(&["serve"], "there is no vault in this database; run: scrip init");
    empty_process.assert_fails(&["status"], "run: scrip init");
    let (process, application) = create_vault(&cluster);
    assert!(run_text(&process, &["init"]).contains("the root key opens it"));
    let server = process.serve();
    assert!(wait_until_ready(&server));
    assert_eq!(create_token(&server, key(&application)), 201);

    let status = run_json(&process, &["status"]);
    assert_eq!((&status["engine"], &status["counts"]["tokens"]), (&"PostgreSQL".into(), &1.into()));
    assert!(status["vault"].as_str().unwrap().starts_with("postgres://scrip:***@"), "{status}");
    assert!(status["server"]["pool"]["idle"].as_u64().unwrap() > 0, "{status}");
    let found = run_json(&process, &["doctor"]);
    let verdict_of = |check: &str| {
        let found = found["checks"].as_array().unwrap().iter().find(|it| it["check"] == check);
        found.unwrap_or_else(|| panic!("{check}: {found:?}"))["verdict"].as_str().unwrap()
    };
    for check in ["store", "PostgreSQL", "durability", "role", "transport", "canary", "policy"] {
        assert_eq!(verdict_of(check), "passed", "{check}: {found}");
    }

    let file = process.path("backup").display().to_string();
    process.assert_fails(&["backup", &file], "docs/operate/backup.md");
    process.assert_fails(&["restore", &file], "docs/operate/backup.md");
    assert!(run_text(&process, &["bin", "status"]).contains("built-in"));
    // A data directory belongs to one node.
    process.assert_fails(&["serve"], "is in use by server process");
    let settings = run_text(&process, &["config", "check"])
        + &run_text(&process, &["config", "check", "--json"]);
    assert!(settings.contains("postgres://scrip:***@"), "{settings}");
    for text in [settings, process.log(), format!("{found}{status}")] {
        assert!(!text.contains(PASSWORD), "{text}");
    }
}

#[test]
fn doctor_reports_settings_that_lose_writes() {
    let cluster = Cluster::start(&[NO_FSYNC, "synchronous_commit=off"]);
    let (process, _) = create_vault(&cluster);
    process.assert_fails(&["doctor"], "1 of");
    let output = process.run(&["doctor"]);
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(report.contains("ERROR    durability      fsync is off"));
}

#[test]
fn schema_is_migrated_only_by_command_or_setting() {
    let cluster = Cluster::start(&[NO_FSYNC]);
    // Create the database state before the first migration.
    cluster.query_primary(
        "SET ROLE scrip; CREATE TABLE schema_state (singleton INTEGER PRIMARY KEY CHECK (singleton = 1), \
         version BIGINT NOT NULL); INSERT INTO schema_state VALUES (1, 0)",
    );
    let process = process_on_cluster(&cluster);
    process.assert_fails(&["serve"], "run: scrip migrate");
    let allowed = process_on_cluster(&cluster).with_variable("SCRIP_STORAGE_MIGRATE", "on");
    let server = allowed.serve();
    assert_eq!(server.status("/readyz"), 503, "a schema without a vault must not be ready");
    allowed.wait_for_log("migrated the PostgreSQL schema");
    drop(server);
    let second_output = run_json(&process, &["migrate"]);
    assert_eq!(second_output["from"], second_output["to"]);

    cluster.query_primary("UPDATE schema_state SET version = 9999");
    for command in ["serve", "migrate", "init", "status"] {
        process.assert_fails(&[command], "run a newer scrip");
    }
    ProcessHarness::new(crate::SCRIP).assert_fails(&["migrate"], "storage.url is empty");
}

#[test]
fn concurrent_migrations_run_once() {
    let cluster = Cluster::start(&[NO_FSYNC]);
    let processes: Vec<_> = (0..6).map(|_| process_on_cluster(&cluster)).collect();
    let start_migration = |process: &ProcessHarness| {
        let mut command = process.command(&["migrate", "--json"]);
        command.stdout(std::process::Stdio::piped()).spawn().unwrap()
    };
    let migrations: Vec<_> = processes.iter().map(start_migration).collect();
    let read_output = |it: std::process::Child| {
        let output = it.wait_with_output().unwrap();
        assert!(output.status.success());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["from"].as_i64().unwrap()
    };
    let old_versions: Vec<_> = migrations.into_iter().map(read_output).collect();
    assert_eq!(old_versions.iter().filter(|it| **it == 0).count(), 1, "{old_versions:?}");
}

#[test]
fn changes_on_one_node_are_visible_on_the_other() {
    let cluster = Cluster::start(&[NO_FSYNC]);
    let (first, application) = create_vault(&cluster);
    let second_process = another_node(&first, &cluster);
    let (first_server, second_server) = (first.serve(), second_process.serve());
    assert!(wait_until_ready(&first_server) && wait_until_ready(&second_server));
    assert_eq!(
        (
            create_token(&first_server, key(&application)),
            create_token(&second_server, key(&application))
        ),
        (201, 201)
    );
    // A command on one machine creates the application.
    let created = create_application(&first);
    assert!(becomes_true(|| create_token(&second_server, key(&created)) == 201));
    run_text(&second_process, &["application", "delete", created["id"].as_str().unwrap()]);
    assert!(becomes_true(|| create_token(&first_server, key(&created)) == 401));
    assert_eq!(create_token(&first_server, key(&application)), 201);
    for process in [&first, &second_process] {
        assert!(run_text(process, &["audit", "verify"]).contains("no problems"));
        assert!(process.data().join("audit.head").exists());
    }
}

#[test]
fn altered_audit_record_is_detected() {
    let cluster = Cluster::start(&[NO_FSYNC]);
    let (process, application) = create_vault(&cluster);
    let mut server = process.serve();
    assert!(wait_until_ready(&server));
    for _ in 0..3 {
        assert_eq!(create_token(&server, key(&application)), 201);
    }
    server.stop();
    let verified = run_json(&process, &["audit", "verify"]);
    assert_eq!(verified["ok"], true);
    assert_eq!(verified["problems"].as_array().unwrap().len(), 0);
    assert!(verified["logs"][0]["records"].as_u64().unwrap() >= 5, "{verified}");

    let verify = || {
        let output = process.run(&["audit", "verify", "--json"]);
        assert_eq!(output.status.code(), Some(1));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let problems = report["problems"].as_array().unwrap().iter();
        let mut problems: Vec<_> =
            problems.map(|it| it["what"].as_str().unwrap().to_owned()).collect();
        problems.dedup();
        problems
    };
    let audit = "WHERE log = 'audit' AND sequence";
    cluster.query_primary(&format!("UPDATE log_records SET outcome = 'created!' {audit} = 3"));
    assert_eq!(verify(), ["altered"]);
    cluster.query_primary(&format!("DELETE FROM log_records {audit} = 3"));
    assert_eq!(verify(), ["missing"]);
    cluster.query_primary(&format!("DELETE FROM log_records {audit} >= 3"));
    assert_eq!(verify(), ["truncated", "rolled_back"]);
    cluster.query_primary("UPDATE chain_heads SET link = 'short' WHERE log = 'audit'");
    assert!(verify().contains(&"unreadable".to_owned()));
    cluster.query_primary("DELETE FROM log_records; DELETE FROM chain_heads");
    assert!(verify().contains(&"chain_missing".to_owned()));
}

#[test]
fn postgres_tls_requires_a_certificate_of_the_configured_ca() {
    let mut cluster = Cluster::start(&[NO_FSYNC]);
    let process = process_on_cluster(&cluster);
    let folder = process.path("ca");
    fs::create_dir(&folder).unwrap();
    let (ours, other) =
        (CertificateAuthority::new(&folder, "ours"), CertificateAuthority::new(&folder, "other"));
    let issued = ours.issue("postgres", &["127.0.0.1"]);
    let pem = |it| fs::read_to_string(it).unwrap();
    let secure = format!("{}?sslmode=verify-full", cluster.primary_url());
    let trusting = |process: ProcessHarness, url: &str, authority: &CertificateAuthority| {
        let roots_path = authority.roots_file().display().to_string();
        process
            .with_variable("SCRIP_STORAGE_URL", url)
            .with_variable("SCRIP_STORAGE_CA_FILE", &roots_path)
    };
    let process = trusting(process, &secure, &ours);
    process.assert_fails(&["init"], "cannot be reached: error performing TLS handshake");
    cluster.enable_tls(&pem(&issued.certificate), &pem(&issued.key));

    run_text(&process, &["init"]);
    let server = process.serve();
    assert!(wait_until_ready(&server));
    let own_connections = "SELECT bool_and(ssl)::text FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                 WHERE application_name = 'scrip'";
    assert_eq!(cluster.query_primary(own_connections), ["true"]);
    let expect_rejected = |url: &str, authority: &CertificateAuthority, reason: &str| {
        trusting(ProcessHarness::new(crate::SCRIP), url, authority)
            .assert_fails(&["status"], reason);
    };
    expect_rejected(&secure, &other, "UnknownIssuer");
    // Connect to the same server under a name that is not in its certificate.
    let url_with_host_name = secure.replace("127.0.0.1", "localhost");
    expect_rejected(&url_with_host_name, &ours, "certificate not valid for name");
    let system = ProcessHarness::new(crate::SCRIP).with_variable("SCRIP_STORAGE_URL", &secure);
    system.assert_fails(&["status"], "UnknownIssuer");
    for mode in ["require", "prefer", "verify-ca"] {
        let url = secure.replace("verify-full", mode);
        ProcessHarness::new(crate::SCRIP)
            .with_variable("SCRIP_STORAGE_URL", &url)
            .assert_fails(&["serve"], "sslmode=verify-full");
    }
}

/// A running node and a starting node both report the outage.
#[test]
fn node_returns_503_until_postgres_is_back() {
    let mut cluster = Cluster::start(&[NO_FSYNC]);
    let (process, application) = create_vault(&cluster);
    let server = process.serve();
    assert!(wait_until_ready(&server));
    cluster.kill_primary();
    // The node reports the outage as soon as the last check is a quarter of a second old, not only
    // when the directory is too old.
    assert!(becomes_true(|| server.status("/readyz") == 503));
    let response = server.send("GET", "/readyz");
    assert_eq!((response.status, response.header("retry-after")), (503, Some("1")));
    assert_eq!((create_token(&server, key(&application)), server.status("/healthz")), (503, 200));
    process.assert_fails(&["status"], "PostgreSQL cannot be reached");
    let other_node = another_node(&process, &cluster);
    other_node.assert_fails(&["serve"], "PostgreSQL cannot be reached");
    cluster.restart_primary();
    assert!(wait_until_ready(&server));
    assert!(becomes_true(|| create_token(&server, key(&application)) == 201));
}

/// Expects that the metrics report only this reason, and whether the vault is sealed.
fn reports_only(server: &RunningServer, expected: Option<&str>, sealed: f64) -> bool {
    let page = scrape(server);
    let is_expected = |reason: &NotReadyReason| {
        let value = page.value("scrip_not_ready", &[("reason", reason.as_str())]);
        value == f64::from(u8::from(expected == Some(reason.as_str())))
    };
    NotReadyReason::ALL.iter().all(is_expected) && page.value("scrip_sealed", &[]) == sealed
}

#[test]
fn postgres_outage_is_reported_as_an_unreachable_store_and_not_as_sealed() {
    let mut cluster = Cluster::start(&[NO_FSYNC]);
    let (process, application) = create_vault(&cluster);
    let with_metrics = |it: ProcessHarness| it.with_variable("SCRIP_METRICS_LISTEN", "127.0.0.1:0");
    let process = with_metrics(process);
    let server = process.serve();
    assert!(wait_until_ready(&server));
    assert_eq!(scrape(&server).value("scrip_store_up", &[]), 1.0);
    let sealed_process = with_metrics(process_on_cluster(&cluster));
    let sealed_server = sealed_process.serve();
    assert!(becomes_true(|| reports_only(&sealed_server, Some("root_key"), 1.0)));
    assert!(sealed_server.send("GET", "/readyz").text().contains("the vault is sealed"));
    cluster.kill_primary();
    let unrouted = |page: &ParsedMetricsPage| {
        page.value("scrip_requests_unrouted_total", &[("reason", "store_unreachable")])
    };
    // After two seconds every path is rejected, because the policy in memory may be outdated.
    assert!(becomes_true(
        || server.status("/no-such-path") == 503 && unrouted(&scrape(&server)) > 0.0
    ));
    for path in ["/readyz", "/tokens/1", "/no-such-path"] {
        let response = server.request("GET", path).api_key(key(&application)).send();
        assert_eq!((response.status, response.header("retry-after")), (503, Some("1")));
        let body = response.text();
        assert!(body.contains("the database of the vault cannot be reached"), "{path}: {body}");
        assert!(!body.contains("sealed") && !body.contains("127.0.0.1"), "{path}: {body}");
    }
    assert_eq!(scrape(&server).value("scrip_store_up", &[]), 0.0);
    assert!(reports_only(&server, Some("store_unreachable"), 0.0));
    assert!(becomes_true(|| reports_only(&sealed_server, Some("store_unreachable"), 0.0)));
    let body = sealed_server.send("GET", "/tokens/1").text();
    assert!(body.contains("the database of the vault cannot be reached"), "{body}");
    let report = doctor_report(&process);
    assert!(report.contains("ERROR    PostgreSQL      cannot be reached or used"), "{report}");
    assert!(report.contains("ERROR    server"), "{report}");
    assert!(!report.contains("is sealed") && !report.contains(PASSWORD), "{report}");
    cluster.restart_primary();
    assert!(wait_until_ready(&server));
    assert!(becomes_true(|| reports_only(&server, None, 0.0)));
    assert!(becomes_true(|| reports_only(&sealed_server, Some("root_key"), 1.0)));
    assert_eq!(scrape(&server).value("scrip_store_up", &[]), 1.0);
    assert!(becomes_true(|| create_token(&server, key(&application)) == 201));
    let log = process.log();
    for line in ["PostgreSQL is away: requests are refused", "PostgreSQL is back"] {
        assert_eq!(log.matches(line).count(), 1, "{line}: {log}");
    }
    assert!(!log.contains("vault is sealed") && !log.contains(PASSWORD), "{log}");
}

#[test]
fn hanging_postgres_does_not_hang_the_server() {
    let mut cluster = Cluster::start(&[NO_FSYNC]);
    let (process, application) = create_vault(&cluster);
    let server = process.serve();
    assert!(wait_until_ready(&server));
    assert_eq!(create_token(&server, key(&application)), 201);
    cluster.freeze_primary();
    assert!(becomes_true(|| server.status("/readyz") == 503));
    assert_eq!(server.status("/healthz"), 200);
    assert_eq!(create_token(&server, key(&application)), 503);
    cluster.resume_primary();
    assert!(wait_until_ready(&server));
    assert!(becomes_true(|| create_token(&server, key(&application)) == 201));
}

#[test]
fn nodes_share_cvcs_through_redis() {
    let (cluster, redis) = (Cluster::start(&[NO_FSYNC]), RedisServer::start());
    let (first, _) = create_vault(&cluster);
    let first = first.with_variable("SCRIP_STORAGE_SINGLE_NODE", "false");
    first.assert_fails(&["serve"], "or set storage.single_node = true");
    let sharing = |it: ProcessHarness| {
        let it = it.with_variable("SCRIP_STORAGE_SINGLE_NODE", "false");
        it.with_variable("SCRIP_CVC_EPOCH_KEYS", &redis.url())
    };
    let first = sharing(first);
    let second_process = sharing(another_node(&first, &cluster));
    let rule = serde_json::json!({
        "description": "all", "priority": 1, "container": "/", "transform": "reveal",
        "permissions": ["token:create", "token:read"],
    });
    let create_command =
        ["application", "create", "--tenant", "Acme", "--name", "B", "--type", "private"];
    let application =
        run_json(&first, &[&create_command[..], &["--rule", &rule.to_string()]].concat());
    let key = key(&application);
    let nodes = [first.serve(), second_process.serve()];
    assert!(nodes.iter().all(wait_until_ready));
    let card = serde_json::json!({"number": "4242424242424242", "cvc": "123"});
    for (creator, reader) in [(0, 1), (1, 0)] {
        let body = serde_json::json!({"type": "card", "data": card});
        let (status, created) = send_request(&nodes[creator], key, "POST", "/tokens", &body);
        assert_eq!(status, 201, "{created}");
        let path = format!("/tokens/{}", created["id"].as_str().unwrap());
        let (status, token) = send_request(&nodes[reader], key, "GET", &path, &Value::Null);
        assert_eq!((status, &token["data"]["cvc"]), (200, &"123".into()), "{token}");
    }
}

/// A commit that waits for a standby holds the lock of its chain, so other processes wait too.
#[test]
fn command_names_a_commit_that_does_not_end() {
    const LOCK: &str = "LOCK TABLE chain_heads IN EXCLUSIVE MODE; SELECT pg_sleep(600)";
    const IS_LOCKED: &str = "SELECT count(*)::text FROM pg_locks \
        WHERE mode = 'ExclusiveLock' AND relation = 'chain_heads'::regclass";
    const END: &str = "SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity \
        WHERE query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()";
    let cluster = Cluster::start(&[NO_FSYNC]);
    let (process, _) = create_vault(&cluster);
    let (key_list, doctor) = std::thread::scope(|scope| {
        let lock = scope.spawn(|| cluster.query_primary(LOCK));
        let is_locked = becomes_true(|| cluster.query_primary(IS_LOCKED) == ["1"]);
        let outputs = (process.run(&["key", "list"]), process.run(&["doctor"]));
        cluster.query_primary(END);
        drop(lock.join());
        assert!(is_locked);
        outputs
    });
    let cause = "an earlier commit got no response in time";
    let message = String::from_utf8(key_list.stderr).unwrap();
    assert!(!key_list.status.success() && message.contains(cause), "{message}");
    assert!(message.contains("was not run"), "{message}");
    let report = String::from_utf8(doctor.stdout).unwrap();
    let line = report.lines().find(|it| it.contains("recording this command failed")).unwrap();
    assert!(line.contains(cause), "{line}");
}
