//! `scrip audit verify`, and the file by which a rollback is found.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rusqlite::Connection;
use scrip_testing::process::{
    harness::{ProcessHarness, RunningServer, becomes_true},
    terminate, wait,
};
use serde_json::Value;

use crate::operator::backup::{BackupHarness, expect_success};

const FILES: [&str; 2] = ["scrip.db", "access.db"];

/// As an operator stops it.
fn stop(mut server: RunningServer) {
    terminate(&server.child);
    assert!(wait(&mut server.child, Duration::from_secs(20)).unwrap().success());
}

fn verify_json(process: &ProcessHarness) -> Value {
    serde_json::from_slice(&expect_success(process, &["audit", "verify", "--json"]).stdout).unwrap()
}

/// How many records the logs have, but for those about the vault itself: every command adds some.
fn count_records(process: &ProcessHarness) -> [u64; 2] {
    let output = verify_json(process);
    assert_eq!(output["ok"], true, "{output}");
    FILES.map(|file| {
        let sql = format!("SELECT count(*) FROM audit WHERE tenant <> {VAULT_TENANT_ID}");
        let log = Connection::open(process.data().join(file)).unwrap();
        log.query_row(&sql, [], |row| row.get::<_, u32>(0)).unwrap().into()
    })
}

/// The id that records about the vault itself have in the place of a tenant's.
pub(crate) const VAULT_TENANT_ID: &str = "x'00000000000000000000000000000000'";

/// What operator commands left in the vault's own chain: command, outcome and user.
fn recorded_commands(process: &ProcessHarness) -> Vec<(String, String, String)> {
    let sql = format!(
        "SELECT entity, outcome, os_user FROM audit \
         WHERE tenant = {VAULT_TENANT_ID} AND operation = 'run_command' ORDER BY n"
    );
    let log = Connection::open(process.data().join("access.db")).unwrap();
    let mut statement = log.prepare(&sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

#[test]
fn operator_commands_are_recorded_with_the_system_user() {
    let process = ProcessHarness::initialized(crate::SCRIP).with_variable("SUDO_USER", "alice");
    let before = recorded_commands(&process).len();
    expect_success(&process, &["tenant", "create", "Acme", "--type", "production"]);
    expect_success(&process, &["tenant", "list"]);
    expect_success(&process, &["tenant", "quota", "show", "Acme"]);
    process.assert_fails(&["tenant", "show", "Nobody"], "there is no tenant of that name");
    expect_success(&process, &["application", "list"]);
    expect_success(&process, &["backup", &process.path("backup").display().to_string()]);
    expect_success(&process, &["export", &process.path("export").display().to_string()]);
    expect_success(&process, &["status"]);
    expect_success(&process, &["audit", "verify"]);
    let recorded = recorded_commands(&process).split_off(before);
    let expected = [
        ("tenant create", "started"),
        ("tenant create", "completed"),
        ("tenant list", "started"),
        ("tenant list", "completed"),
        ("tenant quota show", "started"),
        ("tenant quota show", "completed"),
        ("tenant show", "started"),
        ("tenant show", "aborted"),
        ("application list", "started"),
        ("application list", "completed"),
        ("backup", "started"),
        ("backup", "completed"),
        ("export", "started"),
        ("export", "completed"),
        ("status", "completed"),
        ("audit verify", "started"),
    ];
    let outcomes: Vec<_> = recorded.iter().map(|(command, how, _)| (&**command, &**how)).collect();
    assert_eq!(outcomes, expected);
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::current()).unwrap().unwrap().name;
    let user = format!("{user} (SUDO_USER alice)");
    assert!(recorded.iter().all(|(_, _, it)| *it == user), "{recorded:?}");
    // And in the chain of the tenant that was changed.
    let vault = Connection::open(process.data().join("scrip.db")).unwrap();
    let sql = "SELECT os_user FROM audit WHERE operation = 'create_tenant'";
    assert_eq!(vault.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap(), user);
}

#[test]
fn backup_and_export_without_root_key_need_the_flag() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    fs::rename(process.data().join("root.key"), process.path("elsewhere")).unwrap();
    for command in ["backup", "export"] {
        let file = process.path(command).display().to_string();
        process.assert_fails(&[command, &file], "say --without-key");
        expect_success(&process, &[command, &file, "--without-key"]);
    }
}

