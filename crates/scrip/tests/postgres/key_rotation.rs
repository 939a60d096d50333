//! Kills nodes while they rotate the sealing key of a tenant, under load. Afterwards every token must
//! be readable with its data, fingerprints and searches are unchanged, the progress never went back,
//! and the old key is destroyed.

use std::{
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use scrip_testing::{
    faults::store_fault::StoreFault,
    postgres::cluster::Cluster,
    process::{
        ServerProcess,
        client::{HttpClient, HttpResponse},
    },
    random::random_duration,
};
use serde_json::{Value, json};

use crate::{
    RunLength, SERVE,
    nodes::{
        ConflictHandling, NodeAccess, RetryingClient, TwoNodeVault, eventually, request_status,
    },
    report::{ConsistencyViolation, RunReport},
};

const CLIENTS: usize = 8;
/// Tokens before the first rotation, so that it has some work.
const TOKENS: usize = 800;
/// Every round of this period kills both nodes.
const BOTH_NODES_PERIOD: usize = 4;
/// On a busy machine, kills come before the first step. Then there are more rounds.
const ROUNDS_MAX: usize = 600;
/// A full run waits for the lease of a killed node in every round of this period.
const LEASE_PERIOD: usize = 25;
/// One of this number of requests is a search.
const SEARCH_PERIOD: u64 = 8;

/// Requests that wait for a suspended node.
const LATE_WRITES: usize = 64;

/// A pace at which a rotation takes some rounds.
const PACE: &[(&str, &str)] = &[
    ("SCRIP_KEYS_PROMOTE_AFTER_SECONDS", "2"),
    ("SCRIP_KEYS_DESTROY_AFTER_SECONDS", "1"),
    ("SCRIP_KEYS_ROTATION_ROWS_PER_SECOND", "500"),
];

/// A token and its last acknowledged content.
#[derive(Debug)]
struct KnownToken {
    id: String,
    data: String,
    fingerprint: Value,
}

/// A client with its own tokens, so that no other client changes them.
struct RotationClient<'a> {
    client: RetryingClient<'a>,
    tokens: Vec<KnownToken>,
}

impl<'a> RotationClient<'a> {
    fn new(nodes: &'a NodeAccess, index: usize, tokens: Vec<KnownToken>) -> Self {
        let client = RetryingClient::with_conflicts(nodes, index, ConflictHandling::Return);
        Self { client, tokens }
    }

    fn send(&mut self, line: &str, body: &Value) -> (HttpResponse, bool) {
        let media_type = match line.starts_with("PATCH") {
            true => "application/merge-patch+json",
            false => "application/json",
        };
        let headers = [("Content-Type", media_type)];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let sent = self.client.send_with_retries(line, &headers, &body);
        (sent.response, sent.had_unknown_outcome)
    }

    /// Creates a token. A stored response would keep the old key for a day, so the request has no
    /// idempotency key.
    fn create(&mut self, number: u64) {
        let (id, data) = (format!("token{number:08}"), format!("first{number}"));
        let body = json!({
            "id": id, "type": "token", "data": data,
            "fingerprint_expression": "{{ data }}", "search_indexes": ["{{ data }}"],
        });
        let (mut response, had_unknown_outcome) = self.send("POST /tokens", &body);
        if had_unknown_outcome && response.status == 409 {
            // An attempt with an unknown outcome has created the token.
            response = self.send(&format!("GET /tokens/{id}"), &Value::Null).0;
            self.client.report.expect_status("read after create", response.status, 200);
        } else {
            self.client.report.expect_status("create", response.status, 201);
        }
        self.tokens.push(KnownToken {
            id,
            data,
            fingerprint: parse(&response)["fingerprint"].clone(),
        });
    }

    fn change(&mut self, index: usize) {
        let Some(token) = self.tokens.get(index) else { return };
        let (id, data) = (token.id.clone(), format!("{}x", token.data));
        let (response, _) = self.send(&format!("PATCH /tokens/{id}"), &json!({ "data": data }));
        self.client.report.expect_status("change", response.status, 200);
        let fingerprint = parse(&response)["fingerprint"].clone();
        self.tokens[index] = KnownToken { id, data, fingerprint };
    }

