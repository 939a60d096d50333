//! The real program on PostgreSQL: made, served by two nodes, looked after, and when the database is
//! away.

use std::{fs, time::Duration};

use scrip_testing::{
    directory_server::authority::CertificateAuthority,
    postgres::cluster::Cluster,
    process::{
        harness::{ProcessHarness, RunningServer, becomes_true},
        terminate, wait,
    },
    redis::RedisServer,
};
use serde_json::Value;

use crate::{
    operator::commands::{run_json, run_text},
    process::verification_codes::send_request,
};

/// What no machine of a test needs.
const NO_FSYNC: &str = "fsync=off";
const PASSWORD: &str = "4242-4242";

/// A node's house. Nobody asks for the password, but it has to be nowhere.
fn process_on_cluster(cluster: &Cluster) -> ProcessHarness {
    let url = cluster.url().replace("scrip@", &format!("scrip:{PASSWORD}@"));
    let process = ProcessHarness::new(crate::SCRIP)
        .with_variable("SCRIP_STORAGE_URL", &url)
        .with_variable("SCRIP_SERVER_LOCK_MEMORY", "off");
    // Not always true; but only one test here is about codes, and says where their keys are.
    process.with_variable("SCRIP_STORAGE_ONLY_NODE", "true")
}

/// With a vault, a tenant, and the key of an application that may do everything.
fn create_vault(cluster: &Cluster) -> (ProcessHarness, Value) {
    let process = process_on_cluster(cluster);
    assert!(
        run_text(&process, &["init"]).contains("made a vault in postgres://scrip:***@127.0.0.1")
    );
    run_text(&process, &["tenant", "create", "Acme"]);
    let application = create_application(&process);
    (process, application)
}

fn create_application(process: &ProcessHarness) -> Value {
    let create = ["application", "create", "--tenant", "Acme", "--name", "A", "--type", "private"];
    run_json(process, &[&create[..], &["--all"]].concat())
}

/// Another machine, with nothing but the root key.
fn another_node(first: &ProcessHarness, cluster: &Cluster) -> ProcessHarness {
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
    let config = ureq::Agent::config_builder().http_status_as_error(false).build();
    let agent: ureq::Agent = config.into();
    let request = agent.post(format!("{}/tokens", server.url)).header("BT-API-KEY", key);
    let body = serde_json::json!({"type": "token", "data": "x"});
    request.send_json(body).expect("an answer").status().as_u16()
}

#[test]
fn vault_on_postgres_can_be_created_and_operated() {
    let cluster = Cluster::start(&[]);
    let empty = process_on_cluster(&cluster);
    empty.assert_fails(&["serve"], "there is no vault in this database; run: scrip init");
    empty.assert_fails(&["status"], "run: scrip init");
    let (process, application) = create_vault(&cluster);
    assert!(run_text(&process, &["init"]).contains("its root key opens it"));
    let server = process.serve();
    assert!(wait_until_ready(&server));
    assert_eq!(create_token(&server, key(&application)), 201);

    let status = run_json(&process, &["status"]);
    assert_eq!((&status["engine"], &status["counts"]["tokens"]), (&"PostgreSQL".into(), &1.into()));
    assert!(status["vault"].as_str().unwrap().starts_with("postgres://scrip:***@"), "{status}");
    assert!(status["server"]["pool"]["idle"].as_u64().unwrap() > 0, "{status}");
    let found = run_json(&process, &["doctor"]);
    let of = |check: &str| {
        let found = found["checks"].as_array().unwrap().iter().find(|it| it["check"] == check);
        found.unwrap_or_else(|| panic!("{check}: {found:?}"))["verdict"].as_str().unwrap()
    };
    for check in ["store", "PostgreSQL", "durability", "role", "transport", "canary", "policy"] {
        assert_eq!(of(check), "good", "{check}: {found}");
    }

    let file = process.path("backup").display().to_string();
    process.assert_fails(&["backup", &file], "docs/operate/postgres.md");
    process.assert_fails(&["restore", &file], "docs/operate/postgres.md");
    assert!(run_text(&process, &["bin", "status"]).contains("built-in"));
    // One data directory is one node's.
    process.assert_fails(&["serve"], "is served by process");
    let shown = run_text(&process, &["config", "check"])
        + &run_text(&process, &["config", "check", "--json"]);
    assert!(shown.contains("postgres://scrip:***@"), "{shown}");
    for said in [shown, process.log(), format!("{found}{status}")] {
        assert!(!said.contains(PASSWORD), "{said}");
    }
}

