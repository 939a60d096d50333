//! Where an engine has each kind of rows, and in which order it reads them: one for which it has an
//! index.

use scrip_core::store::StoreError;

use crate::{
    sql::{
        ColumnReader, Execute, MISSING_COLUMNS, Parameter, Statements, optional, parameters,
        required,
    },
    transfer::{
        ImportState, PageBounds, RowPage,
        kind::{ColumnType, RowColumn, RowKind},
        row::{RowValue, TransferRow, decode_row, encode_row},
    },
};

#[derive(Debug, Clone, Copy)]
pub(crate) struct TransferTable {
    pub(crate) name: &'static str,
    pub(crate) key: &'static [RowColumn],
    /// Where it is read from, and by which names, when that is more than the table.
    join: Option<JoinedTable>,
    /// Which rows of the table are of this kind, where not all are.
    condition: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct JoinedTable {
    pub(crate) from: &'static str,
    pub(crate) columns: &'static str,
}

pub(crate) const fn key_column(name: &'static str, column_type: ColumnType) -> RowColumn {
    RowColumn { name, column_type, is_optional: false }
}

pub(crate) const NAME: &[RowColumn] = &[key_column("name", ColumnType::Text)];
pub(crate) const ID: &[RowColumn] = &[key_column("id", ColumnType::Id)];
pub(crate) const SEQ: &[RowColumn] = &[key_column("seq", ColumnType::Number)];
pub(crate) const SINGLETON: &[RowColumn] = &[key_column("one", ColumnType::Number)];
pub(crate) const TENANT: &[RowColumn] = &[key_column("tenant", ColumnType::Id)];
pub(crate) const TENANT_VERSION: &[RowColumn] =
    &[key_column("tenant", ColumnType::Id), key_column("version", ColumnType::Number)];
pub(crate) const TENANT_ID: &[RowColumn] =
    &[key_column("tenant", ColumnType::Id), key_column("id", ColumnType::Id)];
pub(crate) const TENANT_APPLICATION_ID: &[RowColumn] = &[
    key_column("tenant", ColumnType::Id),
    key_column("application", ColumnType::Id),
    key_column("id", ColumnType::Id),
];
pub(crate) const TENANT_BUCKET_NUMBER: &[RowColumn] = &[
    key_column("tenant", ColumnType::Id),
    key_column("bucket", ColumnType::Bytes),
    key_column("number", ColumnType::Bytes),
];
pub(crate) const TENANT_TYPE: &[RowColumn] =
    &[key_column("tenant", ColumnType::Id), key_column("type", ColumnType::Text)];

impl TransferTable {
    pub(crate) const fn new(name: &'static str, key: &'static [RowColumn]) -> Self {
        Self { name, key, join: None, condition: "true" }
    }

    pub(crate) const fn join(self, joined: JoinedTable) -> Self {
        Self { join: Some(joined), ..self }
    }

    pub(crate) const fn with_condition(self, condition: &'static str) -> Self {
        Self { condition, ..self }
    }

    /// First the columns of the key, then those of the kind.
    fn list_statement(
        &self,
        kind: RowKind,
        after: Option<&TransferRow>,
        rows_max: usize,
    ) -> String {
        let own = column_names(kind.columns());
        let (from, columns) = match self.join {
            Some(it) => (it.from, it.columns),
            None => (self.name, own.as_str()),
        };
        let (key, only, name) = (column_names(self.key), self.condition, kind.name());
        let bounds = after.map(|it| format!(" AND ({key}) > ({})", parameter_list(it.len())));
        let bounds = bounds.unwrap_or_default();
        format!(
            "-- list_{name}\nSELECT {key}, {columns} FROM {from} WHERE {only}{bounds} \
             ORDER BY {key} LIMIT {rows_max}"
        )
    }

