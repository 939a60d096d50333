//! The store, its clients and its transactions, and its tokens and token intents.

use scrip_core::{
    Timestamp,
    audit::LogKind,
    change::{ChangeOutcome, CommitExtras},
    policy::{LookupPermit, Permit},
    store::TokenStore,
    token::{StoredToken, StoredTokenIntent},
    token_batch::{BatchOutcome, DeleteToken, TokenBatch},
    types::{
        StoreError, StoreFuture,
        id::{TenantId, TokenId},
    },
};

use crate::{
    claims::InFlightClaims,
    policy_turns::PolicyTurns,
    postgres::{
        connect::directory_listener::DirectoryListener,
        engine::{
            pool::ConnectionPool,
            scope::RowScope,
            statement::{AutocommitClient, PostgresClient, ReadSnapshot},
            tenant_lock::TenantLog,
            transaction::PostgresTransaction,
        },
        read_log::PostgresReadLog,
        tokens::{
            write_group::TokenWriteQueue,
            writes::{FIND_TOKEN, FIND_TOKENS},
        },
    },
    shared::{
        log::{ChainStatements, POSTGRES_AUDIT_LOG, POSTGRES_READ_LOG},
        tokens::{
            rows::decode_numbered_token,
            writes::{TokenActivity, delete_token, find_token},
        },
    },
    sql::{BatchDelete, Execute, Outcome, Parameter, parameters},
};

/// The store of the PostgreSQL engine.
#[derive(Debug)]
pub struct PostgresStore {
    pub(super) pool: ConnectionPool,
    pub(crate) read_log: PostgresReadLog,
    pub(super) write_queue: TokenWriteQueue,
    /// Claims of this node. A claim of another node is visible only when its rows are committed.
    pub(crate) claims: InFlightClaims,
    pub(crate) policy_turns: PolicyTurns,
    pub(super) directory_listener: DirectoryListener,
}