#[test]
fn removed_vault_chain_is_detected() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    expect_success(&process, &["tenant", "list"]);
    assert_eq!(verify_json(&process)["ok"], true);
    let log = Connection::open(process.data().join("access.db")).unwrap();
    for table in ["audit", "audit_heads"] {
        log.execute(&format!("DELETE FROM {table} WHERE tenant = {VAULT_TENANT_ID}"), []).unwrap();
    }
    // Also without the file that knew how far it was.
    fs::remove_file(process.data().join("audit.head")).unwrap();
    expect_success(&process, &["tenant", "list"]);
    let output = process.run(&["audit", "verify", "--json"]);
    let output: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output["problems"][0]["what"], "begins_otherwise", "{output}");
}

fn read_token(harness: &BackupHarness, server: &RunningServer, id: &str) -> u16 {
    let mut client = harness.client(server);
    client.send(&format!("GET /tokens/{id}"), &[], "").unwrap().status
}

#[test]
fn empty_vault_has_an_audit_chain() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    assert_eq!(count_records(&process), [0, 0]);
    expect_success(&process, &["tenant", "create", "Acme"]);
    assert_eq!(count_records(&process), [1, 0]);
    let head = fs::read_to_string(process.data().join("audit.head")).unwrap();
    assert_eq!(head.lines().count(), 5, "{head}");
}

#[test]
fn audit_verify_beside_a_running_server_names_altered_records() {
    let harness = BackupHarness::new();
    let server = harness.serve();
    let mut client = harness.client(&server);
    let ids: Vec<_> = (0..20).map(|it| BackupHarness::create_token(&mut client, it)).collect();
    let [audit, access] = count_records(&harness.process);
    assert_eq!(read_token(&harness, &server, &ids[0]), 200);
    assert_eq!(count_records(&harness.process), [audit, access + 1]);
    let log = harness.process.data().join("access.db");
    let outside = Connection::open(log).unwrap();
    let of_tenant = format!("FROM audit WHERE tenant <> {VAULT_TENANT_ID}");
    let tenant = format!("(SELECT tenant {of_tenant} LIMIT 1)");
    let last = format!("(SELECT max(n) {of_tenant})");
    let sql = format!("UPDATE audit SET outcome = 'masked' WHERE tenant = {tenant} AND n = {last}");
    assert_eq!(outside.execute(&sql, []).unwrap(), 1);
    let output = harness.process.run(&["audit", "verify"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let expected = format!("access log, record {}: altered", access + 1);
    assert!(text.contains(&expected) && text.contains("1 PROBLEM"), "{text}");
    let output = harness.process.run(&["audit", "verify", "--json"]);
    let output: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&output["ok"], &output["problems"][0]["what"]), (&false.into(), &"altered".into()));
}

/// The heads that are kept of the tenants' chains; that of the vault grows with every command.
fn saved_tenant_heads(process: &ProcessHarness) -> Vec<String> {
    let text = fs::read_to_string(process.data().join("audit.head")).unwrap();
    let of_tenants = text.lines().filter(|it| {
        (it.starts_with("audit ") || it.starts_with("access "))
            && !it.contains("00000000-0000-0000-0000-000000000000")
    });
    of_tenants.map(str::to_owned).collect()
}

