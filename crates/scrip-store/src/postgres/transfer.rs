//! PostgreSQL, row by row, for [moving a vault](crate::transfer).

mod table;

use std::{iter, time::Duration};

use scrip_core::store::{StoreError, StoreFuture};

use crate::{
    postgres::{
        connect::{migrate, settings::PostgresSettings},
        engine::{
            columns::Columns, fault::unavailable, pool::Held, scope::Scope, statement::SqlValue,
        },
        transfer::table::StoredTable,
    },
    rules::status::find_number,
    sql::{MISSING_COLUMNS, Parameter, parameters},
    transfer::{
        Bounds, Kind, Page, Portion, Row, Rows, State, UNFINISHED_IMPORT, entries,
        table::{NO_PLACE, begin_state, find_state, move_state, read_page},
    },
};

/// A vault that nobody serves: nothing keeps nodes from it while it is exported, but that they did
/// is seen.
#[derive(Debug)]
pub struct PostgresRows {
    held: Held,
}

/// A statement of a move goes through a whole table at most.
const ANSWER_MAX: Duration = Duration::from_secs(60 * 60);

/// One that reads may take as long as the whole vault does.
const READING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
    SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";
const WRITING: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '5s'; \
    SET LOCAL statement_timeout = '5min'";

impl PostgresRows {
    /// # Errors
    /// It cannot be reached, or its schema is not the one that we know.
    pub async fn open(settings: PostgresSettings) -> Result<Self, StoreError> {
        let mut held = settings.connections(1).pool()?.hold().await?;
        held.wait_for(ANSWER_MAX);
        let version = migrate::schema_version(held.client()?);
        match held.in_time(version).await?? {
            Some(version) => migrate::check(version)?,
            None => return Err(unavailable("this database has no schema; run: scrip migrate")),
        }
        Ok(Self { held })
    }

    /// Every transaction of a move begins here. It is about all tenants.
    async fn begin_transaction(&self, begin: &'static str) -> Result<(), StoreError> {
        self.held.batch(&format!("{begin}; {}", Scope::every_tenant().set())).await
    }

    /// All of it or nothing.
    async fn end_transaction(&self, worked: Result<(), StoreError>) -> Result<(), StoreError> {
        let ended = self.held.batch(if worked.is_ok() { "COMMIT" } else { "ROLLBACK" }).await;
        worked.and(ended)
    }

    async fn put_portion(&self, portion: &Portion, state: State) -> Result<(), StoreError> {
        // Locks the row, so that another run of the same import waits, and then finds it changed.
        if !move_state(&self.held, state).await? {
            return Err(StoreError::Corrupt("another import into this vault goes on"));
        }
        self.put_rows(portion).await
    }

    async fn put_rows(&self, portion: &Portion) -> Result<(), StoreError> {
        let (kind, rows) = (portion.kind, &portion.page.rows);
        let table = StoredTable::of(kind);
        let numbers: Vec<_> = portion.numbers().take(rows.len()).collect();
        let columns = columns(kind.columns().len(), rows).ok_or(MISSING_COLUMNS)?;
        let mut parameters: Vec<_> = columns.iter().map(|it| -> SqlValue<'_> { it }).collect();
        if kind == Kind::Tokens {
            parameters.push(&numbers);
            self.file(portion).await?;
        }
        // The vault has such a row already, or never had.
        if kind.is_single() && self.held.execute_raw(&table.update(kind), &parameters).await? == 1 {
            return Ok(());
        }
        let put = self.held.execute_raw(&table.insert(kind), &parameters).await?;
        if put != rows.len() {
            return Err(NO_PLACE);
        }
        Ok(())
    }

    /// The entries by which tokens are found.
    async fn file(&self, portion: &Portion) -> Result<(), StoreError> {
        let mut filed = Vec::new();
        for (number, row) in portion.numbers().zip(&portion.page.rows) {
            let entries = entries(row).ok_or(MISSING_COLUMNS)?;
            for (facet, container) in entries.all {
                let (tenant, at) = (entries.tenant, entries.created_at);
                filed.push(parameters![tenant, facet, container, at, number]);
            }
        }
        let columns = Columns::of(filed);
        self.held.execute_raw(FILE, &columns.raw().collect::<Vec<_>>()).await.map(drop)
    }
}

/// An array for each column; nothing when a row does not have so many.
fn columns(many: usize, rows: &[Row]) -> Option<Vec<Vec<Parameter<'_>>>> {
    let mut columns: Vec<_> = iter::repeat_with(Vec::new).take(many).collect();
    for row in rows {
        if row.len() != many {
            return None;
        }
        columns.iter_mut().zip(row).for_each(|(column, value)| column.push(Parameter::from(value)));
    }
    Some(columns)
}

const FILE: &str = "
-- file_all
INSERT INTO filed (tenant, facet, container, created_at, token)
    SELECT * FROM unnest($1::uuid[], $2::bytea[], $3::text[], $4::bigint[], $5::bigint[])";

const END_IMPORT: &str = "
-- end_import
DELETE FROM import_state WHERE one = 1";

/// Nobody else may use a vault that an import has not left.
pub(super) async fn check_finished(held: &Held) -> Result<(), StoreError> {
    match find_state(held).await? {
        None => Ok(()),
        Some(_) => Err(unavailable(UNFINISHED_IMPORT)),
    }
}

impl Rows for PostgresRows {
    fn engine(&self) -> &'static str {
        "PostgreSQL"
    }

    fn schema(&self) -> u32 {
        u32::try_from(migrate::NEWEST).unwrap_or_default()
    }

    fn begin_reading(&mut self) -> StoreFuture<'_, ()> {
        Box::pin(self.begin_transaction(READING))
    }

    fn end_reading(&mut self) -> StoreFuture<'_, ()> {
        Box::pin(self.end_transaction(Ok(())))
    }

    fn count(&mut self, kind: Kind) -> StoreFuture<'_, u64> {
        Box::pin(async move { find_number(&self.held, &StoredTable::of(kind).table.count()).await })
    }

    fn count_entries(&mut self) -> StoreFuture<'_, u64> {
        Box::pin(find_number(&self.held, "-- count_entries\nSELECT count(*) FROM filed"))
    }

    fn page<'a>(
        &'a mut self,
        kind: Kind,
        after: Option<&'a [u8]>,
        bounds: Bounds,
    ) -> StoreFuture<'a, Page> {
        Box::pin(async move {
            read_page(&self.held, &StoredTable::of(kind).table, kind, after, bounds).await
        })
    }

    fn begun(&mut self) -> StoreFuture<'_, Option<State>> {
        Box::pin(async move {
            self.begin_transaction(READING).await?;
            let found = find_state(&self.held).await?;
            self.end_transaction(Ok(())).await?;
            Ok(found)
        })
    }

    fn begin(&mut self, state: State) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.begin_transaction(WRITING).await?;
            let begun = begin_state(&self.held, state).await;
            self.end_transaction(begun).await
        })
    }

    fn put<'a>(&'a mut self, portion: &'a Portion, state: State) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.begin_transaction(WRITING).await?;
            let put = self.put_portion(portion, state).await;
            self.end_transaction(put).await
        })
    }

    fn finish<'a>(&'a mut self, keys: &'a Portion) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.begin_transaction(WRITING).await?;
            let put = self.put_rows(keys).await;
            let ended = match put {
                Ok(()) => self.held.execute_raw(END_IMPORT, &[]).await.map(drop),
                failed => failed,
            };
            self.end_transaction(ended).await
        })
    }
}
