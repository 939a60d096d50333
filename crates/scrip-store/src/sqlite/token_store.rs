//! The store of tokens and token intents.

use rusqlite::Connection;
use scrip_core::{
    id::{TenantId, TokenId},
    policy::{LookupPermit, Permit},
    store::{ChangeOutcome, CommitExtras, StoreError, StoreFuture, TokenStore},
    time::Timestamp,
    token::{BatchOutcome, DeleteToken, StoredToken, StoredTokenIntent, TokenBatch},
};

use crate::{
    shared::{
        idempotency::{insert_commit_extras, insert_idempotency_record},
        key_versions::check_sealed,
        tokens::{
            intents::{insert_intent_columns, insert_intent_parameters, intent_columns},
            writes::{BatchAttempt, delete_token, find_token, write_tokens},
        },
    },
    sql::{Execute, parameters, run_sync_future},
    sqlite::{
        SqliteStore,
        engine::{
            statement::{insert, with_snapshot},
            transaction::SqliteTransaction,
        },
        tokens::writes::FIND_TOKEN,
    },
    token_activity::TokenActivity,
};

/// Writes a batch. The caller rolls back a rejected batch.
async fn write_batch(
    transaction: &mut SqliteTransaction<'_>,
    tenant: TenantId,
    batch: TokenBatch,
) -> Result<BatchOutcome, StoreError> {
    let BatchAttempt { outcome, numbers } =
        write_tokens(transaction, tenant, &batch.writes).await?;
    if let BatchOutcome::Written(outcomes) = &outcome
        && let Some(record) = batch.build_record.and_then(|it| it(outcomes))
    {
        insert_idempotency_record(transaction, tenant, &record, &numbers).await?;
    }
    Ok(outcome)
}

fn find_stored_token(
    connection: &Connection,
    tenant: TenantId,
    id: &TokenId,
    now: Timestamp,
) -> Result<Option<StoredToken>, StoreError> {
    let token = run_sync_future(find_token(connection, FIND_TOKEN, tenant, id, now))?;
    Ok(token.map(|it| it.token))
}

impl TokenStore for SqliteStore {
    fn write_tokens(
        &self,
        lookup: LookupPermit,
        batch: TokenBatch,
    ) -> StoreFuture<'_, BatchOutcome> {
        let tenant = lookup.tenant().id;
        let activity = TokenActivity::from_batch(&batch);
        let work =
            move |it: &mut SqliteTransaction<'_>| run_sync_future(write_batch(it, tenant, batch));
        let write = self.writer.write_if(work, |it| matches!(it, BatchOutcome::Written(_)));
        Box::pin(async move {
            let outcome = write.await?;
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
        let tenant = lookup.tenant().id;
        self.read(move |it| find_stored_token(it, tenant, id, now))
    }

    /// Returns each token at the position of its id, all from one snapshot.
    fn find_tokens<'a>(
        &'a self,
        lookup: LookupPermit,
        ids: &'a [TokenId],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<Option<StoredToken>>> {
        let tenant = lookup.tenant().id;
        self.read(move |it| {
            let find_all = || ids.iter().map(|id| find_stored_token(it, tenant, id, now)).collect();
            // A single statement sees one snapshot without a transaction.
            if ids.len() > 1 { with_snapshot(it, find_all) } else { find_all() }
        })
    }

    fn delete_token(&self, permit: Permit, delete: DeleteToken) -> StoreFuture<'_, ChangeOutcome> {
        let tenant = permit.tenant().id;
        Box::pin(self.write(tenant, async move |it| delete_token(it, tenant, &delete).await))
    }
}

const INSERT_TOKEN_INTENT: &str = concat!(
    "-- insert_token_intent\nINSERT INTO token_intents (",
    insert_intent_columns!(),
    ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
);

const INSERT_INTENT_CVC: &str = "
-- insert_intent_cvc
INSERT INTO intent_cvcs (intent, expires_at, sealed) VALUES ($1, $2, $3)";

impl SqliteStore {
    pub(crate) const FIND_TOKEN_INTENT: &str = concat!(
        "-- find_token_intent\nSELECT ",
        intent_columns!(),
        " FROM token_intents AS it LEFT JOIN intent_cvcs ON intent_cvcs.intent = it.seq
          WHERE it.tenant = $1 AND it.id = $2 AND it.expires_at > $3"
    );

    pub(crate) async fn put_token_intent(
        &self,
        tenant: TenantId,
        intent: StoredTokenIntent,
        extras: CommitExtras,
    ) -> Result<(), StoreError> {
        let insert_intent = async move |it: &mut SqliteTransaction<'_>| {
            check_sealed(it, tenant, &[&intent.record.body]).await?;
            let row = insert_intent_parameters(tenant, &intent.record);
            let seq = insert(it, INSERT_TOKEN_INTENT, &row)?;
            if let Some(cvc) = &intent.cvc {
                let row = parameters![seq, cvc.expires_at, &cvc.sealed];
                it.execute(INSERT_INTENT_CVC, &row).await?;
            }
            insert_commit_extras(it, tenant, &extras, "created").await
        };
        self.write(tenant, insert_intent).await
    }
}
