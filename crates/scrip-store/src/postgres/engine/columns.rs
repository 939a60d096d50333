//! Many rows for one statement: an array per column.

use crate::{postgres::engine::statement::SqlValue, sql::Parameter};

/// The values of many rows: an array per column.
#[derive(Debug)]
pub(crate) struct ColumnArrays<'a, const N: usize>([Vec<Parameter<'a>>; N]);

impl<'a, const N: usize> ColumnArrays<'a, N> {
    pub(crate) fn from_rows(rows: impl IntoIterator<Item = [Parameter<'a>; N]>) -> Self {
        let mut columns = std::array::from_fn(|_| Vec::new());
        for row in rows {
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        Self(columns)
    }

    /// Returns the arrays as parameters for the PostgreSQL driver.
    pub(crate) fn driver_parameters(&self) -> impl Iterator<Item = SqlValue<'_>> {
        self.0.iter().map(|it| -> SqlValue<'_> { it })
    }
}
