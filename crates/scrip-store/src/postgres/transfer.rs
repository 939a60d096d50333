//! Row-by-row access to PostgreSQL for the [export and import of a vault](crate::transfer).

pub(crate) mod table;

use std::{iter, time::Duration};

use scrip_core::types::{StoreError, StoreFuture};

use crate::{
    postgres::{
        connect::{migrate, settings::PostgresSettings},
        engine::{
            error::unavailable,
            pool::PooledConnection,
            scope::RowScope,
            statement::{RowStatement, SqlValue},
        },
        transfer::table::PostgresTable,
    },
    shared::status::query_number,
    sql::{MISSING_COLUMNS, Parameter, parameters},
    transfer::{
        ImportState, PageBounds, Portion, RowKind, RowPage, TransferEngine, TransferRow,
        UNFINISHED_IMPORT,
        table::{
            MISSING_PARENT_ROW, advance_import_state, find_import_state, insert_import_state,
            read_page,
        },
        token_entries,
    },
};

/// Transfers a vault that must not be in use. An export does not lock out nodes, but detects their
/// changes.
#[derive(Debug)]
pub struct PostgresTransfer {
    connection: PooledConnection,
}

/// Long enough for a statement that scans a whole table.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// A read transaction may last as long as the whole export.
const BEGIN_READING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
    SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";
const BEGIN_WRITING: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '5s'; \
    SET LOCAL statement_timeout = '5min'";

impl PostgresTransfer {
    /// Connects to a database.
    /// Errors: the database is unreachable, or this program does not support its schema version.
    pub async fn open(settings: PostgresSettings) -> Result<Self, StoreError> {
        let mut connection = settings.with_connections(1).pool()?.acquire().await?;
        connection.raise_response_timeout(RESPONSE_TIMEOUT);
        let version = migrate::schema_version(connection.client()?);
        match connection.with_timeout(version).await?? {
            Some(version) => migrate::check_version(version)?,
            None => return Err(unavailable("this database has no schema; run: scrip migrate")),
        }
        Ok(Self { connection })
    }

    /// Begins a transaction in the scope of all tenants. Every transaction of a transfer starts
    /// here.
    async fn begin_transaction(&self, begin: &'static str) -> Result<(), StoreError> {
        self.connection
            .batch(&format!("{begin}; {}", RowScope::all_tenants().set_statement()))
            .await
    }

    /// Commits if the result is `Ok`, otherwise rolls back.
    async fn end_transaction(&self, result: Result<(), StoreError>) -> Result<(), StoreError> {
        let end_result =
            self.connection.batch(if result.is_ok() { "COMMIT" } else { "ROLLBACK" }).await;
        result.and(end_result)
    }

    async fn put_portion(&self, portion: &Portion, state: ImportState) -> Result<(), StoreError> {
        // Locks the row. A concurrent run of the same import waits and then finds the state
        // changed.
        if !advance_import_state(&self.connection, state).await? {
            return Err(StoreError::Corrupt("another import into this vault is running"));
        }
        self.put_rows(portion).await
    }

    async fn put_rows(&self, portion: &Portion) -> Result<(), StoreError> {
        let (kind, rows) = (portion.kind, &portion.page.rows);
        let Some(table) = PostgresTable::for_kind(kind) else { return Ok(()) };
        let numbers: Vec<_> = portion.token_numbers().take(rows.len()).collect();
        let column_arrays =
            build_column_arrays(kind.columns().len(), rows).ok_or(MISSING_COLUMNS)?;
        let mut parameters: Vec<_> =
            column_arrays.iter().map(|it| -> SqlValue<'_> { it }).collect();
        if kind == RowKind::Tokens {
            parameters.push(&numbers);
            self.insert_index_entries(portion).await?;
        }
        // An empty vault may already have the row.
        if kind.is_singleton()
            && self.connection.execute_raw(&table.update_statement(kind), &parameters).await? == 1
        {
            return Ok(());
        }
        let inserted =
            self.connection.execute_raw(&table.insert_statement(kind), &parameters).await?;
        if inserted != rows.len() {
            return Err(MISSING_PARENT_ROW);
        }
        Ok(())
    }

    /// Inserts the entries of the token index.
    async fn insert_index_entries(&self, portion: &Portion) -> Result<(), StoreError> {
        let mut index_rows = Vec::new();
        for (number, row) in portion.token_numbers().zip(&portion.page.rows) {
            let entries = token_entries(row).ok_or(MISSING_COLUMNS)?;
            for (facet, container) in entries.entries {
                let (tenant, created_at) = (entries.tenant, entries.created_at);
                index_rows.push(parameters![tenant, facet, container, created_at, number]);
            }
        }
        let insert = RowStatement::new(INSERT_INDEX_ENTRIES, []).columns(index_rows);
        self.connection.execute_raw(insert.sql, &insert.driver_parameters()).await.map(drop)
    }
}

/// Converts rows to an array per column; `None` if a row has another number of columns.
fn build_column_arrays(
    column_count: usize,
    rows: &[TransferRow],
) -> Option<Vec<Vec<Parameter<'_>>>> {
    let mut columns: Vec<_> = iter::repeat_with(Vec::new).take(column_count).collect();
    for row in rows {
        if row.len() != column_count {
            return None;
        }
        columns.iter_mut().zip(row).for_each(|(column, value)| column.push(Parameter::from(value)));
    }
    Some(columns)
}

