//! A transaction that writes: of one tenant and one of its logs, and the only one of these two at a
//! time.
//!
//! The first statement changes the tenant's row in `lanes` and so waits for whoever did before, on
//! whichever node. What is read after that is what they committed, since under READ COMMITTED every
//! statement sees what is committed when it begins. Nothing else is locked before, so nobody waits
//! in a circle.

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
    pool::{Held, Pool},
    scope::Scope,
    statement::{Statements, fault},
    tally::Tally,
};

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
        (log, tenant): (Log, TenantId),
        tokens: usize,
    ) -> Result<Self, StoreError> {
        let mut left = ATTEMPTS;
        loop {
            left = left.saturating_sub(1);
            match Self::enter(pool, (log, tenant), tokens).await {
                Err(Entering::Again) if left > 0 => (),
                Err(Entering::Again) => return Err(StoreError::Busy),
                Err(Entering::Failed(error)) => return Err(error),
                Ok(transaction) => return Ok(transaction),
            }
        }
    }

    /// One round trip, once the statements are prepared.
    async fn enter(
        pool: &Pool,
        (log, tenant): (Log, TenantId),
        tokens: usize,
    ) -> Result<Self, Entering> {
        let held = pool.hold().await.map_err(Entering::Failed)?;
        let client = held.client().map_err(Entering::Failed)?;
        let begin = Scope::of(tenant).begin_write();
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
        let log_name = log.as_str();
        let entered = async {
            let enter = client.prepare_cached(ENTER).await?;
            let open = client.prepare_cached(chain::OPEN).await?;
            // They are sent in this order, none waiting for the one before.
            tokio::try_join!(
                biased;
                client.batch_execute(&begin),
                async { client.query_one(&enter, &[&tenant.0, &log_name, &tokens]).await },
                async { client.query_one(&open, &[&tenant.0, &log_name]).await },
            )
        };
        let entered = held.in_time(entered).await.map_err(Entering::Failed)?;
        let (_, entered, opened) = entered.map_err(entering)?;
        let unreadable = |_| Entering::Failed(StoreError::Corrupt("a lane is not one of ours"));
        let last: i64 = entered.try_get(0).map_err(unreadable)?;
        let number = last.saturating_sub(tokens);
        let chain = Chain::opened(&opened);
        let has_tenant = opened.try_get(8).map_err(unreadable)?;
        Ok(Self { held, tenant, has_tenant, log, number, chain, tally: Tally::default() })
    }

    /// For statements.
    pub(super) fn client(&self) -> Result<&Held, StoreError> {
        self.held.client().map(|_| &self.held)
    }

    pub(super) async fn execute(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, StoreError> {
        self.held.execute(sql, parameters).await
    }

    pub(super) async fn query(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        self.held.query(sql, parameters).await
    }

    /// One that has to look at other tenants' rows, in one round trip.
    pub(super) async fn query_every_tenant(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
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

    pub(super) async fn commit(mut self) -> Result<(), StoreError> {
        self.chain.find_lost(&self.held, (self.log, self.tenant)).await?;
        let client = self.held.client()?;
        let links = self.chain.links((self.log, self.tenant));
        let done = async {
            let records = links.prepare(client).await?;
            let counts = self.tally.prepare(client).await?;
            // Should one fail, the engine takes COMMIT for ROLLBACK.
            tokio::try_join!(
                biased;
                links.put(client, records),
                self.tally.put(client, self.tenant, counts),
                async { client.batch_execute("COMMIT").await.map_err(fault) },
            )
        };
        self.held.in_time(done).await??;
        self.held.release();
        Ok(())
    }

    pub(super) async fn roll_back(mut self) -> Result<(), StoreError> {
        let undone = self.held.client()?.batch_execute("ROLLBACK");
        self.held.in_time(undone).await?.map_err(fault)?;
        self.held.release();
        Ok(())
    }
}
