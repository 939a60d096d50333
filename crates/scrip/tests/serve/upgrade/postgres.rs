//! PostgreSQL: `scrip migrate` migrates the schema.

use scrip_testing::postgres::TestDatabase;

use crate::{
    operator::commands::{run_json, run_text},
    upgrade::earlier_vault::{BEFORE_PROXIES, EarlierVault, WITH_PROXIES},
};

fn create_database() -> TestDatabase {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(TestDatabase::create_empty())
}

#[test]
fn postgres_vault_of_an_earlier_version_is_upgraded_by_the_command() {
    let database = create_database();
    let vault = EarlierVault::on_postgres(&BEFORE_PROXIES, &database);
    for command in ["serve", "status"] {
        vault.process.assert_fails(&[command], "needs version 9; run: scrip migrate");
    }
    let result = run_json(&vault.process, &["migrate"]);
    assert_eq!((&result["from"], &result["to"]), (&1.into(), &9.into()));
    vault.expect_served();
    let counts = run_json(&vault.process, &["status"])["counts"].clone();
    assert_eq!((&counts["proxies"], &counts["webhooks"]), (&1.into(), &1.into()));
    assert_eq!(counts["client_keys"], 1);
}

#[test]
fn postgres_vault_of_an_earlier_version_is_adopted_and_its_vault_key_rotated() {
    let database = create_database();
    let vault = EarlierVault::on_postgres(&BEFORE_PROXIES, &database);
    run_json(&vault.process, &["migrate"]);
    vault.expect_adopted();
    vault.expect_valid();
}

#[test]
fn postgres_vault_with_proxies_of_an_earlier_version_is_upgraded() {
    let database = create_database();
    let vault = EarlierVault::on_postgres(&WITH_PROXIES, &database);
    run_json(&vault.process, &["migrate"]);
    vault.expect_served();
    vault.expect_vault_key_rotated();
    vault.expect_valid();
}

#[test]
fn export_of_an_earlier_version_is_imported_into_postgres() {
    for fixture in [&BEFORE_PROXIES, &WITH_PROXIES] {
        let database = create_database();
        let vault = EarlierVault::on_empty_postgres(fixture, &database);
        run_text(&vault.process, &["migrate"]);
        run_text(&vault.process, &["import", &vault.export()]);
        vault.expect_served();
    }
}
