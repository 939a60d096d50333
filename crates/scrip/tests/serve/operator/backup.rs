//! `scrip backup` and `scrip restore`: the restored data, and rejected files.

use std::{
    collections::HashSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
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

#[cfg(target_os = "linux")]
use crate::operator::stalled_command::StalledCommand;

/// A vault with a server and an application with all permissions.
pub(crate) struct BackupHarness {
    pub(crate) process: ProcessHarness,
    api_key: String,
}

impl BackupHarness {
    pub(crate) fn new() -> Self {
        let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
        Self { process, api_key: key }
    }

    /// Creates a second machine that has only the root key.
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
        let ready_message = json!({ "keys": { "private": self.api_key } });
        HttpClient::connect(&ServerAddress { address: server.address, ready_message })
            .expect("the server listens")
    }

    /// Creates the token with this number, idempotently.
    pub(crate) fn create_token(client: &mut HttpClient, number: u64) -> String {
        let key = format!("backup-{number}");
        let headers = [("Content-Type", "application/json"), ("BT-IDEMPOTENCY-KEY", key.as_str())];
        let data = json!({ "number": card_number(number), "expiration_month": 12, "cvc": "123" });
        let body = json!({ "type": "card", "data": data }).to_string();
        let response = client.send("POST /tokens", &headers, &body).expect("a response");
        assert_eq!(response.status, 201);
        let body: Value = serde_json::from_str(&response.body).expect("JSON");
        body["id"].as_str().expect("an id").to_owned()
    }

    pub(crate) fn get_token(client: &mut HttpClient, id: &str) -> Option<Value> {
        let response = client.send(&format!("GET /tokens/{id}"), &[], "").expect("a response");
        (response.status == 200).then(|| serde_json::from_str(&response.body).expect("JSON"))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.process.path(name).display().to_string()
    }

    /// Creates some tokens and a backup. Returns the path and the token ids.
    pub(crate) fn create_with_backup(count: u64) -> (Self, String, Vec<String>) {
        let harness = Self::new();
        let server = harness.serve();
        let mut client = harness.client(&server);
        let ids = (0..count).map(|it| Self::create_token(&mut client, it)).collect();
        let file = harness.path("backup");
        expect_success(&harness.process, &["backup", &file]);
        (harness, file, ids)
    }

    /// Expects that every stored token can be decrypted, and that the tokens with these ids are
    /// stored.
    #[track_caller]
    pub(crate) fn expect_tokens(&self, ids: &[String]) {
        let stored = stored_token_ids(&self.process.data());
        let server = self.serve();
        let mut client = self.client(&server);
        for id in &stored {
            assert!(Self::get_token(&mut client, id).is_some(), "{id} cannot be decrypted");
        }
        for (number, id) in (0..).zip(ids) {
            let token = Self::get_token(&mut client, id).expect("an acknowledged token exists");
            assert_eq!(token["data"]["number"], card_number(number));
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

/// Returns the token ids in the database file, which must pass the integrity check.
pub(crate) fn stored_token_ids(data: &Path) -> HashSet<String> {
    let connection = Connection::open(data.join("scrip.db")).unwrap();
    let integrity: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(integrity, "ok");
    let mut statement = connection.prepare("SELECT id FROM tokens").unwrap();
    let ids = statement.query_map([], |row| row.get(0)).unwrap();
    ids.map(Result::unwrap).collect()
}

#[test]
fn backup_contains_every_acknowledged_token() {
    let (harness, file, ids) = BackupHarness::create_with_backup(20);
    let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let second_machine = harness.second_machine();
    let output = expect_success(&second_machine.process, &["restore", &file]).stdout;
    let output = String::from_utf8(output).unwrap();
    for expected in ["1 tenant and 20 tokens", "just now", "deleted since exist again", "CVCs"] {
        assert!(output.contains(expected), "{output}");
    }
    assert!(!second_machine.process.data().join("restoring.db").exists());
    second_machine.expect_tokens(&ids);
    // The restored vault still replays responses, and the token has no CVC.
    let server = second_machine.serve();
    let mut client = second_machine.client(&server);
    assert_eq!(BackupHarness::create_token(&mut client, 7), ids[7]);
    assert_eq!(stored_token_ids(&second_machine.process.data()).len(), 20);
    let token = BackupHarness::get_token(&mut client, &ids[7]).unwrap();
    assert!(token["data"].get("cvc").is_none());
    assert_ne!(BackupHarness::create_token(&mut client, 20), ids[7]);
}

/// Creates continue while the backup runs: the backup is stalled until the WAL is past its restart
/// size and longer. Writers must not keep waiting for a WAL restart that the backup makes
/// impossible.
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
    let (next_number, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    let created: Mutex<Vec<(u64, String)>> = Mutex::default();
    let count = || created.lock().unwrap().len();
    let file = harness.path("backup");
    let before = thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = harness.client(&server);
                while !is_done.load(Ordering::Relaxed) {
                    let number = next_number.fetch_add(1, Ordering::Relaxed);
                    let id = BackupHarness::create_token(&mut client, number);
                    created.lock().unwrap().push((number, id));
                }
            });
        }
        // Stop the clients even if an assertion fails.
        let _stop = StopOnDrop(&is_done);
        assert!(becomes_true(|| count() >= BEFORE));
        let before = created.lock().unwrap().clone();
        // The command stalls at its first line, after it has started to read.
        let backup = StalledCommand::start(&harness.process, &["backup", &file], 0);
        assert!(becomes_true(|| Path::new(&format!("{file}.tmp")).exists()));
        let wal_path = harness.process.data().join("scrip.db-wal");
        let expect_creates = || {
            let now = count();
            assert!(becomes_true(|| count() > now), "creates are blocked");
        };
        while fs::metadata(&wal_path).unwrap().len() < WAL_BYTES_PAST_RESTART {
            expect_creates();
        }
        let target = count() + DURING;
        while count() < target {
            expect_creates();
        }
        let failed_restarts = harness.process.log().matches("WAL restart failed").count();
        let is_fast = failed_restarts <= TRIES_MAX;
        assert!(is_fast, "writers waited {failed_restarts} times for a WAL restart");
        assert!(!Path::new(&file).exists());
        let (mut child, output) = backup.resume();
        assert!(child.wait().unwrap().success(), "{}", output.join().unwrap());
        before
    });
    drop(server);

    let second_machine = harness.second_machine();
    let output = run_json(&second_machine.process, &["restore", &file]);
    let stored = stored_token_ids(&second_machine.process.data());
    assert_eq!(output["backup"]["rows"]["tokens"], stored.len());
    assert!(before.iter().all(|(_, id)| stored.contains(id)));
    second_machine.expect_tokens(&[]);
    let server = second_machine.serve();
    let mut client = second_machine.client(&server);
    for (number, id) in before.iter().step_by(10) {
        let token =
            BackupHarness::get_token(&mut client, id).expect("an acknowledged token exists");
        assert_eq!(token["data"]["number"], card_number(*number));
        let replayed = BackupHarness::create_token(&mut client, *number);
        assert_eq!(&replayed, id, "the restored vault does not replay the response");
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
    let wal_path = harness.process.data().join("scrip.db-wal");
    assert!(fs::metadata(wal_path).unwrap().len() > 0);
    let file = harness.path("backup");
    let output = run_json(&harness.process, &["backup", &file]);
    assert_eq!(output["backup"]["rows"]["tokens"], 5);
    assert!(output["backup"]["rows"].get("cvcs").is_none());
    let second_machine = harness.second_machine();
    expect_success(&second_machine.process, &["restore", &file]);
    second_machine.expect_tokens(&ids);
}

