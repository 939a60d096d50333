//! Where PostgreSQL has each kind of rows.

use crate::transfer::{
    ColumnType, RowColumn, RowKind,
    table::{
        ID, JoinedTable, NAME, SEQ, TENANT, TENANT_APPLICATION_ID, TENANT_BUCKET_NUMBER, TENANT_ID,
        TENANT_TYPE, TENANT_VERSION, TransferTable, column_names, key_column,
    },
};

/// A table, and a column that every row of this kind has alike, and no other row has.
#[derive(Debug)]
pub(super) struct PostgresTable {
    pub(super) table: TransferTable,
    constant: Option<PostgresConstant>,
}

#[derive(Debug, Clone, Copy)]
struct PostgresConstant {
    column: &'static str,
    value: &'static str,
    condition: &'static str,
}

const SINGLETON: PostgresConstant =
    PostgresConstant { column: "one", value: "1", condition: "one = 1" };
const AUDIT: PostgresConstant =
    PostgresConstant { column: "log", value: "'audit'", condition: "log = 'audit'" };
const READ: PostgresConstant =
    PostgresConstant { column: "log", value: "'access'", condition: "log = 'access'" };

const TENANT_MONTH: &[RowColumn] =
    &[key_column("tenant", ColumnType::Id), key_column("month", ColumnType::Number)];
const TENANT_MONTH_TOKEN: &[RowColumn] = &[
    key_column("tenant", ColumnType::Id),
    key_column("month", ColumnType::Number),
    key_column("token", ColumnType::Text),
];
const TENANT_DIGEST: &[RowColumn] =
    &[key_column("tenant", ColumnType::Id), key_column("digest", ColumnType::Bytes)];
const TENANT_NUMBER: &[RowColumn] =
    &[key_column("tenant", ColumnType::Id), key_column("number", ColumnType::Number)];
const TENANT_LOG: &[RowColumn] =
    &[key_column("tenant", ColumnType::Id), key_column("log", ColumnType::Text)];
const TENANT_LOG_N: &[RowColumn] = &[
    key_column("tenant", ColumnType::Id),
    key_column("log", ColumnType::Text),
    key_column("n", ColumnType::Number),
];
const VERSION: &[RowColumn] = &[key_column("version", ColumnType::Number)];
const LAST: &[RowColumn] = &[key_column("last", ColumnType::Number)];
const NOW: &[RowColumn] = &[key_column("now", ColumnType::Number)];
/// The embedded engine forgets them in the order in which they came in.
const TIME_TENANT_DIGEST: &[RowColumn] = &[
    key_column("created_at", ColumnType::Number),
    key_column("tenant", ColumnType::Id),
    key_column("digest", ColumnType::Bytes),
];
const RESPONSE_TOKEN_DATA_KEY: &[RowColumn] = &[
    key_column("answer_data.tenant", ColumnType::Id),
    key_column("answer_data.digest", ColumnType::Bytes),
    key_column("answer_data.at", ColumnType::Number),
];

const RESPONSE_TOKEN_DATA: JoinedTable = JoinedTable {
    from: "answer_data JOIN tokens ON tokens.tenant = answer_data.tenant \
           AND tokens.number = answer_data.token",
    columns: "answer_data.tenant, answer_data.digest, answer_data.at, tokens.id, answer_data.sealed",
};

const INSERT_RESPONSE_TOKEN_DATA: &str = "
-- import_answer_data
INSERT INTO answer_data (tenant, digest, at, token, sealed)
    SELECT it.tenant, it.digest, it.at, tokens.number, it.sealed
FROM unnest($1::uuid[], $2::bytea[], $3::bigint[], $4::text[], $5::bytea[])
    AS it (tenant, digest, at, token, sealed)
    JOIN tokens ON tokens.tenant = it.tenant AND tokens.id = it.token";

