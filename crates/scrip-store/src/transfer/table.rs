//! Tables of each kind of row, and the order in which an engine reads them, which an index must
//! support.

use scrip_core::{
    policy::entity::{Column, ColumnType, RowValue},
    types::StoreError,
};

use crate::{
    sql::{
        ColumnReader, Execute, MISSING_COLUMNS, Parameter, Statements, parameters, read_required,
    },
    transfer::{
        ImportState, PageBounds, RowPage,
        kind::RowKind,
        row::{TransferRow, decode_row, encode_row},
    },
};

/// The table of a kind of row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransferTable {
    pub(crate) name: &'static str,
    /// The columns that define the order of the rows.
    pub(crate) key: &'static [Column],
    /// Where the rows are read from, if the table alone does not contain all columns of the kind.
    source: Option<RowSource>,
    /// SQL condition that selects the rows of this kind. The table may also have other rows.
    condition: &'static str,
}

/// A join from which the rows of a kind are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowSource {
    /// The FROM clause.
    pub(crate) from: &'static str,
    /// The columns of the kind, in its order.
    pub(crate) columns: &'static str,
}

pub(crate) const fn key_column(name: &'static str, column_type: ColumnType) -> Column {
    Column::new(name, column_type).key()
}

/// The columns of a key with their types.
macro_rules! key {
    ($($column_type:ident $name:literal),*) => {
        const { &[$($crate::transfer::table::key_column(
            $name,
            scrip_core::policy::entity::ColumnType::$column_type,
        )),*] }
    };
}
pub(crate) use key;

impl TransferTable {
    pub(crate) const fn new(name: &'static str, key: &'static [Column]) -> Self {
        Self { name, key, source: None, condition: "true" }
    }

    /// The table of a kind whose name and key are the same in both engines.
    pub(crate) fn shared(kind: RowKind) -> Option<Self> {
        if let Some(entity) = kind.entity() {
            return Some(Self::new(entity.table, entity.key()));
        }
        let key: &'static [Column] = if kind == RowKind::TenantKeys {
            key!(Id "tenant", Number "version")
        } else if kind == RowKind::PermanentKeys {
            key!(Id "tenant")
        } else if [RowKind::DeletedTenants, RowKind::Unlocks].contains(&kind) {
            key!(Id "id")
        } else if kind == RowKind::UsageTypes {
            key!(Id "tenant", Text "type")
        } else if kind == RowKind::Deliveries {
            key!(Id "tenant", Id "webhook", Id "event")
        } else if kind == RowKind::Guesses {
            key!(Id "tenant", Bytes "bucket", Bytes "number_digest")
        } else if kind == RowKind::SystemKeys {
            key!(Text "name")
        } else {
            return None;
        };
        Some(Self::new(kind.name(), key))
    }

    pub(crate) const fn with_source(self, source: RowSource) -> Self {
        Self { source: Some(source), ..self }
    }

    pub(crate) const fn with_condition(self, condition: &'static str) -> Self {
        Self { condition, ..self }
    }

    /// Selects the columns of the key, then those of the kind. `position` is the number of columns of
    /// the last row of the previous page.
    fn list_statement(&self, kind: RowKind, position: Option<usize>, rows_max: usize) -> String {
        let kind_columns = column_names(kind.columns());
        let (source, columns) = match self.source {
            Some(it) => (it.from, it.columns),
            None => (self.name, kind_columns.as_str()),
        };
        let (key, condition, name) = (column_names(self.key), self.condition, kind.name());
        let position_condition =
            position.map(|it| format!(" AND ({key}) > ({})", parameter_list(it)));
        let position_condition = position_condition.unwrap_or_default();
        format!(
            "-- list_{name}\nSELECT {key}, {columns} FROM {source} \
             WHERE {condition}{position_condition} ORDER BY {key} LIMIT {rows_max}"
        )
    }

    #[cfg(test)]
    pub(crate) fn list_after_first(&self, kind: RowKind) -> String {
        self.list_statement(kind, Some(self.key.len()), 512)
    }

    pub(crate) fn count_statement(&self) -> String {
        format!("-- count_rows\nSELECT count(*) FROM {} WHERE {}", self.name, self.condition)
    }
}

pub(crate) fn column_names(columns: &[Column]) -> String {
    columns.iter().map(|it| it.name).collect::<Vec<_>>().join(", ")
}

pub(crate) fn parameter_list(count: usize) -> String {
    (1..=count).map(|it| format!("${it}")).collect::<Vec<_>>().join(", ")
}

const INVALID_POSITION: StoreError =
    StoreError::Corrupt("a position in the rows cannot be decoded");

