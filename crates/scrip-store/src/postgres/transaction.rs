//! A transaction that writes: of one tenant and one of its logs, and the only one of these two at a
//! time.
//!
//! The first statement changes the tenant's row in `lanes` and so waits for whoever did before, on
//! whichever node. What is read after that is what they committed, since under READ COMMITTED every
//! statement sees what is committed when it begins. Nothing else is locked before, so nobody waits
//! in a circle.

use deadpool_postgres::{Object, Pool};
use scrip_core::{
    audit::{
        AuditRecord,
        chain::{Entry, Log},
    },
    id::TenantId,
    store::StoreError,
};
use tokio_postgres::{Row, error::SqlState, types::ToSql};

use crate::postgres::{
    chain::{self, Chain},
    set::Set,
    settings::connection,
    statement::{execute, fault, query, unavailable},
    tally::Tally,
};

/// One that waits for longer gets no answer anyway. The last keeps a node that hangs from holding a
/// tenant.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '5s'; \
                     SET LOCAL statement_timeout = '10s'; \
                     SET LOCAL idle_in_transaction_session_timeout = '10s'";

/// How often one is begun anew that the engine broke off before it had done anything.
const ATTEMPTS: usize = 4;

#[derive(Debug)]
pub(super) struct Transaction {
    held: Held,
    pub(super) tenant: TenantId,
    has_tenant: bool,
    log: Log,
    /// Of the last token that has one.
    number: i64,
    pub(super) chain: Chain,
    pub(super) tally: Tally,
}

/// The newest number is at least that of a token that is there, whatever somebody did to the row.
const ENTER: &str = "
-- enter
INSERT INTO lanes (tenant, log, last_token)
VALUES ($1, $2, coalesce((SELECT max(number) FROM tokens WHERE tenant = $1), 0) + $3)
ON CONFLICT (tenant, log) DO UPDATE
SET last_token = greatest(lanes.last_token + $3, excluded.last_token)
RETURNING last_token";

/// A connection inside a transaction. Unless that has ended, the connection must not be used by
/// anybody else: it is closed, and the engine takes the transaction back.
#[derive(Debug)]
struct Held(Option<Object>);

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.0.take().map(Object::take));
    }
}

impl Held {
    fn client(&self) -> Result<&Object, StoreError> {
        self.0.as_ref().ok_or(StoreError::Corrupt("a transaction is used after its end"))
    }

    /// Back to the others.
    fn release(&mut self) {
        drop(self.0.take());
    }
}

/// What else is to be found out on the way in, once nobody of the tenant writes any more.
pub(super) type Asked<'a> = (&'static str, &'a [&'a (dyn ToSql + Sync)]);

/// Where what follows may be taken back to.
#[derive(Debug)]
pub(super) struct Mark {
    records: usize,
    tally: Tally,
}

/// Why none was committed.
#[derive(Debug)]
pub(super) enum Ended {
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
    pub(super) fn error(self) -> StoreError {
        match self {
            Self::Undone => unavailable("PostgreSQL did not take the rows"),
            Self::Failed(error) => error,
        }
    }
}

/// Without a code, nobody knows how far the engine came.
fn ended(error: tokio_postgres::Error) -> Ended {
    match error.code() {
        Some(_) => Ended::Undone,
        None => Ended::Failed(fault(error)),
    }
}

/// Why none was begun.
enum Entering {
    /// The engine broke it off, and nothing was done.
    Again,
    Failed(StoreError),
}

fn entering(error: tokio_postgres::Error) -> Entering {
    let again = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
    match error.code() {
        Some(code) if again.contains(code) => Entering::Again,
        Some(_) | None => Entering::Failed(fault(error)),
    }
}

impl Transaction {
    /// For this many new tokens at most.
    pub(super) async fn begin(
        pool: &Pool,
        of: (Log, TenantId),
        tokens: usize,
    ) -> Result<Self, StoreError> {
        Self::begin_asking(pool, of, tokens, None).await.map(|(begun, _)| begun)
    }