#[test]
fn doctor_reports_settings_that_lose_writes() {
    let cluster = Cluster::start(&[NO_FSYNC, "synchronous_commit=off"]);
    let (process, _) = create_vault(&cluster);
    process.assert_fails(&["doctor"], "1 of");
    let output = process.run(&["doctor"]);
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("WRONG    durability    fsync is off")
    );
}

#[test]
fn schema_is_migrated_only_by_command_or_setting() {
    let cluster = Cluster::start(&[NO_FSYNC]);
    // As it would be before the first migration.
    cluster.query_primary(
        "SET ROLE scrip; CREATE TABLE schema_state (one INTEGER PRIMARY KEY CHECK (one = 1), \
         version BIGINT NOT NULL); INSERT INTO schema_state VALUES (1, 0)",
    );
    let process = process_on_cluster(&cluster);
    process.assert_fails(&["serve"], "run: scrip migrate");
    let allowed = process_on_cluster(&cluster).with_variable("SCRIP_STORAGE_MIGRATE", "on");
    let server = allowed.serve();
    assert_eq!(server.status("/readyz"), 503, "there is a schema, and no vault");
    allowed.wait_for_log("the schema was brought up to date");
    drop(server);
    let again = run_json(&process, &["migrate"]);
    assert_eq!(again["from"], again["to"]);

    cluster.query_primary("UPDATE schema_state SET version = 9999");
    for command in ["serve", "migrate", "init", "status"] {
        process.assert_fails(&[command], "run a newer scrip");
    }
    ProcessHarness::new(crate::SCRIP).assert_fails(&["migrate"], "storage.url is empty");
}

#[test]
fn concurrent_migrations_run_once() {
    let cluster = Cluster::start(&[NO_FSYNC]);
    let houses: Vec<_> = (0..6).map(|_| process_on_cluster(&cluster)).collect();
    let start = |process: &ProcessHarness| {
        let mut command = process.command(&["migrate", "--json"]);
        command.stdout(std::process::Stdio::piped()).spawn().unwrap()
    };
    let running: Vec<_> = houses.iter().map(start).collect();
    let from = |it: std::process::Child| {
        let output = it.wait_with_output().unwrap();
        assert!(output.status.success());
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        said["from"].as_i64().unwrap()
    };
    let began: Vec<_> = running.into_iter().map(from).collect();
    assert_eq!(began.iter().filter(|it| **it == 0).count(), 1, "{began:?}");
}

#[test]
fn changes_on_one_node_are_visible_on_the_other() {
    let cluster = Cluster::start(&[NO_FSYNC]);
    let (first, application) = create_vault(&cluster);
    let second = another_node(&first, &cluster);
    let (one, two) = (first.serve(), second.serve());
    assert!(wait_until_ready(&one) && wait_until_ready(&two));
    assert_eq!(
        (create_token(&one, key(&application)), create_token(&two, key(&application))),
        (201, 201)
    );
    // Made on one machine, by its command.
    let created = create_application(&first);
    assert!(becomes_true(|| create_token(&two, key(&created)) == 201));
    run_text(&second, &["application", "delete", created["id"].as_str().unwrap()]);
    assert!(becomes_true(|| create_token(&one, key(&created)) == 401));
    assert_eq!(create_token(&one, key(&application)), 201);
    for process in [&first, &second] {
        assert!(run_text(process, &["audit", "verify"]).contains("as they were written"));
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
    terminate(&server.child);
    assert!(wait(&mut server.child, Duration::from_secs(20)).unwrap().success());
    let verified = run_json(&process, &["audit", "verify"]);
    assert_eq!(
        (&verified["ok"], verified["problems"].as_array().unwrap().len()),
        (&true.into(), 0)
    );
    assert!(verified["logs"][0]["records"].as_u64().unwrap() >= 5, "{verified}");

    let found = || {
        let output = process.run(&["audit", "verify", "--json"]);
        assert_eq!(output.status.code(), Some(1));
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        let whats = said["problems"].as_array().unwrap().iter();
        let mut whats: Vec<_> = whats.map(|it| it["what"].as_str().unwrap().to_owned()).collect();
        whats.dedup();
        whats
    };
    let audit = "WHERE log = 'audit' AND n";
    cluster.query_primary(&format!("UPDATE records SET outcome = 'created!' {audit} = 3"));
    assert_eq!(found(), ["altered"]);
    cluster.query_primary(&format!("DELETE FROM records {audit} = 3"));
    assert_eq!(found(), ["missing"]);
    cluster.query_primary(&format!("DELETE FROM records {audit} >= 3"));
    assert_eq!(found(), ["truncated", "rolled_back"]);
    cluster.query_primary("UPDATE heads SET link = 'short' WHERE log = 'audit'");
    assert!(found().contains(&"unreadable".to_owned()));
    cluster.query_primary("DELETE FROM records; DELETE FROM heads");
    assert!(found().contains(&"chain_missing".to_owned()));
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
        let roots = authority.roots_file().display().to_string();
        process
            .with_variable("SCRIP_STORAGE_URL", url)
            .with_variable("SCRIP_STORAGE_CA_FILE", &roots)
    };
    let process = trusting(process, &secure, &ours);
    process.assert_fails(&["init"], "cannot be reached: error performing TLS handshake");
    cluster.enable_tls(&pem(&issued.certificate), &pem(&issued.key));

    run_text(&process, &["init"]);
    let server = process.serve();
    assert!(wait_until_ready(&server));
    let of_us = "SELECT bool_and(ssl)::text FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                 WHERE application_name = 'scrip'";
    assert_eq!(cluster.query_primary(of_us), ["true"]);
    let rejected = |url: &str, authority: &CertificateAuthority, why: &str| {
        trusting(ProcessHarness::new(crate::SCRIP), url, authority).assert_fails(&["status"], why);
    };
    rejected(&secure, &other, "UnknownIssuer");
    // The same server by a name that its certificate does not have.
    let named = secure.replace("127.0.0.1", "localhost");
    rejected(&named, &ours, "certificate not valid for name");
    let system = ProcessHarness::new(crate::SCRIP).with_variable("SCRIP_STORAGE_URL", &secure);
    system.assert_fails(&["status"], "UnknownIssuer");
    for mode in ["require", "prefer", "verify-ca"] {
        let url = secure.replace("verify-full", mode);
        ProcessHarness::new(crate::SCRIP)
            .with_variable("SCRIP_STORAGE_URL", &url)
            .assert_fails(&["serve"], "sslmode=verify-full");
    }
}