impl PostgresStore {
    /// Client for single statements about one tenant.
    pub(crate) fn for_tenant(&self, tenant: TenantId) -> AutocommitClient<'_> {
        AutocommitClient::new(&self.pool, RowScope::for_tenant(tenant))
    }

    /// Client for rows that are found by a key without a tenant, and for background work. The row
    /// names its tenant; callers must check it before they return the row.
    pub(crate) fn for_all_tenants(&self) -> AutocommitClient<'_> {
        AutocommitClient::new(&self.pool, RowScope::all_tenants())
    }

    /// Client for tables without tenant data.
    pub(crate) fn without_tenant(&self) -> AutocommitClient<'_> {
        AutocommitClient::new(&self.pool, RowScope::no_tenant())
    }

    pub(crate) fn chain_statements(log: LogKind) -> &'static ChainStatements {
        match log {
            LogKind::Audit => &POSTGRES_AUDIT_LOG,
            LogKind::Read => &POSTGRES_READ_LOG,
        }
    }

    /// Client for single statements on the chains of a log.
    pub(crate) fn chains(&self, _: LogKind) -> AutocommitClient<'_> {
        self.for_all_tenants()
    }

    /// Client for single statements on one tenant's chain.
    pub(crate) fn chain_reader(&self, _: LogKind, tenant: TenantId) -> AutocommitClient<'_> {
        self.for_tenant(tenant)
    }

    /// Runs statements for one tenant. Both logs and their heads are read in one snapshot.
    pub(crate) async fn read_snapshot<T>(
        &self,
        _: LogKind,
        tenant: TenantId,
        read: impl AsyncFnOnce(&ReadSnapshot) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let snapshot = ReadSnapshot::new(&self.pool, RowScope::for_tenant(tenant)).await?;
        let value = read(&snapshot).await;
        snapshot.end(value).await
    }

    /// Writes for a tenant in one transaction. The outcome decides whether the transaction commits.
    pub(crate) async fn write<T: Outcome>(
        &self,
        tenant: TenantId,
        work: impl AsyncFnOnce(&mut PostgresTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.write_log(LogKind::Audit, tenant, work).await
    }

    /// Like [`PostgresStore::write`], for a transaction that writes to the given log.
    pub(crate) async fn write_log<T: Outcome>(
        &self,
        log: LogKind,
        tenant: TenantId,
        work: impl AsyncFnOnce(&mut PostgresTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut transaction =
            PostgresTransaction::begin(&self.pool, TenantLog { log, tenant }, 0).await?;
        let outcome = work(&mut transaction).await?;
        match outcome.should_commit() {
            true => transaction.commit().await?,
            false => transaction.roll_back().await?,
        }
        Ok(outcome)
    }

    /// Same as [`PostgresStore::write`]: writes of one tenant already run one after the other.
    pub(crate) async fn write_waiting<T: Outcome>(
        &self,
        tenant: TenantId,
        work: impl AsyncFnOnce(&mut PostgresTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.write(tenant, work).await
    }

    /// Deletes one batch of the rows before the cutoff.
    pub(crate) async fn delete_batch(
        &self,
        _: LogKind,
        delete: &BatchDelete,
        cutoff: impl Into<Parameter<'static>>,
    ) -> Result<usize, StoreError> {
        let parameters = parameters![cutoff.into(), delete.postgres_rows_max];
        self.for_all_tenants().execute(delete.postgres, &parameters).await
    }

    pub(crate) const FIND_TOKEN_INTENT: &str = "
-- find_token_intent
SELECT it.type, it.fingerprint, it.created_by, it.created_at, it.expires_at, it.body,
    intent_cvcs.expires_at, intent_cvcs.sealed, it.containers
FROM token_intents AS it
    LEFT JOIN intent_cvcs ON intent_cvcs.tenant = it.tenant AND intent_cvcs.intent = it.id
WHERE it.tenant = $1 AND it.id = $2 AND it.expires_at > $3";

    pub(crate) async fn put_token_intent(
        &self,
        tenant: TenantId,
        intent: StoredTokenIntent,
        extras: CommitExtras,
    ) -> Result<(), StoreError> {
        self.write_queue.insert_token_intent(tenant, intent, extras).await
    }
}

impl TokenStore for PostgresStore {
    fn write_tokens(
        &self,
        lookup: LookupPermit,
        batch: TokenBatch,
    ) -> StoreFuture<'_, BatchOutcome> {
        Box::pin(async move {
            let tenant = lookup.tenant().id;
            let activity = TokenActivity::from_batch(&batch);
            let outcome = self.write_queue.write_tokens(tenant, batch).await?;
            self.read_log.record_activity(tenant, activity.active_tokens(&outcome));
            Ok(outcome)
        })
    }

    fn find_token<'a>(
        &'a self,
        lookup: LookupPermit,
        id: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, Option<StoredToken>> {
        Box::pin(async move {
            let tenant = lookup.tenant().id;
            let token = find_token(&self.for_tenant(tenant), FIND_TOKEN, tenant, id, now).await?;
            Ok(token.map(|it| it.token))
        })
    }

    /// Returns each token at the position of its id. One statement reads one snapshot.
    fn find_tokens<'a>(
        &'a self,
        lookup: LookupPermit,
        ids: &'a [TokenId],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<Option<StoredToken>>> {
        Box::pin(async move {
            let tenant = lookup.tenant().id;
            let id_texts: Vec<_> = ids.iter().map(TokenId::as_str).collect();
            let client = self.for_tenant(tenant);
            let rows = client.rows(FIND_TOKENS, &[&tenant.0, &id_texts, &now.unix_ms]).await?;
            let tokens = rows.iter().map(|row| decode_numbered_token(row).map(|it| it.token));
            let tokens = tokens.collect::<Result<Vec<_>, _>>()?;
            let find_by_id = |id: &TokenId| tokens.iter().find(|it| it.record.id == *id).cloned();
            Ok(ids.iter().map(find_by_id).collect())
        })
    }

    fn delete_token(&self, permit: Permit, delete: DeleteToken) -> StoreFuture<'_, ChangeOutcome> {
        let tenant = permit.tenant().id;
        Box::pin(self.write(tenant, async move |it| delete_token(it, tenant, &delete).await))
    }
}