fn copy_databases(from: &Path, to: &Path) {
    for file in FILES {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
}

#[test]
fn rolled_back_vault_is_detected_permanently() {
    let harness = BackupHarness::new();
    let stored = harness.process.path("kept");
    fs::create_dir(&stored).unwrap();
    let data = harness.process.data();
    let server = harness.serve();
    let id = BackupHarness::create_token(&mut harness.client(&server), 0);
    stop(server);
    copy_databases(&data, &stored);
    let server = harness.serve();
    assert_eq!(read_token(&harness, &server, &id), 200);
    BackupHarness::create_token(&mut harness.client(&server), 1);
    // Its end is written down when it ends.
    stop(server);
    assert_eq!(verify_json(&harness.process)["ok"], true);
    let head = saved_tenant_heads(&harness.process);
    copy_databases(&stored, &data);
    harness.process.assert_fails(&["audit", "verify"], "2 problems");
    // A server that goes on from there does not make it good.
    let server = harness.serve();
    harness.process.wait_for_log("an older database was brought back");
    BackupHarness::create_token(&mut harness.client(&server), 2);
    stop(server);
    assert_eq!(saved_tenant_heads(&harness.process), head);
    harness.process.assert_fails(&["audit", "verify"], "problems");
    // Nor when both logs have become longer than they were.
    let server = harness.serve();
    for at in 3..8 {
        BackupHarness::create_token(&mut harness.client(&server), at);
        assert_eq!(read_token(&harness, &server, &id), 200);
    }
    stop(server);
    assert_eq!(saved_tenant_heads(&harness.process), head);
    // A chain that is new is kept; what was known of the others stays.
    expect_success(&harness.process, &["tenant", "create", "Later"]);
    stop(harness.serve());
    let later = fs::read_to_string(data.join("audit.head")).unwrap();
    assert_eq!(head.len(), 2);
    assert!(head.iter().all(|it| later.lines().any(|line| line == it)), "{head:?}{later}");
    harness.process.assert_fails(&["audit", "verify"], "2 problems");
}

#[test]
fn removed_chain_that_grows_again_is_detected() {
    let harness = BackupHarness::new();
    let server = harness.serve();
    let id = BackupHarness::create_token(&mut harness.client(&server), 0);
    assert_eq!(read_token(&harness, &server, &id), 200);
    stop(server);
    let head = saved_tenant_heads(&harness.process);
    let outside = Connection::open(harness.process.data().join("access.db")).unwrap();
    for table in ["audit", "audit_heads"] {
        let sql = format!("DELETE FROM {table} WHERE tenant <> {VAULT_TENANT_ID}");
        assert!(outside.execute(&sql, []).unwrap() > 0);
    }
    drop(outside);
    let server = harness.serve();
    for _ in 0..5 {
        assert_eq!(read_token(&harness, &server, &id), 200);
    }
    stop(server);
    assert_eq!(saved_tenant_heads(&harness.process), head);
    harness.process.assert_fails(&["audit", "verify"], "1 problems");
}

#[test]
fn hanging_head_file_does_not_block_requests() {
    let harness = BackupHarness::new();
    let server = harness.serve();
    let id = BackupHarness::create_token(&mut harness.client(&server), 0);
    let file = harness.process.data().join("audit.head");
    fs::remove_file(&file).unwrap();
    // Whoever opens it waits for somebody who writes.
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    assert_eq!(read_token(&harness, &server, &id), 200);
    stop(server);
    harness.process.wait_for_log("the heads of the logs are not kept");
}

#[test]
fn head_file_writes_are_serialized_by_a_lock() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let file = process.data().join("audit.head");
    let before = fs::read(&file).unwrap();
    let lock = process.data().join("audit.head.lock");
    let lock = fs::File::options().write(true).create(true).truncate(false).open(lock).unwrap();
    lock.lock().unwrap();
    std::thread::scope(|scope| {
        let command = scope.spawn(|| expect_success(&process, &["tenant", "create", "Acme"]));
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(fs::read(&file).unwrap(), before);
        drop(lock);
        command.join().unwrap();
    });
    assert_ne!(fs::read(&file).unwrap(), before);
}