#[test]
fn backup_rejects_existing_files_and_the_data_directory() {
    let (harness, file, _) = BackupHarness::create_with_backup(1);
    let process = &harness.process;
    let bytes_before = fs::read(&file).unwrap();
    process.assert_fails(&["backup", &file], "exists already");
    assert_eq!(fs::read(&file).unwrap(), bytes_before);
    let database = process.data().join("scrip.db").display().to_string();
    process.assert_fails(&["backup", &database, "--force"], "is in the data directory");
    process.assert_fails(&["backup", "nowhere/backup"], "does not exist");
    assert!(!process.run(&["backup"]).status.success());
    // A symbolic link at the path of the temporary file is not followed.
    let target = process.path("target");
    fs::write(&target, "mine").unwrap();
    std::os::unix::fs::symlink(&target, process.path("second.tmp")).unwrap();
    process.assert_fails(&["backup", &harness.path("second")], "cannot be created");
    assert_eq!(fs::read_to_string(&target).unwrap(), "mine");
    let output = run_json(process, &["backup", &file, "--force"]);
    assert_eq!(output["bytes"], fs::metadata(&file).unwrap().len());
    assert_ne!(fs::read(&file).unwrap(), bytes_before);
    assert!(!Path::new(&format!("{file}.tmp")).exists());
    let empty_process = ProcessHarness::new(crate::SCRIP);
    empty_process.assert_fails(&["backup", &file], "does not exist. If this vault existed before");
}