    fn check(&mut self, index: usize) {
        let Some(KnownToken { id, .. }) = self.tokens.get(index) else { return };
        let (response, _) = self.send(&format!("GET /tokens/{id}"), &Value::Null);
        let (token, body) = (&self.tokens[index], parse(&response));
        let report = &mut self.client.report;
        report.add("tokens read");
        if response.status != 200 {
            report.add_violation(ConsistencyViolation::Lost);
        } else if body["data"] != token.data {
            report.add_violation(ConsistencyViolation::WrongContent);
        } else if body["fingerprint"] != token.fingerprint || token.fingerprint.is_null() {
            report.add_violation(ConsistencyViolation::FingerprintChanged);
        }
    }

    fn search(&mut self, index: usize) {
        let Some(token) = self.tokens.get(index) else { return };
        let (id, query) = (token.id.clone(), json!({ "query": format!("data:{}", token.data) }));
        let (response, _) = self.send("POST /v2/tokens/search", &query);
        self.client.report.expect_status("search", response.status, 200);
        self.client.report.add("searches");
        if parse(&response)["data"][0]["id"] != id {
            self.client.report.add_violation(ConsistencyViolation::NotFoundBySearch);
        }
    }

    /// Sends requests until it must stop.
    fn run(mut self, next_number: &AtomicU64, stop: &AtomicBool) -> Self {
        while !stop.load(Ordering::Relaxed) {
            let number = next_number.fetch_add(1, Ordering::Relaxed);
            self.create(number);
            let count = u64::try_from(self.tokens.len()).unwrap_or(1);
            let index = |factor: u64| usize::try_from(number * factor % count).unwrap_or_default();
            self.change(index(7));
            self.check(index(11));
            if number.is_multiple_of(SEARCH_PERIOD) {
                self.search(index(13));
            }
            // More load would only measure how fast the nodes write.
            thread::sleep(random_duration(10..60));
        }
        self
    }
}

fn parse(response: &HttpResponse) -> Value {
    serde_json::from_str(&response.body).unwrap_or_default()
}

/// The stored position: version, promotion, pass, table and row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
struct StoredPosition {
    version: u32,
    is_promoted: bool,
    pass: u32,
    table: usize,
    key: String,
}

const TABLES: [&str; 4] = ["tokens", "token_intents", "threeds_sessions", "deliveries"];

impl StoredPosition {
    fn load(vault: &TwoNodeVault) -> Self {
        let sql = "SELECT concat_ws('|', to_version, promoted_at IS NOT NULL, pass,
            coalesce(table_name, ''), coalesce(last_key, ''), finished_at IS NOT NULL)
            FROM key_rotations";
        let rows = vault.cluster.query_primary(sql);
        let Some(row) = rows.first() else { return Self::default() };
        let columns: Vec<&str> = row.split('|').collect();
        let [version, is_promoted, pass, table, key, is_finished] = columns[..] else {
            return Self::default();
        };
        let table = TABLES.iter().position(|it| *it == table).unwrap_or(TABLES.len());
        Self {
            version: version.parse().unwrap_or_default(),
            is_promoted: is_promoted == "t",
            pass: pass.parse().unwrap_or_default(),
            table: table + usize::from(is_finished == "t"),
            key: key.to_owned(),
        }
    }

    fn is_in_a_pass(&self) -> bool {
        self.is_promoted && self.table < TABLES.len() && !self.key.is_empty()
    }
}

fn count_key_versions(vault: &TwoNodeVault) -> usize {
    let rows = vault.cluster.query_primary("SELECT version::text FROM tenant_keys");
    rows.len()
}

/// A vault with tokens of each client, before the first rotation.
struct RotationTest {
    vault: TwoNodeVault,
    next_number: AtomicU64,
    tokens: Vec<Vec<KnownToken>>,
    report: RunReport,
}

impl RotationTest {
    fn new(token_count: usize) -> Self {
        // Only nodes are killed, so PostgreSQL need not wait for the disk.
        let vault = TwoNodeVault::create_with_settings(Cluster::start(&["fsync=off"]), PACE);
        let (next_number, report) = Default::default();
        let tokens = (0..CLIENTS).map(|_| Vec::new()).collect();
        let mut test = Self { vault, next_number, tokens, report };
        test.run_clients(|client, next_number, _| {
            for _ in 0..token_count / CLIENTS {
                client.create(next_number.fetch_add(1, Ordering::Relaxed));
            }
        });
        test
    }