#[test]
fn missing_or_altered_head_file_is_reported() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    expect_success(&process, &["tenant", "create", "Acme"]);
    let file = process.data().join("audit.head");
    let head = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    process.assert_fails(&["audit", "verify"], "1 problems");
    fs::write(&file, head.replace("audit", "adit")).unwrap();
    process.assert_fails(&["audit", "verify"], "1 problems");
    fs::write(&file, head).unwrap();
    verify_json(&process);
}

#[test]
fn head_file_path_can_be_configured() {
    let elsewhere = tempfile::tempdir().unwrap();
    let file = elsewhere.path().join("heads");
    let process = ProcessHarness::new(crate::SCRIP)
        .with_variable("SCRIP_AUDIT_HEAD_FILE", &file.display().to_string());
    expect_success(&process, &["init"]);
    assert!(file.exists() && !process.data().join("audit.head").exists());
    verify_json(&process);
}

#[test]
fn restored_vault_has_a_valid_audit_chain() {
    let (harness, file, ids) = BackupHarness::create_with_backup(3);
    let server = harness.serve();
    assert_eq!(read_token(&harness, &server, &ids[0]), 200);
    stop(server);
    expect_success(&harness.process, &["backup", &file, "--force"]);
    let before = count_records(&harness.process);
    assert!(before[1] > 0);
    let other = harness.second_machine();
    expect_success(&other.process, &["restore", &file]);
    assert_eq!(count_records(&other.process), before);
    let server = other.serve();
    assert_eq!(read_token(&other, &server, &ids[1]), 200);
    stop(server);
    assert_eq!(count_records(&other.process), [before[0], before[1] + 1]);
    // Over a vault that has come further: its heads go aside with it, and how far it was exported.
    fs::write(other.process.data().join("audit.exported"), "").unwrap();
    expect_success(&other.process, &["restore", &file, "--force"]);
    assert_eq!(count_records(&other.process), before);
    let mut asides = fs::read_dir(other.process.data()).unwrap().map(|it| it.unwrap().path());
    let aside = asides.find(|it| it.to_string_lossy().contains("before-restore")).unwrap();
    let moved = ["access.db", "audit.exported", "audit.head", "scrip.db"];
    assert!(moved.iter().all(|it| aside.join(it).exists()));
    assert!(!other.process.data().join("audit.exported").exists());
}

/// A small disk of memory, which only root can make.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=12m", "none"]).arg(at);
        let mounted = mount.output().is_ok_and(|it| it.status.success());
        mounted.then(|| Self(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

#[test]
fn full_disk_prevents_reads() {
    let harness = BackupHarness::new();
    let data = harness.process.data();
    let moved = harness.process.path("moved");
    fs::rename(&data, &moved).unwrap();
    fs::create_dir(&data).unwrap();
    let Some(disk) = SmallDisk::mount(&data) else {
        // Not root here. What a refusing log does to reads is asked elsewhere, too.
        return;
    };
    let copied = Command::new("cp").arg("-a").arg(moved.join(".")).arg(&data).status().unwrap();
    assert!(copied.success());
    let server = harness.serve();
    let id = BackupHarness::create_token(&mut harness.client(&server), 0);
    assert_eq!(read_token(&harness, &server, &id), 200);
    let filler = data.join("filler");
    drop(fs::write(&filler, vec![7; 12 * 1024 * 1024]));
    // What room the log of the database has left is used up first.
    let mut last = 200;
    for _ in 0..2_000 {
        last = read_token(&harness, &server, &id);
        if last != 200 {
            break;
        }
    }
    assert_eq!(last, 503);
    fs::remove_file(&filler).unwrap();
    assert!(becomes_true(|| read_token(&harness, &server, &id) == 200));
    stop(server);
    verify_json(&harness.process);
    drop(disk);
}