/// Reads the next rows after a position.
pub(crate) async fn read_page(
    client: &impl Statements,
    table: &TransferTable,
    kind: RowKind,
    after: Option<&[u8]>,
    bounds: PageBounds,
) -> Result<RowPage, StoreError> {
    let key = table.key;
    let after = after.map(|mut it| decode_row(key, &mut it).ok_or(INVALID_POSITION)).transpose()?;
    let sql = table.list_statement(kind, after.as_ref().map(Vec::len), bounds.rows_max);
    let parameters = after.map(key_parameters).unwrap_or_default();
    let decode = |row: &dyn ColumnReader| decode_values(row, key, kind);
    let rows = client.query(&sql, &parameters, decode).await?;
    let (mut page, mut bytes) = (RowPage::default(), 0_usize);
    for KeyedRow { key: position, row } in rows {
        page.position.clear();
        encode_row(key, &position, &mut page.position).ok_or(MISSING_COLUMNS)?;
        bytes = bytes.saturating_add(row.iter().map(value_length).fold(0, usize::saturating_add));
        page.rows.push(row);
        if bytes >= bounds.bytes_max {
            break;
        }
    }
    Ok(page)
}

fn key_parameters(position: TransferRow) -> Vec<Parameter<'static>> {
    position.into_iter().map(Parameter::from).collect()
}

/// The values of the columns of the key, and those of the kind.
struct KeyedRow {
    key: TransferRow,
    row: TransferRow,
}

/// Decodes the columns of the key, then those of the kind.
fn decode_values(
    row: &dyn ColumnReader,
    key: &[Column],
    kind: RowKind,
) -> Result<KeyedRow, StoreError> {
    let columns = key.iter().chain(kind.columns()).enumerate();
    let values = columns.map(|(index, column)| read_value(row, index, column.column_type));
    let mut values: TransferRow = values.collect::<Result<_, _>>()?;
    let row = values.split_off(key.len());
    Ok(KeyedRow { key: values, row })
}

/// Reads a column as a value of its type.
fn read_value(
    row: &dyn ColumnReader,
    index: usize,
    column_type: ColumnType,
) -> Result<RowValue<'static>, StoreError> {
    Ok(match column_type {
        ColumnType::Id => row.uuid(index)?.into(),
        ColumnType::Number => row.number(index)?.into(),
        ColumnType::Text => row.text(index)?.map(str::to_owned).into(),
        ColumnType::Bytes => match row.bytes(index)? {
            Some(bytes) => RowValue::Bytes(bytes.to_owned().into()),
            None => RowValue::Null,
        },
    })
}

/// Returns the approximate size of a value in bytes.
fn value_length(value: &RowValue<'_>) -> usize {
    match value {
        RowValue::Null => 1,
        RowValue::Id(_) | RowValue::Number(_) => 16,
        RowValue::Text(text) => text.len(),
        RowValue::Bytes(bytes) => bytes.len(),
    }
}

const FIND_IMPORT_STATE: &str = "
-- find_import_state
SELECT file_checksum, portions, checksum FROM import_state WHERE singleton = 1";

/// Reads the state of an unfinished import.
pub(crate) async fn find_import_state(
    client: &impl Statements,
) -> Result<Option<ImportState>, StoreError> {
    let decode_state = |row: &dyn ColumnReader| {
        let portions = read_required::<i64>(row, 1)?.unsigned_abs();
        let (file_checksum, checksum) = (read_required(row, 0)?, read_required(row, 2)?);
        Ok(ImportState { file_checksum, portions, checksum })
    };
    client.find(FIND_IMPORT_STATE, &[], decode_state).await
}

const INSERT_IMPORT_STATE: &str = "
-- insert_import_state
INSERT INTO import_state (singleton, file_checksum, portions, checksum) VALUES (1, $1, 0, $2)";

pub(crate) async fn insert_import_state(
    client: &impl Execute,
    state: ImportState,
) -> Result<(), StoreError> {
    client
        .execute(INSERT_IMPORT_STATE, &parameters![&state.file_checksum, &state.checksum])
        .await
        .map(drop)
}

const ADVANCE_IMPORT_STATE: &str = "
-- advance_import_state
UPDATE import_state SET portions = CAST($1 AS bigint), checksum = $2
WHERE file_checksum = $3 AND portions = CAST($1 AS bigint) - 1";

/// Stores the state after one more portion. Returns false if the stored state is not the one of the
/// portion before.
pub(crate) async fn advance_import_state(
    client: &impl Execute,
    state: ImportState,
) -> Result<bool, StoreError> {
    let parameters = parameters![state.portions, &state.checksum, &state.file_checksum];
    Ok(client.execute(ADVANCE_IMPORT_STATE, &parameters).await? == 1)
}

pub(crate) const MISSING_PARENT_ROW: StoreError =
    StoreError::Corrupt("a row refers to a missing row");
