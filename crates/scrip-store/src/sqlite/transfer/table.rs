//! Where the embedded engine has each kind of rows, and in which order it reads them: one for which
//! it has an index.

use crate::transfer::{Column, Form, Kind, Row};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Database {
    Vault,
    Access,
}

#[derive(Debug)]
pub(super) struct Table {
    pub(super) database: Database,
    name: &'static str,
    /// Where it is read from, and by which names, when that is more than the table.
    joined: Option<(&'static str, &'static str)>,
    pub(super) key: &'static [Column],
    /// A column that every row has alike.
    constant: Option<(&'static str, &'static str)>,
}

const fn by(name: &'static str, form: Form) -> Column {
    Column { name, form, is_optional: false }
}

const ONE: &[Column] = &[by("one", Form::Number)];
const NAME: &[Column] = &[by("name", Form::Text)];
const ID: &[Column] = &[by("id", Form::Id)];
const SEQ: &[Column] = &[by("seq", Form::Number)];
const TENANT: &[Column] = &[by("tenant", Form::Id)];
const TENANT_VERSION: &[Column] = &[by("tenant", Form::Id), by("version", Form::Number)];
const TENANT_ID: &[Column] = &[by("tenant", Form::Id), by("id", Form::Id)];
const TENANT_APPLICATION_ID: &[Column] =
    &[by("tenant", Form::Id), by("application", Form::Id), by("id", Form::Id)];
const TENANT_BUCKET_NUMBER: &[Column] =
    &[by("tenant", Form::Id), by("bucket", Form::Bytes), by("number", Form::Bytes)];
const TENANT_TYPE: &[Column] = &[by("tenant", Form::Id), by("type", Form::Text)];
const MONTH_TENANT: &[Column] = &[by("month", Form::Number), by("tenant", Form::Id)];
const MONTH_TENANT_TOKEN: &[Column] =
    &[by("month", Form::Number), by("tenant", Form::Id), by("token", Form::Text)];
const TENANT_N: &[Column] = &[by("tenant", Form::Id), by("n", Form::Number)];
const ANSWER_AT: &[Column] =
    &[by("answer_data.answer", Form::Number), by("answer_data.at", Form::Number)];

/// The engine goes through a cross join in the order in which it is written.
const ANSWER_DATA: (&str, &str) = (
    "answer_data CROSS JOIN answers ON answers.seq = answer_data.answer \
     CROSS JOIN tokens ON tokens.seq = answer_data.token",
    "answers.tenant, answers.digest, answer_data.at, tokens.id, answer_data.sealed",
);

const INSERT_ANSWER_DATA: &str = "
-- import_answer_data
INSERT INTO answer_data (answer, at, token, sealed)
    SELECT answers.seq, ?3, tokens.seq, ?5
FROM answers JOIN tokens ON tokens.tenant = ?1 AND tokens.id = ?4
WHERE answers.digest = ?2 AND answers.tenant = ?1";

impl Table {
    pub(super) fn of(kind: Kind) -> Self {
        let vault =
            |name, key| Self { database: Database::Vault, name, joined: None, key, constant: None };
        let access = |name, key| Self { database: Database::Access, ..vault(name, key) };
        let single = |name| Self { constant: Some(("one", "1")), ..vault(name, ONE) };
        let apart =
            |name, key| Self { constant: Some(("apart", "zeroblob(1024)")), ..vault(name, key) };
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
                Self { joined: Some(ANSWER_DATA), ..vault("answer_data", ANSWER_AT) }
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

    /// First the columns of the key, then those of the kind.
    pub(super) fn list(&self, kind: Kind, after: Option<&Row>, rows_max: usize) -> String {
        let own = names(kind.columns());
        let (from, columns) = self.joined.unwrap_or((self.name, &own));
        let key = names(self.key);
        let behind = after.map(|it| format!("WHERE ({key}) > ({})", numbered(it.len())));
        let behind = behind.unwrap_or_default();
        let name = kind.name();
        format!(
            "-- list_{name}\nSELECT {key}, {columns} FROM {from} {behind} ORDER BY {key} LIMIT \
             {rows_max}"
        )
    }

    pub(super) fn count(&self) -> String {
        format!("-- count_rows\nSELECT count(*) FROM {}", self.name)
    }

    pub(super) fn clear(&self) -> String {
        format!("-- clear\nDELETE FROM {}", self.name)
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
        if let Some((column, value)) = self.constant {
            columns = format!("{column}, {columns}");
            values = format!("{value}, {values}");
        }
        let again = match self.database {
            Database::Vault => "",
            Database::Access => " OR IGNORE",
        };
        let name = self.name;
        format!("-- import_{name}\nINSERT{again} INTO {name} ({columns}) VALUES ({values})")
    }
}

fn names(columns: &[Column]) -> String {
    columns.iter().map(|it| it.name).collect::<Vec<_>>().join(", ")
}

fn numbered(count: usize) -> String {
    (1..=count).map(|it| format!("?{it}")).collect::<Vec<_>>().join(", ")
}
