//! PostgreSQL tables of each kind of row.

use scrip_core::policy::entity::{Column, ColumnType};

use crate::transfer::{
    RowKind, policy_kinds,
    table::{RowSource, TransferTable, column_names, key, key_column},
};

/// A table, and a column that has the same value in all rows of this kind.
#[derive(Debug)]
pub(crate) struct PostgresTable {
    pub(crate) table: TransferTable,
    fixed_column: Option<PostgresFixedColumn>,
}

#[derive(Debug, Clone, Copy)]
struct PostgresFixedColumn {
    column: &'static str,
    /// SQL literal.
    value: &'static str,
    /// SQL condition that selects the rows with this value.
    condition: &'static str,
}

const SINGLETON_COLUMN: PostgresFixedColumn =
    PostgresFixedColumn { column: "singleton", value: "1", condition: "singleton = 1" };
const AUDIT_LOG_COLUMN: PostgresFixedColumn =
    PostgresFixedColumn { column: "log", value: "'audit'", condition: "log = 'audit'" };
const READ_LOG_COLUMN: PostgresFixedColumn =
    PostgresFixedColumn { column: "log", value: "'read'", condition: "log = 'read'" };

const TENANT_MONTH_KEY: &[Column] = key!(Id "tenant", Number "month");
const TENANT_ID_KEY: &[Column] = key!(Id "tenant", Id "id");
const TENANT_LOG_KEY: &[Column] = key!(Id "tenant", Text "log");
const TENANT_LOG_SEQUENCE_KEY: &[Column] = key!(Id "tenant", Text "log", Number "sequence");
/// SQLite deletes expired records in order of insertion, so the export keeps that order.
const TIME_TENANT_DIGEST_KEY: &[Column] = key!(Number "created_at", Id "tenant", Bytes "digest");
const RESPONSE_TOKEN_DATA_KEY: &[Column] = key!(
    Id "response_token_data.tenant",
    Bytes "response_token_data.digest",
    Number "response_token_data.write_index"
);

const RESPONSE_TOKEN_DATA_SOURCE: RowSource = RowSource {
    from: "response_token_data JOIN tokens ON tokens.tenant = response_token_data.tenant \
           AND tokens.number = response_token_data.token",
    columns: "response_token_data.tenant, response_token_data.digest, \
              response_token_data.write_index, tokens.id, response_token_data.sealed",
};

const INSERT_RESPONSE_TOKEN_DATA: &str = "
-- import_response_token_data
INSERT INTO response_token_data (tenant, digest, write_index, token, sealed)
    SELECT it.tenant, it.digest, it.write_index, tokens.number, it.sealed
FROM unnest($1::uuid[], $2::bytea[], $3::bigint[], $4::text[], $5::bytea[])
    AS it (tenant, digest, write_index, token, sealed)
    JOIN tokens ON tokens.tenant = it.tenant AND tokens.id = it.token";

