//! `scrip export` and `scrip import`: moving a vault to another engine, and rejected files.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use scrip_testing::{
    postgres::TestDatabase, process::harness::ProcessHarness, requests::card_number,
};
use serde_json::Value;

use crate::operator::{
    backup::{BackupHarness, expect_success},
    stalled_command::StalledCommand,
};

const TOKENS: u64 = 12;

fn create_database() -> TestDatabase {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(TestDatabase::create_empty())
}

/// Creates a second machine with the root key, on PostgreSQL.
fn second_machine_on_postgres(harness: &BackupHarness, database: &TestDatabase) -> BackupHarness {
    let mut machine = harness.second_machine();
    machine.process = machine.process.with_variable("SCRIP_STORAGE_URL", &database.url());
    machine.process = machine.process.with_variable("SCRIP_STORAGE_SINGLE_NODE", "true");
    expect_success(&machine.process, &["migrate"]);
    machine
}

#[track_caller]
fn run_json(process: &ProcessHarness, arguments: &[&str]) -> Value {
    let output = expect_success(process, &[arguments, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Creates a vault, serves it and creates tokens. Returns the vault and the ids of the tokens.
fn create_used_vault() -> (BackupHarness, Vec<String>) {
    let harness = BackupHarness::new();
    let server = harness.serve();
    let mut client = harness.client(&server);
    let ids: Vec<_> = (0..TOKENS).map(|it| BackupHarness::create_token(&mut client, it)).collect();
    for id in &ids {
        assert!(BackupHarness::get_token(&mut client, id).is_some());
    }
    drop(client);
    drop(server);
    (harness, ids)
}

/// Expects that acknowledged tokens exist, that retries replay their responses, and that the audit
/// chain is valid.
#[track_caller]
fn check_served(harness: &BackupHarness, ids: &[String]) {
    let server = harness.serve();
    let mut client = harness.client(&server);
    for (number, id) in (0..).zip(ids) {
        let token =
            BackupHarness::get_token(&mut client, id).expect("an acknowledged token exists");
        assert_eq!(token["data"]["number"], card_number(number));
        assert!(token["data"].get("cvc").is_none());
        // Retry the request with its idempotency key.
        assert_eq!(&BackupHarness::create_token(&mut client, number), id);
    }
    drop(client);
    drop(server);
    expect_success(&harness.process, &["audit", "verify"]);
}

#[test]
fn vault_can_be_moved_to_postgresql_and_back() {
    let (harness, ids) = create_used_vault();
    let (first_export, second_export) = (harness.path("exported"), harness.path("back"));
    let server = harness.serve();
    harness.process.assert_fails(&["export", &first_export], "is in use by server process");
    assert!(!Path::new(&format!("{first_export}.tmp")).exists(), "an empty file is left");
    drop(server);
    let output = run_json(&harness.process, &["export", &first_export]);
    assert_eq!(output["export"]["rows"]["tokens"], TOKENS);
    assert_eq!(output["export"]["engine"], "embedded");
    assert_eq!(output["bytes"], fs::metadata(&first_export).unwrap().len());
    assert_eq!(fs::metadata(&first_export).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!Path::new(&format!("{first_export}.tmp")).exists());
    harness.process.assert_fails(&["export", &first_export], "exists already");
    expect_success(&harness.process, &["export", &first_export, "--force"]);

    let database = create_database();
    let mut unmigrated_machine = harness.second_machine();
    unmigrated_machine.process =
        unmigrated_machine.process.with_variable("SCRIP_STORAGE_URL", &database.url());
    unmigrated_machine.process.assert_fails(&["import", &first_export], "run: scrip migrate");
    let postgres_machine = second_machine_on_postgres(&harness, &database);
    let output = expect_success(&postgres_machine.process, &["import", &first_export]).stdout;
    let output = String::from_utf8(output).unwrap();
    for expected in ["1 tenant and 12 tokens", "read back and compared", "CVCs", "only one"] {
        assert!(output.contains(expected), "{output}");
    }
    check_served(&postgres_machine, &ids);
    postgres_machine.process.assert_fails(&["import", &first_export], "there is a vault already");

    expect_success(&postgres_machine.process, &["export", &second_export]);
    let third_machine = harness.second_machine();
    expect_success(&third_machine.process, &["import", &second_export]);
    check_served(&third_machine, &ids);
    third_machine.expect_tokens(&ids);
    third_machine.process.assert_fails(&["import", &second_export], "there is a vault already");
}

/// The export records its end after its snapshot, so the imported logs do not continue the saved
/// chain heads.
#[test]
fn move_within_one_data_directory_starts_new_chain_heads() {
    let (mut harness, ids) = create_used_vault();
    let file = harness.path("export");
    expect_success(&harness.process, &["export", &file]);
    let head_file = harness.process.data().join("audit.head");
    let old_heads = fs::read(&head_file).unwrap();
    harness.process.assert_fails(&["import", &file], "there is a vault already");
    assert_eq!(fs::read(&head_file).unwrap(), old_heads, "a rejected import keeps the heads");

    let database = create_database();
    harness.process = harness.process.with_variable("SCRIP_STORAGE_URL", &database.url());
    harness.process = harness.process.with_variable("SCRIP_STORAGE_SINGLE_NODE", "true");
    expect_success(&harness.process, &["migrate"]);
    let output = run_json(&harness.process, &["import", &file]);
    let warnings = output["warnings"].as_array().unwrap().iter().filter_map(Value::as_str);
    let mut kept =
        warnings.filter_map(|it| it.strip_prefix("the chain heads of the old vault are in "));
    assert_eq!(fs::read(kept.next().unwrap()).unwrap(), old_heads, "{output}");
    check_served(&harness, &ids);
}

/// Expects that an import with a wrong or missing root key changes nothing.
#[track_caller]
fn check_wrong_root_key(target: &BackupHarness, file: &str, other_key: &Path) {
    let process = &target.process;
    let root_key = process.data().join("root.key");
    let own_key = fs::read(&root_key).unwrap();
    fs::copy(other_key, &root_key).unwrap();
    let output = process.run(&["import", file]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    for expected in ["this is the root key of another vault", "nothing was imported"] {
        assert_eq!(message.matches(expected).count(), 1, "{message}");
    }
    assert!(!message.contains("importing"), "{message}");
    fs::remove_file(&root_key).unwrap();
    process.assert_fails(&["import", file], "nothing was imported");
    assert!(!process.data().join("scrip.db").exists());
    fs::write(&root_key, own_key).unwrap();
    fs::set_permissions(&root_key, fs::Permissions::from_mode(0o600)).unwrap();
    // The storage is still empty.
    assert_eq!(run_json(process, &["import", file])["resumed_rows"], 0);
}

#[test]
fn import_with_a_wrong_root_key_writes_nothing() {
    let (harness, ids) = create_used_vault();
    let file = harness.path("export");
    expect_success(&harness.process, &["export", &file]);
    let other_vault = ProcessHarness::initialized(crate::SCRIP);
    let other_key = other_vault.data().join("root.key");
    let second_machine = harness.second_machine();
    check_wrong_root_key(&second_machine, &file, &other_key);
    check_served(&second_machine, &ids);
    let database = create_database();
    check_wrong_root_key(&second_machine_on_postgres(&harness, &database), &file, &other_key);

    let without_key = harness.second_machine();
    fs::copy(&other_key, without_key.process.data().join("root.key")).unwrap();
    expect_success(&without_key.process, &["import", &file, "--without-root-key"]);
    without_key.process.assert_fails(&["tenant", "list"], "this is the root key of another vault");
}

#[test]
fn import_checks_the_data_directory_before_the_file() {
    let process = ProcessHarness::new(crate::SCRIP);
    let file = process.path("not-an-export").display().to_string();
    fs::write(&file, "something else").unwrap();
    let below_a_file = format!("{file}/data");
    process.assert_fails(&["import", &file, "--data-dir", &below_a_file], "cannot be created");
}

#[test]
fn damaged_export_file_is_rejected_without_changes() {
    let (harness, _) = create_used_vault();
    let file = harness.path("export");
    expect_success(&harness.process, &["export", &file]);
    let export_bytes = fs::read(&file).unwrap();
    let empty_process = ProcessHarness::new(crate::SCRIP);
    let expect_rejected = |bytes: &[u8], expected: &str| {
        let path = harness.path("damaged");
        fs::write(&path, bytes).unwrap();
        empty_process.assert_fails(&["import", &path], expected);
        assert!(!empty_process.data().exists());
    };
    let mut flipped_bytes = export_bytes.clone();
    let middle = flipped_bytes.len() / 2;
    flipped_bytes[middle] ^= 1;
    expect_rejected(&flipped_bytes, "the export is damaged at byte");
    expect_rejected(&export_bytes[..middle], "the export is incomplete");
    expect_rejected(b"something else", "the file is not an export");
    // The export contains no clear text. The control proves that the search works.
    let contains_text =
        |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|it| it == text.as_bytes());
    for number in 0..TOKENS {
        assert!(!contains_text(&export_bytes, &card_number(number)));
    }
    assert!(contains_text(
        &[&export_bytes[..], card_number(3).as_bytes()].concat(),
        &card_number(3)
    ));
}

/// Returns whether a temporary file is longer than its header and its first frame. A frame has a
/// length before it and a checksum after it.
fn has_first_frame(temporary_file: &str) -> bool {
    let bytes = fs::read(temporary_file).unwrap_or_default();
    let length = bytes.get(16..20).and_then(|it| it.try_into().ok()).map(u32::from_be_bytes);
    length.is_some_and(|it| bytes.len() > 16 + 4 + usize::try_from(it).unwrap() + 32)
}

#[test]
fn killed_export_resumes() {
    let (harness, ids) = create_used_vault();
    let (file, temporary_file) = (harness.path("export"), harness.path("export.tmp"));
    // The command stalls at the line that reports that the first part is on disk.
    let export = StalledCommand::start(&harness.process, &["export", &file], 0);
    export.kill_when(|| has_first_frame(&temporary_file));
    assert!(Path::new(&temporary_file).exists() && !Path::new(&file).exists());
    // Simulate a torn write, as after a power failure.
    let mut torn_bytes = fs::read(&temporary_file).unwrap();
    torn_bytes.extend_from_slice(&[0; 100]);
    fs::write(&temporary_file, torn_bytes).unwrap();
    harness
        .process
        .assert_fails(&["import", &temporary_file], "cannot be imported; nothing was changed");
    let output = run_json(&harness.process, &["export", &file]);
    assert!(output["resumed_rows"].as_u64() > Some(0), "{output}");
    assert!(!Path::new(&temporary_file).exists());
    let second_machine = harness.second_machine();
    expect_success(&second_machine.process, &["import", &file]);
    check_served(&second_machine, &ids);

    // A change of the vault makes the partial export useless.
    let file = harness.path("second");
    let export = StalledCommand::start(&harness.process, &["export", &file], 0);
    let temporary_file = harness.path("second.tmp");
    export.kill_when(|| has_first_frame(&temporary_file));
    expect_success(&harness.process, &["tenant", "create", "Another", "--type", "test"]);
    harness.process.assert_fails(&["export", &file], "use --force to start again");
    expect_success(&harness.process, &["export", &file, "--force"]);
}

/// Returns the number of bytes that an import prints before this progress line.
fn bytes_before_line(output: &[u8], index: usize) -> usize {
    let output = str::from_utf8(output).unwrap();
    output.match_indices("importing:").nth(index).expect("the import prints its progress").0
}

#[track_caller]
fn check_killed_import(target: &BackupHarness, file: &str, stderr_bytes: usize, ids: &[String]) {
    let process = &target.process;
    let import = StalledCommand::start(process, &["import", file], stderr_bytes);
    import.kill_when(|| {
        let output = process.run(&["status"]);
        String::from_utf8_lossy(&output.stderr).contains("is not finished")
    });
    process.assert_fails(&["serve"], "an import into this vault is not finished");
    process.assert_fails(&["init"], "an import into this vault is not finished");
    let output = run_json(process, &["import", file]);
    assert!(output["resumed_rows"].as_u64() > Some(0), "{output}");
    check_served(target, ids);
}

#[test]
fn killed_import_resumes() {
    let (harness, ids) = create_used_vault();
    let file = harness.path("export");
    expect_success(&harness.process, &["export", &file]);
    // Get the output of an uninterrupted import.
    let output = expect_success(&harness.second_machine().process, &["import", &file]).stderr;
    for line_index in [0, 3] {
        let stderr_bytes = bytes_before_line(&output, line_index);
        check_killed_import(&harness.second_machine(), &file, stderr_bytes, &ids);
        let database = create_database();
        check_killed_import(
            &second_machine_on_postgres(&harness, &database),
            &file,
            stderr_bytes,
            &ids,
        );
    }
}
