//! `scrip backup` and `scrip restore`: what comes back, and what is refused.

use std::{
    collections::HashSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Output,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use rusqlite::Connection;
use scrip_seal::Checksum;
use scrip_testing::{
    process::{
        client::{HttpClient, ServerAddress},
        harness::{ProcessHarness, RunningServer, becomes_true},
    },
    requests::card_number,
};
use serde_json::{Value, json};

/// A server on a vault with an application that may do everything.
pub(crate) struct BackupHarness {
    pub(crate) process: ProcessHarness,
    api_key: String,
}

impl BackupHarness {
    pub(crate) fn new() -> Self {
        let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
        Self { process, api_key: key }
    }

    /// A second machine: the root key, and nothing else.
    pub(crate) fn second_machine(&self) -> Self {
        let process = ProcessHarness::new(crate::SCRIP);
        fs::create_dir(process.data()).unwrap();
        fs::copy(self.process.data().join("root.key"), process.data().join("root.key")).unwrap();
        Self { process, api_key: self.api_key.clone() }
    }

    pub(crate) fn serve(&self) -> RunningServer {
        let server = self.process.serve();
        assert!(becomes_true(|| server.status("/readyz") == 200), "{}", self.process.log());
        server
    }

    pub(crate) fn client(&self, server: &RunningServer) -> HttpClient {
        let hello = json!({ "keys": { "private": self.api_key } });
        HttpClient::connect(&ServerAddress { address: server.address, ready_message: hello })
            .expect("it listens")
    }

    /// Makes the token with this place in the series, once.
    pub(crate) fn create_token(client: &mut HttpClient, number: u64) -> String {
        let key = format!("backup-{number}");
        let headers = [("Content-Type", "application/json"), ("BT-IDEMPOTENCY-KEY", key.as_str())];
        let data = json!({ "number": card_number(number), "expiration_month": 12, "cvc": "123" });
        let body = json!({ "type": "card", "data": data }).to_string();
        let response = client.send("POST /tokens", &headers, &body).expect("an answer");
        assert_eq!(response.status, 201);
        let body: Value = serde_json::from_str(&response.body).expect("JSON");
        body["id"].as_str().expect("an id").to_owned()
    }

    pub(crate) fn get_token(client: &mut HttpClient, id: &str) -> Option<Value> {
        let response = client.send(&format!("GET /tokens/{id}"), &[], "").expect("an answer");
        (response.status == 200).then(|| serde_json::from_str(&response.body).expect("JSON"))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.process.path(name).display().to_string()
    }

    /// A backup of some tokens, and their ids.
    pub(crate) fn create_with_backup(count: u64) -> (Self, String, Vec<String>) {
        let harness = Self::new();
        let server = harness.serve();
        let mut client = harness.client(&server);
        let ids = (0..count).map(|it| Self::create_token(&mut client, it)).collect();
        let file = harness.path("backup");
        expect_success(&harness.process, &["backup", &file]);
        (harness, file, ids)
    }

    /// Every token there is can be opened, and these are among them.
    #[track_caller]
    pub(crate) fn expect_tokens(&self, ids: &[String]) {
        let there = stored_token_ids(&self.process.data());
        let server = self.serve();
        let mut client = self.client(&server);
        for id in &there {
            assert!(Self::get_token(&mut client, id).is_some(), "{id} does not open");
        }
        for (place, id) in (0..).zip(ids) {
            let token = Self::get_token(&mut client, id).expect("it was acknowledged");
            assert_eq!(token["data"]["number"], card_number(place));
        }
    }
}

#[track_caller]
pub(crate) fn expect_success(process: &ProcessHarness, arguments: &[&str]) -> Output {
    let output = process.run(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[track_caller]
fn run_json(process: &ProcessHarness, arguments: &[&str]) -> Value {
    let output = expect_success(process, &[arguments, &["--json"]].concat());
    assert!(output.stderr.is_empty(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The ids in the database itself, which is sound.
pub(crate) fn stored_token_ids(data: &Path) -> HashSet<String> {
    let connection = Connection::open(data.join("scrip.db")).unwrap();
    let sound: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    let mut statement = connection.prepare("SELECT id FROM tokens").unwrap();
    let ids = statement.query_map([], |row| row.get(0)).unwrap();
    ids.map(Result::unwrap).collect()
}

#[test]
fn backup_contains_every_acknowledged_token() {
    let (harness, file, ids) = BackupHarness::create_with_backup(20);
    let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let other = harness.second_machine();
    let output = expect_success(&other.process, &["restore", &file]).stdout;
    let output = String::from_utf8(output).unwrap();
    for expected in ["1 tenant and 20 tokens", "just now", "deleted since are back", "codes"] {
        assert!(output.contains(expected), "{output}");
    }
    assert!(!other.process.data().join("restoring.db").exists());
    other.expect_tokens(&ids);
    // An answer is remembered there too, and the token has no code.
    let server = other.serve();
    let mut client = other.client(&server);
    assert_eq!(BackupHarness::create_token(&mut client, 7), ids[7]);
    assert_eq!(stored_token_ids(&other.process.data()).len(), 20);
    let token = BackupHarness::get_token(&mut client, &ids[7]).unwrap();
    assert!(token["data"].get("cvc").is_none());
    assert_ne!(BackupHarness::create_token(&mut client, 20), ids[7]);
}

/// Creates go on while it is made, for as long as it takes: it stands still until the log is past
/// the mark at which it would start over, and then some. Nobody waits for what cannot happen.
#[cfg(target_os = "linux")]
#[test]
fn backup_does_not_block_a_busy_server() {
    const CLIENTS: usize = 4;
    const BEFORE: usize = 300;
    const DURING: usize = 500;
    const WAL_BYTES_PAST_RESTART: u64 = 80 * 1024 * 1024;
    const TRIES_MAX: usize = 3;
    let mut harness = BackupHarness::new();
    harness.process = harness.process.with_variable("SCRIP_LOG", "info,scrip_store=debug");
    let server = harness.serve();
    let (places, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let created: Mutex<Vec<(u64, String)>> = Mutex::default();
    let count = || created.lock().unwrap().len();
    let file = harness.path("backup");
    let before = thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = harness.client(&server);
                while !done.load(Ordering::Relaxed) {
                    let place = places.fetch_add(1, Ordering::Relaxed);
                    let id = BackupHarness::create_token(&mut client, place);
                    created.lock().unwrap().push((place, id));
                }
            });
        }
        // However this ends, the clients do.
        let _stop = StopOnDrop(&done);
        assert!(becomes_true(|| count() >= BEFORE));
        let before = created.lock().unwrap().clone();
        // Its first line comes when it has begun to read.
        let backup = crate::operator::stalled_command::StalledCommand::start(
            &harness.process,
            &["backup", &file],
            0,
        );
        assert!(becomes_true(|| Path::new(&format!("{file}.draft")).exists()));
        let log = harness.process.data().join("scrip.db-wal");
        let go_on = || {
            let now = count();
            assert!(becomes_true(|| count() > now), "creates have stopped");
        };
        while fs::metadata(&log).unwrap().len() < WAL_BYTES_PAST_RESTART {
            go_on();
        }
        let aim = count() + DURING;
        while count() < aim {
            go_on();
        }
        let tries = harness.process.log().matches("the log could not start over").count();
        assert!(tries <= TRIES_MAX, "{tries} times everybody waited");
        assert!(!Path::new(&file).exists());
        let (mut child, output) = backup.resume();
        assert!(child.wait().unwrap().success(), "{}", output.join().unwrap());
        before
    });
    drop(server);

    let other = harness.second_machine();
    let told = run_json(&other.process, &["restore", &file]);
    let there = stored_token_ids(&other.process.data());
    assert_eq!(told["backup"]["rows"]["tokens"], there.len());
    assert!(before.iter().all(|(_, id)| there.contains(id)));
    other.expect_tokens(&[]);
    let server = other.serve();
    let mut client = other.client(&server);
    for (place, id) in before.iter().step_by(10) {
        let token = BackupHarness::get_token(&mut client, id).expect("it was acknowledged");
        assert_eq!(token["data"]["number"], card_number(*place));
        assert_eq!(
            &BackupHarness::create_token(&mut client, *place),
            id,
            "its answer is remembered"
        );
    }
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn backup_after_a_kill_includes_commits_in_the_wal() {
    let harness = BackupHarness::new();
    let server = harness.serve();
    let mut client = harness.client(&server);
    let ids: Vec<_> = (0..5).map(|it| BackupHarness::create_token(&mut client, it)).collect();
    drop(server);
    let log = harness.process.data().join("scrip.db-wal");
    assert!(fs::metadata(log).unwrap().len() > 0);
    let file = harness.path("backup");
    let told = run_json(&harness.process, &["backup", &file]);
    assert_eq!(told["backup"]["rows"]["tokens"], 5);
    assert!(told["backup"]["rows"].get("cvcs").is_none());
    let other = harness.second_machine();
    expect_success(&other.process, &["restore", &file]);
    other.expect_tokens(&ids);
}

#[test]
fn backup_rejects_existing_files_and_the_data_directory() {
    let (harness, file, _) = BackupHarness::create_with_backup(1);
    let process = &harness.process;
    let before = fs::read(&file).unwrap();
    process.assert_fails(&["backup", &file], "is there already");
    assert_eq!(fs::read(&file).unwrap(), before);
    let database = process.data().join("scrip.db").display().to_string();
    process.assert_fails(&["backup", &database, "--force"], "lies in the data directory");
    process.assert_fails(&["backup", "nowhere/backup"], "cannot be found");
    assert!(!process.run(&["backup"]).status.success());
    // A link that somebody put where the draft will be is not followed.
    let aim = process.path("aim");
    fs::write(&aim, "mine").unwrap();
    std::os::unix::fs::symlink(&aim, process.path("second.draft")).unwrap();
    process.assert_fails(&["backup", &harness.path("second")], "cannot be made");
    assert_eq!(fs::read_to_string(&aim).unwrap(), "mine");
    let told = run_json(process, &["backup", &file, "--force"]);
    assert_eq!(told["bytes"], fs::metadata(&file).unwrap().len());
    assert_ne!(fs::read(&file).unwrap(), before);
    assert!(!Path::new(&format!("{file}.draft")).exists());
    let empty = ProcessHarness::new(crate::SCRIP);
    empty.assert_fails(&["backup", &file], "there is no data directory");
}

#[test]
fn restore_moves_an_existing_vault_aside_only_with_force() {
    let (harness, file, ids) = BackupHarness::create_with_backup(3);
    let process = &harness.process;
    let server = harness.serve();
    let mut client = harness.client(&server);
    let later = BackupHarness::create_token(&mut client, 3);
    process.assert_fails(&["restore", &file, "--force"], "is served by process");
    drop(server);
    process.assert_fails(&["restore", &file], "there is a vault in");
    let told = run_json(process, &["restore", &file, "--force"]);
    let aside = PathBuf::from(told["moved_aside"].as_str().unwrap());
    assert_eq!(aside.parent(), Some(process.data().as_path()));
    let now: HashSet<String> = ids.iter().cloned().collect();
    assert_eq!(stored_token_ids(&process.data()), now);
    // With its log, so with its last commits.
    assert!(stored_token_ids(&aside).contains(&later));
    harness.expect_tokens(&ids);
    // A log without its database would be replayed into another one.
    fs::remove_file(process.data().join("scrip.db")).unwrap();
    fs::write(process.data().join("scrip.db-wal"), "left behind").unwrap();
    process.assert_fails(&["restore", &file], "there is a vault in");
}

#[test]
fn restore_requires_the_root_key_of_the_backup() {
    let (harness, file, ids) = BackupHarness::create_with_backup(2);
    let verified = run_json(&harness.process, &["backup", "verify", &file]);
    assert_eq!((&verified["whole"], &verified["key_opens"]), (&true.into(), &true.into()));
    assert_eq!(verified["backup"]["rows"]["tokens"], 2);
    let other = ProcessHarness::new(crate::SCRIP);
    other.assert_fails(&["restore", &file], "--without-key");
    other.assert_fails(&["backup", "verify", &file], "--without-key");
    let other =
        other.with_variable("SCRIP_ROOT_KEY", "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=");
    other.assert_fails(&["restore", &file], "did not wrap");
    other.assert_fails(&["backup", "verify", &file], "did not wrap");
    assert!(file_names(&other.data()).iter().all(|it| it == "scrip.lock"));
    expect_success(&other, &["backup", "verify", &file, "--without-key"]);
    assert!(file_names(&other.data()).iter().all(|it| it == "scrip.lock"));
    expect_success(&other, &["restore", &file, "--without-key"]);
    assert_eq!(stored_token_ids(&other.data()).len(), ids.len());
}

fn file_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn damaged_backup_is_rejected_before_any_change() {
    let (harness, file, _) = BackupHarness::create_with_backup(2);
    let whole = fs::read(&file).unwrap();
    let other = harness.second_machine();
    let bad = harness.path("bad");
    let check = |bytes: &[u8], expected: &str| {
        fs::write(&bad, bytes).unwrap();
        other.process.assert_fails(&["restore", &bad], expected);
        other.process.assert_fails(&["backup", "verify", &bad], expected);
        assert_eq!(file_names(&other.process.data()), ["root.key"]);
    };
    for part in [0, 1, 2, 5] {
        check(&whole[..whole.len() * part / 6], "no backup, or it was cut short");
    }
    check(&whole[..whole.len() - 1], "no backup, or it was cut short");
    check(&[&whole[..], b"\n"].concat(), "no backup, or it was cut short");
    for at in [0, 100, whole.len() / 2, whole.len() - 200, whole.len() - 1] {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        check(&flipped, "is damaged");
    }
    other.process.assert_fails(&["restore", "nowhere"], "cannot be read");
    other.process.assert_fails(&["restore", "."], "is no file");
}

/// Files with a checksum that is right: somebody wrote them so.
#[test]
fn backup_with_unusable_content_is_rejected() {
    let (harness, file, _) = BackupHarness::create_with_backup(2);
    let whole = fs::read(&file).unwrap();
    let other = harness.second_machine();
    let bad = harness.path("bad");
    let check = |alter: &dyn Fn(&mut Vec<u8>), expected: &str| {
        let mut bytes = whole[..whole.len() - 32].to_vec();
        alter(&mut bytes);
        let mut sum = Checksum::new();
        sum.add(&bytes);
        bytes.extend(sum.finish());
        fs::write(&bad, bytes).unwrap();
        other.process.assert_fails(&["backup", "verify", &bad], expected);
        other.process.assert_fails(&["restore", &bad], expected);
        assert!(!other.process.data().join("scrip.db").exists());
        assert!(!other.process.data().join("restoring.db").exists());
    };
    // The version of the schema stands there in every SQLite file.
    check(&|it| it[60..64].copy_from_slice(&99_u32.to_be_bytes()), "newer version");
    check(&|it| it[68..72].copy_from_slice(&7_u32.to_be_bytes()), "not one of ours");
    check(&|it| it[3 * 4096..3 * 4096 + 64].fill(0x55), "cannot be used");
    check(
        &|it| {
            let at = it.windows(10).rposition(|it| it == b"\"program\":").unwrap();
            it[at] = b'!';
        },
        "does not understand",
    );
    // The control: the same with nothing altered.
    fs::write(&bad, &whole).unwrap();
    expect_success(&other.process, &["restore", &bad]);
}