    pub(crate) fn count_statement(&self) -> String {
        format!("-- count_rows\nSELECT count(*) FROM {} WHERE {}", self.name, self.condition)
    }
}

pub(crate) fn column_names(columns: &[RowColumn]) -> String {
    columns.iter().map(|it| it.name).collect::<Vec<_>>().join(", ")
}

pub(crate) fn parameter_list(count: usize) -> String {
    (1..=count).map(|it| format!("${it}")).collect::<Vec<_>>().join(", ")
}

const INVALID_POSITION: StoreError = StoreError::Corrupt("a position is not one of this engine");

/// The next rows behind a position.
pub(crate) async fn read_page(
    client: &impl Statements,
    table: &TransferTable,
    kind: RowKind,
    after: Option<&[u8]>,
    bounds: PageBounds,
) -> Result<RowPage, StoreError> {
    let key = table.key;
    let after = after.map(|mut it| decode_row(key, &mut it).ok_or(INVALID_POSITION)).transpose()?;
    let sql = table.list_statement(kind, after.as_ref(), bounds.rows_max);
    let parameters: Vec<_> = after.iter().flatten().map(Parameter::from).collect();
    let columns = || key.iter().chain(kind.columns()).map(|it| it.column_type).enumerate();
    let row =
        |row: &dyn ColumnReader| columns().map(|(at, form)| read_value(row, at, form)).collect();
    let rows: Vec<TransferRow> = client.query(&sql, &parameters, row).await?;
    let (mut page, mut bytes) = (RowPage::default(), 0_usize);
    for mut values in rows {
        let rest = values.split_off(key.len());
        page.position.clear();
        encode_row(key, &values, &mut page.position).ok_or(MISSING_COLUMNS)?;
        bytes = bytes.saturating_add(rest.iter().map(value_length).fold(0, usize::saturating_add));
        page.rows.push(rest);
        if bytes >= bounds.bytes_max {
            break;
        }
    }
    Ok(page)
}

/// What stands in a column.
fn read_value(
    row: &dyn ColumnReader,
    at: usize,
    column_type: ColumnType,
) -> Result<RowValue, StoreError> {
    let value = match column_type {
        ColumnType::Id => optional(row, at)?.map(RowValue::Id),
        ColumnType::Number => optional(row, at)?.map(RowValue::Number),
        ColumnType::Text => optional(row, at)?.map(RowValue::Text),
        ColumnType::Bytes => optional(row, at)?.map(RowValue::Bytes),
    };
    Ok(value.unwrap_or(RowValue::Null))
}

/// About what it takes.
fn value_length(value: &RowValue) -> usize {
    match value {
        RowValue::Null => 1,
        RowValue::Id(_) | RowValue::Number(_) => 16,
        RowValue::Text(text) => text.len(),
        RowValue::Bytes(bytes) => bytes.len(),
    }
}

const FIND_IMPORT_STATE: &str = "
-- find_import_state
SELECT file, portions, sum FROM import_state WHERE one = 1";

/// How far an import has come that has not ended.
pub(crate) async fn find_import_state(
    client: &impl Statements,
) -> Result<Option<ImportState>, StoreError> {
    let state = |row: &dyn ColumnReader| {
        let portions = required::<i64>(row, 1)?.unsigned_abs();
        Ok(ImportState { file: required(row, 0)?, portions, checksum: required(row, 2)? })
    };
    client.find(FIND_IMPORT_STATE, &[], state).await
}

const INSERT_IMPORT_STATE: &str = "
-- begin_import
INSERT INTO import_state (one, file, portions, sum) VALUES (1, $1, 0, $2)";

pub(crate) async fn insert_import_state(
    client: &impl Execute,
    state: ImportState,
) -> Result<(), StoreError> {
    client.execute(INSERT_IMPORT_STATE, &parameters![&state.file, &state.checksum]).await.map(drop)
}

const ADVANCE_IMPORT_STATE: &str = "
-- move_on
UPDATE import_state SET portions = CAST($1 AS bigint), sum = $2
WHERE file = $3 AND portions = CAST($1 AS bigint) - 1";

/// Whether it was where it should have been.
pub(crate) async fn advance_import_state(
    client: &impl Execute,
    state: ImportState,
) -> Result<bool, StoreError> {
    let moved = parameters![state.portions, &state.checksum, &state.file];
    Ok(client.execute(ADVANCE_IMPORT_STATE, &moved).await? == 1)
}

pub(crate) const MISSING_PARENT_ROW: StoreError =
    StoreError::Corrupt("a row has no place, for what it belongs to is missing");
