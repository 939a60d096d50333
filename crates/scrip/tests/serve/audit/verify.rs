//! `scrip audit verify`, and the head file that detects a rollback.

use std::{fs, path::Path, process::Command, time::Duration};

use rusqlite::Connection;
use scrip_testing::process::harness::{ProcessHarness, RunningServer, becomes_true};
use serde_json::Value;

use crate::{
    operator::backup::{BackupHarness, expect_success},
    storage::small_disk::{SmallDisk, run_in_namespace},
};

const FILES: [&str; 2] = ["scrip.db", "read_log.db"];

/// Stops the server with SIGTERM, as an operator does.
fn stop(mut server: RunningServer) {
    server.stop();
}

fn verify_json(process: &ProcessHarness) -> Value {
    serde_json::from_slice(&expect_success(process, &["audit", "verify", "--json"]).stdout).unwrap()
}

/// Counts the records in each log, without the records of the vault itself: every command adds
/// records of the vault.
fn count_records(process: &ProcessHarness) -> [u64; 2] {
    let output = verify_json(process);
    assert_eq!(output["ok"], true, "{output}");
    FILES.map(|file| {
        let sql = format!("SELECT count(*) FROM log_records WHERE tenant <> {VAULT_TENANT_ID}");
        let log = Connection::open(process.data().join(file)).unwrap();
        log.query_row(&sql, [], |row| row.get::<_, u32>(0)).unwrap().into()
    })
}

/// The id in place of a tenant id in records of the vault itself.
pub(crate) const VAULT_TENANT_ID: &str = "x'00000000000000000000000000000000'";

/// Returns the records of operator commands in the chain of the vault: command, outcome and user.
fn recorded_commands(process: &ProcessHarness) -> Vec<(String, String, String)> {
    let sql = format!(
        "SELECT entity, outcome, os_user FROM log_records \
         WHERE tenant = {VAULT_TENANT_ID} AND operation = 'run_command' ORDER BY sequence"
    );
    let log = Connection::open(process.data().join("read_log.db")).unwrap();
    let mut statement = log.prepare(&sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

#[test]
fn operator_commands_are_recorded_with_the_system_user() {
    let process = ProcessHarness::initialized(crate::SCRIP).with_variable("SUDO_USER", "alice");
    let count_before = recorded_commands(&process).len();
    expect_success(&process, &["tenant", "create", "Acme", "--type", "production"]);
    expect_success(&process, &["tenant", "list"]);
    expect_success(&process, &["tenant", "quota", "show", "Acme"]);
    process.assert_fails(&["tenant", "show", "Unknown"], "no tenant has this name");
    expect_success(&process, &["application", "list"]);
    expect_success(&process, &["backup", &process.path("backup").display().to_string()]);
    expect_success(&process, &["export", &process.path("export").display().to_string()]);
    expect_success(&process, &["status"]);
    expect_success(&process, &["audit", "verify"]);
    let new_commands = recorded_commands(&process).split_off(count_before);
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
    let outcomes: Vec<_> =
        new_commands.iter().map(|(command, how, _)| (&**command, &**how)).collect();
    assert_eq!(outcomes, expected);
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::current()).unwrap().unwrap().name;
    let user = format!("{user} (SUDO_USER alice)");
    assert!(new_commands.iter().all(|(_, _, it)| *it == user), "{new_commands:?}");
    // The command is also recorded in the chain of the changed tenant.
    let vault = Connection::open(process.data().join("scrip.db")).unwrap();
    let sql = "SELECT os_user FROM log_records WHERE operation = 'create_tenant'";
    assert_eq!(vault.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap(), user);
}

#[test]
fn backup_and_export_without_root_key_need_the_flag() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    fs::rename(process.data().join("root.key"), process.path("elsewhere")).unwrap();
    for command in ["backup", "export"] {
        let file = process.path(command).display().to_string();
        process.assert_fails(&[command, &file], "use --without-root-key");
        expect_success(&process, &[command, &file, "--without-root-key"]);
    }
}

#[test]
fn removed_audit_chain_of_the_vault_is_detected() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    expect_success(&process, &["tenant", "list"]);
    assert_eq!(verify_json(&process)["ok"], true);
    let log = Connection::open(process.data().join("read_log.db")).unwrap();
    for table in ["log_records", "chain_heads"] {
        log.execute(&format!("DELETE FROM {table} WHERE tenant = {VAULT_TENANT_ID}"), []).unwrap();
    }
    // The removed chain is also detected without the head file.
    fs::remove_file(process.data().join("audit.head")).unwrap();
    expect_success(&process, &["tenant", "list"]);
    let output = process.run(&["audit", "verify", "--json"]);
    let output: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output["problems"][0]["what"], "wrong_first_record", "{output}");
}

