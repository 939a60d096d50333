//! Reads columns of PostgreSQL rows.

use scrip_core::types::StoreError;
use tokio_postgres::{Row, types::FromSql};
use uuid::Uuid;

use crate::sql::{ColumnReader, MISSING_COLUMNS};

impl ColumnReader for Row {
    fn uuid(&self, index: usize) -> Result<Option<Uuid>, StoreError> {
        read_column(self, index)
    }

    fn number(&self, index: usize) -> Result<Option<i64>, StoreError> {
        read_column(self, index)
    }

    fn text(&self, index: usize) -> Result<Option<&str>, StoreError> {
        read_column(self, index)
    }

    fn bytes(&self, index: usize) -> Result<Option<&[u8]>, StoreError> {
        read_column(self, index)
    }
}

/// Reads a column of a type that only PostgreSQL has.
pub(crate) fn read_column<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, StoreError> {
    row.try_get(index).map_err(|_| MISSING_COLUMNS)
}