/// What is said while it is away, by who runs and by who starts.
#[test]
fn node_returns_503_until_postgres_is_back() {
    let mut cluster = Cluster::start(&[NO_FSYNC]);
    let (process, application) = create_vault(&cluster);
    let server = process.serve();
    assert!(wait_until_ready(&server));
    cluster.kill_primary();
    // As soon as the last answer is a quarter of a second old, and not only when the directory has
    // not been followed for too long.
    assert!(becomes_true(|| server.status("/readyz") == 503));
    let reply = server.send("GET", "/readyz");
    assert_eq!((reply.status, reply.retry_after.as_deref()), (503, Some("1")));
    assert_eq!((create_token(&server, key(&application)), server.status("/healthz")), (503, 200));
    process.assert_fails(&["status"], "PostgreSQL cannot be reached");
    let other = another_node(&process, &cluster);
    other.assert_fails(&["serve"], "PostgreSQL cannot be reached");
    cluster.restart_primary();
    assert!(wait_until_ready(&server));
    assert!(becomes_true(|| create_token(&server, key(&application)) == 201));
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
    let first = first.with_variable("SCRIP_STORAGE_ONLY_NODE", "false");
    first.assert_fails(&["serve"], "or say storage.only_node = true");
    let sharing = |it: ProcessHarness| {
        let it = it.with_variable("SCRIP_STORAGE_ONLY_NODE", "false");
        it.with_variable("SCRIP_CVC_EPOCH_KEYS", &redis.url())
    };
    let first = sharing(first);
    let second = sharing(another_node(&first, &cluster));
    let rule = serde_json::json!({
        "description": "all", "priority": 1, "container": "/", "transform": "reveal",
        "permissions": ["token:create", "token:read"],
    });
    let create = ["application", "create", "--tenant", "Acme", "--name", "B", "--type", "private"];
    let application = run_json(&first, &[&create[..], &["--rule", &rule.to_string()]].concat());
    let key = key(&application);
    let nodes = [first.serve(), second.serve()];
    assert!(nodes.iter().all(wait_until_ready));
    let card = serde_json::json!({"number": "4242424242424242", "cvc": "123"});
    for (maker, reader) in [(0, 1), (1, 0)] {
        let body = serde_json::json!({"type": "card", "data": card});
        let (status, created) = send_request(&nodes[maker], key, "POST", "/tokens", &body);
        assert_eq!(status, 201, "{created}");
        let path = format!("/tokens/{}", created["id"].as_str().unwrap());
        let (status, found) = send_request(&nodes[reader], key, "GET", &path, &Value::Null);
        assert_eq!((status, &found["data"]["cvc"]), (200, &"123".into()), "{found}");
    }
}
