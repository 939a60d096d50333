//! The embedded engine: a server or a command migrates the files, a restore migrates a backup.

use rusqlite::Connection;
use scrip_testing::requests::assert_members;
use serde_json::json;

use crate::{
    operator::{
        backup::expect_success,
        commands::{run_json, run_text},
    },
    upgrade::earlier_vault::{BEFORE_PROXIES, EarlierVault, WITH_PROXIES, schema_version},
};

/// The versions of the vault and of its read log.
fn versions(vault: &EarlierVault) -> [i64; 2] {
    ["scrip.db", "read_log.db"].map(|it| schema_version(&vault.process.data().join(it)))
}

#[test]
fn data_directory_of_an_earlier_version_is_upgraded() {
    let vault = EarlierVault::embedded(&BEFORE_PROXIES);
    assert_eq!(versions(&vault), [4, 4]);
    vault.expect_served();
    assert_eq!(versions(&vault), [12, 12]);
    let counts = run_json(&vault.process, &["status"])["counts"].clone();
    assert_eq!((&counts["proxies"], &counts["webhooks"]), (&1.into(), &1.into()));
    assert_eq!(counts["client_keys"], 1);
}

#[test]
fn vault_of_an_earlier_version_is_adopted_and_its_vault_key_rotated() {
    let vault = EarlierVault::embedded(&BEFORE_PROXIES);
    vault.expect_adopted();
    vault.expect_valid();
}

#[test]
fn quotas_of_an_earlier_version_get_the_default_of_a_new_quota() {
    let vault = EarlierVault::embedded(&BEFORE_PROXIES);
    let quotas = run_json(&vault.process, &["tenant", "quota", "show", "Acme"]);
    assert_members(
        &quotas,
        &json!({"proxy_token_limit": 20, "webhook_limit": 5, "detokenize_limit": 50}),
    );
}

/// The two files are migrated one after the other, so a crash can leave them with two versions.
#[test]
fn interrupted_upgrade_is_completed() {
    let vault = EarlierVault::embedded(&BEFORE_PROXIES);
    let migration = include_str!("../../../../scrip-store/src/sqlite/migrations/0005.sql");
    let connection = Connection::open(vault.process.data().join("scrip.db")).unwrap();
    let migrate = format!("BEGIN; {migration} PRAGMA user_version = 5; COMMIT");
    connection.execute_batch(&migrate).unwrap();
    drop(connection);
    assert_eq!(versions(&vault), [5, 4]);
    let file = vault.path("backup");
    vault.process.assert_fails(&["backup", "--without-root-key", &file], "was interrupted");
    vault.expect_served();
    assert_eq!(versions(&vault), [12, 12]);
}

/// The command copies an older schema unchanged, as the earlier version did.
#[test]
fn backup_of_an_earlier_version_is_verified_and_restored() {
    let vault = EarlierVault::embedded(&BEFORE_PROXIES);
    let file = vault.path("backup");
    let backup = run_json(&vault.process, &["backup", "--without-root-key", &file]);
    assert_eq!((&backup["backup"]["schema"], versions(&vault)), (&4.into(), [4, 4]));
    let second_machine = EarlierVault::root_key_only(&BEFORE_PROXIES);
    run_text(&second_machine.process, &["backup", "verify", &file]);
    let output = run_text(&second_machine.process, &["restore", &file]);
    assert!(output.contains("restored 2 tenants and 2 tokens"), "{output}");
    assert_eq!(versions(&second_machine), [12, 12]);
    second_machine.expect_served();
    // A backup of the upgraded vault has the schema of a new vault.
    let file = second_machine.path("backup");
    expect_success(&second_machine.process, &["backup", &file]);
    let third_machine = EarlierVault::root_key_only(&BEFORE_PROXIES);
    run_text(&third_machine.process, &["restore", &file]);
    third_machine.expect_valid();
}

#[test]
fn export_of_an_earlier_version_is_imported() {
    for (fixture, tokens) in [(&BEFORE_PROXIES, 2), (&WITH_PROXIES, 6)] {
        let vault = EarlierVault::root_key_only(fixture);
        let output = run_text(&vault.process, &["import", &vault.export()]);
        assert!(output.contains(&format!("2 tenants and {tokens} tokens")), "{output}");
        vault.expect_served();
    }
}

#[test]
fn data_directory_with_proxies_of_an_earlier_version_is_upgraded_and_backed_up() {
    let vault = EarlierVault::embedded(&WITH_PROXIES);
    // The command copies the rows before the server of this version has opened them.
    let file = vault.path("backup");
    run_json(&vault.process, &["backup", "--without-root-key", &file]);
    vault.expect_served();
    assert_eq!(versions(&vault), [12, 12]);
    let counts = run_json(&vault.process, &["status"])["counts"].clone();
    assert_eq!((&counts["proxies"], &counts["webhooks"]), (&3.into(), &2.into()));
    vault.expect_vault_key_rotated();
    vault.expect_valid();
    let second_machine = EarlierVault::root_key_only(&WITH_PROXIES);
    run_text(&second_machine.process, &["backup", "verify", &file]);
    let output = run_text(&second_machine.process, &["restore", &file]);
    assert!(output.contains("restored 2 tenants and 6 tokens"), "{output}");
    second_machine.expect_served();
}