#[test]
fn restore_moves_an_existing_vault_aside_only_with_force() {
    let (harness, file, ids) = BackupHarness::create_with_backup(3);
    let process = &harness.process;
    let server = harness.serve();
    let mut client = harness.client(&server);
    let later_token = BackupHarness::create_token(&mut client, 3);
    process.assert_fails(&["restore", &file, "--force"], "is in use by server process");
    drop(server);
    process.assert_fails(&["restore", &file], "already contains a vault");
    let output = run_json(process, &["restore", &file, "--force"]);
    let aside_folder = PathBuf::from(output["moved_aside"].as_str().unwrap());
    assert_eq!(aside_folder.parent(), Some(process.data().as_path()));
    let now: HashSet<String> = ids.iter().cloned().collect();
    assert_eq!(stored_token_ids(&process.data()), now);
    // Restore moves the WAL, which contains the last commits, together with the database.
    assert!(stored_token_ids(&aside_folder).contains(&later_token));
    harness.expect_tokens(&ids);
    // A WAL without its database would be replayed into another database.
    fs::remove_file(process.data().join("scrip.db")).unwrap();
    fs::write(process.data().join("scrip.db-wal"), "left behind").unwrap();
    process.assert_fails(&["restore", &file], "already contains a vault");
}

#[test]
fn restore_requires_the_root_key_of_the_backup() {
    let (harness, file, ids) = BackupHarness::create_with_backup(2);
    let verified = run_json(&harness.process, &["backup", "verify", &file]);
    assert_eq!(verified["valid"], true);
    assert_eq!(verified["opened_by"]["kind"], "file");
    assert_eq!(verified["opened_by"]["label"], "root key");
    assert_eq!(verified["backup"]["rows"]["tokens"], 2);
    let other = ProcessHarness::new(crate::SCRIP);
    other.assert_fails(&["restore", &file], "--without-root-key");
    other.assert_fails(&["backup", "verify", &file], "--without-root-key");
    let other =
        other.with_variable("SCRIP_ROOT_KEY", "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=");
    other.assert_fails(&["restore", &file], "this is the root key of another vault");
    other.assert_fails(&["backup", "verify", &file], "this is the root key of another vault");
    assert!(file_names(&other.data()).iter().all(|it| it == "scrip.lock"));
    expect_success(&other, &["backup", "verify", &file, "--without-root-key"]);
    assert!(file_names(&other.data()).iter().all(|it| it == "scrip.lock"));
    expect_success(&other, &["restore", &file, "--without-root-key"]);
    assert_eq!(stored_token_ids(&other.data()).len(), ids.len());
}

