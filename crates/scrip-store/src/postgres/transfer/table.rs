//! Where PostgreSQL has each kind of rows.

use crate::transfer::{
    Column, Form, Kind,
    table::{
        ID, Joined, NAME, SEQ, TENANT, TENANT_APPLICATION_ID, TENANT_BUCKET_NUMBER, TENANT_ID,
        TENANT_TYPE, TENANT_VERSION, Table, by, names,
    },
};

/// A table, and a column that every row of this kind has alike, and no other row has.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) table: Table,
    constant: Option<Constant>,
}

#[derive(Debug, Clone, Copy)]
struct Constant {
    column: &'static str,
    value: &'static str,
    condition: &'static str,
}

const ONE: Constant = Constant { column: "one", value: "1", condition: "one = 1" };
const AUDIT: Constant = Constant { column: "log", value: "'audit'", condition: "log = 'audit'" };
const ACCESS: Constant = Constant { column: "log", value: "'access'", condition: "log = 'access'" };

const TENANT_MONTH: &[Column] = &[by("tenant", Form::Id), by("month", Form::Number)];
const TENANT_MONTH_TOKEN: &[Column] =
    &[by("tenant", Form::Id), by("month", Form::Number), by("token", Form::Text)];
const TENANT_DIGEST: &[Column] = &[by("tenant", Form::Id), by("digest", Form::Bytes)];
const TENANT_NUMBER: &[Column] = &[by("tenant", Form::Id), by("number", Form::Number)];
const TENANT_LOG: &[Column] = &[by("tenant", Form::Id), by("log", Form::Text)];
const TENANT_LOG_N: &[Column] =
    &[by("tenant", Form::Id), by("log", Form::Text), by("n", Form::Number)];
const VERSION: &[Column] = &[by("version", Form::Number)];
const LAST: &[Column] = &[by("last", Form::Number)];
const NOW: &[Column] = &[by("now", Form::Number)];
/// The embedded engine forgets them in the order in which they came in.
const TIME_TENANT_DIGEST: &[Column] =
    &[by("created_at", Form::Number), by("tenant", Form::Id), by("digest", Form::Bytes)];
const ANSWER_AT: &[Column] = &[
    by("answer_data.tenant", Form::Id),
    by("answer_data.digest", Form::Bytes),
    by("answer_data.at", Form::Number),
];

const ANSWER_DATA: Joined = Joined {
    from: "answer_data JOIN tokens ON tokens.tenant = answer_data.tenant \
           AND tokens.number = answer_data.token",
    columns: "answer_data.tenant, answer_data.digest, answer_data.at, tokens.id, answer_data.sealed",
};

const INSERT_ANSWER_DATA: &str = "
-- import_answer_data
INSERT INTO answer_data (tenant, digest, at, token, sealed)
    SELECT it.tenant, it.digest, it.at, tokens.number, it.sealed
FROM unnest($1::uuid[], $2::bytea[], $3::bigint[], $4::text[], $5::bytea[])
    AS it (tenant, digest, at, token, sealed)
    JOIN tokens ON tokens.tenant = it.tenant AND tokens.id = it.token";

impl Stored {
    pub(super) fn of(kind: Kind) -> Self {
        let table = |name, key| Self { table: Table::new(name, key), constant: None };
        let constant = |of: Constant, name, key| Self {
            table: Table::new(name, key).only(of.condition),
            constant: Some(of),
        };
        let single = |name, key| constant(ONE, name, key);
        let audit = |name, key| constant(AUDIT, name, key);
        let access = |name, key| constant(ACCESS, name, key);
        match kind {
            Kind::Clock => single("clock_state", NOW),
            Kind::DirectoryVersion => single("directory_state", VERSION),
            Kind::LastEvent => single("event_state", LAST),
            Kind::Tenants => table("tenants", ID),
            Kind::TenantKeys => table("tenant_keys", TENANT_VERSION),
            Kind::LastingKeys => table("lasting_keys", TENANT),
            Kind::Applications => table("applications", TENANT_ID),
            Kind::ApiKeys => table("api_keys", TENANT_APPLICATION_ID),
            Kind::DeletedTenants => table("deleted_tenants", ID),
            Kind::AccessSessions => table("access_sessions", TENANT_DIGEST),
            Kind::Tokens => table("tokens", TENANT_NUMBER),
            Kind::UsageTypes => table("usage_types", TENANT_TYPE),
            Kind::UsageMonths => table("usage_months", TENANT_MONTH),
            Kind::TokenIntents => table("token_intents", TENANT_ID),
            Kind::Sessions => table("sessions", TENANT_ID),
            Kind::SessionEvents => table("session_events", SEQ),
            Kind::Guesses => table("guesses", TENANT_BUCKET_NUMBER),
            Kind::Answers => table("answers", TIME_TENANT_DIGEST),
            Kind::AnswerData => Self {
                table: table("answer_data", ANSWER_AT).table.joined(ANSWER_DATA),
                constant: None,
            },
            Kind::AuditRecords => audit("records", TENANT_LOG_N),
            Kind::AuditHeads => audit("heads", TENANT_LOG),
            Kind::AuditCheckpoints => audit("checkpoints", TENANT_LOG),
            Kind::AccessRecords => access("records", TENANT_LOG_N),
            Kind::AccessHeads => access("heads", TENANT_LOG),
            Kind::AccessCheckpoints => access("checkpoints", TENANT_LOG),
            Kind::ActiveTokens => table("active_tokens", TENANT_MONTH_TOKEN),
            Kind::ActiveMonths => table("active_months", TENANT_MONTH),
            Kind::SystemKeys => table("system_keys", NAME),
        }
    }

    /// Of a row that there is one of at most.
    pub(crate) fn update(&self, kind: Kind) -> String {
        let (name, own) = (self.table.name, names(kind.columns()));
        let arrays = arrays(kind.columns());
        format!(
            "-- import_{name}\nUPDATE {name} SET ({own}) = (SELECT it.* FROM unnest({arrays}) AS it)"
        )
    }

    /// With an array for each column of the kind; behind them the numbers of tokens.
    pub(crate) fn insert(&self, kind: Kind) -> String {
        if kind == Kind::AnswerData {
            return INSERT_ANSWER_DATA.to_owned();
        }
        let mut columns = kind.columns().to_vec();
        if kind == Kind::Tokens {
            columns.push(by("number", Form::Number));
        }
        let own = names(&columns);
        let arrays = arrays(&columns);
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
fn arrays(columns: &[Column]) -> String {
    let array = |(at, column): (usize, &Column)| {
        let form = match column.form {
            Form::Id => "uuid",
            Form::Number => "bigint",
            Form::Text => "text",
            Form::Bytes => "bytea",
        };
        format!("${}::{form}[]", at.saturating_add(1))
    };
    columns.iter().enumerate().map(array).collect::<Vec<_>>().join(", ")
}
