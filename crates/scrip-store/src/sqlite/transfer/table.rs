//! Where the embedded engine has each kind of rows.

use crate::transfer::{
    ColumnType, RowColumn, RowKind,
    table::{
        ID, JoinedTable, NAME, SEQ, SINGLETON, TENANT, TENANT_APPLICATION_ID, TENANT_BUCKET_NUMBER,
        TENANT_ID, TENANT_TYPE, TENANT_VERSION, TransferTable, column_names, key_column,
        parameter_list,
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransferDatabase {
    Vault,
    ReadLog,
}

/// A table, the database that has it, and a column that every row has alike.
#[derive(Debug)]
pub(super) struct SqliteTable {
    pub(super) database: TransferDatabase,
    pub(super) table: TransferTable,
    constant: Option<SqliteConstant>,
}

#[derive(Debug, Clone, Copy)]
struct SqliteConstant {
    column: &'static str,
    value: &'static str,
}

const MONTH_TENANT: &[RowColumn] =
    &[key_column("month", ColumnType::Number), key_column("tenant", ColumnType::Id)];
const MONTH_TENANT_TOKEN: &[RowColumn] = &[
    key_column("month", ColumnType::Number),
    key_column("tenant", ColumnType::Id),
    key_column("token", ColumnType::Text),
];
const TENANT_N: &[RowColumn] =
    &[key_column("tenant", ColumnType::Id), key_column("n", ColumnType::Number)];
const RESPONSE_TOKEN_DATA_KEY: &[RowColumn] = &[
    key_column("answer_data.answer", ColumnType::Number),
    key_column("answer_data.at", ColumnType::Number),
];

/// The engine goes through a cross join in the order in which it is written.
const RESPONSE_TOKEN_DATA: JoinedTable = JoinedTable {
    from: "answer_data CROSS JOIN answers ON answers.seq = answer_data.answer \
           CROSS JOIN tokens ON tokens.seq = answer_data.token",
    columns: "answers.tenant, answers.digest, answer_data.at, tokens.id, answer_data.sealed",
};

/// The columns of the kind are the parameters.
const INSERT_RESPONSE_TOKEN_DATA: &str = "
-- import_answer_data
INSERT INTO answer_data (answer, at, token, sealed)
    SELECT answers.seq, ?3, tokens.seq, ?5
FROM answers JOIN tokens ON tokens.tenant = ?1 AND tokens.id = ?4
WHERE answers.digest = ?2 AND answers.tenant = ?1";

impl SqliteTable {
    pub(super) fn for_kind(kind: RowKind) -> Self {
        let vault = |name, key| Self {
            database: TransferDatabase::Vault,
            table: TransferTable::new(name, key),
            constant: None,
        };
        let access = |name, key| Self { database: TransferDatabase::ReadLog, ..vault(name, key) };
        let one = SqliteConstant { column: "one", value: "1" };
        let single = |name| Self { constant: Some(one), ..vault(name, SINGLETON) };
        let zeros = SqliteConstant { column: "apart", value: "zeroblob(1024)" };
        let apart = |name, key| Self { constant: Some(zeros), ..vault(name, key) };
        match kind {
            RowKind::Clock => single("clock_state"),
            RowKind::DirectoryVersion => single("directory_state"),
            RowKind::LastEvent => single("event_state"),
            RowKind::Tenants => vault("tenants", ID),
            RowKind::TenantKeys => apart("tenant_keys", TENANT_VERSION),
            RowKind::LastingKeys => apart("lasting_keys", TENANT),
            RowKind::Applications => vault("applications", TENANT_ID),
            RowKind::ApiKeys => vault("api_keys", TENANT_APPLICATION_ID),
            RowKind::DeletedTenants => vault("deleted_tenants", ID),
            RowKind::AccessSessions => vault("access_sessions", SEQ),
            RowKind::Tokens => vault("tokens", SEQ),
            RowKind::UsageTypes => vault("usage_types", TENANT_TYPE),
            RowKind::UsageMonths => vault("usage_months", MONTH_TENANT),
            RowKind::TokenIntents => vault("token_intents", SEQ),
            RowKind::Sessions => vault("sessions", SEQ),
            RowKind::SessionEvents => vault("session_events", SEQ),
            RowKind::Guesses => vault("guesses", TENANT_BUCKET_NUMBER),
            RowKind::Answers => vault("answers", SEQ),
            RowKind::AnswerData => {
                let table = TransferTable::new("answer_data", RESPONSE_TOKEN_DATA_KEY)
                    .join(RESPONSE_TOKEN_DATA);
                Self { table, ..vault("answer_data", RESPONSE_TOKEN_DATA_KEY) }
            }
            RowKind::AuditRecords => vault("audit", TENANT_N),
            RowKind::AuditHeads => vault("audit_heads", TENANT),
            RowKind::AuditCheckpoints => vault("audit_checkpoints", TENANT),
            RowKind::AccessRecords => access("audit", TENANT_N),
            RowKind::AccessHeads => access("audit_heads", TENANT),
            RowKind::AccessCheckpoints => access("audit_checkpoints", TENANT),
            RowKind::ActiveTokens => access("active_tokens", MONTH_TENANT_TOKEN),
            RowKind::ActiveMonths => access("active_months", MONTH_TENANT),
            RowKind::SystemKeys => vault("system_keys", NAME),
        }
    }

    pub(super) fn clear(&self) -> String {
        format!("-- clear\nDELETE FROM {}", self.table.name)
    }

    /// With the columns of the kind as parameters; behind them a token's number.
    pub(super) fn insert(&self, kind: RowKind) -> String {
        if kind == RowKind::AnswerData {
            return INSERT_RESPONSE_TOKEN_DATA.to_owned();
        }
        let (mut columns, mut values) =
            (column_names(kind.columns()), parameter_list(kind.columns().len()));
        if kind == RowKind::Tokens {
            columns += ", seq";
            values = parameter_list(kind.columns().len().saturating_add(1));
        }
        if let Some(SqliteConstant { column, value }) = self.constant {
            columns = format!("{column}, {columns}");
            values = format!("{value}, {values}");
        }
        let again = match self.database {
            TransferDatabase::Vault => "",
            TransferDatabase::ReadLog => " OR IGNORE",
        };
        let name = self.table.name;
        format!("-- import_{name}\nINSERT{again} INTO {name} ({columns}) VALUES ({values})")
    }
}