    /// Runs the same work in every client, at the same time.
    fn run_clients(&mut self, work: impl Fn(&mut RotationClient<'_>, &AtomicU64, usize) + Sync) {
        let nodes = self.vault.nodes_access.clone();
        let (work, next_number) = (&work, &self.next_number);
        let tokens = std::mem::take(&mut self.tokens);
        let clients: Vec<(Vec<KnownToken>, RunReport)> = thread::scope(|scope| {
            let start = |(index, tokens)| {
                let mut client = RotationClient::new(&nodes, index, tokens);
                scope.spawn(move || {
                    work(&mut client, next_number, index);
                    (client.tokens, client.client.report)
                })
            };
            let threads: Vec<_> = tokens.into_iter().enumerate().map(start).collect();
            threads.into_iter().map(|it| it.join().expect("a client thread panicked")).collect()
        });
        for (tokens, report) in clients {
            self.tokens.push(tokens);
            self.report.merge(&report);
        }
    }

    /// Runs an action while the clients send requests.
    fn run_under_load(&mut self, action: impl FnOnce(&mut TwoNodeVault, &mut RunReport)) {
        let (nodes, stop) = (self.vault.nodes_access.clone(), AtomicBool::new(false));
        let (next_number, tokens) = (&self.next_number, std::mem::take(&mut self.tokens));
        let (vault, report) = (&mut self.vault, &mut self.report);
        thread::scope(|scope| {
            let (nodes, stop) = (&nodes, &stop);
            let start = |(index, tokens)| {
                let client = RotationClient::new(nodes, index, tokens);
                scope.spawn(move || client.run(next_number, stop))
            };
            let threads: Vec<_> = tokens.into_iter().enumerate().map(start).collect();
            action(vault, report);
            stop.store(true, Ordering::Relaxed);
            for thread in threads {
                let client = thread.join().expect("a client thread panicked");
                report.merge(&client.client.report);
                self.tokens.push(client.tokens);
            }
        });
    }

    fn start_rotation(vault: &TwoNodeVault) {
        vault.run(&["keys", "rotate", "tenant", "Acme"]);
    }

    /// Reads every token, and searches some, on nodes that never had the old key in memory.
    fn check_tokens(&mut self) {
        for node in 0..2 {
            self.vault.kill(node);
            self.vault.start(node);
        }
        self.run_clients(|client, _, _| {
            for index in 0..client.tokens.len() {
                client.check(index);
                if index.is_multiple_of(25) {
                    client.search(index);
                }
            }
        });
    }
}

/// Kills a node or both, and starts them again. Returns how many were killed.
fn run_round(vault: &mut TwoNodeVault, round: usize, report: &mut RunReport) -> usize {
    let before = StoredPosition::load(vault);
    thread::sleep(random_duration(20..400));
    let is_both = round % BOTH_NODES_PERIOD == BOTH_NODES_PERIOD - 1;
    let random_node = usize::from(random_duration(0..1000) < Duration::from_millis(500));
    let nodes = if is_both { vec![0, 1] } else { vec![random_node] };
    nodes.iter().for_each(|it| vault.kill(*it));
    let after = StoredPosition::load(vault);
    if after < before {
        println!("  the position went back from {before:?} to {after:?}");
        report.add_violation(ConsistencyViolation::ProgressWentBack);
    }
    if after.is_in_a_pass() {
        report.add("kills in a pass");
    }
    nodes.iter().for_each(|it| vault.start(*it));
    nodes.len()
}

pub(crate) fn kill_rotating_nodes(length: RunLength) -> (RunReport, bool) {
    let mut test = RotationTest::new(TOKENS);
    RotationTest::start_rotation(&test.vault);
    let mut killed = 0;
    test.run_under_load(|vault, report| {
        for round in 0..ROUNDS_MAX {
            if report.count("kills in a pass") >= length.rotation_kills {
                break;
            }
            killed += run_round(vault, round, report);
            report.add("rounds");
            if !(length.is_full && round.is_multiple_of(LEASE_PERIOD)) {
                // As if the time of the killed node's lease had passed.
                vault.cluster.query_primary("UPDATE key_rotations SET lease_until = 0");
            }
            if count_key_versions(vault) == 1 {
                report.add("rotations");
                RotationTest::start_rotation(vault);
            }
        }
        vault.cluster.query_primary("UPDATE key_rotations SET lease_until = 0");
        if !eventually(|| count_key_versions(vault) == 1) {
            report.add_violation(ConsistencyViolation::OldKeyKept);
        }
        report.add("rotations");
    });
    // A kill breaks at most one request of each client. Nothing else may fail.
    let broken = test.report.count("broken").saturating_sub(killed * CLIENTS);
    for _ in 0..test.report.count("503") + broken {
        test.report.add_violation(ConsistencyViolation::FailedWithoutKill);
    }
    test.check_tokens();
    if !test.vault.is_audit_chain_valid() {
        test.report.add_violation(ConsistencyViolation::AuditChainBroken);
    }
    // A clean run proves little unless kills interrupted requests and passes.
    let has_kills = test.report.count("kills in a pass") >= length.rotation_kills
        && test.report.count("broken") > 0;
    let passed = test.report.is_clean() && has_kills;
    (test.report, passed)
}

/// A node is suspended for the whole rotation. When it continues, it has the old key, and requests of
/// clients wait for it. None of their writes may need the destroyed key.
pub(crate) fn suspend_node_during_rotation(_: RunLength) -> (RunReport, bool) {
    let mut test = RotationTest::new(TOKENS / 10);
    let (vault, mut report) = (&mut test.vault, RunReport::default());
    vault.suspend(1);
    RotationTest::start_rotation(vault);
    if !eventually(|| count_key_versions(vault) == 1) {
        report.add_violation(ConsistencyViolation::OldKeyKept);
    }
    let address = vault.nodes_access.node(1).expect("the node has an address");
    let create = |number: usize| {
        let body = json!({ "id": format!("late{number:04}"), "type": "token", "data": "late" });
        let headers = [("Content-Type", "application/json")];
        let mut client = HttpClient::connect(&address).ok()?;
        Some(client.send("POST /tokens", &headers, &body.to_string()).ok()?.status)
    };
    let statuses: Vec<_> = thread::scope(|scope| {
        let create = &create;
        let threads: Vec<_> = (0..LATE_WRITES).map(|it| scope.spawn(move || create(it))).collect();
        // The requests wait in the sockets of the node.
        thread::sleep(Duration::from_millis(300));
        vault.resume(1);
        threads.into_iter().map(|it| it.join().expect("a client thread panicked")).collect()
    });
    let read = |id: &str| {
        let address = vault.nodes_access.node(0).expect("the node has an address");
        request_status(&address, &format!("GET /tokens/{id}"))
    };
    for (number, status) in statuses.into_iter().enumerate() {
        match status {
            Some(201) => report.add("written with the new key"),
            Some(503) => report.add("late writes rejected"),
            status => report.expect_status("late create", status.unwrap_or_default(), 503),
        }
        if status == Some(201) && read(&format!("late{number:04}")) != Some(200) {
            report.add_violation(ConsistencyViolation::Lost);
        }
    }
    let sql = r"SELECT id FROM tokens WHERE substr(body, 3, 4) = '\x00000001'";
    for _ in vault.cluster.query_primary(sql) {
        report.add_violation(ConsistencyViolation::Lost);
    }
    let is_serving = eventually(|| create(LATE_WRITES) == Some(201));
    test.report.merge(&report);
    test.check_tokens();
    let passed = test.report.is_clean() && is_serving;
    (test.report, passed)
}

/// Negative control: a node with a store that hides rows from the rotation, so that it destroys the
/// old key too early.
pub(crate) fn destroy_key_too_early(_: RunLength) -> (RunReport, bool) {
    let mut test = RotationTest::new(TOKENS / 10);
    let vault = &mut test.vault;
    vault.kill(0);
    vault.kill(1);
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(program);
    command.args([SERVE, StoreFault::EarlyKeyDestruction.name()]);
    command.arg(vault.node_folder(0)).arg(vault.cluster.url()).stderr(Stdio::null());
    let server = ServerProcess::start(&mut command);
    RotationTest::start_rotation(vault);
    let is_destroyed = eventually(|| count_key_versions(vault) == 1);
    drop(server);
    for node in 0..2 {
        vault.start(node);
    }
    test.check_tokens();
    let passed = is_destroyed && test.report.has_violation(ConsistencyViolation::Lost);
    (test.report, passed)
}
