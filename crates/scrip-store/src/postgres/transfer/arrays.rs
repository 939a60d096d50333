//! Rows as the engine takes many at once: an array for each column.

use scrip_core::store::StoreError;
use tokio_postgres::{Row as Found, types::ToSql};
use uuid::Uuid;

use crate::{
    postgres::row::column,
    transfer::{Column, Form, Row, Value},
};

/// Of a column, for all rows.
#[derive(Debug)]
pub(super) enum Array {
    Ids(Vec<Option<Uuid>>),
    Numbers(Vec<Option<i64>>),
    Texts(Vec<Option<String>>),
    Bytes(Vec<Option<Vec<u8>>>),
}

impl Array {
    fn new(form: Form) -> Self {
        match form {
            Form::Id => Self::Ids(Vec::new()),
            Form::Number => Self::Numbers(Vec::new()),
            Form::Text => Self::Texts(Vec::new()),
            Form::Bytes => Self::Bytes(Vec::new()),
        }
    }

    /// Nothing when the value is of another form.
    fn push(&mut self, value: &Value) -> Option<()> {
        match (self, value) {
            (Self::Ids(all), Value::Nothing) => all.push(None),
            (Self::Numbers(all), Value::Nothing) => all.push(None),
            (Self::Texts(all), Value::Nothing) => all.push(None),
            (Self::Bytes(all), Value::Nothing) => all.push(None),
            (Self::Ids(all), Value::Id(id)) => all.push(Some(*id)),
            (Self::Numbers(all), Value::Number(number)) => all.push(Some(*number)),
            (Self::Texts(all), Value::Text(text)) => all.push(Some(text.clone())),
            (Self::Bytes(all), Value::Bytes(bytes)) => all.push(Some(bytes.clone())),
            (Self::Ids(_) | Self::Numbers(_) | Self::Texts(_) | Self::Bytes(_), _) => return None,
        }
        Some(())
    }

    pub(super) fn parameter(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Ids(all) => all,
            Self::Numbers(all) => all,
            Self::Texts(all) => all,
            Self::Bytes(all) => all,
        }
    }
}

/// Nothing when a row does not have these columns.
pub(super) fn arrays(columns: &[Column], rows: &[Row]) -> Option<Vec<Array>> {
    let mut arrays: Vec<_> = columns.iter().map(|it| Array::new(it.form)).collect();
    for row in rows {
        if row.len() != arrays.len() {
            return None;
        }
        for (array, value) in arrays.iter_mut().zip(row) {
            array.push(value)?;
        }
    }
    Some(arrays)
}

/// What stands in a column.
pub(super) fn value(row: &Found, at: usize, form: Form) -> Result<Value, StoreError> {
    let value = match form {
        Form::Id => column::<Option<Uuid>>(row, at)?.map(Value::Id),
        Form::Number => column::<Option<i64>>(row, at)?.map(Value::Number),
        Form::Text => column::<Option<String>>(row, at)?.map(Value::Text),
        Form::Bytes => column::<Option<Vec<u8>>>(row, at)?.map(Value::Bytes),
    };
    Ok(value.unwrap_or(Value::Nothing))
}
