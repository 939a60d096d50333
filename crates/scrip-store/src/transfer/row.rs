//! Encodes a row as bytes and decodes it. The row kind determines the columns, so only the values
//! are written. Decoding never panics.

use scrip_core::{
    policy::entity::{Column, ColumnType, RowValue},
    types::StoreError,
};
use uuid::Uuid;

use crate::sql::{ColumnReader, MISSING_COLUMNS};

/// One value per column.
pub type TransferRow = Vec<RowValue<'static>>;

impl ColumnReader for TransferRow {
    fn uuid(&self, index: usize) -> Result<Option<Uuid>, StoreError> {
        read_column(self, index, |it| if let RowValue::Id(id) = it { Some(*id) } else { None })
    }

    fn number(&self, index: usize) -> Result<Option<i64>, StoreError> {
        read_column(self, index, |it| {
            if let RowValue::Number(number) = it { Some(*number) } else { None }
        })
    }

    fn text(&self, index: usize) -> Result<Option<&str>, StoreError> {
        read_column(self, index, |it| {
            if let RowValue::Text(text) = it { Some(text.as_ref()) } else { None }
        })
    }

    fn bytes(&self, index: usize) -> Result<Option<&[u8]>, StoreError> {
        read_column(self, index, |it| {
            if let RowValue::Bytes(bytes) = it { Some(bytes.as_ref()) } else { None }
        })
    }
}

/// Reads a column of this type; NULL is `None`.
fn read_column<'a, T>(
    row: &'a TransferRow,
    index: usize,
    convert: impl FnOnce(&'a RowValue<'static>) -> Option<T>,
) -> Result<Option<T>, StoreError> {
    match row.get(index) {
        None => Err(MISSING_COLUMNS),
        Some(RowValue::Null) => Ok(None),
        Some(value) => convert(value).map(Some).ok_or(MISSING_COLUMNS),
    }
}

/// Appends a row to the output; `None` if the row does not have these columns.
pub(crate) fn encode_row(
    columns: &[Column],
    row: &[RowValue<'_>],
    output: &mut Vec<u8>,
) -> Option<()> {
    if row.len() != columns.len() {
        return None;
    }
    for (column, value) in columns.iter().zip(row) {
        if column.is_optional {
            let is_present = *value != RowValue::Null;
            output.push(u8::from(is_present));
            if !is_present {
                continue;
            }
        }
        match (column.column_type, value) {
            (ColumnType::Id, RowValue::Id(id)) => output.extend_from_slice(id.as_bytes()),
            (ColumnType::Number, RowValue::Number(number)) => {
                output.extend_from_slice(&number.to_be_bytes())
            }
            (ColumnType::Text, RowValue::Text(text)) => put_bytes(output, text.as_bytes())?,
            (ColumnType::Bytes, RowValue::Bytes(bytes)) => put_bytes(output, bytes)?,
            (ColumnType::Id | ColumnType::Number | ColumnType::Text | ColumnType::Bytes, _) => {
                return None;
            }
        }
    }
    Some(())
}

/// Appends bytes with a length prefix.
pub(super) fn put_bytes(output: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    output.extend_from_slice(&u32::try_from(bytes.len()).ok()?.to_be_bytes());
    output.extend_from_slice(bytes);
    Some(())
}

/// Decodes a row from the front of the input; `None` if it does not have these columns.
pub(crate) fn decode_row(columns: &[Column], input: &mut &[u8]) -> Option<TransferRow> {
    columns.iter().map(|column| take_value(*column, input)).collect()
}

fn take_value(column: Column, input: &mut &[u8]) -> Option<RowValue<'static>> {
    if column.is_optional {
        match take_array::<1>(input)? {
            [0] => return Some(RowValue::Null),
            [1] => (),
            [_] => return None,
        }
    }
    Some(match column.column_type {
        ColumnType::Id => RowValue::Id(Uuid::from_bytes(take_array(input)?)),
        ColumnType::Number => RowValue::Number(i64::from_be_bytes(take_array(input)?)),
        ColumnType::Text => RowValue::from(str::from_utf8(take_bytes(input)?).ok()?.to_owned()),
        ColumnType::Bytes => RowValue::Bytes(take_bytes(input)?.to_owned().into()),
    })
}

/// Removes an array from the front of the input.
pub(super) fn take_array<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (array, remaining) = input.split_first_chunk()?;
    *input = remaining;
    Some(*array)
}

/// Removes bytes with a length prefix from the front of the input.
pub(super) fn take_bytes<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(u32::from_be_bytes(take_array(input)?)).ok()?;
    let (bytes, remaining) = input.split_at_checked(length)?;
    *input = remaining;
    Some(bytes)
}
