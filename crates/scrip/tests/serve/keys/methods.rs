//! Adding, removing and altering unlock methods.

use std::fs;

use base64::{Engine, engine::general_purpose::STANDARD};
use scrip_testing::process::harness::ProcessHarness;

use crate::{
    SCRIP,
    keys::{
        add_file_method, assert_readable, create_token, files_contain, methods, open_database, text,
    },
    operator::commands::{run_json, run_text},
    process::verification_codes::serve_ready,
};

#[test]
fn added_method_opens_the_vault_and_the_last_one_cannot_be_removed() {
    let (process, key) = ProcessHarness::with_api_key(SCRIP);
    let server = process.serve();
    let token = create_token(&server, &key);
    let [first] = methods(&process).try_into().unwrap();
    let first_id = text(&first["id"]);
    process.assert_fails(&["keys", "remove", &first_id], "is the last unlock method");
    let file = process.path("unlock.key").display().to_string();
    let added = run_json(&process, &["keys", "add", "file", &file, "--label", "second"]);
    assert_eq!(added["method"]["kind"], "file");
    process.assert_fails(&["keys", "add", "file", &file, "--label", "second"], "has this label");
    assert!(fs::exists(&file).unwrap(), "a method uses the file");
    let unused = process.path("unused.key").display().to_string();
    process.assert_fails(&["keys", "add", "file", &unused, "--label", "second"], "has this label");
    assert!(!fs::exists(&unused).unwrap(), "no method uses the file");
    run_json(&process, &["keys", "remove", &first_id]);
    process.assert_fails(&["keys", "remove", &first_id], "does not exist");
    let second_id = text(&added["method"]["id"]);
    process.assert_fails(&["keys", "remove", &second_id], "is the last unlock method");
    assert_readable(&server, &key, &token);
    drop(server);
    fs::remove_file(process.data().join("root.key")).unwrap();
    let server = process.serve();
    assert_readable(&server, &key, &token);
}

#[test]
fn unlock_methods_change_only_with_a_running_server() {
    let process = ProcessHarness::initialized(SCRIP);
    let expected = "this command needs a running server";
    process.assert_fails(&["keys", "rotate", "vault"], expected);
    process.assert_fails(&["keys", "add", "env", "SCRIP_UNLOCK_A"], expected);
    let file = process.path("unlock.key").display().to_string();
    process.assert_fails(&["keys", "add", "file", &file], expected);
    assert!(!fs::exists(&file).unwrap(), "no method uses the file");
    assert_eq!(methods(&process).len(), 1, "the list needs no server");
}

/// The wrapping key of both methods is the same, so only the context distinguishes the rows.
#[test]
fn swapped_rows_are_rejected() {
    let process = ProcessHarness::initialized(SCRIP);
    let file = process.data().join("root.key").display().to_string();
    let server = serve_ready(&process);
    run_json(&process, &["keys", "add", "file", &file, "--label", "second"]);
    drop(server);
    let swap = "CREATE TEMP TABLE old AS SELECT id, wrapped FROM unlocks;
        UPDATE unlocks SET wrapped = (SELECT wrapped FROM old WHERE old.id <> unlocks.id)";
    open_database(&process).execute_batch(swap).unwrap();
    let server = process.serve();
    process.wait_for_log("this is the root key of another vault, or the stored keys");
    assert_eq!(server.status("/readyz"), 503);
}

/// Both vaults have the same root key file, so only the id of the vault distinguishes the rows.
#[test]
fn row_of_another_vault_is_rejected() {
    let [process, other] = [ProcessHarness::initialized(SCRIP), ProcessHarness::new(SCRIP)];
    fs::create_dir(other.data()).unwrap();
    fs::copy(process.data().join("root.key"), other.data().join("root.key")).unwrap();
    assert!(other.run(&["init"]).status.success());
    let database = open_database(&process);
    let other_file = other.data().join("scrip.db").display().to_string();
    database.execute("ATTACH ?1 AS other", [other_file]).unwrap();
    let copy_row = "DELETE FROM unlocks; INSERT INTO unlocks SELECT * FROM other.unlocks";
    database.execute_batch(copy_row).unwrap();
    let server = process.serve();
    process.wait_for_log("this is the root key of another vault, or the stored keys");
    assert_eq!(server.status("/readyz"), 503);
    drop(server);

    // With the id of the other vault, the method returns the key of the other vault.
    let copy_id =
        "DELETE FROM vault_state; INSERT INTO vault_state SELECT * FROM other.vault_state";
    database.execute_batch(copy_id).unwrap();
    let server = process.serve();
    process.wait_for_log("returned a key that does not open this vault");
    assert_eq!(server.status("/readyz"), 503);
}

