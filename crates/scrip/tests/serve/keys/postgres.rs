//! Unlock methods and the rotation of the vault key with two nodes on PostgreSQL.

use std::{fs, thread};

use scrip_testing::{
    postgres::{cluster::Cluster, query::query_database},
    process::harness::{ProcessHarness, RunningServer, becomes_true},
};
use serde_json::Value;

use crate::{
    keys::{
        assert_readable, assert_sealed, create_token, is_open, methods, sealed_cause,
        shares::{ADD, assert_unseal, run_ceremony},
        stderr, text,
    },
    network::postgres::{NO_FSYNC, another_node, create_vault},
    operator::commands::run_json,
    process::verification_codes::serve_ready,
};

/// Two nodes of one vault.
struct Nodes {
    cluster: Cluster,
    processes: [ProcessHarness; 2],
    api_key: String,
}

impl Nodes {
    fn create() -> Self {
        let cluster = Cluster::start(&[NO_FSYNC]);
        let (first, _) = create_vault(&cluster);
        let second = another_node(&first, &cluster);
        fs::create_dir(second.data()).unwrap();
        let rule = r#"{"description":"all","priority":1,"container":"/","transform":"reveal",
            "permissions":["token:create","token:read"]}"#;
        let create = ["application", "create", "--tenant", "Acme", "--name", "B", "--type"];
        let created = run_json(&first, &[&create[..], &["private", "--rule", rule]].concat());
        let api_key = text(&created["key"]);
        Self { cluster, processes: [first, second], api_key }
    }

    fn serve(&self) -> [RunningServer; 2] {
        let servers = [0, 1].map(|it| self.processes[it].serve());
        assert!(servers.iter().all(is_open));
        servers
    }

    fn add_file(&self, name: &str) -> String {
        let file = self.processes[0].path(name).display().to_string();
        let arguments = ["keys", "add", "file", &file, "--label", name];
        text(&run_json(&self.processes[0], &arguments)["method"]["id"])
    }

    fn execute(&self, sql: &str) {
        drop(query_database(&self.cluster.url(), sql));
    }
}

fn key_version(process: &ProcessHarness) -> Value {
    run_json(process, &["keys", "list"])["key_version"].clone()
}

#[test]
fn methods_and_rotations_of_one_node_are_followed_by_the_other() {
    let nodes = Nodes::create();
    let servers = nodes.serve();
    let token = create_token(&servers[0], &nodes.api_key);
    let [first] = methods(&nodes.processes[0]).try_into().unwrap();
    let added = nodes.add_file("second");
    for (round, node) in [0, 1, 0].into_iter().enumerate() {
        let rotated = run_json(&nodes.processes[node], &["keys", "rotate", "vault"]);
        assert_eq!(rotated["to"], round + 2);
        // The other node gets the new key from its own source.
        let other = &nodes.processes[1 - node];
        let loaded = "another node rotated the vault key";
        assert!(becomes_true(|| other.log().matches(loaded).count() > round / 2));
        for server in &servers {
            assert_readable(server, &nodes.api_key, &token);
        }
        // A tenant is created with the new key, and both nodes load it.
        let name = format!("Tenant {round}");
        run_json(&nodes.processes[node], &["tenant", "create", &name, "--type", "test"]);
        let create = ["application", "create", "--tenant", &name, "--name", "A", "--type"];
        let arguments = [&create[..], &["private", "--all"]].concat();
        let created = run_json(&nodes.processes[1 - node], &arguments);
        let key = text(&created["key"]);
        let works = |server: &RunningServer| {
            server.request("GET", "/tokens").api_key(&key).send().status == 200
        };
        assert!(servers.iter().all(|it| becomes_true(|| works(it))));
    }
    run_json(&nodes.processes[1], &["keys", "remove", &text(&first["id"])]);
    nodes.processes[0].assert_fails(&["keys", "remove", &added], "is the last unlock method");
    drop(servers);
    // The second node has the same file, and no root key any more.
    let servers = nodes.serve();
    for (server, process) in servers.iter().zip(&nodes.processes) {
        assert_readable(server, &nodes.api_key, &token);
        assert_eq!(key_version(process), 4);
    }
}

