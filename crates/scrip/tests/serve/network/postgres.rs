//! The real program on PostgreSQL: made, served by two nodes, looked after, and when the database is
//! away.

use std::{fs, time::Duration};

use scrip_testing::{
    directory_server::authority::Authority,
    postgres::cluster::Cluster,
    process::{
        harness::{ProcessHarness, Running, eventually},
        terminate, wait,
    },
    redis::Redis,
};
use serde_json::Value;

use crate::{
    operator::commands::{json, text},
    process::verification_codes::ask,
};

/// What no machine of a test needs.
const FAST: &str = "fsync=off";
const PASSWORD: &str = "4242-4242";

/// A node's house. Nobody asks for the password, but it has to be nowhere.
fn house(cluster: &Cluster) -> ProcessHarness {
    let url = cluster.url().replace("scrip@", &format!("scrip:{PASSWORD}@"));
    let house = ProcessHarness::new(crate::SCRIP)
        .set("SCRIP_STORAGE_URL", &url)
        .set("SCRIP_SERVER_LOCK_MEMORY", "off");
    // Not always true; but only one test here is about codes, and says where their keys are.
    house.set("SCRIP_STORAGE_ONLY_NODE", "true")
}

/// With a vault, a tenant, and the key of an application that may do everything.
fn founded(cluster: &Cluster) -> (ProcessHarness, Value) {
    let house = house(cluster);
    assert!(text(&house, &["init"]).contains("made a vault in postgres://scrip:***@127.0.0.1"));
    text(&house, &["tenant", "create", "Acme"]);
    let application = application(&house);
    (house, application)
}

fn application(house: &ProcessHarness) -> Value {
    let create = ["application", "create", "--tenant", "Acme", "--name", "A", "--type", "private"];
    json(house, &[&create[..], &["--all"]].concat())
}

/// Another machine, with nothing but the root key.
fn another_node(first: &ProcessHarness, cluster: &Cluster) -> ProcessHarness {
    let key = fs::read_to_string(first.data().join("root.key")).unwrap();
    house(cluster).set("SCRIP_ROOT_KEY", key.trim())
}

fn key(application: &Value) -> &str {
    application["key"].as_str().unwrap()
}

fn ready(server: &Running) -> bool {
    eventually(|| server.status("/readyz") == 200)
}

fn create(server: &Running, key: &str) -> u16 {
    let config = ureq::Agent::config_builder().http_status_as_error(false).build();
    let agent: ureq::Agent = config.into();
    let request = agent.post(format!("{}/tokens", server.url)).header("BT-API-KEY", key);
    let body = serde_json::json!({"type": "token", "data": "x"});
    request.send_json(body).expect("an answer").status().as_u16()
}

#[test]
fn a_vault_on_postgres_is_made_and_looked_after() {
    let cluster = Cluster::start(&[]);
    let empty = house(&cluster);
    empty.refused(&["serve"], "there is no vault in this database; run: scrip init");
    empty.refused(&["status"], "run: scrip init");
    let (house, application) = founded(&cluster);
    assert!(text(&house, &["init"]).contains("its root key opens it"));
    let server = house.serve();
    assert!(ready(&server));
    assert_eq!(create(&server, key(&application)), 201);

    let status = json(&house, &["status"]);
    assert_eq!((&status["engine"], &status["counts"]["tokens"]), (&"PostgreSQL".into(), &1.into()));
    assert!(status["vault"].as_str().unwrap().starts_with("postgres://scrip:***@"), "{status}");
    assert!(status["server"]["pool"]["idle"].as_u64().unwrap() > 0, "{status}");
    let found = json(&house, &["doctor"]);
    let of = |check: &str| {
        let found = found["checks"].as_array().unwrap().iter().find(|it| it["check"] == check);
        found.unwrap_or_else(|| panic!("{check}: {found:?}"))["verdict"].as_str().unwrap()
    };
    for check in ["store", "PostgreSQL", "durability", "role", "transport", "canary", "policy"] {
        assert_eq!(of(check), "good", "{check}: {found}");
    }

    let file = house.path("backup").display().to_string();
    house.refused(&["backup", &file], "docs/operate/postgres.md");
    house.refused(&["restore", &file], "docs/operate/postgres.md");
    assert!(text(&house, &["bin", "status"]).contains("built-in"));
    // One data directory is one node's.
    house.refused(&["serve"], "is served by process");
    let shown = text(&house, &["config", "check"]) + &text(&house, &["config", "check", "--json"]);
    assert!(shown.contains("postgres://scrip:***@"), "{shown}");
    for said in [shown, house.log(), format!("{found}{status}")] {
        assert!(!said.contains(PASSWORD), "{said}");
    }
}

#[test]
fn doctor_finds_what_would_lose_writes() {
    let cluster = Cluster::start(&[FAST, "synchronous_commit=off"]);
    let (house, _) = founded(&cluster);
    house.refused(&["doctor"], "1 of");
    let output = house.run(&["doctor"]);
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("WRONG    durability    fsync is off")
    );
}

