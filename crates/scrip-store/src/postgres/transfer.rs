//! PostgreSQL, row by row, for [moving a vault](crate::transfer).

mod table;

use std::{iter, time::Duration};

use scrip_core::store::{StoreError, StoreFuture};

use crate::{
    postgres::{
        connect::{migrate, settings::PostgresSettings},
        engine::{
            columns::ColumnArrays, error::unavailable, pool::PooledConnection, scope::RowScope,
            statement::SqlValue,
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

/// A vault that nobody serves: nothing keeps nodes from it while it is exported, but that they did
/// is seen.
#[derive(Debug)]
pub struct PostgresTransfer {
    connection: PooledConnection,
}

/// A statement of a move goes through a whole table at most.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// One that reads may take as long as the whole vault does.
const READING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
    SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";
const WRITING: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '5s'; \
    SET LOCAL statement_timeout = '5min'";

impl PostgresTransfer {
    /// # Errors
    /// It cannot be reached, or its schema is not the one that we know.
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

    /// Every transaction of a move begins here. It is about all tenants.
    async fn begin_transaction(&self, begin: &'static str) -> Result<(), StoreError> {
        self.connection
            .batch(&format!("{begin}; {}", RowScope::all_tenants().set_statement()))
            .await
    }

    /// All of it or nothing.
    async fn end_transaction(&self, result: Result<(), StoreError>) -> Result<(), StoreError> {
        let ended = self.connection.batch(if result.is_ok() { "COMMIT" } else { "ROLLBACK" }).await;
        result.and(ended)
    }

    async fn put_portion(&self, portion: &Portion, state: ImportState) -> Result<(), StoreError> {
        // Locks the row, so that another run of the same import waits, and then finds it changed.
        if !advance_import_state(&self.connection, state).await? {
            return Err(StoreError::Corrupt("another import into this vault goes on"));
        }
        self.put_rows(portion).await
    }

    async fn put_rows(&self, portion: &Portion) -> Result<(), StoreError> {
        let (kind, rows) = (portion.kind, &portion.page.rows);
        let table = PostgresTable::for_kind(kind);
        let numbers: Vec<_> = portion.numbers().take(rows.len()).collect();
        let columns = columns(kind.columns().len(), rows).ok_or(MISSING_COLUMNS)?;
        let mut parameters: Vec<_> = columns.iter().map(|it| -> SqlValue<'_> { it }).collect();
        if kind == RowKind::Tokens {
            parameters.push(&numbers);
            self.insert_index_entries(portion).await?;
        }
        // The vault has such a row already, or never had.
        if kind.is_singleton()
            && self.connection.execute_raw(&table.update(kind), &parameters).await? == 1
        {
            return Ok(());
        }
        let put = self.connection.execute_raw(&table.insert(kind), &parameters).await?;
        if put != rows.len() {
            return Err(MISSING_PARENT_ROW);
        }
        Ok(())
    }

    /// The entries by which tokens are found.
    async fn insert_index_entries(&self, portion: &Portion) -> Result<(), StoreError> {
        let mut filed = Vec::new();
        for (number, row) in portion.numbers().zip(&portion.page.rows) {
            let entries = token_entries(row).ok_or(MISSING_COLUMNS)?;
            for (facet, container) in entries.entries {
                let (tenant, at) = (entries.tenant, entries.created_at);
                filed.push(parameters![tenant, facet, container, at, number]);
            }
        }
        let columns = ColumnArrays::from_rows(filed);
        self.connection
            .execute_raw(INSERT_INDEX_ENTRIES, &columns.raw().collect::<Vec<_>>())
            .await
            .map(drop)
    }
}

/// An array for each column; nothing when a row does not have so many.
fn columns(column_count: usize, rows: &[TransferRow]) -> Option<Vec<Vec<Parameter<'_>>>> {
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
-- file_all
INSERT INTO filed (tenant, facet, container, created_at, token)
    SELECT * FROM unnest($1::uuid[], $2::bytea[], $3::text[], $4::bigint[], $5::bigint[])";

const END_IMPORT: &str = "
-- end_import
DELETE FROM import_state WHERE one = 1";

/// Nobody else may use a vault that an import has not left.
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
        u32::try_from(migrate::NEWEST_VERSION).unwrap_or_default()
    }

    fn begin_reading(&mut self) -> StoreFuture<'_, ()> {
        Box::pin(self.begin_transaction(READING))
    }

    fn end_reading(&mut self) -> StoreFuture<'_, ()> {
        Box::pin(self.end_transaction(Ok(())))
    }

    fn count_rows(&mut self, kind: RowKind) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            query_number(&self.connection, &PostgresTable::for_kind(kind).table.count_statement())
                .await
        })
    }

    fn count_index_entries(&mut self) -> StoreFuture<'_, u64> {
        Box::pin(query_number(&self.connection, "-- count_entries\nSELECT count(*) FROM filed"))
    }

    fn read_page<'a>(
        &'a mut self,
        kind: RowKind,
        after: Option<&'a [u8]>,
        bounds: PageBounds,
    ) -> StoreFuture<'a, RowPage> {
        Box::pin(async move {
            read_page(&self.connection, &PostgresTable::for_kind(kind).table, kind, after, bounds)
                .await
        })
    }

    fn find_import_state(&mut self) -> StoreFuture<'_, Option<ImportState>> {
        Box::pin(async move {
            self.begin_transaction(READING).await?;
            let found = find_import_state(&self.connection).await?;
            self.end_transaction(Ok(())).await?;
            Ok(found)
        })
    }

    fn start_import(&mut self, state: ImportState) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.begin_transaction(WRITING).await?;
            let begun = insert_import_state(&self.connection, state).await;
            self.end_transaction(begun).await
        })
    }

    fn write_portion<'a>(
        &'a mut self,
        portion: &'a Portion,
        state: ImportState,
    ) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.begin_transaction(WRITING).await?;
            let put = self.put_portion(portion, state).await;
            self.end_transaction(put).await
        })
    }

    fn complete_import<'a>(&'a mut self, keys: &'a Portion) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.begin_transaction(WRITING).await?;
            let put = self.put_rows(keys).await;
            let ended = match put {
                Ok(()) => self.connection.execute_raw(END_IMPORT, &[]).await.map(drop),
                failed => failed,
            };
            self.end_transaction(ended).await
        })
    }
}