impl PostgresTable {
    pub(super) fn for_kind(kind: RowKind) -> Self {
        let table = |name, key| Self { table: TransferTable::new(name, key), constant: None };
        let constant = |of: PostgresConstant, name, key| Self {
            table: TransferTable::new(name, key).with_condition(of.condition),
            constant: Some(of),
        };
        let single = |name, key| constant(SINGLETON, name, key);
        let audit = |name, key| constant(AUDIT, name, key);
        let access = |name, key| constant(READ, name, key);
        match kind {
            RowKind::Clock => single("clock_state", NOW),
            RowKind::DirectoryVersion => single("directory_state", VERSION),
            RowKind::LastEvent => single("event_state", LAST),
            RowKind::Tenants => table("tenants", ID),
            RowKind::TenantKeys => table("tenant_keys", TENANT_VERSION),
            RowKind::LastingKeys => table("lasting_keys", TENANT),
            RowKind::Applications => table("applications", TENANT_ID),
            RowKind::ApiKeys => table("api_keys", TENANT_APPLICATION_ID),
            RowKind::DeletedTenants => table("deleted_tenants", ID),
            RowKind::AccessSessions => table("access_sessions", TENANT_DIGEST),
            RowKind::Tokens => table("tokens", TENANT_NUMBER),
            RowKind::UsageTypes => table("usage_types", TENANT_TYPE),
            RowKind::UsageMonths => table("usage_months", TENANT_MONTH),
            RowKind::TokenIntents => table("token_intents", TENANT_ID),
            RowKind::Sessions => table("sessions", TENANT_ID),
            RowKind::SessionEvents => table("session_events", SEQ),
            RowKind::Guesses => table("guesses", TENANT_BUCKET_NUMBER),
            RowKind::Answers => table("answers", TIME_TENANT_DIGEST),
            RowKind::AnswerData => Self {
                table: table("answer_data", RESPONSE_TOKEN_DATA_KEY)
                    .table
                    .join(RESPONSE_TOKEN_DATA),
                constant: None,
            },
            RowKind::AuditRecords => audit("records", TENANT_LOG_N),
            RowKind::AuditHeads => audit("heads", TENANT_LOG),
            RowKind::AuditCheckpoints => audit("checkpoints", TENANT_LOG),
            RowKind::AccessRecords => access("records", TENANT_LOG_N),
            RowKind::AccessHeads => access("heads", TENANT_LOG),
            RowKind::AccessCheckpoints => access("checkpoints", TENANT_LOG),
            RowKind::ActiveTokens => table("active_tokens", TENANT_MONTH_TOKEN),
            RowKind::ActiveMonths => table("active_months", TENANT_MONTH),
            RowKind::SystemKeys => table("system_keys", NAME),
        }
    }

    /// Of a row that there is one of at most.
    pub(crate) fn update(&self, kind: RowKind) -> String {
        let (name, own) = (self.table.name, column_names(kind.columns()));
        let arrays = array_parameters(kind.columns());
        format!(
            "-- import_{name}\nUPDATE {name} SET ({own}) = (SELECT it.* FROM unnest({arrays}) AS it)"
        )
    }

    /// With an array for each column of the kind; behind them the numbers of tokens.
    pub(crate) fn insert(&self, kind: RowKind) -> String {
        if kind == RowKind::AnswerData {
            return INSERT_RESPONSE_TOKEN_DATA.to_owned();
        }
        let mut columns = kind.columns().to_vec();
        if kind == RowKind::Tokens {
            columns.push(key_column("number", ColumnType::Number));
        }
        let own = column_names(&columns);
        let arrays = array_parameters(&columns);
        let (column, value) = self.constant.map_or_else(
            || (String::new(), String::new()),
            |it| (format!("{}, ", it.column), format!("{}, ", it.value)),
        );
        let name = self.table.name;
        format!(
            "-- import_{name}\nINSERT INTO {name} ({column}{own}) \
             SELECT {value}it.* FROM unnest({arrays}) AS it"
        )
    }
}

/// A parameter for each, of its form.
fn array_parameters(columns: &[RowColumn]) -> String {
    let array = |(at, column): (usize, &RowColumn)| {
        let form = match column.column_type {
            ColumnType::Id => "uuid",
            ColumnType::Number => "bigint",
            ColumnType::Text => "text",
            ColumnType::Bytes => "bytea",
        };
        format!("${}::{form}[]", at.saturating_add(1))
    };
    columns.iter().enumerate().map(array).collect::<Vec<_>>().join(", ")
}
