//! Where PostgreSQL has each kind of rows, and in which order it reads them: one for which it has an
//! index.

use crate::transfer::{Column, Form, Kind, Row};

#[derive(Debug)]
pub(super) struct Table {
    name: &'static str,
    /// Where it is read from, and by which names, when that is more than the table.
    joined: Option<(&'static str, &'static str)>,
    pub(super) key: &'static [Column],
    /// A column that every row of this kind has alike, and no other row has.
    constant: Option<(&'static str, &'static str)>,
}

const fn by(name: &'static str, form: Form) -> Column {
    Column { name, form, is_optional: false }
}

const NAME: &[Column] = &[by("name", Form::Text)];
const ID: &[Column] = &[by("id", Form::Id)];
const TENANT: &[Column] = &[by("tenant", Form::Id)];
const TENANT_VERSION: &[Column] = &[by("tenant", Form::Id), by("version", Form::Number)];
const TENANT_ID: &[Column] = &[by("tenant", Form::Id), by("id", Form::Id)];
const TENANT_APPLICATION_ID: &[Column] =
    &[by("tenant", Form::Id), by("application", Form::Id), by("id", Form::Id)];
const TENANT_BUCKET_NUMBER: &[Column] =
    &[by("tenant", Form::Id), by("bucket", Form::Bytes), by("number", Form::Bytes)];
const TENANT_TYPE: &[Column] = &[by("tenant", Form::Id), by("type", Form::Text)];
const TENANT_MONTH: &[Column] = &[by("tenant", Form::Id), by("month", Form::Number)];
const TENANT_MONTH_TOKEN: &[Column] =
    &[by("tenant", Form::Id), by("month", Form::Number), by("token", Form::Text)];
const TENANT_DIGEST: &[Column] = &[by("tenant", Form::Id), by("digest", Form::Bytes)];
const TENANT_NUMBER: &[Column] = &[by("tenant", Form::Id), by("number", Form::Number)];
const TENANT_LOG: &[Column] = &[by("tenant", Form::Id), by("log", Form::Text)];
const TENANT_LOG_N: &[Column] =
    &[by("tenant", Form::Id), by("log", Form::Text), by("n", Form::Number)];
const SEQ: &[Column] = &[by("seq", Form::Number)];
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

const ANSWER_DATA: (&str, &str) = (
    "answer_data JOIN tokens ON tokens.tenant = answer_data.tenant \
     AND tokens.number = answer_data.token",
    "answer_data.tenant, answer_data.digest, answer_data.at, tokens.id, answer_data.sealed",
);

const INSERT_ANSWER_DATA: &str = "
-- import_answer_data
INSERT INTO answer_data (tenant, digest, at, token, sealed)
    SELECT it.tenant, it.digest, it.at, tokens.number, it.sealed
FROM unnest($1::uuid[], $2::bytea[], $3::bigint[], $4::text[], $5::bytea[])
    AS it (tenant, digest, at, token, sealed)
    JOIN tokens ON tokens.tenant = it.tenant AND tokens.id = it.token";

impl Table {
    pub(super) fn of(kind: Kind) -> Self {
        let table = |name, key| Self { name, joined: None, key, constant: None };
        let single = |name, key| Self { constant: Some(("one", "1")), ..table(name, key) };
        let audit = |name, key| Self { constant: Some(("log", "'audit'")), ..table(name, key) };
        let access = |name, key| Self { constant: Some(("log", "'access'")), ..table(name, key) };
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
            Kind::AnswerData => {
                Self { joined: Some(ANSWER_DATA), ..table("answer_data", ANSWER_AT) }
            }
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

    /// First the columns of the key, then those of the kind.
    pub(super) fn list(&self, kind: Kind, after: Option<&Row>, rows_max: usize) -> String {
        let own = names(kind.columns());
        let (from, columns) = self.joined.unwrap_or((self.name, &own));
        let key = names(self.key);
        let only = self.only();
        let behind = after.map(|it| format!(" AND ({key}) > ({})", numbered(it.len())));
        let behind = behind.unwrap_or_default();
        let name = kind.name();
        format!(
            "-- list_{name}\nSELECT {key}, {columns} FROM {from} WHERE {only}{behind} \
             ORDER BY {key} LIMIT {rows_max}"
        )
    }

    fn only(&self) -> String {
        self.constant.map_or_else(|| "true".to_owned(), |(column, is)| format!("{column} = {is}"))
    }

    pub(super) fn count(&self) -> String {
        format!("-- count_rows\nSELECT count(*) FROM {} WHERE {}", self.name, self.only())
    }

    /// Of a row that there is one of at most.
    pub(super) fn update(&self, kind: Kind) -> String {
        let (name, own) = (self.name, names(kind.columns()));
        let arrays = arrays(kind.columns());
        format!(
            "-- import_{name}\nUPDATE {name} SET ({own}) = (SELECT it.* FROM unnest({arrays}) AS it)"
        )
    }

    /// With an array for each column of the kind; behind them the numbers of tokens.
    pub(super) fn insert(&self, kind: Kind) -> String {
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
            |(column, value)| (format!("{column}, "), format!("{value}, ")),
        );
        let name = self.name;
        format!(
            "-- import_{name}\nINSERT INTO {name} ({column}{own}) \
             SELECT {value}it.* FROM unnest({arrays}) AS it"
        )
    }
}

fn names(columns: &[Column]) -> String {
    columns.iter().map(|it| it.name).collect::<Vec<_>>().join(", ")
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

fn numbered(count: usize) -> String {
    (1..=count).map(|it| format!("${it}")).collect::<Vec<_>>().join(", ")
}
