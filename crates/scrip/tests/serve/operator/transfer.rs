//! `scrip export` and `scrip import`: a vault on another engine, and what is refused on the way.

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

/// A second machine with the root key, on PostgreSQL.
fn second_machine_on_postgres(harness: &BackupHarness, database: &TestDatabase) -> BackupHarness {
    let mut other = harness.second_machine();
    other.process = other.process.with_variable("SCRIP_STORAGE_URL", &database.url());
    other.process = other.process.with_variable("SCRIP_STORAGE_ONLY_NODE", "true");
    expect_success(&other.process, &["migrate"]);
    other
}

#[track_caller]
fn run_json(process: &ProcessHarness, arguments: &[&str]) -> Value {
    let output = expect_success(process, &[arguments, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A vault that was served, and the ids of its tokens.
fn used_vault() -> (BackupHarness, Vec<String>) {
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

/// What was acknowledged is there, is made once, and its trail is whole.
#[track_caller]
fn check_served(harness: &BackupHarness, ids: &[String]) {
    let server = harness.serve();
    let mut client = harness.client(&server);
    for (place, id) in (0..).zip(ids) {
        let token = BackupHarness::get_token(&mut client, id).expect("it was acknowledged");
        assert_eq!(token["data"]["number"], card_number(place));
        assert!(token["data"].get("cvc").is_none());
        // Asked again with its key.
        assert_eq!(&BackupHarness::create_token(&mut client, place), id);
    }
    drop(client);
    drop(server);
    expect_success(&harness.process, &["audit", "verify"]);
}

#[test]
fn vault_can_be_moved_to_postgresql_and_back() {
    let (harness, ids) = used_vault();
    let (there, back) = (harness.path("there"), harness.path("back"));
    let server = harness.serve();
    harness.process.assert_fails(&["export", &there], "is served by process");
    drop(server);
    let told = run_json(&harness.process, &["export", &there]);
    assert_eq!(told["export"]["rows"]["tokens"], TOKENS);
    assert_eq!(told["export"]["engine"], "embedded");
    assert_eq!(told["bytes"], fs::metadata(&there).unwrap().len());
    assert_eq!(fs::metadata(&there).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!Path::new(&format!("{there}.draft")).exists());
    harness.process.assert_fails(&["export", &there], "is there already");
    expect_success(&harness.process, &["export", &there, "--force"]);

    let database = create_database();
    let mut bare = harness.second_machine();
    bare.process = bare.process.with_variable("SCRIP_STORAGE_URL", &database.url());
    bare.process.assert_fails(&["import", &there], "run: scrip migrate");
    let second = second_machine_on_postgres(&harness, &database);
    let output = expect_success(&second.process, &["import", &there]).stdout;
    let output = String::from_utf8(output).unwrap();
    for expected in ["1 tenant and 12 tokens", "read back and compared", "codes", "only one"] {
        assert!(output.contains(expected), "{output}");
    }
    check_served(&second, &ids);
    second.process.assert_fails(&["import", &there], "there is a vault already");

    expect_success(&second.process, &["export", &back]);
    let third = harness.second_machine();
    expect_success(&third.process, &["import", &back]);
    check_served(&third, &ids);
    third.expect_tokens(&ids);
    third.process.assert_fails(&["import", &back], "there is a vault already");
}

#[test]
fn import_with_a_wrong_root_key_is_reported() {
    let (harness, ids) = used_vault();
    let file = harness.path("export");
    expect_success(&harness.process, &["export", &file]);
    let stranger = ProcessHarness::initialized(crate::SCRIP);
    let other = harness.second_machine();
    fs::copy(stranger.data().join("root.key"), other.process.data().join("root.key")).unwrap();
    other.process.assert_fails(&["import", &file], "put its root key in its place");
    // It is in all the same.
    let own = harness.process.data().join("root.key");
    fs::copy(own, other.process.data().join("root.key")).unwrap();
    // Any command keeps where the logs end, as the import would have.
    expect_success(&other.process, &["tenant", "list"]);
    check_served(&other, &ids);
}

#[test]
fn damaged_export_file_is_rejected_without_changes() {
    let (harness, _) = used_vault();
    let file = harness.path("export");
    expect_success(&harness.process, &["export", &file]);
    let whole = fs::read(&file).unwrap();
    let elsewhere = ProcessHarness::new(crate::SCRIP);
    let rejected = |bytes: &[u8], expected: &str| {
        let path = harness.path("damaged");
        fs::write(&path, bytes).unwrap();
        elsewhere.assert_fails(&["import", &path], expected);
        assert!(!elsewhere.data().exists());
    };
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    rejected(&flipped, "it is damaged at byte");
    rejected(&whole[..middle], "it is not finished, or was cut");
    rejected(b"something else", "it is no export");
    // Nothing in it is plain; and whoever looks would see it.
    let has = |bytes: &[u8], what: &str| bytes.windows(what.len()).any(|it| it == what.as_bytes());
    for place in 0..TOKENS {
        assert!(!has(&whole, &card_number(place)));
    }
    assert!(has(&[&whole[..], card_number(3).as_bytes()].concat(), &card_number(3)));
}

/// Whether a draft has more than its mark and its first frame, which has its length before it and a
/// checksum behind it.
fn has_first_frame(temporary: &str) -> bool {
    let bytes = fs::read(temporary).unwrap_or_default();
    let length = bytes.get(16..20).and_then(|it| it.try_into().ok()).map(u32::from_be_bytes);
    length.is_some_and(|it| bytes.len() > 16 + 4 + usize::try_from(it).unwrap() + 32)
}

#[test]
fn killed_export_resumes() {
    let (harness, ids) = used_vault();
    let (file, draft) = (harness.path("export"), harness.path("export.draft"));
    // It waits where it tells that the first portion is on disk.
    let export = StalledCommand::start(&harness.process, &["export", &file], 0);
    export.kill_when(|| has_first_frame(&draft));
    assert!(Path::new(&draft).exists() && !Path::new(&file).exists());
    // As a disk may leave it.
    let mut torn = fs::read(&draft).unwrap();
    torn.extend_from_slice(&[0; 100]);
    fs::write(&draft, torn).unwrap();
    harness.process.assert_fails(&["import", &draft], "cannot be imported; nothing was changed");
    let told = run_json(&harness.process, &["export", &file]);
    assert!(told["resumed_rows"].as_u64() > Some(0), "{told}");
    assert!(!Path::new(&draft).exists());
    let other = harness.second_machine();
    expect_success(&other.process, &["import", &file]);
    check_served(&other, &ids);

    // What changed in between makes it worthless.
    let file = harness.path("second");
    let export = StalledCommand::start(&harness.process, &["export", &file], 0);
    let draft = harness.path("second.draft");
    export.kill_when(|| has_first_frame(&draft));
    expect_success(&harness.process, &["tenant", "create", "Another"]);
    harness.process.assert_fails(&["export", &file], "say --force to begin anew");
    expect_success(&harness.process, &["export", &file, "--force"]);
}

/// How many bytes an import says before the line that stands at this place among those that tell of
/// writing.
fn bytes_before_line(output: &[u8], index: usize) -> usize {
    let output = str::from_utf8(output).unwrap();
    output.match_indices("importing:").nth(index).expect("it tells").0
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
    let told = run_json(process, &["import", file]);
    assert!(told["resumed_rows"].as_u64() > Some(0), "{told}");
    check_served(target, ids);
}

#[test]
fn killed_import_resumes() {
    let (harness, ids) = used_vault();
    let file = harness.path("export");
    expect_success(&harness.process, &["export", &file]);
    // What it says when nobody ends it.
    let output = expect_success(&harness.second_machine().process, &["import", &file]).stderr;
    for at in [0, 3] {
        let room = bytes_before_line(&output, at);
        check_killed_import(&harness.second_machine(), &file, room, &ids);
        let database = create_database();
        check_killed_import(&second_machine_on_postgres(&harness, &database), &file, room, &ids);
    }
}