#[test]
fn a_schema_is_brought_up_to_date_by_whoever_may() {
    let cluster = Cluster::start(&[FAST]);
    // As it would be before the first migration.
    cluster.query(
        "SET ROLE scrip; CREATE TABLE schema_state (one INTEGER PRIMARY KEY CHECK (one = 1), \
         version BIGINT NOT NULL); INSERT INTO schema_state VALUES (1, 0)",
    );
    let house = house(&cluster);
    house.refused(&["serve"], "run: scrip migrate");
    let allowed = self::house(&cluster).set("SCRIP_STORAGE_MIGRATE", "on");
    let server = allowed.serve();
    assert_eq!(server.status("/readyz"), 503, "there is a schema, and no vault");
    allowed.logged("the schema was brought up to date");
    drop(server);
    let again = json(&house, &["migrate"]);
    assert_eq!(again["from"], again["to"]);

    cluster.query("UPDATE schema_state SET version = 9999");
    for command in ["serve", "migrate", "init", "status"] {
        house.refused(&[command], "run a newer scrip");
    }
    ProcessHarness::new(crate::SCRIP).refused(&["migrate"], "storage.url is empty");
}

#[test]
fn any_number_may_migrate_at_once() {
    let cluster = Cluster::start(&[FAST]);
    let houses: Vec<_> = (0..6).map(|_| house(&cluster)).collect();
    let start = |house: &ProcessHarness| {
        let mut command = house.command(&["migrate", "--json"]);
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
fn what_one_node_does_the_other_knows() {
    let cluster = Cluster::start(&[FAST]);
    let (first, application) = founded(&cluster);
    let second = another_node(&first, &cluster);
    let (one, two) = (first.serve(), second.serve());
    assert!(ready(&one) && ready(&two));
    assert_eq!((create(&one, key(&application)), create(&two, key(&application))), (201, 201));
    // Made on one machine, by its command.
    let made = self::application(&first);
    assert!(eventually(|| create(&two, key(&made)) == 201));
    text(&second, &["application", "delete", made["id"].as_str().unwrap()]);
    assert!(eventually(|| create(&one, key(&made)) == 401));
    assert_eq!(create(&one, key(&application)), 201);
    for house in [&first, &second] {
        assert!(text(house, &["audit", "verify"]).contains("as they were written"));
        assert!(house.data().join("audit.head").exists());
    }
}

#[test]
fn an_altered_trail_is_found() {
    let cluster = Cluster::start(&[FAST]);
    let (house, application) = founded(&cluster);
    let mut server = house.serve();
    assert!(ready(&server));
    for _ in 0..3 {
        assert_eq!(create(&server, key(&application)), 201);
    }
    terminate(&server.child);
    assert!(wait(&mut server.child, Duration::from_secs(20)).unwrap().success());
    let verified = json(&house, &["audit", "verify"]);
    assert_eq!(
        (&verified["ok"], verified["problems"].as_array().unwrap().len()),
        (&true.into(), 0)
    );
    assert!(verified["logs"][0]["records"].as_u64().unwrap() >= 5, "{verified}");

    let found = || {
        let output = house.run(&["audit", "verify", "--json"]);
        assert_eq!(output.status.code(), Some(1));
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        let whats = said["problems"].as_array().unwrap().iter();
        let mut whats: Vec<_> = whats.map(|it| it["what"].as_str().unwrap().to_owned()).collect();
        whats.dedup();
        whats
    };
    let audit = "WHERE log = 'audit' AND n";
    cluster.query(&format!("UPDATE records SET outcome = 'created!' {audit} = 3"));
    assert_eq!(found(), ["altered"]);
    cluster.query(&format!("DELETE FROM records {audit} = 3"));
    assert_eq!(found(), ["missing"]);
    cluster.query(&format!("DELETE FROM records {audit} >= 3"));
    assert_eq!(found(), ["truncated", "rolled_back"]);
    cluster.query("UPDATE heads SET link = 'short' WHERE log = 'audit'");
    assert!(found().contains(&"unreadable".to_owned()));
    cluster.query("DELETE FROM records; DELETE FROM heads");
    assert!(found().contains(&"chain_missing".to_owned()));
}

#[test]
fn by_tls_only_whom_the_authority_vouches_for() {
    let mut cluster = Cluster::start(&[FAST]);
    let house = house(&cluster);
    let folder = house.path("ca");
    fs::create_dir(&folder).unwrap();
    let (ours, other) = (Authority::new(&folder, "ours"), Authority::new(&folder, "other"));
    let issued = ours.issue("postgres", &["127.0.0.1"]);
    let pem = |it| fs::read_to_string(it).unwrap();
    let secure = format!("{}?sslmode=verify-full", cluster.primary_url());
    let trusting = |house: ProcessHarness, url: &str, authority: &Authority| {
        let roots = authority.roots().display().to_string();
        house.set("SCRIP_STORAGE_URL", url).set("SCRIP_STORAGE_CA_FILE", &roots)
    };
    let house = trusting(house, &secure, &ours);
    house.refused(&["init"], "cannot be reached: error performing TLS handshake");
    cluster.encrypt(&pem(&issued.certificate), &pem(&issued.key));

    text(&house, &["init"]);
    let server = house.serve();
    assert!(ready(&server));
    let of_us = "SELECT bool_and(ssl)::text FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                 WHERE application_name = 'scrip'";
    assert_eq!(cluster.query(of_us), ["true"]);
    let refused = |url: &str, authority: &Authority, why: &str| {
        trusting(ProcessHarness::new(crate::SCRIP), url, authority).refused(&["status"], why);
    };
    refused(&secure, &other, "UnknownIssuer");
    // The same server by a name that its certificate does not have.
    let named = secure.replace("127.0.0.1", "localhost");
    refused(&named, &ours, "certificate not valid for name");
    let system = ProcessHarness::new(crate::SCRIP).set("SCRIP_STORAGE_URL", &secure);
    system.refused(&["status"], "UnknownIssuer");
    for mode in ["require", "prefer", "verify-ca"] {
        let url = secure.replace("verify-full", mode);
        ProcessHarness::new(crate::SCRIP)
            .set("SCRIP_STORAGE_URL", &url)
            .refused(&["serve"], "sslmode=verify-full");
    }
}

/// What is said while it is away, by who runs and by who starts.
#[test]
fn while_it_is_away_nothing_is_promised_and_nobody_restarts() {
    let mut cluster = Cluster::start(&[FAST]);
    let (house, application) = founded(&cluster);
    let server = house.serve();
    assert!(ready(&server));
    cluster.kill();
    // As soon as the last answer is a quarter of a second old, and not only when the directory has
    // not been followed for too long.
    assert!(eventually(|| server.status("/readyz") == 503));
    let reply = server.ask("GET", "/readyz");
    assert_eq!((reply.status, reply.retry_after.as_deref()), (503, Some("1")));
    assert_eq!((create(&server, key(&application)), server.status("/healthz")), (503, 200));
    house.refused(&["status"], "PostgreSQL cannot be reached");
    let other = another_node(&house, &cluster);
    other.refused(&["serve"], "PostgreSQL cannot be reached");
    cluster.revive();
    assert!(ready(&server));
    assert!(eventually(|| create(&server, key(&application)) == 201));
}

#[test]
fn one_that_hangs_does_not_hang_the_server() {
    let mut cluster = Cluster::start(&[FAST]);
    let (house, application) = founded(&cluster);
    let server = house.serve();
    assert!(ready(&server));
    assert_eq!(create(&server, key(&application)), 201);
    cluster.freeze();
    assert!(eventually(|| server.status("/readyz") == 503));
    assert_eq!(server.status("/healthz"), 200);
    assert_eq!(create(&server, key(&application)), 503);
    cluster.thaw();
    assert!(ready(&server));
    assert!(eventually(|| create(&server, key(&application)) == 201));
}

#[test]
fn each_of_two_nodes_shows_the_codes_that_the_other_sealed() {
    let (cluster, redis) = (Cluster::start(&[FAST]), Redis::start());
    let (first, _) = founded(&cluster);
    let first = first.set("SCRIP_STORAGE_ONLY_NODE", "false");
    first.refused(&["serve"], "or say storage.only_node = true");
    let sharing = |it: ProcessHarness| {
        let it = it.set("SCRIP_STORAGE_ONLY_NODE", "false");
        it.set("SCRIP_CVC_EPOCH_KEYS", &redis.url())
    };
    let first = sharing(first);
    let second = sharing(another_node(&first, &cluster));
    let rule = serde_json::json!({
        "description": "all", "priority": 1, "container": "/", "transform": "reveal",
        "permissions": ["token:create", "token:read"],
    });
    let create = ["application", "create", "--tenant", "Acme", "--name", "B", "--type", "private"];
    let application = json(&first, &[&create[..], &["--rule", &rule.to_string()]].concat());
    let key = key(&application);
    let nodes = [first.serve(), second.serve()];
    assert!(nodes.iter().all(ready));
    let card = serde_json::json!({"number": "4242424242424242", "cvc": "123"});
    for (maker, reader) in [(0, 1), (1, 0)] {
        let body = serde_json::json!({"type": "card", "data": card});
        let (status, made) = ask(&nodes[maker], key, "POST", "/tokens", &body);
        assert_eq!(status, 201, "{made}");
        let path = format!("/tokens/{}", made["id"].as_str().unwrap());
        let (status, found) = ask(&nodes[reader], key, "GET", &path, &Value::Null);
        assert_eq!((status, &found["data"]["cvc"]), (200, &"123".into()), "{found}");
    }
}
