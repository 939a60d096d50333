//! Kills the server while it rotates the sealing key of a tenant, under load. Afterwards every token
//! must be readable with its data and fingerprint, searches must find the same tokens, the progress
//! must never have gone back, and the old key must be destroyed.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, OptionalExtension};
use scrip_testing::{
    faults::store_fault::StoreFault,
    process::{
        ServerProcess,
        client::{HttpClient, ServerAddress},
    },
    random::random_duration,
};
use serde_json::{Value, json};

use crate::{SCRIP, Scenario, server_command};

const CLIENTS: usize = 4;
/// Tokens before the rotation, so that it has some work.
const TOKENS: u64 = 1500;
/// On a busy machine, kills come before the first step. Then there are more rounds.
const ROUNDS_MAX: usize = 400;
/// A control shows its fault in the first rotation.
const POLLS_MAX: usize = 1200;
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
struct RotationReport {
    rounds: usize,
    /// Kills between the first and the last row of a pass.
    kills_in_a_pass: usize,
    tokens: usize,
    unreadable: usize,
    /// Tokens with other data or another fingerprint than the clients wrote.
    altered: usize,
    /// Tokens that a search for their data does not find.
    not_found_by_search: usize,
    unexpected_statuses: usize,
    steps_back: usize,
    is_old_key_destroyed: bool,
}

impl RotationReport {
    fn is_clean(&self) -> bool {
        self.unreadable == 0
            && self.altered == 0
            && self.not_found_by_search == 0
            && self.unexpected_statuses == 0
            && self.steps_back == 0
            && self.is_old_key_destroyed
    }
}

/// The stored position: pass, table and row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
struct StoredPosition {
    version: i64,
    is_promoted: bool,
    pass: i64,
    table: usize,
    key: String,
}

struct RotationTest {
    data: PathBuf,
    fault: Option<StoreFault>,
    next_number: AtomicU64,
    /// The fingerprint of each text that clients write.
    fingerprints: BTreeMap<String, Value>,
    report: RotationReport,
    _folder: tempfile::TempDir,
}

impl RotationTest {
    fn new(fault: Option<StoreFault>) -> Self {
        let folder = tempfile::tempdir().expect("create a temporary folder");
        let data = folder.path().join("data");
        let mut test = Self {
            data,
            fault,
            next_number: AtomicU64::new(0),
            fingerprints: BTreeMap::new(),
            report: RotationReport::default(),
            _folder: folder,
        };
        // The shipped program creates the keys that a faulty server needs.
        let server = ServerProcess::start(&mut paced(server_command(None, &test.data)));
        let mut client = HttpClient::connect(&server.server_address).expect("connect");
        for _ in 0..TOKENS {
            let number = test.next_number.fetch_add(1, Ordering::Relaxed);
            assert_eq!(create(&mut client, number).expect("the server responds"), 201);
        }
        test.fingerprints.insert(CREATED.to_owned(), read_token(&mut client, 0).fingerprint);
        assert_eq!(change(&mut client, 0).expect("the server responds"), 200);
        test.fingerprints.insert(CHANGED.to_owned(), read_token(&mut client, 0).fingerprint);
        assert_eq!(test.fingerprints.len(), 2);
        assert_ne!(test.fingerprints[CREATED], test.fingerprints[CHANGED]);
        test
    }

    fn start_server(&self) -> ServerProcess {
        ServerProcess::start(&mut paced(server_command(self.fault, &self.data)))
    }