#[test]
fn removed_row_leaves_no_copy_of_its_wrapped_key() {
    let process = ProcessHarness::initialized(SCRIP);
    let _server = serve_ready(&process);
    let second = add_file_method(&process, "second");
    let sql = "SELECT wrapped FROM unlocks WHERE label = 'second'";
    let wrapped: Vec<u8> = open_database(&process).query_row(sql, [], |row| row.get(0)).unwrap();
    assert!(files_contain(&process, &wrapped), "the control finds the row");
    run_json(&process, &["keys", "remove", &second]);
    assert!(!files_contain(&process, &wrapped));
}

#[test]
fn wrapping_key_is_not_in_the_database_or_the_log() {
    let process = ProcessHarness::initialized(SCRIP);
    let _server = serve_ready(&process);
    let key = fs::read_to_string(process.data().join("root.key")).unwrap();
    let key = key.trim();
    let bytes = STANDARD.decode(key).unwrap();
    assert!(!files_contain(&process, key.as_bytes()) && !files_contain(&process, &bytes));
}

/// The runbook for a lost root key: while a server runs, nothing is lost.
#[test]
fn running_server_replaces_a_lost_root_key() {
    let (process, key) = ProcessHarness::with_api_key(SCRIP);
    let server = process.serve();
    let token = create_token(&server, &key);
    let [lost_method] = methods(&process).try_into().unwrap();
    fs::remove_file(process.data().join("root.key")).unwrap();
    add_file_method(&process, "replacement");
    let removed = run_json(&process, &["keys", "remove", &text(&lost_method["id"]), "--rotate"]);
    assert_eq!(removed["rotated"]["to"], 2);
    let server = process.restart(server);
    assert_readable(&server, &key, &token);
}

#[test]
fn backup_verify_and_init_name_the_method_that_opened_the_vault() {
    let process = ProcessHarness::initialized(SCRIP);
    let backup = process.path("backup").display().to_string();
    let verify = ["backup", "verify", backup.as_str()];
    let server = serve_ready(&process);
    run_text(&process, &["backup", &backup]);
    let verified = run_text(&process, &verify);
    assert!(verified.contains("the root key opens it, as unlock method file root key ("));
    assert!(!verified.contains("obsolete"), "{verified}");
    let [first] = methods(&process).try_into().unwrap();
    let file = process.path("unlock.key").display().to_string();
    run_json(&process, &["keys", "add", "file", &file, "--label", "disk"]);
    run_json(&process, &["keys", "remove", &text(&first["id"]), "--rotate"]);
    drop(server);
    // The root key file is still there, but opens nothing.
    run_text(&process, &["backup", &backup, "--force"]);
    for printed in [run_text(&process, &verify), run_text(&process, &["init"])] {
        assert!(printed.contains("and unlock method file disk ("), "{printed}");
        assert!(printed.contains("root.key is obsolete: no unlock method"), "{printed}");
    }
    fs::remove_file(&file).unwrap();
    for command in [&verify[..], &["init"]] {
        process.assert_fails(command, "root.key is obsolete: no unlock method");
    }
}

/// The file of a method may later become the file of the settings.
#[test]
fn root_key_file_that_a_file_method_names_is_not_called_obsolete() {
    let process = ProcessHarness::initialized(SCRIP);
    let backup = process.path("backup").display().to_string();
    let [first] = methods(&process).try_into().unwrap();
    let server = serve_ready(&process);
    let file = process.path("unlock2.key").display().to_string();
    run_json(&process, &["keys", "add", "file", &file]);
    run_json(&process, &["keys", "remove", &text(&first["id"])]);
    drop(server);
    let process = process.with_variable("SCRIP_KEYS_ROOT_KEY_FILE", &file);
    run_text(&process, &["backup", &backup]);
    let restore = ["restore", "--force", backup.as_str()];
    for command in [&["init"][..], &["backup", "verify", &backup], &restore] {
        let printed = run_text(&process, command);
        assert!(!printed.contains("obsolete"), "{command:?}: {printed}");
    }
}

#[test]
fn empty_database_is_called_empty_and_is_not_adopted() {
    let process = ProcessHarness::initialized(SCRIP);
    let database = open_database(&process);
    let sql = "DELETE FROM system_keys; DELETE FROM unlocks; DELETE FROM vault_state";
    database.execute_batch(sql).unwrap();
    drop(database);
    let printed = || {
        let doctor = String::from_utf8(process.run(&["doctor"]).stdout).unwrap();
        doctor + &run_text(&process, &["keys", "list"])
    };
    let without_server = printed();
    let server = process.serve();
    assert_eq!(server.status("/readyz"), 503);
    for printed in [without_server, printed()] {
        assert!(printed.matches("the vault is empty").count() >= 2, "{printed}");
        assert!(printed.contains("scrip import FILE") && !printed.contains("adopt"), "{printed}");
    }
}