/// A rotation replaces the shares. The other node serves with the old key until its next reload, and
/// no source has the new key.
#[test]
fn node_waits_for_the_new_shares_after_a_rotation_by_another_node() {
    let nodes = Nodes::create();
    let servers = nodes.serve();
    let token = create_token(&servers[0], &nodes.api_key);
    let [rotating, waiting] = &nodes.processes;
    let [file_method] = methods(rotating).try_into().unwrap();
    let old_shares = run_ceremony(rotating, &ADD, 3, &[0, 1]);
    run_json(rotating, &["keys", "remove", &text(&file_method["id"])]);
    assert_unseal(waiting, &old_shares[0], "the vault is open; no share is needed");
    let rotate = || {
        let shares = run_ceremony(rotating, &["keys", "rotate", "vault"], 3, &[1, 2]);
        let is_waiting = || {
            let response = servers[1].send("GET", "/readyz");
            response.status == 503 && response.text().contains("have entered their shares")
        };
        assert!(becomes_true(is_waiting), "{}", waiting.log());
        shares
    };
    let replaced_shares = rotate();
    assert_unseal(waiting, &replaced_shares[0], "1/2: more shares are needed");
    assert_unseal(waiting, &old_shares[1], "a set that was replaced");
    let cause = "2 of 3 people must each enter a share: scrip unseal";
    assert!(becomes_true(|| sealed_cause(waiting).contains(cause)), "{}", waiting.log());
    // The next set replaces the share that was entered before.
    let new_shares = rotate();
    assert_unseal(waiting, &replaced_shares[1], "a set that was replaced");
    assert_unseal(waiting, &new_shares[2], "1/2: more shares are needed");
    assert_unseal(waiting, &new_shares[0], "2/2: the vault is open");
    for (server, process) in servers.iter().zip(&nodes.processes) {
        assert_readable(server, &nodes.api_key, &token);
        assert_eq!(key_version(process), 3);
        assert_unseal(process, &new_shares[1], "the vault is open; no share is needed");
    }
    // The node that waited changes the unlock methods with the new key.
    let shares = run_ceremony(waiting, &["keys", "rotate", "vault"], 3, &[0, 1]);
    assert_unseal(rotating, &shares[0], "1/2: more shares are needed");
    assert_unseal(rotating, &shares[1], "2/2: the vault is open");
    assert_readable(&servers[0], &nodes.api_key, &token);
}

/// Each node has a lock of its own, so only the store can prevent this.
#[test]
fn two_nodes_cannot_remove_the_last_two_methods() {
    let nodes = Nodes::create();
    let servers = nodes.serve();
    nodes.add_file("method 0");
    for round in 1..=5 {
        let list = methods(&nodes.processes[0]);
        assert_eq!(list.len(), 2);
        let results: Vec<_> = thread::scope(|scope| {
            let removals: Vec<_> = list
                .iter()
                .zip(&nodes.processes)
                .map(|(method, process)| {
                    scope.spawn(|| process.run(&["keys", "remove", &text(&method["id"])]))
                })
                .collect();
            removals.into_iter().map(|it| it.join().unwrap()).collect()
        });
        let removed = results.iter().filter(|it| it.status.success()).count();
        let messages: Vec<_> = results.iter().map(stderr).collect();
        assert_eq!((removed, methods(&nodes.processes[0]).len()), (1, 1), "{messages:?}");
        nodes.add_file(&format!("method {round}"));
    }
    drop(servers);
}

#[test]
fn altered_rows_on_postgres_keep_the_vault_sealed_with_a_message() {
    let nodes = Nodes::create();
    let process = &nodes.processes[0];
    nodes.execute(
        "CREATE TABLE old_unlocks AS SELECT * FROM unlocks;
        CREATE TABLE old_state AS SELECT * FROM vault_state",
    );
    let rejected = "this is the root key of another vault, or the stored keys of this vault";
    for (sql, cause) in [
        (
            "UPDATE unlocks SET wrapped = set_byte(wrapped, 30, 255 - get_byte(wrapped, 30))",
            rejected,
        ),
        ("UPDATE unlocks SET id = gen_random_uuid()", rejected),
        ("UPDATE vault_state SET vault_id = gen_random_uuid()", rejected),
        ("UPDATE vault_state SET key_version = 2", "no active unlock method for version 2"),
        ("DELETE FROM vault_state", "the row of vault_state is missing or altered"),
    ] {
        nodes.execute(sql);
        let server = process.serve();
        assert_sealed(process, &server, cause);
        nodes.execute(
            "DELETE FROM unlocks; INSERT INTO unlocks SELECT * FROM old_unlocks;
            DELETE FROM vault_state; INSERT INTO vault_state SELECT * FROM old_state",
        );
        assert!(is_open(&server), "{sql}");
    }
    let _server = serve_ready(process);
    nodes.execute("UPDATE unlocks SET label = 'x'");
    process.assert_fails(&["keys", "rotate", "vault"], "was altered outside the vault");
}