fn file_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn damaged_backup_is_rejected_before_any_change() {
    let (harness, file, _) = BackupHarness::create_with_backup(2);
    let backup_bytes = fs::read(&file).unwrap();
    let second_machine = harness.second_machine();
    let damaged_file = harness.path("bad");
    let expect_rejected = |bytes: &[u8], expected: &str| {
        fs::write(&damaged_file, bytes).unwrap();
        second_machine.process.assert_fails(&["restore", &damaged_file], expected);
        second_machine.process.assert_fails(&["backup", "verify", &damaged_file], expected);
        assert_eq!(file_names(&second_machine.process.data()), ["root.key"]);
    };
    for sixths in [0, 1, 2, 5] {
        expect_rejected(
            &backup_bytes[..backup_bytes.len() * sixths / 6],
            "is not a backup, or is truncated",
        );
    }
    expect_rejected(&backup_bytes[..backup_bytes.len() - 1], "is not a backup, or is truncated");
    expect_rejected(&[&backup_bytes[..], b"\n"].concat(), "is not a backup, or is truncated");
    for position in
        [0, 100, backup_bytes.len() / 2, backup_bytes.len() - 200, backup_bytes.len() - 1]
    {
        let mut flipped_bytes = backup_bytes.clone();
        flipped_bytes[position] ^= 1;
        expect_rejected(&flipped_bytes, "is damaged");
    }
    second_machine.process.assert_fails(&["restore", "nowhere"], "cannot be read");
    second_machine.process.assert_fails(&["restore", "."], "is not a regular file");
}

/// A pipe without a writer must not block a command.
#[cfg(target_os = "linux")]
#[test]
fn backup_that_is_a_pipe_is_rejected() {
    let (harness, _, _) = BackupHarness::create_with_backup(1);
    let pipe = harness.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for arguments in [
        &["policy", "restore", "--tenant", "Acme", "--from", &pipe][..],
        &["backup", "verify", &pipe],
        &["restore", &pipe, "--force"],
    ] {
        let mut command = harness.process.command(arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let is_finished = becomes_true(|| child.try_wait().unwrap().is_some());
        child.kill().ok();
        let output = child.wait_with_output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        let is_rejected = is_finished && message.contains("is not a regular file");
        assert!(is_rejected, "{arguments:?} {message}");
    }
}

/// Tests files with a correct checksum and invalid content.
#[test]
fn backup_with_unusable_content_is_rejected() {
    let (harness, file, _) = BackupHarness::create_with_backup(2);
    let backup_bytes = fs::read(&file).unwrap();
    let second_machine = harness.second_machine();
    let damaged_file = harness.path("bad");
    let expect_rejected = |alter: &dyn Fn(&mut Vec<u8>), expected: &str| {
        let mut bytes = backup_bytes[..backup_bytes.len() - 32].to_vec();
        alter(&mut bytes);
        let mut checksum = Checksum::new();
        checksum.add(&bytes);
        bytes.extend(checksum.finish());
        fs::write(&damaged_file, bytes).unwrap();
        second_machine.process.assert_fails(&["backup", "verify", &damaged_file], expected);
        second_machine.process.assert_fails(&["restore", &damaged_file], expected);
        assert!(!second_machine.process.data().join("scrip.db").exists());
        assert!(!second_machine.process.data().join("restoring.db").exists());
    };
    // The schema version is at this offset in every SQLite file.
    expect_rejected(&|it| it[60..64].copy_from_slice(&99_u32.to_be_bytes()), "newer version");
    expect_rejected(&|it| it[68..72].copy_from_slice(&7_u32.to_be_bytes()), "not a Scrip database");
    expect_rejected(&|it| it[3 * 4096..3 * 4096 + 64].fill(0x55), "cannot be used");
    expect_rejected(
        &|it| {
            let position = it.windows(10).rposition(|it| it == b"\"program\":").unwrap();
            it[position] = b'!';
        },
        "does not understand",
    );
    // Positive control: the unaltered file is accepted.
    fs::write(&damaged_file, &backup_bytes).unwrap();
    expect_success(&second_machine.process, &["restore", &damaged_file]);
}
