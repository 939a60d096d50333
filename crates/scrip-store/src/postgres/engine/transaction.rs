//! A transaction that writes: of one tenant and one of its logs, and the only one of these two at a
//! time.
//!
//! The first statement changes the tenant's row in `lanes` and so waits for whoever did before, on
//! whichever node. What is read after that is what they committed, since under READ COMMITTED every
//! statement sees what is committed when it begins. Nothing else is locked before, so nobody waits
//! in a circle.

use scrip_core::{
    audit::{AuditRecord, Entry, Log},
    id::TenantId,
    store::StoreError,
};
use tokio_postgres::{Row, error::SqlState};

use crate::{
    postgres::engine::{
        chain::{self, Chain},
        fault::{fault, unavailable},
        lane::{Lane, LaneTurn},
        pool::{Held, Pool},
        scope::Scope,
        set::Set,
        statement::{PostgresClient, Question, SqlValue},
        tally::TallyColumns,
    },
    rules::tokens::tally::Tally,
};

/// How often one is begun anew that the engine broke off before it had done anything.
const ATTEMPTS: usize = 4;

#[derive(Debug)]
pub(crate) struct Transaction {
    held: Held,
    /// Goes after the connection.
    _turn: LaneTurn,
    pub(crate) tenant: TenantId,
    has_tenant: bool,
    log: Log,
    /// Of the last token that has one.
    number: i64,
    pub(crate) chain: Chain,
    pub(crate) tally: Tally,
}

/// The newest number is at least that of a token that is there, whatever somebody did to the row.
pub(crate) const ENTER: &str = "
-- enter
INSERT INTO lanes (tenant, log, last_token)
VALUES ($1, $2, coalesce((SELECT max(number) FROM tokens WHERE tenant = $1), 0) + $3)
ON CONFLICT (tenant, log) DO UPDATE
SET last_token = greatest(lanes.last_token + $3, excluded.last_token)
RETURNING last_token";

/// Where what follows may be taken back to.
#[derive(Debug)]
pub(crate) struct Mark {
    records: usize,
    changes: usize,
}

/// Why none was committed.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The engine did not take the rows of a set, so nothing of it is there.
    Undone,
    Failed(StoreError),
}

impl From<StoreError> for Ended {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl Ended {
    pub(crate) fn error(self) -> StoreError {
        match self {
            Self::Undone => unavailable("PostgreSQL did not take the rows"),
            Self::Failed(error) => error,
        }
    }
}

fn ended(error: tokio_postgres::Error) -> Ended {
    match error.code() {
        Some(code) if is_undone(code) => Ended::Undone,
        Some(_) | None => Ended::Failed(fault(error)),
    }
}

/// Only what the engine itself says of rows: COMMIT is on its way behind them, and a pooler that
/// lost the engine meanwhile has codes of its own, by which nobody knows how far it came.
fn is_undone(code: &SqlState) -> bool {
    code.code().starts_with("23") || is_broken_off(code)
}

fn is_broken_off(code: &SqlState) -> bool {
    [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code)
}

/// Why none was begun.
enum Entering {
    /// The engine broke it off, and nothing was done.
    Again,
    Failed(StoreError),
}

fn entering(error: tokio_postgres::Error) -> Entering {
    match error.code() {
        Some(code) if is_broken_off(code) => Entering::Again,
        Some(_) | None => Entering::Failed(fault(error)),
    }
}

impl PostgresClient for Transaction {
    async fn rows(&self, sql: &str, parameters: &[SqlValue<'_>]) -> Result<Vec<Row>, StoreError> {
        self.held.rows(sql, parameters).await
    }
}

impl Transaction {
    /// For this many new tokens at most.
    pub(crate) async fn begin(pool: &Pool, of: Lane, tokens: usize) -> Result<Self, StoreError> {
        Self::begin_asking(pool, of, tokens, None).await.map(|(begun, _)| begun)
    }

