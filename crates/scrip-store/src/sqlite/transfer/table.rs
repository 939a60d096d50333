//! Where the embedded engine has each kind of rows.

use crate::transfer::{
    Column, Form, Kind,
    table::{
        ID, Joined, NAME, ONE, SEQ, TENANT, TENANT_APPLICATION_ID, TENANT_BUCKET_NUMBER, TENANT_ID,
        TENANT_TYPE, TENANT_VERSION, Table, by, names, numbered,
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Database {
    Vault,
    Access,
}

/// A table, the database that has it, and a column that every row has alike.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) database: Database,
    pub(super) table: Table,
    constant: Option<Constant>,
}

#[derive(Debug, Clone, Copy)]
struct Constant {
    column: &'static str,
    value: &'static str,
}

const MONTH_TENANT: &[Column] = &[by("month", Form::Number), by("tenant", Form::Id)];
const MONTH_TENANT_TOKEN: &[Column] =
    &[by("month", Form::Number), by("tenant", Form::Id), by("token", Form::Text)];
const TENANT_N: &[Column] = &[by("tenant", Form::Id), by("n", Form::Number)];
const ANSWER_AT: &[Column] =
    &[by("answer_data.answer", Form::Number), by("answer_data.at", Form::Number)];

/// The engine goes through a cross join in the order in which it is written.
const ANSWER_DATA: Joined = Joined {
    from: "answer_data CROSS JOIN answers ON answers.seq = answer_data.answer \
           CROSS JOIN tokens ON tokens.seq = answer_data.token",
    columns: "answers.tenant, answers.digest, answer_data.at, tokens.id, answer_data.sealed",
};

/// The columns of the kind are the parameters.
const INSERT_ANSWER_DATA: &str = "
-- import_answer_data
INSERT INTO answer_data (answer, at, token, sealed)
    SELECT answers.seq, ?3, tokens.seq, ?5
FROM answers JOIN tokens ON tokens.tenant = ?1 AND tokens.id = ?4
WHERE answers.digest = ?2 AND answers.tenant = ?1";

impl Stored {
    pub(super) fn of(kind: Kind) -> Self {
        let vault = |name, key| Self {
            database: Database::Vault,
            table: Table::new(name, key),
            constant: None,
        };
        let access = |name, key| Self { database: Database::Access, ..vault(name, key) };
        let one = Constant { column: "one", value: "1" };
        let single = |name| Self { constant: Some(one), ..vault(name, ONE) };
        let zeros = Constant { column: "apart", value: "zeroblob(1024)" };
        let apart = |name, key| Self { constant: Some(zeros), ..vault(name, key) };
        match kind {
            Kind::Clock => single("clock_state"),
            Kind::DirectoryVersion => single("directory_state"),
            Kind::LastEvent => single("event_state"),
            Kind::Tenants => vault("tenants", ID),
            Kind::TenantKeys => apart("tenant_keys", TENANT_VERSION),
            Kind::LastingKeys => apart("lasting_keys", TENANT),
            Kind::Applications => vault("applications", TENANT_ID),
            Kind::ApiKeys => vault("api_keys", TENANT_APPLICATION_ID),
            Kind::DeletedTenants => vault("deleted_tenants", ID),
            Kind::AccessSessions => vault("access_sessions", SEQ),
            Kind::Tokens => vault("tokens", SEQ),
            Kind::UsageTypes => vault("usage_types", TENANT_TYPE),
            Kind::UsageMonths => vault("usage_months", MONTH_TENANT),
            Kind::TokenIntents => vault("token_intents", SEQ),
            Kind::Sessions => vault("sessions", SEQ),
            Kind::SessionEvents => vault("session_events", SEQ),
            Kind::Guesses => vault("guesses", TENANT_BUCKET_NUMBER),
            Kind::Answers => vault("answers", SEQ),
            Kind::AnswerData => {
                let table = Table::new("answer_data", ANSWER_AT).joined(ANSWER_DATA);
                Self { table, ..vault("answer_data", ANSWER_AT) }
            }
            Kind::AuditRecords => vault("audit", TENANT_N),
            Kind::AuditHeads => vault("audit_heads", TENANT),
            Kind::AuditCheckpoints => vault("audit_checkpoints", TENANT),
            Kind::AccessRecords => access("audit", TENANT_N),
            Kind::AccessHeads => access("audit_heads", TENANT),
            Kind::AccessCheckpoints => access("audit_checkpoints", TENANT),
            Kind::ActiveTokens => access("active_tokens", MONTH_TENANT_TOKEN),
            Kind::ActiveMonths => access("active_months", MONTH_TENANT),
            Kind::SystemKeys => vault("system_keys", NAME),
        }
    }

    pub(super) fn clear(&self) -> String {
        format!("-- clear\nDELETE FROM {}", self.table.name)
    }

    /// With the columns of the kind as parameters; behind them a token's number.
    pub(super) fn insert(&self, kind: Kind) -> String {
        if kind == Kind::AnswerData {
            return INSERT_ANSWER_DATA.to_owned();
        }
        let (mut columns, mut values) = (names(kind.columns()), numbered(kind.columns().len()));
        if kind == Kind::Tokens {
            columns += ", seq";
            values = numbered(kind.columns().len().saturating_add(1));
        }
        if let Some(Constant { column, value }) = self.constant {
            columns = format!("{column}, {columns}");
            values = format!("{value}, {values}");
        }
        let again = match self.database {
            Database::Vault => "",
            Database::Access => " OR IGNORE",
        };
        let name = self.table.name;
        format!("-- import_{name}\nINSERT{again} INTO {name} ({columns}) VALUES ({values})")
    }
}