fn read_token(harness: &BackupHarness, server: &RunningServer, id: &str) -> u16 {
    let mut client = harness.client(server);
    client.send(&format!("GET /tokens/{id}"), &[], "").unwrap().status
}

#[test]
fn empty_vault_has_an_audit_chain() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    assert_eq!(count_records(&process), [0, 0]);
    expect_success(&process, &["tenant", "create", "Acme", "--type", "test"]);
    assert_eq!(count_records(&process), [1, 0]);
    let head = fs::read_to_string(process.data().join("audit.head")).unwrap();
    assert_eq!(head.lines().count(), 5, "{head}");
}

#[test]
fn audit_verify_names_altered_records_while_the_server_runs() {
    let harness = BackupHarness::new();
    let server = harness.serve();
    let mut client = harness.client(&server);
    let ids: Vec<_> = (0..20).map(|it| BackupHarness::create_token(&mut client, it)).collect();
    let [audit_count, read_count] = count_records(&harness.process);
    assert_eq!(read_token(&harness, &server, &ids[0]), 200);
    assert_eq!(count_records(&harness.process), [audit_count, read_count + 1]);
    let log_path = harness.process.data().join("read_log.db");
    let database = Connection::open(log_path).unwrap();
    let of_tenant = format!("FROM log_records WHERE tenant <> {VAULT_TENANT_ID}");
    let tenant = format!("(SELECT tenant {of_tenant} LIMIT 1)");
    let last_sequence = format!("(SELECT max(sequence) {of_tenant})");
    let sql = format!(
        "UPDATE log_records SET outcome = 'masked'
            WHERE tenant = {tenant} AND sequence = {last_sequence}"
    );
    assert_eq!(database.execute(&sql, []).unwrap(), 1);
    let output = harness.process.run(&["audit", "verify"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let expected = format!("read log, record {}: altered", read_count + 1);
    assert!(text.contains(&expected) && text.contains("1 PROBLEM"), "{text}");
    let output = harness.process.run(&["audit", "verify", "--json"]);
    let output: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&output["ok"], &output["problems"][0]["what"]), (&false.into(), &"altered".into()));
}

/// Returns the saved heads of the tenant chains. The head of the vault changes with every command.
fn saved_tenant_heads(process: &ProcessHarness) -> Vec<String> {
    let text = fs::read_to_string(process.data().join("audit.head")).unwrap();
    let of_tenants = text.lines().filter(|it| {
        (it.starts_with("audit ") || it.starts_with("read "))
            && !it.contains("00000000-0000-0000-0000-000000000000")
    });
    of_tenants.map(str::to_owned).collect()
}

fn copy_databases(source: &Path, target: &Path) {
    for file in FILES {
        fs::copy(source.join(file), target.join(file)).unwrap();
    }
}

#[test]
fn rolled_back_vault_is_detected_permanently() {
    let harness = BackupHarness::new();
    let stored = harness.process.path("copy");
    fs::create_dir(&stored).unwrap();
    let data = harness.process.data();
    let server = harness.serve();
    let id = BackupHarness::create_token(&mut harness.client(&server), 0);
    stop(server);
    copy_databases(&data, &stored);
    let server = harness.serve();
    assert_eq!(read_token(&harness, &server, &id), 200);
    BackupHarness::create_token(&mut harness.client(&server), 1);
    // The server saves the heads when it stops.
    stop(server);
    assert_eq!(verify_json(&harness.process)["ok"], true);
    let head = saved_tenant_heads(&harness.process);
    copy_databases(&stored, &data);
    harness.process.assert_fails(&["audit", "verify"], "found 3 problems\n");
    // A server that continues from the old state does not hide the rollback.
    let server = harness.serve();
    harness.process.wait_for_log("an older database was restored");
    BackupHarness::create_token(&mut harness.client(&server), 2);
    stop(server);
    assert_eq!(saved_tenant_heads(&harness.process), head);
    harness.process.assert_fails(&["audit", "verify"], "problems");
    // The rollback is still detected when both logs are longer than before.
    let server = harness.serve();
    for number in 3..8 {
        BackupHarness::create_token(&mut harness.client(&server), number);
        assert_eq!(read_token(&harness, &server, &id), 200);
    }
    stop(server);
    assert_eq!(saved_tenant_heads(&harness.process), head);
    // The head of a new chain is saved. The saved heads of the other chains do not change.
    expect_success(&harness.process, &["tenant", "create", "Later", "--type", "test"]);
    stop(harness.serve());
    let later_head = fs::read_to_string(data.join("audit.head")).unwrap();
    assert_eq!(head.len(), 2);
    let are_kept = head.iter().all(|it| later_head.lines().any(|line| line == it));
    assert!(are_kept, "saved heads {head:?} are not in {later_head}");
    harness.process.assert_fails(&["audit", "verify"], "found 3 problems\n");
}