    /// The same, with the rows that answer a question.
    pub(super) async fn begin_asking(
        pool: &Pool,
        of: (Log, TenantId),
        tokens: usize,
        asked: Option<Asked<'_>>,
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
        (log, tenant): (Log, TenantId),
        tokens: usize,
        asked: Option<Asked<'_>>,
    ) -> Result<(Self, Vec<Row>), Entering> {
        let client = connection(pool).await.map_err(Entering::Failed)?;
        let enter = client.prepare_cached(ENTER).await.map_err(entering)?;
        let open = client.prepare_cached(chain::OPEN).await.map_err(entering)?;
        let ask = match asked {
            Some((sql, _)) => Some(client.prepare_cached(sql).await.map_err(entering)?),
            None => None,
        };
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
        let log_name = log.as_str();
        let held = Held(Some(client));
        let client = held.client().map_err(Entering::Failed)?;
        // They are sent in this order, none waiting for the one before.
        let (_, entered, opened, answered) = tokio::try_join!(
            biased;
            client.batch_execute(BEGIN),
            async { client.query_one(&enter, &[&tenant.0, &log_name, &tokens]).await },
            async { client.query_one(&open, &[&tenant.0, &log_name]).await },
            async {
                match ask.as_ref().zip(asked) {
                    Some((ask, (_, parameters))) => client.query(ask, parameters).await,
                    None => Ok(Vec::new()),
                }
            },
        )
        .map_err(entering)?;
        let unreadable = |_| Entering::Failed(StoreError::Corrupt("a lane is not one of ours"));
        let last: i64 = entered.try_get(0).map_err(unreadable)?;
        let number = last.saturating_sub(tokens);
        let chain = Chain::opened(&opened);
        let has_tenant = opened.try_get(8).map_err(unreadable)?;
        let tally = Tally::default();
        Ok((Self { held, tenant, has_tenant, log, number, chain, tally }, answered))
    }

    /// For statements.
    pub(super) fn client(&self) -> Result<&Object, StoreError> {
        self.held.client()
    }

    pub(super) async fn execute(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, StoreError> {
        execute(self.client()?, sql, parameters).await
    }

    pub(super) async fn query(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        query(self.client()?, sql, parameters).await
    }

    /// A request that began before its tenant was deleted must not write after.
    pub(super) fn check_tenant(&self) -> Result<(), StoreError> {
        if self.has_tenant {
            return Ok(());
        }
        Err(StoreError::Unavailable("the tenant was deleted meanwhile".into()))
    }

    /// The number of a new token.
    pub(super) fn next_number(&mut self) -> i64 {
        self.number = self.number.saturating_add(1);
        self.number
    }

    /// One more record of the log; written with the others before the commit.
    pub(super) fn append(&mut self, audit: &AuditRecord, entity: &str, outcome: &'static str) {
        let entry = Entry { log: self.log, tenant: self.tenant, entity, outcome };
        self.chain.append(audit, entry);
    }

    /// Before a piece of work that may be taken back without the others.
    pub(super) async fn mark(&self) -> Result<Mark, StoreError> {
        self.client()?.batch_execute("SAVEPOINT work").await.map_err(fault)?;
        Ok(Mark { records: self.chain.records(), tally: self.tally.clone() })
    }

    pub(super) async fn keep(&self, _: Mark) -> Result<(), StoreError> {
        self.client()?.batch_execute("RELEASE SAVEPOINT work").await.map_err(fault)
    }

    /// What was done since then leaves nothing.
    pub(super) async fn take_back(&mut self, mark: Mark) -> Result<(), StoreError> {
        self.chain.keep_only(mark.records);
        self.tally = mark.tally;
        let sql = "ROLLBACK TO SAVEPOINT work; RELEASE SAVEPOINT work";
        self.client()?.batch_execute(sql).await.map_err(fault)
    }

    /// The rows of a set, while there is more to come.
    pub(super) async fn put(&self, set: &Set<'_>) -> Result<(), Ended> {
        let client = self.client()?;
        let statements = set.prepare(client).await?;
        set.put(client, self.tenant, statements).await.map_err(ended)
    }

    pub(super) async fn commit(self) -> Result<(), StoreError> {
        self.commit_with(&Set::default()).await.map_err(Ended::error)
    }

    /// The rows of a set, the records, the counts and the end: one round trip.
    pub(super) async fn commit_with(mut self, set: &Set<'_>) -> Result<(), Ended> {
        let of = (self.log, self.tenant);
        self.chain.find_lost(self.held.client()?, of).await?;
        let client = self.held.client()?;
        let links = self.chain.links(of);
        let rows = set.prepare(client).await?;
        let records = links.prepare(client).await?;
        let counts = self.tally.prepare(client).await?;
        // Should one fail, the engine takes COMMIT for ROLLBACK.
        let (put, linked, counted, committed) = tokio::join!(
            biased;
            set.put(client, self.tenant, rows),
            links.put(client, records),
            self.tally.put(client, self.tenant, counts),
            client.batch_execute("COMMIT"),
        );
        // Either way the transaction is over, and others may have the connection.
        if committed.is_ok() {
            self.held.release();
        }
        put.map_err(ended)?;
        linked.and(counted)?;
        committed.map_err(|error| Ended::Failed(fault(error)))
    }

    pub(super) async fn roll_back(mut self) -> Result<(), StoreError> {
        self.client()?.batch_execute("ROLLBACK").await.map_err(fault)?;
        self.held.release();
        Ok(())
    }
}
