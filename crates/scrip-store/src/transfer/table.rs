//! Where an engine has each kind of rows, and in which order it reads them: one for which it has an
//! index.

use scrip_core::store::StoreError;

use crate::{
    sql::{
        ColumnReader, Execute, MISSING_COLUMNS, Parameter, Statements, optional, parameters,
        required,
    },
    transfer::{
        Bounds, Page, State,
        kind::{Column, Form, Kind},
        row::{Row, Value, decode, encode},
    },
};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) key: &'static [Column],
    /// Where it is read from, and by which names, when that is more than the table.
    joined: Option<Joined>,
    /// Which rows of the table are of this kind, where not all are.
    condition: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Joined {
    pub(crate) from: &'static str,
    pub(crate) columns: &'static str,
}

pub(crate) const fn by(name: &'static str, form: Form) -> Column {
    Column { name, form, is_optional: false }
}

pub(crate) const NAME: &[Column] = &[by("name", Form::Text)];
pub(crate) const ID: &[Column] = &[by("id", Form::Id)];
pub(crate) const SEQ: &[Column] = &[by("seq", Form::Number)];
pub(crate) const ONE: &[Column] = &[by("one", Form::Number)];
pub(crate) const TENANT: &[Column] = &[by("tenant", Form::Id)];
pub(crate) const TENANT_VERSION: &[Column] = &[by("tenant", Form::Id), by("version", Form::Number)];
pub(crate) const TENANT_ID: &[Column] = &[by("tenant", Form::Id), by("id", Form::Id)];
pub(crate) const TENANT_APPLICATION_ID: &[Column] =
    &[by("tenant", Form::Id), by("application", Form::Id), by("id", Form::Id)];
pub(crate) const TENANT_BUCKET_NUMBER: &[Column] =
    &[by("tenant", Form::Id), by("bucket", Form::Bytes), by("number", Form::Bytes)];
pub(crate) const TENANT_TYPE: &[Column] = &[by("tenant", Form::Id), by("type", Form::Text)];

impl Table {
    pub(crate) const fn new(name: &'static str, key: &'static [Column]) -> Self {
        Self { name, key, joined: None, condition: "true" }
    }

    pub(crate) const fn joined(self, joined: Joined) -> Self {
        Self { joined: Some(joined), ..self }
    }

    pub(crate) const fn only(self, condition: &'static str) -> Self {
        Self { condition, ..self }
    }

    /// First the columns of the key, then those of the kind.
    fn list(&self, kind: Kind, after: Option<&Row>, rows_max: usize) -> String {
        let own = names(kind.columns());
        let (from, columns) = match self.joined {
            Some(it) => (it.from, it.columns),
            None => (self.name, own.as_str()),
        };
        let (key, only, name) = (names(self.key), self.condition, kind.name());
        let behind = after.map(|it| format!(" AND ({key}) > ({})", numbered(it.len())));
        let behind = behind.unwrap_or_default();
        format!(
            "-- list_{name}\nSELECT {key}, {columns} FROM {from} WHERE {only}{behind} \
             ORDER BY {key} LIMIT {rows_max}"
        )
    }

    pub(crate) fn count(&self) -> String {
        format!("-- count_rows\nSELECT count(*) FROM {} WHERE {}", self.name, self.condition)
    }
}

pub(crate) fn names(columns: &[Column]) -> String {
    columns.iter().map(|it| it.name).collect::<Vec<_>>().join(", ")
}

pub(crate) fn numbered(count: usize) -> String {
    (1..=count).map(|it| format!("${it}")).collect::<Vec<_>>().join(", ")
}

const NO_POSITION: StoreError = StoreError::Corrupt("a position is not one of this engine");

/// The next rows behind a position.
pub(crate) async fn read_page(
    client: &impl Statements,
    table: &Table,
    kind: Kind,
    after: Option<&[u8]>,
    bounds: Bounds,
) -> Result<Page, StoreError> {
    let key = table.key;
    let after = after.map(|mut it| decode(key, &mut it).ok_or(NO_POSITION)).transpose()?;
    let sql = table.list(kind, after.as_ref(), bounds.rows);
    let behind: Vec<_> = after.iter().flatten().map(Parameter::from).collect();
    let columns = || key.iter().chain(kind.columns()).map(|it| it.form).enumerate();
    let row = |row: &dyn ColumnReader| columns().map(|(at, form)| value(row, at, form)).collect();
    let rows: Vec<Row> = client.query(&sql, &behind, row).await?;
    let (mut page, mut bytes) = (Page::default(), 0_usize);
    for mut values in rows {
        let rest = values.split_off(key.len());
        page.position.clear();
        encode(key, &values, &mut page.position).ok_or(MISSING_COLUMNS)?;
        bytes = bytes.saturating_add(rest.iter().map(length).fold(0, usize::saturating_add));
        page.rows.push(rest);
        if bytes >= bounds.bytes {
            break;
        }
    }
    Ok(page)
}

/// What stands in a column.
fn value(row: &dyn ColumnReader, at: usize, form: Form) -> Result<Value, StoreError> {
    let value = match form {
        Form::Id => optional(row, at)?.map(Value::Id),
        Form::Number => optional(row, at)?.map(Value::Number),
        Form::Text => optional(row, at)?.map(Value::Text),
        Form::Bytes => optional(row, at)?.map(Value::Bytes),
    };
    Ok(value.unwrap_or(Value::Nothing))
}

/// About what it takes.
fn length(value: &Value) -> usize {
    match value {
        Value::Nothing => 1,
        Value::Id(_) | Value::Number(_) => 16,
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
    }
}

const FIND_STATE: &str = "
-- find_import_state
SELECT file, portions, sum FROM import_state WHERE one = 1";

/// How far an import has come that has not ended.
pub(crate) async fn find_state(client: &impl Statements) -> Result<Option<State>, StoreError> {
    let state = |row: &dyn ColumnReader| {
        let portions = required::<i64>(row, 1)?.unsigned_abs();
        Ok(State { file: required(row, 0)?, portions, sum: required(row, 2)? })
    };
    client.find(FIND_STATE, &[], state).await
}

const BEGIN_IMPORT: &str = "
-- begin_import
INSERT INTO import_state (one, file, portions, sum) VALUES (1, $1, 0, $2)";

pub(crate) async fn begin_state(client: &impl Execute, state: State) -> Result<(), StoreError> {
    client.execute(BEGIN_IMPORT, &parameters![&state.file, &state.sum]).await.map(drop)
}

const MOVE_ON: &str = "
-- move_on
UPDATE import_state SET portions = CAST($1 AS bigint), sum = $2
WHERE file = $3 AND portions = CAST($1 AS bigint) - 1";

/// Whether it was where it should have been.
pub(crate) async fn move_state(client: &impl Execute, state: State) -> Result<bool, StoreError> {
    let moved = parameters![state.portions, &state.sum, &state.file];
    Ok(client.execute(MOVE_ON, &moved).await? == 1)
}

pub(crate) const NO_PLACE: StoreError =
    StoreError::Corrupt("a row has no place, for what it belongs to is missing");
