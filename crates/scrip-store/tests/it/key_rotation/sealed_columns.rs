//! Every column with bytes is in the table of sealed columns, or in a list with the reason why it is
//! not sealed with a tenant's key.

use std::collections::BTreeSet;

use rusqlite::Connection;
use scrip_core::keys::RotatedTable;
use scrip_store::sealed_columns::{SealedDatabase, SealedTreatment, sealed_columns};
use scrip_testing::{
    postgres::query::query_database,
    vault_harness::{Engine, VaultHarness},
};

/// Columns with bytes that no sealing key sealed, by the reason.
const NOT_SEALED: [(&str, &[&str]); 5] = [
    (
        "ids, which SQLite stores as bytes",
        &[
            "access_sessions.application",
            "access_sessions.authorized_by",
            "access_sessions.authorized_key",
            "access_sessions.tenant",
            "active_months.tenant",
            "active_tokens.tenant",
            "api_keys.application",
            "api_keys.created_by",
            "api_keys.id",
            "api_keys.tenant",
            "applications.created_by",
            "applications.id",
            "applications.modified_by",
            "applications.tenant",
            "chain_checkpoints.tenant",
            "chain_heads.tenant",
            "client_keys.created_by",
            "client_keys.id",
            "client_keys.tenant",
            "deleted_tenants.id",
            "deliveries.event",
            "deliveries.tenant",
            "deliveries.webhook",
            "guesses.tenant",
            "idempotency_records.tenant",
            "key_rotations.node",
            "key_rotations.tenant",
            "log_records.actor",
            "log_records.api_key",
            "log_records.tenant",
            "permanent_keys.tenant",
            "proxies.application",
            "proxies.created_by",
            "proxies.id",
            "proxies.modified_by",
            "proxies.tenant",
            "read_deliveries.event",
            "read_deliveries.tenant",
            "read_deliveries.webhook",
            "tenant_keys.tenant",
            "tenants.created_by",
            "tenants.id",
            "tenants.modified_by",
            "threeds_sessions.converted_number_version",
            "threeds_sessions.created_by",
            "threeds_sessions.id",
            "threeds_sessions.intent",
            "threeds_sessions.tenant",
            "token_index.tenant",
            "token_intents.created_by",
            "token_intents.id",
            "token_intents.tenant",
            "tokens.created_by",
            "tokens.modified_by",
            "tokens.tenant",
            "unlocks.id",
            "usage_months.tenant",
            "usage_types.tenant",
            "vault_state.vault_id",
            "webhooks.created_by",
            "webhooks.id",
            "webhooks.modified_by",
            "webhooks.tenant",
        ],
    ),
    (
        "digests and MACs of permanent keys and of the vault, which do not rotate",
        &[
            "access_sessions.digest",
            "access_sessions.mac",
            "access_sessions.nonce",
            "api_keys.digest",
            "api_keys.mac",
            "applications.mac",
            "approvals.mac",
            "chain_checkpoints.link",
            "chain_checkpoints.mac",
            "chain_heads.link",
            "chain_heads.mac",
            "client_keys.mac",
            "clock_watermark.mac",
            "deleted_tenants.mac",
            "dual_control.mac",
            "dual_control.members",
            "guesses.bucket",
            "guesses.number_digest",
            "idempotency_records.digest",
            "log_records.link",
            "proxies.digest",
            "proxies.mac",
            "response_token_data.digest",
            "tenants.mac",
            "tenants.policy_mac",
            "threeds_sessions.converted_mac",
            "token_index.facet",
            "token_intents.fingerprint",
            "tokens.duplicate_key",
            "tokens.duplicate_read_key",
            "tokens.expressions",
            "tokens.fingerprint",
            "tokens.indexes",
            "unlocks.mac",
            "webhooks.mac",
        ],
    ),
    (
        "keys that the vault key wraps, and the vault key, which unlock methods wrap",
        &[
            "permanent_keys.wrapped",
            "system_keys.wrapped",
            "tenant_keys.wrapped",
            "unlocks.wrapped",
        ],
    ),
    ("sealed with epoch keys", &["cvcs.sealed", "intent_cvcs.sealed"]),
    (
        "padding of key pages, and checksums of an import",
        &[
            "import_state.checksum",
            "import_state.file_checksum",
            "permanent_keys.padding",
            "tenant_keys.padding",
            "unlocks.padding",
        ],
    ),
];

fn check_columns(engine: &str, columns: &BTreeSet<String>) {
    let sealed: BTreeSet<_> = sealed_columns().map(|it| it.name()).collect();
    let not_sealed =
        |name: &String| NOT_SEALED.iter().any(|(_, names)| names.contains(&name.as_str()));
    for column in columns {
        assert!(
            sealed.contains(column) != not_sealed(column),
            "{engine}: {column} must be in sealed_columns() or in NOT_SEALED, and not in both: a \
             sealed column that a key rotation does not know becomes unreadable"
        );
    }
}

fn list_sqlite_columns(file: &std::path::Path) -> BTreeSet<String> {
    let connection = Connection::open(file).unwrap();
    let sql = "SELECT it.name || '.' || columns.name FROM sqlite_schema AS it
        JOIN pragma_table_info(it.name) AS columns
        WHERE it.type = 'table' AND columns.type = 'BLOB'";
    let mut statement = connection.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn every_column_with_bytes_on_sqlite_is_classified() {
    let harness = VaultHarness::open(Engine::Sqlite).await;
    let vault_columns = list_sqlite_columns(&harness.file());
    let read_log_columns = list_sqlite_columns(&harness.file().with_file_name("read_log.db"));
    check_columns("SQLite", &vault_columns);
    check_columns("SQLite, read log", &read_log_columns);
    for column in sealed_columns() {
        let columns = match column.database {
            SealedDatabase::Vault => &vault_columns,
            SealedDatabase::SqliteReadLog => &read_log_columns,
        };
        assert!(columns.contains(&column.name()), "{} does not exist", column.name());
    }
}

#[tokio::test]
async fn every_column_with_bytes_on_postgres_is_classified() {
    let harness = VaultHarness::open(Engine::Postgres).await;
    let sql = "SELECT table_name || '.' || column_name FROM information_schema.columns
        WHERE table_schema = current_schema() AND data_type = 'bytea'";
    let rows = query_database(&harness.database().owner_url(), sql);
    let columns: BTreeSet<String> = rows.rows.iter().map(|it| it[0].clone()).collect();
    assert!(columns.contains("tokens.body"), "{columns:?}");
    check_columns("PostgreSQL", &columns);
    for column in sealed_columns().filter(|it| it.database == SealedDatabase::Vault) {
        assert!(columns.contains(&column.name()), "{} does not exist", column.name());
    }
}

/// A pass goes through exactly the tables that the table of columns names.
#[test]
fn every_resealed_column_has_its_table() {
    let tables = sealed_columns().filter_map(|it| match it.treatment {
        SealedTreatment::Resealed(table) => {
            assert_eq!((table.as_str(), it.column), (it.table, "body"));
            Some(table)
        }
        SealedTreatment::Policy | SealedTreatment::Expires(_) | SealedTreatment::Moves => None,
    });
    assert_eq!(tables.collect::<Vec<_>>(), RotatedTable::ALL);
}
