//! Finds, inserts, updates and deletes tokens, with their entries in the token index: one per facet
//! and container. Inserts token intents.

use rusqlite::Connection;
use scrip_core::{
    Timestamp,
    card::TokenType,
    change::{ChangeOutcome, CommitExtras},
    disclosure::{DuplicateKey, DuplicateLookup},
    policy::{LookupPermit, Permit},
    store::TokenStore,
    token::{StoredToken, StoredTokenIntent, TokenRecord},
    token_batch::{BatchOutcome, CvcChange, DeleteToken, TokenBatch},
    types::{
        StoreError, StoreFuture,
        id::{TenantId, TokenId},
    },
};

use crate::{
    shared::{
        idempotency::{insert_commit_extras, insert_idempotency_record},
        tokens::{
            rows::{
                NumberedToken, decode_numbered_token, has_same_index_entries, index_entries,
                insert_intent_parameters, insert_token_parameters, update_token_parameters,
            },
            writes::{
                BatchAttempt, TokenActivity, TokenTransaction, delete_token, find_token,
                write_tokens,
            },
        },
    },
    sql::{
        ColumnReader, Execute, Statements, WriteTransaction, parameters, read_required,
        run_sync_future,
    },
    sqlite::{
        SqliteStore,
        engine::{
            statement::{execute, insert, try_insert, with_snapshot},
            transaction::SqliteTransaction,
        },
    },
};

/// Selects tokens with their CVCs, with the columns in the order in which `decode_numbered_token` reads
/// them.
macro_rules! select_tokens {
    () => {
        "SELECT tokens.seq, tokens.id, tokens.type, tokens.fingerprint, tokens.containers,
    tokens.created_by, tokens.created_at, tokens.modified_by, tokens.modified_at,
    tokens.expires_at, tokens.revision, tokens.indexes, tokens.body, tokens.expressions,
    cvcs.expires_at, cvcs.sealed
FROM tokens LEFT JOIN cvcs ON cvcs.token = tokens.seq"
    };
}
pub(crate) use select_tokens;

pub(crate) const FIND_TOKEN: &str = concat!(
    "-- find_token\n",
    select_tokens!(),
    "
WHERE tokens.tenant = $1 AND tokens.id = $2
    AND (tokens.expires_at IS NULL OR tokens.expires_at > $3)"
);

/// Finds the preferred duplicate with one index seek: the token with the latest expiry, then the
/// oldest.
pub(crate) const FIND_DUPLICATE: &str = concat!(
    "-- find_duplicate\n",
    select_tokens!(),
    "
WHERE tokens.tenant = $1 AND tokens.duplicate_key = $2
    AND ifnull(tokens.expires_at, 9223372036854775807) > $3 AND tokens.id <> $4
ORDER BY ifnull(tokens.expires_at, 9223372036854775807) DESC, tokens.created_at, tokens.seq LIMIT 1"
);

pub(crate) const FIND_DUPLICATE_TO_READ: &str = concat!(
    "-- find_duplicate_to_read\n",
    select_tokens!(),
    "
WHERE tokens.tenant = $1 AND tokens.duplicate_read_key = $2
    AND ifnull(tokens.expires_at, 9223372036854775807) > $3 AND tokens.id <> $4
ORDER BY ifnull(tokens.expires_at, 9223372036854775807) DESC, tokens.created_at, tokens.seq LIMIT 1"
);

const INSERT_TOKEN: &str = "
-- insert_token
INSERT INTO tokens (tenant, id, type, fingerprint, containers, created_by, created_at, expires_at,
    revision, indexes, body, expressions, duplicate_key, duplicate_read_key)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";

const PUT_CVC: &str = "
-- put_cvc
INSERT OR REPLACE INTO cvcs (token, expires_at, sealed) VALUES ($1, $2, $3)";

const DELETE_CVC: &str = "
-- delete_cvc
DELETE FROM cvcs WHERE token = $1";

const UPDATE_TOKEN: &str = "
-- update_token
UPDATE tokens SET fingerprint = $1, containers = $2, modified_by = $3, modified_at = $4,
    expires_at = $5, revision = $6, indexes = $7, body = $8, expressions = $9,
    duplicate_key = $10, duplicate_read_key = $11
WHERE tenant = $12 AND seq = $13";

const DELETE_TOKEN: &str = "
-- delete_token
DELETE FROM tokens WHERE seq = $1 RETURNING tenant, type";

pub(crate) const INSERT_INDEX_ENTRY: &str = "
-- insert_index_entries
INSERT INTO token_index (tenant, facet, container, created_at, token) VALUES ($1, $2, $3, $4, $5)";

const DELETE_INDEX_ENTRY: &str = "
-- delete_index_entries
DELETE FROM token_index
WHERE tenant = $1 AND facet = $2 AND container = $3 AND created_at = $4 AND token = $5";