#[test]
fn removed_chain_that_grows_again_is_detected() {
    let harness = BackupHarness::new();
    let server = harness.serve();
    let id = BackupHarness::create_token(&mut harness.client(&server), 0);
    assert_eq!(read_token(&harness, &server, &id), 200);
    stop(server);
    let head = saved_tenant_heads(&harness.process);
    let database = Connection::open(harness.process.data().join("read_log.db")).unwrap();
    for table in ["log_records", "chain_heads"] {
        let sql = format!("DELETE FROM {table} WHERE tenant <> {VAULT_TENANT_ID}");
        assert!(database.execute(&sql, []).unwrap() > 0);
    }
    drop(database);
    let server = harness.serve();
    for _ in 0..5 {
        assert_eq!(read_token(&harness, &server, &id), 200);
    }
    stop(server);
    assert_eq!(saved_tenant_heads(&harness.process), head);
    harness.process.assert_fails(&["audit", "verify"], "found 1 problem\n");
}

#[test]
fn hanging_head_file_does_not_block_requests() {
    let harness = BackupHarness::new();
    let server = harness.serve();
    let id = BackupHarness::create_token(&mut harness.client(&server), 0);
    let file = harness.process.data().join("audit.head");
    fs::remove_file(&file).unwrap();
    // Opening this FIFO blocks until a writer opens it.
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    assert_eq!(read_token(&harness, &server, &id), 200);
    stop(server);
    harness.process.wait_for_log("saving the chain heads failed");
}

#[test]
fn head_file_writes_are_serialized_by_a_lock() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let file = process.data().join("audit.head");
    let head_before = fs::read(&file).unwrap();
    let lock = process.data().join("audit.head.lock");
    let lock = fs::File::options().write(true).create(true).truncate(false).open(lock).unwrap();
    lock.lock().unwrap();
    std::thread::scope(|scope| {
        let command = scope
            .spawn(|| expect_success(&process, &["tenant", "create", "Acme", "--type", "test"]));
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(fs::read(&file).unwrap(), head_before);
        drop(lock);
        command.join().unwrap();
    });
    assert_ne!(fs::read(&file).unwrap(), head_before);
}

#[test]
fn missing_or_altered_head_file_is_reported() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    expect_success(&process, &["tenant", "create", "Acme", "--type", "test"]);
    let file = process.data().join("audit.head");
    let head = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    process.assert_fails(&["audit", "verify"], "found 1 problem\n");
    fs::write(&file, head.replace("audit", "adit")).unwrap();
    process.assert_fails(&["audit", "verify"], "found 1 problem\n");
    fs::write(&file, head).unwrap();
    verify_json(&process);
}

#[test]
fn end_of_a_head_file_failure_is_logged_once() {
    const FAILED: &str = "saving the chain heads failed";
    const SAVED: &str = "the chain heads are saved again";
    let process = ProcessHarness::initialized(crate::SCRIP);
    let server = process.serve();
    let file = process.data().join("audit.head");
    for outage in 1..=2 {
        let head = fs::read_to_string(&file).unwrap();
        fs::write(&file, "altered").unwrap();
        let count = |line: &str| process.log().matches(line).count();
        assert!(becomes_true(|| count(FAILED) == outage), "{}", process.log());
        fs::write(&file, head).unwrap();
        assert!(becomes_true(|| count(SAVED) == outage), "{}", process.log());
    }
    stop(server);
    let log = process.log();
    assert_eq!([FAILED, SAVED].map(|it| log.matches(it).count()), [2, 2], "{log}");
}

#[test]
fn head_file_removed_from_a_running_server_is_logged_once_and_created_again() {
    const MISSING: &str = "audit.head was moved or removed while the server was running";
    let process = ProcessHarness::initialized(crate::SCRIP);
    let file = process.data().join("audit.head");
    let server = process.serve();
    process.wait_for_log("the vault is open");
    // The server reads the file every two seconds.
    std::thread::sleep(Duration::from_secs(3));
    assert!(!process.log().contains(MISSING), "{}", process.log());
    for removal in 1..=2 {
        fs::rename(&file, process.path("moved")).unwrap();
        let count = || process.log().matches(MISSING).count();
        assert!(becomes_true(|| count() == removal && file.exists()), "{}", process.log());
    }
    std::thread::sleep(Duration::from_secs(3));
    stop(server);
    assert_eq!(process.log().matches(MISSING).count(), 2, "{}", process.log());
}

const CREATED: &str = "audit.head was missing and was created from the current logs";