    fn start_rotation(&self) {
        let mut command = Command::new(SCRIP);
        command.args(["keys", "rotate", "tenant", "--all", "--json", "--data-dir"]);
        let output = command.arg(&self.data).output().expect("run scrip");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs clients and kills the server at a random time.
    fn run_round(&mut self) {
        let before = self.position();
        let mut server = self.start_server();
        let address = server.server_address.clone();
        let (is_stopped, unexpected) = (AtomicBool::new(false), AtomicUsize::new(0));
        let next_number = &self.next_number;
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| run_client(&address, next_number, &is_stopped, &unexpected));
            }
            thread::sleep(random_duration(20..700));
            is_stopped.store(true, Ordering::Relaxed);
            server.child.kill().expect("kill the server");
        });
        drop(server);
        self.end_leases();
        let after = self.position();
        self.report.rounds += 1;
        self.report.unexpected_statuses += unexpected.load(Ordering::Relaxed);
        self.report.steps_back += usize::from(after < before);
        let is_in_a_pass = after.is_promoted && after.table < 4 && !after.key.is_empty();
        self.report.kills_in_a_pass += usize::from(is_in_a_pass);
    }

    fn open_database(&self) -> Connection {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let file = self.data.join("scrip.db");
        let database = Connection::open_with_flags(file, flags).expect("open the database");
        database.busy_timeout(Duration::from_secs(60)).expect("set the timeout");
        database
    }

    /// Lets the lease of the killed server end at once, as if time had passed.
    fn end_leases(&self) {
        let database = Connection::open(self.data.join("scrip.db")).expect("open the database");
        let sql = "UPDATE key_rotations SET lease_until = 0";
        database.execute(sql, []).expect("end the leases");
    }

    fn position(&self) -> StoredPosition {
        let sql = "SELECT to_version, promoted_at IS NOT NULL, pass, table_name, last_key,
            finished_at IS NOT NULL FROM key_rotations";
        let tables = ["tokens", "token_intents", "threeds_sessions", "deliveries"];
        let position = self.open_database().query_row(sql, [], |row| {
            let table: Option<String> = row.get(3)?;
            let table = table.and_then(|it| tables.iter().position(|name| *name == it));
            let is_finished: bool = row.get(5)?;
            Ok(StoredPosition {
                version: row.get(0)?,
                is_promoted: row.get(1)?,
                pass: row.get(2)?,
                table: table.unwrap_or(4) + usize::from(is_finished),
                key: row.get::<_, Option<String>>(4)?.unwrap_or_default(),
            })
        });
        position.optional().expect("read the rotation").unwrap_or_default()
    }

    fn count_key_versions(&self) -> i64 {
        let sql = "SELECT count(*) FROM tenant_keys";
        self.open_database().query_row(sql, [], |row| row.get(0)).expect("count the keys")
    }

    /// Lets the rotation end, and reads every token.
    fn finish(&mut self) {
        let server = self.start_server();
        for _ in 0..POLLS_MAX {
            if self.count_key_versions() == 1 {
                self.report.is_old_key_destroyed = true;
                break;
            }
            thread::sleep(POLL_INTERVAL);
        }
        // A server that has the old key in memory would hide its destruction.
        drop(server);
        let server = self.start_server();
        let mut client = HttpClient::connect(&server.server_address).expect("connect");
        for id in self.list_tokens() {
            let response = client.send(&format!("GET /tokens/{id}"), &[], "");
            let response = response.expect("the server responds");
            self.report.tokens += 1;
            self.report.unreadable += usize::from(response.status != 200);
            let token = TokenContent::parse(&response.body);
            let is_known = self.fingerprints.get(&token.data) == Some(&token.fingerprint);
            self.report.altered += usize::from(response.status == 200 && !is_known);
        }
        self.check_searches(&mut client);
    }

    /// Searches some tokens by their id in the index.
    fn check_searches(&mut self, client: &mut HttpClient) {
        for number in (0..TOKENS).step_by(100) {
            let body = json!({ "query": format!("metadata.number:{number}") }).to_string();
            let headers = [("Content-Type", "application/json")];
            let found = client.send("POST /v2/tokens/search", &headers, &body);
            let found = found.expect("the server responds").body;
            let found: Value = serde_json::from_str(&found).unwrap_or_default();
            let is_found = found["data"][0]["id"] == format!("token-{number}");
            self.report.not_found_by_search += usize::from(!is_found);
        }
    }

    fn list_tokens(&self) -> Vec<String> {
        let database = self.open_database();
        let mut statement = database.prepare("SELECT id FROM tokens").expect("run the query");
        let rows = statement.query_map([], |row| row.get(0)).expect("run the query");
        rows.map(|it| it.expect("read a row")).collect()
    }
}

/// A pace at which a rotation takes some rounds. The faulty server has the same one.
fn paced(mut command: Command) -> Command {
    command.env("SCRIP_KEYS_PROMOTE_AFTER_SECONDS", "1");
    command.env("SCRIP_KEYS_DESTROY_AFTER_SECONDS", "1");
    command.env("SCRIP_KEYS_ROTATION_ROWS_PER_SECOND", "1000");
    command
}