    /// The same, with the rows that answer a question.
    pub(crate) async fn begin_asking(
        pool: &Pool,
        of: Lane,
        tokens: usize,
        asked: Option<Question<'_>>,
    ) -> Result<(Self, Vec<Row>), StoreError> {
        let mut left = ATTEMPTS;
        loop {
            left = left.saturating_sub(1);
            match Self::enter(pool, of, tokens, asked).await {
                Err(Entering::Again) if left > 0 => (),
                Err(Entering::Again) => return Err(StoreError::Busy),
                Err(Entering::Failed(error)) => return Err(error),
                Ok(begun) => return Ok(begun),
            }
        }
    }

    /// One round trip, once the statements are prepared.
    async fn enter(
        pool: &Pool,
        of: Lane,
        tokens: usize,
        asked: Option<Question<'_>>,
    ) -> Result<(Self, Vec<Row>), Entering> {
        let Lane { log, tenant } = of;
        // Before a connection: those who wait for one tenant must not have them all.
        let turn = pool.lanes.wait(of).await.map_err(Entering::Failed)?;
        let held = pool.hold().await.map_err(Entering::Failed)?;
        let client = held.client().map_err(Entering::Failed)?;
        let begin = Scope::of(tenant).begin_write();
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
        let log_name = log.as_str();
        let entered = async {
            let enter = client.prepare_cached(ENTER).await?;
            let open = client.prepare_cached(chain::OPEN).await?;
            let ask = match asked {
                Some(it) => Some(client.prepare_cached(it.sql).await?),
                None => None,
            };
            // They are sent in this order, none waiting for the one before.
            tokio::try_join!(
                biased;
                client.batch_execute(&begin),
                async { client.query_one(&enter, &[&tenant.0, &log_name, &tokens]).await },
                async { client.query_one(&open, &[&tenant.0, &log_name]).await },
                async {
                    match ask.as_ref().zip(asked) {
                        Some((ask, it)) => client.query(ask, it.parameters).await,
                        None => Ok(Vec::new()),
                    }
                },
            )
        };
        let entered = held.in_time(entered).await.map_err(Entering::Failed)?;
        let (_, entered, opened, answered) = entered.map_err(entering)?;
        let unreadable = |_| Entering::Failed(StoreError::Corrupt("a lane is not one of ours"));
        let last: i64 = entered.try_get(0).map_err(unreadable)?;
        let number = last.saturating_sub(tokens);
        let chain = Chain::opened(&opened);
        let has_tenant = opened.try_get(8).map_err(unreadable)?;
        let tally = Tally::default();
        let begun = Self { held, _turn: turn, tenant, has_tenant, log, number, chain, tally };
        Ok((begun, answered))
    }

    /// For statements.
    pub(crate) fn client(&self) -> Result<&Held, StoreError> {
        self.held.client().map(|_| &self.held)
    }

