//! A row as bytes. Which columns it has is known, so only what is in them is written; and any bytes
//! give a row or nothing.

use scrip_core::store::StoreError;
use uuid::Uuid;

use crate::{
    sql::{ColumnReader, MISSING_COLUMNS, Parameter},
    transfer::kind::{Column, Form},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Nothing,
    Id(Uuid),
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// One value for each column.
pub type Row = Vec<Value>;

impl Value {
    pub(crate) fn id(&self) -> Option<Uuid> {
        if let Self::Id(id) = self { Some(*id) } else { None }
    }
}

impl ColumnReader for Row {
    fn uuid(&self, at: usize) -> Result<Option<Uuid>, StoreError> {
        column(self, at, |it| if let Value::Id(id) = it { Some(*id) } else { None })
    }

    fn number(&self, at: usize) -> Result<Option<i64>, StoreError> {
        column(self, at, |it| if let Value::Number(number) = it { Some(*number) } else { None })
    }

    fn text(&self, at: usize) -> Result<Option<&str>, StoreError> {
        column(self, at, |it| if let Value::Text(text) = it { Some(text.as_str()) } else { None })
    }

    fn bytes(&self, at: usize) -> Result<Option<&[u8]>, StoreError> {
        column(self, at, |it| if let Value::Bytes(bytes) = it { Some(&**bytes) } else { None })
    }
}

/// What a column holds, if it is of this form or empty.
fn column<'a, T>(
    row: &'a Row,
    at: usize,
    of_form: impl FnOnce(&'a Value) -> Option<T>,
) -> Result<Option<T>, StoreError> {
    match row.get(at) {
        None => Err(MISSING_COLUMNS),
        Some(Value::Nothing) => Ok(None),
        Some(value) => of_form(value).map(Some).ok_or(MISSING_COLUMNS),
    }
}

impl<'a> From<&'a Value> for Parameter<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Nothing => Parameter::Null,
            Value::Id(id) => Parameter::from(*id),
            Value::Number(number) => Parameter::from(*number),
            Value::Text(text) => Parameter::from(text),
            Value::Bytes(bytes) => Parameter::from(bytes),
        }
    }
}

/// Nothing when the row does not have these columns.
pub(crate) fn encode(columns: &[Column], row: &[Value], to: &mut Vec<u8>) -> Option<()> {
    if row.len() != columns.len() {
        return None;
    }
    for (column, value) in columns.iter().zip(row) {
        if column.is_optional {
            let is_there = *value != Value::Nothing;
            to.push(u8::from(is_there));
            if !is_there {
                continue;
            }
        }
        match (column.form, value) {
            (Form::Id, Value::Id(id)) => to.extend_from_slice(id.as_bytes()),
            (Form::Number, Value::Number(number)) => to.extend_from_slice(&number.to_be_bytes()),
            (Form::Text, Value::Text(text)) => put_bytes(to, text.as_bytes())?,
            (Form::Bytes, Value::Bytes(bytes)) => put_bytes(to, bytes)?,
            (Form::Id | Form::Number | Form::Text | Form::Bytes, _) => return None,
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
pub(crate) fn decode(columns: &[Column], from: &mut &[u8]) -> Option<Row> {
    columns.iter().map(|column| take_value(*column, from)).collect()
}

fn take_value(column: Column, from: &mut &[u8]) -> Option<Value> {
    if column.is_optional {
        match take::<1>(from)? {
            [0] => return Some(Value::Nothing),
            [1] => (),
            [_] => return None,
        }
    }
    Some(match column.form {
        Form::Id => Value::Id(Uuid::from_bytes(take(from)?)),
        Form::Number => Value::Number(i64::from_be_bytes(take(from)?)),
        Form::Text => Value::Text(str::from_utf8(take_bytes(from)?).ok()?.to_owned()),
        Form::Bytes => Value::Bytes(take_bytes(from)?.to_owned()),
    })
}

pub(super) fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*taken)
}

pub(super) fn take_bytes<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(u32::from_be_bytes(take(from)?)).ok()?;
    let (taken, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(taken)
}