/// The data of new and of changed tokens.
const CREATED: &str = "text";
const CHANGED: &str = "changed";

/// The content that a client compares.
struct TokenContent {
    data: String,
    fingerprint: Value,
}

impl TokenContent {
    fn parse(body: &str) -> Self {
        let token: Value = serde_json::from_str(body).unwrap_or_default();
        let data = token["data"].as_str().unwrap_or_default().to_owned();
        Self { data, fingerprint: token["fingerprint"].clone() }
    }
}

fn read_token(client: &mut HttpClient, number: u64) -> TokenContent {
    let response = client.send(&format!("GET /tokens/token-{number}"), &[], "");
    let content = TokenContent::parse(&response.expect("the server responds").body);
    assert!(content.fingerprint.is_string(), "a token without a fingerprint");
    content
}

fn create(client: &mut HttpClient, number: u64) -> std::io::Result<u16> {
    let body = json!({
        "id": format!("token-{number}"), "type": "token", "data": CREATED,
        "fingerprint_expression": "{{ data }}", "metadata": { "number": number.to_string() },
    });
    let headers = [("Content-Type", "application/json")];
    Ok(client.send("POST /tokens", &headers, &body.to_string())?.status)
}

fn change(client: &mut HttpClient, number: u64) -> std::io::Result<u16> {
    let headers = [("Content-Type", "application/merge-patch+json")];
    let body = json!({ "data": CHANGED }).to_string();
    Ok(client.send(&format!("PATCH /tokens/token-{number}"), &headers, &body)?.status)
}

/// Creates, reads and changes tokens until the connection breaks.
fn run_client(
    address: &ServerAddress,
    next_number: &AtomicU64,
    is_stopped: &AtomicBool,
    unexpected: &AtomicUsize,
) {
    let Ok(mut client) = HttpClient::connect(address) else { return };
    let expect = |outcome: std::io::Result<u16>, statuses: &[u16]| {
        let Ok(status) = outcome else { return false };
        if !statuses.contains(&status) {
            unexpected.fetch_add(1, Ordering::Relaxed);
        }
        true
    };
    while !is_stopped.load(Ordering::Relaxed) {
        let number = next_number.fetch_add(1, Ordering::Relaxed);
        if !expect(create(&mut client, number), &[201]) {
            return;
        }
        let old = number % TOKENS;
        let read = client.send(&format!("GET /tokens/token-{old}"), &[], "");
        if !expect(read.map(|it| it.status), &[200]) {
            return;
        }
        // Two clients may change one token at the same time.
        if !expect(change(&mut client, old), &[200, 409]) {
            return;
        }
    }
}

fn run_scenario(
    name: &str,
    fault: Option<StoreFault>,
    rounds: usize,
    is_passed: fn(&RotationReport) -> bool,
) -> bool {
    let mut test = RotationTest::new(fault);
    test.start_rotation();
    let mut rotations = 1_usize;
    for _ in 0..ROUNDS_MAX {
        if test.report.kills_in_a_pass >= rounds {
            break;
        }
        test.run_round();
        if test.count_key_versions() == 1 && fault.is_none() {
            test.start_rotation();
            rotations += 1;
        }
    }
    test.finish();
    let passed = is_passed(&test.report);
    let word = if passed { "ok" } else { "FAILED" };
    println!("kill_loop {name} ... {word}  rotations: {rotations}, {:?}", test.report);
    passed
}

/// Runs the shipped program, and as a control a store that hides rows from the rotation, so that it
/// destroys the old key too early.
pub(crate) fn scenarios(is_long: bool) -> [Scenario; 2] {
    let rounds = if is_long { 100 } else { 10 };
    [
        Scenario::new("key_rotation", move |name| {
            run_scenario(name, None, rounds, |it| it.is_clean() && it.tokens > 0)
        }),
        Scenario::new("early_key_destruction", |name| {
            let found = |it: &RotationReport| it.is_old_key_destroyed && it.unreadable > 0;
            run_scenario(name, Some(StoreFault::EarlyKeyDestruction), 0, found)
        }),
    ]
}