/// The command creates the file, so the next update of the server does not notice it.
#[test]
fn command_on_a_server_reports_a_removed_head_file() {
    const LOST: &str = "audit.head was moved or removed while the server was running";
    let process = ProcessHarness::initialized(crate::SCRIP);
    let file = process.data().join("audit.head");
    let server = process.serve();
    process.wait_for_log("the vault is open");
    // The server has read the file before it is removed.
    std::thread::sleep(Duration::from_secs(3));
    let mut removals = 0;
    // The server updates the file every two seconds, and may be first.
    let is_reported = (0..10).any(|_| {
        fs::remove_file(&file).unwrap();
        removals += 1;
        let output = expect_success(&process, &["tenant", "list"]);
        String::from_utf8_lossy(&output.stderr).contains(LOST)
    });
    assert!(is_reported && file.exists(), "{}", process.log());
    assert_eq!(process.log().matches(LOST).count(), removals, "{}", process.log());
    let output = expect_success(&process, &["tenant", "list"]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    stop(server);
}

#[test]
fn command_without_a_server_reports_a_missing_head_file_once() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let file = process.data().join("audit.head");
    let backup = process.path("backup").display().to_string();
    for command in [&["tenant", "list"][..], &["init"], &["backup", &backup, "--force"]] {
        fs::remove_file(&file).unwrap();
        let count = || {
            let output = expect_success(&process, command);
            String::from_utf8_lossy(&output.stderr).matches(CREATED).count()
        };
        assert_eq!([count(), count()], [1, 0], "{command:?}");
    }
}

#[test]
fn server_reports_a_head_file_that_was_removed_before_its_start() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let file = process.data().join("audit.head");
    let server = process.serve();
    process.wait_for_log("the vault is open");
    stop(server);
    assert!(!process.log().contains(CREATED), "{}", process.log());
    fs::remove_file(&file).unwrap();
    let server = process.serve();
    process.wait_for_log(CREATED);
    stop(server);
    assert_eq!(process.log().matches(CREATED).count(), 1, "{}", process.log());
    assert!(file.exists());
}

#[test]
fn head_file_of_a_new_vault_is_not_called_missing() {
    let process = ProcessHarness::new(crate::SCRIP);
    let output = expect_success(&process, &["init"]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let process = ProcessHarness::new(crate::SCRIP);
    for run in 1..=2 {
        let server = process.start(&["dev", "--json"]);
        // The server reads the file every two seconds.
        std::thread::sleep(Duration::from_secs(3));
        stop(server);
        assert!(!process.log().contains(CREATED), "run {run}: {}", process.log());
    }
    fs::remove_file(process.data().join("audit.head")).unwrap();
    let server = process.start(&["dev", "--json"]);
    process.wait_for_log(CREATED);
    stop(server);
}

#[test]
fn head_file_path_can_be_configured() {
    let other_folder = tempfile::tempdir().unwrap();
    let file = other_folder.path().join("heads");
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
    let counts_before = count_records(&harness.process);
    assert!(counts_before[1] > 0);
    let second_machine = harness.second_machine();
    expect_success(&second_machine.process, &["restore", &file]);
    assert_eq!(count_records(&second_machine.process), counts_before);
    let server = second_machine.serve();
    assert_eq!(read_token(&second_machine, &server, &ids[1]), 200);
    stop(server);
    assert_eq!(count_records(&second_machine.process), [counts_before[0], counts_before[1] + 1]);
    // A restore over a newer vault moves its head file and its sink position aside, too.
    fs::write(second_machine.process.data().join("audit.sink-position"), "").unwrap();
    expect_success(&second_machine.process, &["restore", &file, "--force"]);
    assert_eq!(count_records(&second_machine.process), counts_before);
    let mut asides =
        fs::read_dir(second_machine.process.data()).unwrap().map(|it| it.unwrap().path());
    let aside_folder = asides.find(|it| it.to_string_lossy().contains("before-restore")).unwrap();
    let moved_files = ["audit.head", "audit.sink-position", "read_log.db", "scrip.db"];
    assert!(moved_files.iter().all(|it| aside_folder.join(it).exists()));
    assert!(!second_machine.process.data().join("audit.sink-position").exists());
}

#[test]
fn full_disk_prevents_reads() {
    let harness = BackupHarness::new();
    let Some(disk) = SmallDisk::mount(&harness.process, "12m") else {
        return run_in_namespace("audit::verify::full_disk_prevents_reads");
    };
    let server = harness.serve();
    let id = BackupHarness::create_token(&mut harness.client(&server), 0);
    assert_eq!(read_token(&harness, &server, &id), 200);
    let filler = disk.fill();
    // Fill the remaining space of the database log first.
    let mut last_status = 200;
    for _ in 0..2_000 {
        last_status = read_token(&harness, &server, &id);
        if last_status != 200 {
            break;
        }
    }
    assert_eq!(last_status, 503);
    fs::remove_file(&filler).unwrap();
    assert!(becomes_true(|| read_token(&harness, &server, &id) == 200));
    stop(server);
    verify_json(&harness.process);
    drop(disk);
}
