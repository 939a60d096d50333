//! A row as bytes. Which columns it has is known, so only what is in them is written; and any bytes
//! give a row or nothing.

use scrip_core::store::StoreError;
use uuid::Uuid;

use crate::{
    sql::{ColumnReader, MISSING_COLUMNS, Parameter},
    transfer::kind::{ColumnType, RowColumn},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowValue {
    Null,
    Id(Uuid),
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// One value for each column.
pub type TransferRow = Vec<RowValue>;

impl RowValue {
    pub(crate) fn id(&self) -> Option<Uuid> {
        if let Self::Id(id) = self { Some(*id) } else { None }
    }
}

impl ColumnReader for TransferRow {
    fn uuid(&self, at: usize) -> Result<Option<Uuid>, StoreError> {
        read_column(self, at, |it| if let RowValue::Id(id) = it { Some(*id) } else { None })
    }

    fn number(&self, at: usize) -> Result<Option<i64>, StoreError> {
        read_column(
            self,
            at,
            |it| if let RowValue::Number(number) = it { Some(*number) } else { None },
        )
    }

    fn text(&self, at: usize) -> Result<Option<&str>, StoreError> {
        read_column(self, at, |it| {
            if let RowValue::Text(text) = it { Some(text.as_str()) } else { None }
        })
    }

    fn bytes(&self, at: usize) -> Result<Option<&[u8]>, StoreError> {
        read_column(
            self,
            at,
            |it| if let RowValue::Bytes(bytes) = it { Some(&**bytes) } else { None },
        )
    }
}

/// What a column holds, if it is of this form or empty.
fn read_column<'a, T>(
    row: &'a TransferRow,
    at: usize,
    convert: impl FnOnce(&'a RowValue) -> Option<T>,
) -> Result<Option<T>, StoreError> {
    match row.get(at) {
        None => Err(MISSING_COLUMNS),
        Some(RowValue::Null) => Ok(None),
        Some(value) => convert(value).map(Some).ok_or(MISSING_COLUMNS),
    }
}

impl<'a> From<&'a RowValue> for Parameter<'a> {
    fn from(value: &'a RowValue) -> Self {
        match value {
            RowValue::Null => Parameter::Null,
            RowValue::Id(id) => Parameter::from(*id),
            RowValue::Number(number) => Parameter::from(*number),
            RowValue::Text(text) => Parameter::from(text),
            RowValue::Bytes(bytes) => Parameter::from(bytes),
        }
    }
}

/// Nothing when the row does not have these columns.
pub(crate) fn encode_row(columns: &[RowColumn], row: &[RowValue], to: &mut Vec<u8>) -> Option<()> {
    if row.len() != columns.len() {
        return None;
    }
    for (column, value) in columns.iter().zip(row) {
        if column.is_optional {
            let is_there = *value != RowValue::Null;
            to.push(u8::from(is_there));
            if !is_there {
                continue;
            }
        }
        match (column.column_type, value) {
            (ColumnType::Id, RowValue::Id(id)) => to.extend_from_slice(id.as_bytes()),
            (ColumnType::Number, RowValue::Number(number)) => {
                to.extend_from_slice(&number.to_be_bytes())
            }
            (ColumnType::Text, RowValue::Text(text)) => put_bytes(to, text.as_bytes())?,
            (ColumnType::Bytes, RowValue::Bytes(bytes)) => put_bytes(to, bytes)?,
            (ColumnType::Id | ColumnType::Number | ColumnType::Text | ColumnType::Bytes, _) => {
                return None;
            }
        }
    }
    Some(())
}

pub(super) fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    to.extend_from_slice(&u32::try_from(bytes.len()).ok()?.to_be_bytes());
    to.extend_from_slice(bytes);
    Some(())
}

/// Takes a row from the front; nothing when there is none of these columns.
pub(crate) fn decode_row(columns: &[RowColumn], from: &mut &[u8]) -> Option<TransferRow> {
    columns.iter().map(|column| take_value(*column, from)).collect()
}

fn take_value(column: RowColumn, from: &mut &[u8]) -> Option<RowValue> {
    if column.is_optional {
        match take_array::<1>(from)? {
            [0] => return Some(RowValue::Null),
            [1] => (),
            [_] => return None,
        }
    }
    Some(match column.column_type {
        ColumnType::Id => RowValue::Id(Uuid::from_bytes(take_array(from)?)),
        ColumnType::Number => RowValue::Number(i64::from_be_bytes(take_array(from)?)),
        ColumnType::Text => RowValue::Text(str::from_utf8(take_bytes(from)?).ok()?.to_owned()),
        ColumnType::Bytes => RowValue::Bytes(take_bytes(from)?.to_owned()),
    })
}

pub(super) fn take_array<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*taken)
}

pub(super) fn take_bytes<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(u32::from_be_bytes(take_array(from)?)).ok()?;
    let (taken, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(taken)
}
