//! Rows of PostgreSQL.

use scrip_core::store::StoreError;
use tokio_postgres::{Row, types::FromSql};
use uuid::Uuid;

use crate::sql::{ColumnReader, MISSING_COLUMNS};

impl ColumnReader for Row {
    fn uuid(&self, at: usize) -> Result<Option<Uuid>, StoreError> {
        column(self, at)
    }

    fn number(&self, at: usize) -> Result<Option<i64>, StoreError> {
        column(self, at)
    }

    fn text(&self, at: usize) -> Result<Option<&str>, StoreError> {
        column(self, at)
    }

    fn bytes(&self, at: usize) -> Result<Option<&[u8]>, StoreError> {
        column(self, at)
    }
}

/// Of a type that only this engine has.
pub(crate) fn column<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, StoreError> {
    row.try_get(at).map_err(|_| MISSING_COLUMNS)
}
