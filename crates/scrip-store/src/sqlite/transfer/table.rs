//! SQLite tables of each kind of row.

use scrip_core::policy::entity::Column;

use crate::transfer::{
    RowKind, policy_kinds,
    table::{RowSource, TransferTable, column_names, key, parameter_list},
};

/// The database file that contains a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransferDatabase {
    Vault,
    ReadLog,
}

/// A table, its database, and a column that has the same value in all rows.
#[derive(Debug)]
pub(crate) struct SqliteTable {
    pub(super) database: TransferDatabase,
    pub(crate) table: TransferTable,
    fixed_column: Option<SqliteFixedColumn>,
}

#[derive(Debug, Clone, Copy)]
struct SqliteFixedColumn {
    column: &'static str,
    /// SQL expression.
    value: &'static str,
}

const SEQ_KEY: &[Column] = key!(Number "seq");
const TENANT_SEQUENCE_KEY: &[Column] = key!(Id "tenant", Number "sequence");
const RESPONSE_TOKEN_DATA_KEY: &[Column] =
    key!(Number "response_token_data.record", Number "response_token_data.write_index");

/// SQLite executes a cross join in the written order.
const RESPONSE_TOKEN_DATA_SOURCE: RowSource = RowSource {
    from: "response_token_data \
           CROSS JOIN idempotency_records ON idempotency_records.seq = response_token_data.record \
           CROSS JOIN tokens ON tokens.seq = response_token_data.token",
    columns: "idempotency_records.tenant, idempotency_records.digest, \
              response_token_data.write_index, tokens.id, response_token_data.sealed",
};

/// The parameters are the columns of the kind.
const INSERT_RESPONSE_TOKEN_DATA: &str = "
-- import_response_token_data
INSERT INTO response_token_data (record, write_index, token, sealed)
    SELECT idempotency_records.seq, ?3, tokens.seq, ?5
FROM idempotency_records JOIN tokens ON tokens.tenant = ?1 AND tokens.id = ?4
WHERE idempotency_records.digest = ?2 AND idempotency_records.tenant = ?1";

impl SqliteTable {
    /// Returns the table of a kind; `None` for a kind that only older files have.
    pub(crate) fn for_kind(kind: RowKind) -> Option<Self> {
        let vault_table = |name, key| Self {
            database: TransferDatabase::Vault,
            table: TransferTable::new(name, key),
            fixed_column: None,
        };
        let read_log_table =
            |name, key| Self { database: TransferDatabase::ReadLog, ..vault_table(name, key) };
        let singleton_column = SqliteFixedColumn { column: "singleton", value: "1" };
        let singleton_table = |name| Self {
            fixed_column: Some(singleton_column),
            ..vault_table(name, key!(Number "singleton"))
        };
        let padding_column = SqliteFixedColumn { column: "padding", value: "zeroblob(1024)" };
        let shared_table = || {
            TransferTable::shared(kind).map(|table| Self {
                database: TransferDatabase::Vault,
                table,
                fixed_column: None,
            })
        };
        Some(match kind {
            RowKind::Clock => singleton_table("clock_watermark"),
            RowKind::DirectoryVersion => singleton_table("directory_state"),
            RowKind::LastEvent | RowKind::ThreeDsEvents => return None,
            RowKind::Tenants
            | policy_kinds!()
            | RowKind::DeletedTenants
            | RowKind::UsageTypes
            | RowKind::Deliveries
            | RowKind::Guesses
            | RowKind::SystemKeys => shared_table()?,
            RowKind::TenantKeys | RowKind::PermanentKeys | RowKind::Unlocks => {
                Self { fixed_column: Some(padding_column), ..shared_table()? }
            }
            RowKind::AccessSessions => vault_table("access_sessions", SEQ_KEY),
            RowKind::Tokens => vault_table("tokens", SEQ_KEY),
            RowKind::UsageMonths => vault_table("usage_months", key!(Number "month", Id "tenant")),
            RowKind::TokenIntents => vault_table("token_intents", SEQ_KEY),
            RowKind::ThreeDsSessions => vault_table("threeds_sessions", SEQ_KEY),
            RowKind::IdempotencyRecords => vault_table("idempotency_records", SEQ_KEY),
            RowKind::ResponseTokenData => {
                let table = TransferTable::new("response_token_data", RESPONSE_TOKEN_DATA_KEY)
                    .with_source(RESPONSE_TOKEN_DATA_SOURCE);
                Self { table, ..vault_table("response_token_data", RESPONSE_TOKEN_DATA_KEY) }
            }
            RowKind::AuditRecords => vault_table("log_records", TENANT_SEQUENCE_KEY),
            RowKind::AuditHeads => vault_table("chain_heads", key!(Id "tenant")),
            RowKind::AuditCheckpoints => vault_table("chain_checkpoints", key!(Id "tenant")),
            RowKind::ReadLogRecords => read_log_table("log_records", TENANT_SEQUENCE_KEY),
            RowKind::ReadLogHeads => read_log_table("chain_heads", key!(Id "tenant")),
            RowKind::ReadLogCheckpoints => read_log_table("chain_checkpoints", key!(Id "tenant")),
            RowKind::ActiveTokens => {
                read_log_table("active_tokens", key!(Number "month", Id "tenant", Text "token"))
            }
            RowKind::ActiveMonths => {
                read_log_table("active_months", key!(Number "month", Id "tenant"))
            }
            RowKind::VaultState => Self {
                fixed_column: Some(singleton_column),
                ..vault_table("vault_state", key!(Number "singleton"))
            },
        })
    }

    /// Statement that deletes all rows.
    pub(crate) fn clear_statement(&self) -> String {
        format!("-- clear\nDELETE FROM {}", self.table.name)
    }

    /// Statement that inserts a row. Parameters: the columns of the kind, then a token's number.
    pub(crate) fn insert_statement(&self, kind: RowKind) -> String {
        if kind == RowKind::ResponseTokenData {
            return INSERT_RESPONSE_TOKEN_DATA.to_owned();
        }
        let (mut columns, mut values) =
            (column_names(kind.columns()), parameter_list(kind.columns().len()));
        if kind == RowKind::Tokens {
            columns += ", seq";
            values = parameter_list(kind.columns().len().saturating_add(1));
        }
        if let Some(SqliteFixedColumn { column, value }) = self.fixed_column {
            columns = format!("{column}, {columns}");
            values = format!("{value}, {values}");
        }
        // The read log may contain the row already: the import crashed before it saved its state.
        let on_conflict = match self.database {
            TransferDatabase::Vault => "",
            TransferDatabase::ReadLog => " OR IGNORE",
        };
        let name = self.table.name;
        format!("-- import_{name}\nINSERT{on_conflict} INTO {name} ({columns}) VALUES ({values})")
    }
}
