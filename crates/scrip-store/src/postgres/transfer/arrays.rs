//! Rows as the engine takes many at once: an array for each column.

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::transfer::Column;
use crate::transfer::Form;
use crate::transfer::Row;
use crate::transfer::Value;

/// Of a column, for all rows.
#[derive(Debug)]
pub(crate) enum Array {
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

    pub(crate) fn parameter(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Ids(all) => all,
            Self::Numbers(all) => all,
            Self::Texts(all) => all,
            Self::Bytes(all) => all,
        }
    }
}

/// Nothing when a row does not have these columns.
pub(crate) fn arrays(columns: &[Column], rows: &[Row]) -> Option<Vec<Array>> {
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