const INSERT_INDEX_ENTRIES: &str = "
-- import_index_entries
INSERT INTO token_index (tenant, facet, container, created_at, token)
    SELECT * FROM unnest($1::uuid[], $2::bytea[], $3::text[], $4::bigint[], $5::bigint[])";

const END_IMPORT: &str = "
-- end_import
DELETE FROM import_state WHERE singleton = 1";

/// Fails if an import into this vault is unfinished.
pub(super) async fn check_no_unfinished_import(
    connection: &PooledConnection,
) -> Result<(), StoreError> {
    match find_import_state(connection).await? {
        None => Ok(()),
        Some(_) => Err(unavailable(UNFINISHED_IMPORT)),
    }
}

impl TransferEngine for PostgresTransfer {
    fn engine(&self) -> &'static str {
        "PostgreSQL"
    }

    fn schema(&self) -> u32 {
        u32::try_from(migrate::newest_version()).unwrap_or_default()
    }

    fn begin_reading(&mut self) -> StoreFuture<'_, ()> {
        Box::pin(self.begin_transaction(BEGIN_READING))
    }

    fn end_reading(&mut self) -> StoreFuture<'_, ()> {
        Box::pin(self.end_transaction(Ok(())))
    }

    fn count_rows(&mut self, kind: RowKind) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            let Some(table) = PostgresTable::for_kind(kind) else { return Ok(0) };
            query_number(&self.connection, &table.table.count_statement(), &[]).await
        })
    }

    fn count_index_entries(&mut self) -> StoreFuture<'_, u64> {
        Box::pin(query_number(
            &self.connection,
            "-- count_index_entries\nSELECT count(*) FROM token_index",
            &[],
        ))
    }

    fn read_page<'a>(
        &'a mut self,
        kind: RowKind,
        after: Option<&'a [u8]>,
        bounds: PageBounds,
    ) -> StoreFuture<'a, RowPage> {
        Box::pin(async move {
            let Some(table) = PostgresTable::for_kind(kind) else { return Ok(RowPage::default()) };
            read_page(&self.connection, &table.table, kind, after, bounds).await
        })
    }

    fn find_import_state(&mut self) -> StoreFuture<'_, Option<ImportState>> {
        Box::pin(async move {
            self.begin_transaction(BEGIN_READING).await?;
            let state = find_import_state(&self.connection).await?;
            self.end_transaction(Ok(())).await?;
            Ok(state)
        })
    }

    fn start_import(&mut self, state: ImportState) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.begin_transaction(BEGIN_WRITING).await?;
            let result = insert_import_state(&self.connection, state).await;
            self.end_transaction(result).await
        })
    }

    fn write_portion<'a>(
        &'a mut self,
        portion: &'a Portion,
        state: ImportState,
    ) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.begin_transaction(BEGIN_WRITING).await?;
            let result = self.put_portion(portion, state).await;
            self.end_transaction(result).await
        })
    }

    fn complete_import<'a>(&'a mut self, keys: &'a Portion) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.begin_transaction(BEGIN_WRITING).await?;
            let result = match self.put_rows(keys).await {
                Ok(()) => self.connection.execute_raw(END_IMPORT, &[]).await.map(drop),
                Err(error) => Err(error),
            };
            self.end_transaction(result).await
        })
    }
}
