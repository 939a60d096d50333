//! PostgreSQL, row by row, for [moving a vault](crate::transfer).

mod arrays;
mod table;

use std::time::Duration;

use scrip_core::store::{StoreError, StoreFuture};
use tokio_postgres::types::ToSql;

use crate::{
    postgres::{
        migrate,
        pool::Held,
        row::{array, column},
        scope::Scope,
        settings::PostgresSettings,
        statement::{Parameters, PostgresClient, fault, unavailable},
        transfer::{
            arrays::{Array, arrays, value},
            table::Table,
        },
    },
    transfer::{
        Bounds, Kind, Page, Portion, Row, Rows, State, UNFINISHED_IMPORT, Value, decode, encode,
        entries,
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

/// What a transaction is for.
#[derive(Debug, Clone, Copy)]
enum Purpose {
    Reading,
    Writing,
}

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

    /// Every transaction of a move begins here. It is about all tenants. One that reads may take as
    /// long as the whole vault does.
    async fn begin_transaction(&self, purpose: Purpose) -> Result<(), StoreError> {
        let begin = match purpose {
            Purpose::Reading => {
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0; \
                 SET LOCAL idle_in_transaction_session_timeout = 0"
            }
            Purpose::Writing => {
                "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '5s'; \
                 SET LOCAL statement_timeout = '5min'"
            }
        };
        self.tell(&format!("{begin}; {}", Scope::every_tenant().set())).await
    }

    /// All of it or nothing.
    async fn end_transaction(&self, worked: Result<(), StoreError>) -> Result<(), StoreError> {
        let ended = self.tell(if worked.is_ok() { "COMMIT" } else { "ROLLBACK" }).await;
        worked.and(ended)
    }

    async fn tell(&self, sql: &str) -> Result<(), StoreError> {
        let told = self.held.client()?.batch_execute(sql);
        self.held.in_time(told).await?.map_err(fault)
    }

    async fn read_page(
        &self,
        kind: Kind,
        after: Option<&[u8]>,
        bounds: Bounds,
    ) -> Result<Page, StoreError> {
        let table = Table::of(kind);
        let key = table.key;
        let after = after.map(|mut it| decode(key, &mut it).ok_or(NO_POSITION)).transpose()?;
        let sql = table.list(kind, after.as_ref(), bounds.rows);
        let parameters: Vec<_> = after.iter().flatten().map(parameter).collect();
        let rows = self.held.rows(&sql, &parameters).await?;
        let (mut page, mut bytes) = (Page::default(), 0_usize);
        for row in &rows {
            let columns = key.iter().chain(kind.columns()).enumerate();
            let values = columns.map(|(at, it)| value(row, at, it.form));
            let mut values = values.collect::<Result<Row, _>>()?;
            let rest = values.split_off(key.len());
            page.position.clear();
            encode(key, &values, &mut page.position).ok_or(NOT_OURS)?;
            bytes = bytes.saturating_add(rest.iter().map(length).fold(0, usize::saturating_add));
            page.rows.push(rest);
            if bytes >= bounds.bytes {
                break;
            }
        }
        Ok(page)
    }

    async fn put_portion(&self, portion: &Portion, state: State) -> Result<(), StoreError> {
        let portions = i64::try_from(state.portions).unwrap_or(i64::MAX);
        let (file, sum) = (&state.file[..], &state.sum[..]);
        // Locks the row, so that another run of the same import waits, and then finds it changed.
        if self.held.execute(MOVE_ON, &[&file, &portions, &sum]).await? != 1 {
            return Err(StoreError::Corrupt("another import into this vault goes on"));
        }
        self.put_rows(portion).await
    }

    async fn put_rows(&self, portion: &Portion) -> Result<(), StoreError> {
        let (kind, rows) = (portion.kind, &portion.page.rows);
        let table = Table::of(kind);
        let mut columns = arrays(kind.columns(), rows).ok_or(NOT_OURS)?;
        if kind == Kind::Tokens {
            let numbers = portion.numbers().map(Some).take(rows.len());
            columns.push(Array::Numbers(numbers.collect()));
            self.file(portion).await?;
        }
        let parameters: Vec<_> = columns.iter().map(Array::parameter).collect();
        // The vault has such a row already, or never had.
        if kind.is_single() && self.held.execute(&table.update(kind), &parameters).await? == 1 {
            return Ok(());
        }
        let put = self.held.execute(&table.insert(kind), &parameters).await?;
        if usize::try_from(put) != Ok(rows.len()) {
            return Err(StoreError::Corrupt(
                "a row has no place, for what it belongs to is missing",
            ));
        }
        Ok(())
    }

    /// The entries by which tokens are found.
    async fn file(&self, portion: &Portion) -> Result<(), StoreError> {
        let (mut tenants, mut facets, mut containers) = (Vec::new(), Vec::new(), Vec::new());
        let (mut times, mut numbers) = (Vec::new(), Vec::new());
        for (number, row) in portion.numbers().zip(&portion.page.rows) {
            let entries = entries(row).ok_or(NOT_OURS)?;
            for (facet, container) in entries.all {
                tenants.push(entries.tenant.0);
                facets.push(facet);
                containers.push(container);
                times.push(entries.created_at);
                numbers.push(number);
            }
        }
        let parameters: Parameters<'_, 5> = [&tenants, &facets, &containers, &times, &numbers];
        self.held.execute(FILE, &parameters).await.map(drop)
    }

    async fn number(&self, sql: &str) -> Result<u64, StoreError> {
        let rows = self.held.rows(sql, &[]).await?;
        let row = rows.first().ok_or(StoreError::Corrupt("a count has no row"))?;
        Ok(column::<i64>(row, 0)?.unsigned_abs())
    }
}

const FILE: &str = "
-- file_all
INSERT INTO filed (tenant, facet, container, created_at, token)
    SELECT * FROM unnest($1::uuid[], $2::bytea[], $3::text[], $4::bigint[], $5::bigint[])";

const BEGIN_IMPORT: &str = "
-- begin_import
INSERT INTO import_state (one, file, portions, sum) VALUES (1, $1, 0, $2)";

const MOVE_ON: &str = "
-- move_on
UPDATE import_state SET portions = $2::bigint, sum = $3
WHERE file = $1 AND portions = $2::bigint - 1";

const END_IMPORT: &str = "
-- end_import
DELETE FROM import_state WHERE one = 1";

const FIND_STATE: &str = "
-- find_import_state
SELECT file, portions, sum FROM import_state WHERE one = 1";

/// How far an import has come that has not ended.
async fn find_state(held: &Held) -> Result<Option<State>, StoreError> {
    let rows = held.rows(FIND_STATE, &[]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let portions = column::<i64>(row, 1)?.unsigned_abs();
    Ok(Some(State { file: array(row, 0)?, portions, sum: array(row, 2)? }))
}

/// Nobody else may use a vault that an import has not left.
pub(super) async fn check_finished(held: &Held) -> Result<(), StoreError> {
    match find_state(held).await? {
        None => Ok(()),
        Some(_) => Err(unavailable(UNFINISHED_IMPORT)),
    }
}

const NO_POSITION: StoreError = StoreError::Corrupt("a position is not one of this engine");
const NOT_OURS: StoreError = StoreError::Corrupt("a row does not have the columns we wrote");

/// No position has an empty column.
fn parameter(value: &Value) -> &(dyn ToSql + Sync) {
    match value {
        Value::Nothing => &None::<i64>,
        Value::Id(id) => id,
        Value::Number(number) => number,
        Value::Text(text) => text,
        Value::Bytes(bytes) => bytes,
    }
}

/// About what it takes.
fn length(value: &Value) -> usize {
    match value {
        Value::Nothing => 1,
        Value::Id(_) | Value::Number(_) => 16,
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
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
        Box::pin(self.begin_transaction(Purpose::Reading))
    }

    fn end_reading(&mut self) -> StoreFuture<'_, ()> {
        Box::pin(self.end_transaction(Ok(())))
    }

    fn count(&mut self, kind: Kind) -> StoreFuture<'_, u64> {
        Box::pin(async move { self.number(&Table::of(kind).count()).await })
    }

    fn count_entries(&mut self) -> StoreFuture<'_, u64> {
        Box::pin(self.number("-- count_entries\nSELECT count(*) FROM filed"))
    }

    fn page<'a>(
        &'a mut self,
        kind: Kind,
        after: Option<&'a [u8]>,
        bounds: Bounds,
    ) -> StoreFuture<'a, Page> {
        Box::pin(self.read_page(kind, after, bounds))
    }

    fn begun(&mut self) -> StoreFuture<'_, Option<State>> {
        Box::pin(async move {
            self.begin_transaction(Purpose::Reading).await?;
            let found = find_state(&self.held).await?;
            self.end_transaction(Ok(())).await?;
            Ok(found)
        })
    }

    fn begin(&mut self, state: State) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.begin_transaction(Purpose::Writing).await?;
            let (file, sum) = (&state.file[..], &state.sum[..]);
            let begun = self.held.execute(BEGIN_IMPORT, &[&file, &sum]).await;
            self.end_transaction(begun.map(drop)).await
        })
    }

    fn put<'a>(&'a mut self, portion: &'a Portion, state: State) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.begin_transaction(Purpose::Writing).await?;
            let put = self.put_portion(portion, state).await;
            self.end_transaction(put).await
        })
    }

    fn finish<'a>(&'a mut self, keys: &'a Portion) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.begin_transaction(Purpose::Writing).await?;
            let put = self.put_rows(keys).await;
            let ended = match put {
                Ok(()) => self.held.execute(END_IMPORT, &[]).await.map(drop),
                failed => failed,
            };
            self.end_transaction(ended).await
        })
    }
}