    pub(crate) async fn execute_raw(
        &self,
        sql: &str,
        parameters: &[SqlValue<'_>],
    ) -> Result<usize, StoreError> {
        self.held.execute_raw(sql, parameters).await
    }

    /// One that has to look at other tenants' rows, in one round trip.
    pub(crate) async fn query_every_tenant(
        &self,
        sql: &str,
        parameters: &[SqlValue<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        let client = self.held.client()?;
        let (open, close) = (Scope::every_tenant().set(), Scope::of(self.tenant).set());
        let asked = async {
            let statement = client.prepare_cached(sql).await?;
            let (_, rows, _) = tokio::try_join!(
                biased;
                client.batch_execute(&open),
                client.query(&statement, parameters),
                client.batch_execute(&close),
            )?;
            Ok(rows)
        };
        self.held.in_time(asked).await?.map_err(fault)
    }

    /// A request that began before its tenant was deleted must not write after.
    pub(crate) fn check_present(&self) -> Result<(), StoreError> {
        if self.has_tenant {
            return Ok(());
        }
        Err(StoreError::Unavailable("the tenant was deleted meanwhile".into()))
    }

    /// It writes for one tenant only.
    pub(crate) fn check_own(&self, tenant: TenantId) -> Result<(), StoreError> {
        if tenant == self.tenant {
            return Ok(());
        }
        Err(StoreError::Corrupt("a transaction is of one tenant"))
    }

    /// The number of a new token.
    pub(crate) fn next_number(&mut self) -> i64 {
        self.number = self.number.saturating_add(1);
        self.number
    }

    /// One more record of the log; written with the others before the commit.
    pub(crate) fn append_record(
        &mut self,
        audit: &AuditRecord,
        entity: &str,
        outcome: &'static str,
    ) {
        let entry = Entry { log: self.log, tenant: self.tenant, entity, outcome };
        self.chain.append(audit, entry);
    }

    /// Before a piece of work that may be taken back without the others.
    pub(crate) async fn mark(&self) -> Result<Mark, StoreError> {
        self.held.batch("SAVEPOINT work").await?;
        Ok(Mark { records: self.chain.records(), changes: self.tally.changes() })
    }

    pub(crate) async fn keep(&self, _: Mark) -> Result<(), StoreError> {
        self.held.batch("RELEASE SAVEPOINT work").await
    }

    /// What was done since then leaves nothing.
    pub(crate) async fn take_back(&mut self, mark: Mark) -> Result<(), StoreError> {
        self.chain.keep_only(mark.records);
        self.tally.take_back(mark.changes);
        let sql = "ROLLBACK TO SAVEPOINT work; RELEASE SAVEPOINT work";
        self.held.batch(sql).await
    }

    /// The rows of a set, while there is more to come.
    pub(crate) async fn put(&self, set: &Set<'_>) -> Result<(), Ended> {
        let client = self.held.client()?;
        let done = async {
            let statements = set.prepare(client).await?;
            set.put(client, self.tenant, statements).await.map_err(ended)
        };
        self.held.in_time(done).await?
    }

    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        self.commit_with(&Set::default()).await.map_err(Ended::error)
    }

    /// The rows of a set, the records, the counts and the end: one round trip.
    pub(crate) async fn commit_with(mut self, set: &Set<'_>) -> Result<(), Ended> {
        let of = Lane { log: self.log, tenant: self.tenant };
        self.chain.find_lost(&self.held, of).await?;
        let client = self.held.client()?;
        let links = self.chain.links(of);
        let counts = TallyColumns::of(&self.tally);
        let done = async {
            let rows = set.prepare(client).await?;
            let records = links.prepare(client).await?;
            let counting = counts.prepare(client).await?;
            // Should one fail, the engine takes COMMIT for ROLLBACK.
            Ok::<_, StoreError>(tokio::join!(
                biased;
                set.put(client, self.tenant, rows),
                links.put(client, records),
                counts.put(client, self.tenant, counting),
                client.batch_execute("COMMIT"),
            ))
        };
        let (put, linked, counted, committed) = self.held.in_time(done).await??;
        // Either way the transaction is over, and others may have the connection.
        if committed.is_ok() {
            self.held.release();
        }
        put.map_err(ended)?;
        linked.and(counted)?;
        committed.map_err(|error| Ended::Failed(fault(error)))
    }

    pub(crate) async fn roll_back(mut self) -> Result<(), StoreError> {
        self.held.batch("ROLLBACK").await?;
        self.held.release();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise a write that was committed would be done twice.
    #[test]
    fn only_what_the_engine_says_of_rows_is_done_again() {
        for code in ["23505", "23503", "23502", "40001", "40P01"] {
            assert!(is_undone(&SqlState::from_code(code)), "{code}");
        }
        for code in ["08P01", "08006", "57P01", "58000", "40003", "53300", "25P02", "XX000"] {
            assert!(!is_undone(&SqlState::from_code(code)), "{code}");
        }
    }
}