impl PostgresTable {
    /// Returns the table of a kind; `None` for a kind that only older files have.
    pub(crate) fn for_kind(kind: RowKind) -> Option<Self> {
        let table = |name, key| Self { table: TransferTable::new(name, key), fixed_column: None };
        let fixed_table = |fixed_column: PostgresFixedColumn, name, key| Self {
            table: TransferTable::new(name, key).with_condition(fixed_column.condition),
            fixed_column: Some(fixed_column),
        };
        let singleton_table = |name, key| fixed_table(SINGLETON_COLUMN, name, key);
        let audit_table = |name, key| fixed_table(AUDIT_LOG_COLUMN, name, key);
        let read_log_table = |name, key| fixed_table(READ_LOG_COLUMN, name, key);
        Some(match kind {
            RowKind::Clock => singleton_table("clock_watermark", key!(Number "now")),
            RowKind::DirectoryVersion => singleton_table("directory_state", key!(Number "version")),
            RowKind::LastEvent | RowKind::ThreeDsEvents => return None,
            RowKind::Tenants
            | RowKind::TenantKeys
            | RowKind::PermanentKeys
            | policy_kinds!()
            | RowKind::AccessSessions
            | RowKind::DeletedTenants
            | RowKind::UsageTypes
            | RowKind::Deliveries
            | RowKind::Guesses
            | RowKind::Unlocks
            | RowKind::SystemKeys => {
                Self { table: TransferTable::shared(kind)?, fixed_column: None }
            }
            RowKind::Tokens => table("tokens", key!(Id "tenant", Number "number")),
            RowKind::UsageMonths => table("usage_months", TENANT_MONTH_KEY),
            RowKind::TokenIntents => table("token_intents", TENANT_ID_KEY),
            RowKind::ThreeDsSessions => table("threeds_sessions", TENANT_ID_KEY),
            RowKind::IdempotencyRecords => table("idempotency_records", TIME_TENANT_DIGEST_KEY),
            RowKind::ResponseTokenData => Self {
                table: table("response_token_data", RESPONSE_TOKEN_DATA_KEY)
                    .table
                    .with_source(RESPONSE_TOKEN_DATA_SOURCE),
                fixed_column: None,
            },
            RowKind::AuditRecords => audit_table("log_records", TENANT_LOG_SEQUENCE_KEY),
            RowKind::AuditHeads => audit_table("chain_heads", TENANT_LOG_KEY),
            RowKind::AuditCheckpoints => audit_table("chain_checkpoints", TENANT_LOG_KEY),
            RowKind::ReadLogRecords => read_log_table("log_records", TENANT_LOG_SEQUENCE_KEY),
            RowKind::ReadLogHeads => read_log_table("chain_heads", TENANT_LOG_KEY),
            RowKind::ReadLogCheckpoints => read_log_table("chain_checkpoints", TENANT_LOG_KEY),
            RowKind::ActiveTokens => {
                table("active_tokens", key!(Id "tenant", Number "month", Text "token"))
            }
            RowKind::ActiveMonths => table("active_months", TENANT_MONTH_KEY),
            RowKind::VaultState => singleton_table("vault_state", key!(Number "key_version")),
        })
    }

    /// Statement that updates the row of a kind with at most one row.
    pub(crate) fn update_statement(&self, kind: RowKind) -> String {
        let (name, columns) = (self.table.name, column_names(kind.columns()));
        let arrays = array_parameters(kind.columns());
        format!(
            "-- import_{name}\nUPDATE {name} SET ({columns}) = \
             (SELECT it.* FROM unnest({arrays}) AS it)"
        )
    }

    /// Statement that inserts rows. Parameters: an array per column of the kind, then the token
    /// numbers.
    pub(crate) fn insert_statement(&self, kind: RowKind) -> String {
        if kind == RowKind::ResponseTokenData {
            return INSERT_RESPONSE_TOKEN_DATA.to_owned();
        }
        let mut columns = kind.columns().to_vec();
        if kind == RowKind::Tokens {
            columns.push(key_column("number", ColumnType::Number));
        }
        let column_list = column_names(&columns);
        let arrays = array_parameters(&columns);
        let (column, value) = self.fixed_column.map_or_else(
            || (String::new(), String::new()),
            |it| (format!("{}, ", it.column), format!("{}, ", it.value)),
        );
        let name = self.table.name;
        format!(
            "-- import_{name}\nINSERT INTO {name} ({column}{column_list}) \
             SELECT {value}it.* FROM unnest({arrays}) AS it"
        )
    }
}

/// SQL list with a typed array parameter per column.
fn array_parameters(columns: &[Column]) -> String {
    let array_parameter = |(index, column): (usize, &Column)| {
        let sql_type = match column.column_type {
            ColumnType::Id => "uuid",
            ColumnType::Number => "bigint",
            ColumnType::Text => "text",
            ColumnType::Bytes => "bytea",
        };
        format!("${}::{sql_type}[]", index.saturating_add(1))
    };
    columns.iter().enumerate().map(array_parameter).collect::<Vec<_>>().join(", ")
}