impl TokenTransaction for SqliteTransaction<'_> {
    const FIND_TOKEN: &'static str = FIND_TOKEN;

    async fn find_duplicates(
        &self,
        tenant: TenantId,
        lookup: &DuplicateLookup,
        now: Timestamp,
        excluded_id: &str,
    ) -> Result<Vec<NumberedToken>, StoreError> {
        let DuplicateLookup { keys: [first, second], read_key } = lookup;
        let second = (second != first).then_some(second);
        let seeks = [
            (FIND_DUPLICATE, Some(first)),
            (FIND_DUPLICATE, second),
            (FIND_DUPLICATE_TO_READ, read_key.as_ref()),
        ];
        let mut duplicates = Vec::new();
        for (sql, key) in seeks {
            let Some(DuplicateKey(key)) = key else { continue };
            let key_parameters = parameters![tenant, key, now, excluded_id];
            duplicates.extend(self.find(sql, &key_parameters, decode_numbered_token).await?);
        }
        Ok(duplicates)
    }

    async fn insert_token(
        &mut self,
        tenant: TenantId,
        StoredToken { record, cvc }: &StoredToken,
    ) -> Result<Option<i64>, StoreError> {
        let Some(seq) = try_insert(self, INSERT_TOKEN, &insert_token_parameters(tenant, record))?
        else {
            return Ok(None);
        };
        self.usage.count_created(tenant, record.token_type, record.created_at);
        if let Some(cvc) = cvc {
            let row = parameters![seq, cvc.expires_at, &cvc.sealed];
            self.execute(PUT_CVC, &row).await?;
        }
        execute_for_entries(self, INSERT_INDEX_ENTRY, tenant, seq, record)?;
        Ok(Some(seq))
    }

    async fn replace_token(
        &self,
        tenant: TenantId,
        previous: &NumberedToken,
        updated: &TokenRecord,
        cvc: &CvcChange,
    ) -> Result<(), StoreError> {
        let seq = previous.number;
        self.execute(UPDATE_TOKEN, &update_token_parameters(tenant, seq, updated)).await?;
        match cvc {
            CvcChange::Keep => 0,
            CvcChange::Remove => self.execute(DELETE_CVC, &parameters![seq]).await?,
            CvcChange::Replace(cvc) => {
                self.execute(PUT_CVC, &parameters![seq, cvc.expires_at, &cvc.sealed]).await?
            }
        };
        replace_index_entries(self, tenant, previous, updated)
    }

    /// Foreign keys cascade to the CVC and to the token data of stored responses.
    async fn remove_token(
        &mut self,
        tenant: TenantId,
        number: i64,
        record: &TokenRecord,
    ) -> Result<(), StoreError> {
        execute_for_entries(self, DELETE_INDEX_ENTRY, tenant, number, record)?;
        delete_token_row(self, number).await
    }

    async fn cap_at_shared_clock(&self, at: Timestamp) -> Result<Timestamp, StoreError> {
        Ok(at)
    }
}

/// Replaces the index entries of a token if they changed. Most updates do not change them.
fn replace_index_entries(
    connection: &Connection,
    tenant: TenantId,
    previous: &NumberedToken,
    updated: &TokenRecord,
) -> Result<(), StoreError> {
    let NumberedToken { number, token } = previous;
    if has_same_index_entries(&token.record, updated) {
        return Ok(());
    }
    execute_for_entries(connection, DELETE_INDEX_ENTRY, tenant, *number, &token.record)?;
    execute_for_entries(connection, INSERT_INDEX_ENTRY, tenant, *number, updated)
}

/// Inserts or deletes the index entries of a token.
fn execute_for_entries(
    connection: &Connection,
    sql: &str,
    tenant: TenantId,
    seq: i64,
    record: &TokenRecord,
) -> Result<(), StoreError> {
    for (facet, container) in index_entries(record) {
        let entry = parameters![tenant, facet, container, record.created_at, seq];
        execute(connection, sql, &entry)?;
    }
    Ok(())
}

/// Deletes a token's row and leaves the index entries, which then point to no token. Every deletion
/// of a token row must use this function while the tenant has usage counters: it decreases the
/// counter of the row's type, even if other columns were altered.
pub(crate) async fn delete_token_row(
    transaction: &mut SqliteTransaction<'_>,
    seq: i64,
) -> Result<(), StoreError> {
    let decode_usage_key = |row: &dyn ColumnReader| {
        let tenant = read_required::<TenantId>(row, 0).ok();
        Ok(tenant.zip(read_required::<TokenType>(row, 1).ok()))
    };
    let deleted_rows = transaction.query(DELETE_TOKEN, &parameters![seq], decode_usage_key).await?;
    for (tenant, token_type) in deleted_rows.into_iter().flatten() {
        transaction.usage.count_removed(tenant, token_type);
    }
    Ok(())
}

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

const INSERT_TOKEN_INTENT: &str = "
-- insert_token_intent
INSERT INTO token_intents (tenant, id, type, fingerprint, containers, created_by,
    created_at, expires_at, body)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";

const INSERT_INTENT_CVC: &str = "
-- insert_intent_cvc
INSERT INTO intent_cvcs (intent, expires_at, sealed) VALUES ($1, $2, $3)";

impl SqliteStore {
    pub(crate) const FIND_TOKEN_INTENT: &str = "
-- find_token_intent
SELECT it.type, it.fingerprint, it.created_by, it.created_at, it.expires_at, it.body,
    intent_cvcs.expires_at, intent_cvcs.sealed, it.containers
FROM token_intents AS it
    LEFT JOIN intent_cvcs ON intent_cvcs.intent = it.seq
WHERE it.tenant = $1 AND it.id = $2 AND it.expires_at > $3";

    pub(crate) async fn put_token_intent(
        &self,
        tenant: TenantId,
        intent: StoredTokenIntent,
        extras: CommitExtras,
    ) -> Result<(), StoreError> {
        let insert_intent = async move |it: &mut SqliteTransaction<'_>| {
            it.check_sealed(tenant, &[&intent.record.body]).await?;
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
