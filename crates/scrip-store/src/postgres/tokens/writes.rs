//! Finds, inserts, updates and deletes tokens, with their entries in the token index: one per facet
//! and container. Inserts token intents.

use scrip_core::{
    Timestamp,
    card::TokenType,
    change::CommitExtras,
    disclosure::DuplicateLookup,
    token::{StoredToken, StoredTokenIntent, TokenRecord},
    token_batch::CvcChange,
    types::{StoreError, id::TenantId},
};

use crate::{
    postgres::engine::{
        statement::{PostgresClient, cap_at_database_clock, driver_parameters},
        transaction::PostgresTransaction,
    },
    shared::{
        idempotency::insert_commit_extras,
        tokens::{
            rows::{
                NumberedToken, decode_numbered_token, has_same_index_entries, index_entry_columns,
                insert_intent_parameters, insert_token_parameters, update_token_parameters,
            },
            writes::TokenTransaction,
        },
    },
    sql::{Execute, Statements, WriteTransaction, parameters, read_required},
};

/// Selects tokens with their CVCs, with the columns in the order in which `decode_numbered_token` reads
/// them.
macro_rules! select_tokens {
    () => {
        "SELECT tokens.number, tokens.id, tokens.type, tokens.fingerprint, tokens.containers,
    tokens.created_by, tokens.created_at, tokens.modified_by, tokens.modified_at,
    tokens.expires_at, tokens.revision, tokens.indexes, tokens.body, tokens.expressions,
    cvcs.expires_at, cvcs.sealed
FROM tokens LEFT JOIN cvcs ON cvcs.tenant = tokens.tenant AND cvcs.token = tokens.number"
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

pub(crate) const FIND_TOKENS: &str = concat!(
    "-- find_tokens\n",
    select_tokens!(),
    "
WHERE tokens.tenant = $1 AND tokens.id = ANY ($2)
    AND (tokens.expires_at IS NULL OR tokens.expires_at > $3)"
);

/// Finds the preferred duplicate of each key with one index seek: the token with the latest expiry,
/// then the oldest.
pub(crate) const FIND_DUPLICATE: &str = concat!(
    "-- find_duplicate\n(",
    select_tokens!(),
    "
WHERE tokens.tenant = $1 AND tokens.duplicate_key = $2
    AND coalesce(tokens.expires_at, 9223372036854775807) > $4 AND tokens.id <> $5
ORDER BY coalesce(tokens.expires_at, 9223372036854775807) DESC, tokens.created_at, tokens.number
LIMIT 1)
UNION ALL (",
    select_tokens!(),
    "
WHERE tokens.tenant = $1 AND tokens.duplicate_key = $3
    AND coalesce(tokens.expires_at, 9223372036854775807) > $4 AND tokens.id <> $5
ORDER BY coalesce(tokens.expires_at, 9223372036854775807) DESC, tokens.created_at, tokens.number
LIMIT 1)"
);
pub(crate) const FIND_DUPLICATE_TO_READ: &str = concat!(
    "-- find_duplicate_to_read\n(",
    select_tokens!(),
    "
WHERE tokens.tenant = $1 AND tokens.duplicate_key = $2
    AND coalesce(tokens.expires_at, 9223372036854775807) > $4 AND tokens.id <> $5
ORDER BY coalesce(tokens.expires_at, 9223372036854775807) DESC, tokens.created_at, tokens.number
LIMIT 1)
UNION ALL (",
    select_tokens!(),
    "
WHERE tokens.tenant = $1 AND tokens.duplicate_read_key = $3
    AND coalesce(tokens.expires_at, 9223372036854775807) > $4 AND tokens.id <> $5
ORDER BY coalesce(tokens.expires_at, 9223372036854775807) DESC, tokens.created_at, tokens.number
LIMIT 1)"
);

/// Inserts a token with its CVC and its index entries. Inserts nothing if a token has the same id.
const INSERT_TOKEN: &str = "
-- insert_token
WITH inserted AS (
    INSERT INTO tokens (tenant, id, type, fingerprint, containers, created_by, created_at, expires_at,
        revision, indexes, body, expressions, duplicate_key, duplicate_read_key, number)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
    ON CONFLICT (tenant, id) DO NOTHING
    RETURNING number
), inserted_cvc AS (
    INSERT INTO cvcs (tenant, token, expires_at, sealed)
    SELECT $1, number, $16::bigint, $17::bytea FROM inserted WHERE $16::bigint IS NOT NULL
), inserted_index_entries AS (
    INSERT INTO token_index (tenant, facet, container, created_at, token)
    SELECT $1, it.facet, it.container, $7, inserted.number
    FROM inserted CROSS JOIN unnest($18::bytea[], $19::text[]) AS it (facet, container)
)
SELECT number FROM inserted";

const PUT_CVC: &str = "
-- put_cvc
INSERT INTO cvcs (tenant, token, expires_at, sealed) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant, token) DO UPDATE SET expires_at = $3, sealed = $4";

const DELETE_CVC: &str = "
-- delete_cvc
DELETE FROM cvcs WHERE tenant = $1 AND token = $2";

const UPDATE_TOKEN: &str = "
-- update_token
UPDATE tokens SET fingerprint = $1, containers = $2, modified_by = $3, modified_at = $4,
    expires_at = $5, revision = $6, indexes = $7, body = $8, expressions = $9,
    duplicate_key = $10, duplicate_read_key = $11
WHERE tenant = $12 AND number = $13";

const DELETE_TOKEN: &str = "
-- delete_token
DELETE FROM tokens WHERE tenant = $1 AND number = $2 RETURNING type";

const INSERT_INDEX_ENTRIES: &str = "
-- insert_index_entries
INSERT INTO token_index (tenant, facet, container, created_at, token)
    SELECT $1, it.facet, it.container, $4, $5
FROM unnest($2::bytea[], $3::text[]) AS it (facet, container)";

const DELETE_INDEX_ENTRIES: &str = "
-- delete_index_entries
DELETE FROM token_index USING unnest($2::bytea[], $3::text[]) AS it (facet, container)
WHERE token_index.tenant = $1 AND token_index.facet = it.facet AND token_index.container = it.container
    AND token_index.created_at = $4 AND token_index.token = $5";

impl TokenTransaction for PostgresTransaction {
    const FIND_TOKEN: &'static str = FIND_TOKEN;

    async fn find_duplicates(
        &self,
        tenant: TenantId,
        lookup: &DuplicateLookup,
        now: Timestamp,
        excluded_id: &str,
    ) -> Result<Vec<NumberedToken>, StoreError> {
        let DuplicateLookup { keys: [first, second], read_key } = lookup;
        let sql = if read_key.is_some() { FIND_DUPLICATE_TO_READ } else { FIND_DUPLICATE };
        let second = read_key.as_ref().unwrap_or(second);
        let key = parameters![tenant, first, second, now, excluded_id];
        self.query(sql, &key, decode_numbered_token).await
    }

    async fn insert_token(
        &mut self,
        tenant: TenantId,
        StoredToken { record, cvc }: &StoredToken,
    ) -> Result<Option<i64>, StoreError> {
        let number = self.next_number();
        let row = insert_token_parameters(tenant, record);
        let cvc = cvc.as_ref();
        let number_and_cvc =
            parameters![number, cvc.map(|it| it.expires_at), cvc.map(|it| &it.sealed)];
        let (facets, containers) = index_entry_columns(record);
        let mut columns = driver_parameters(&row);
        columns.extend(driver_parameters(&number_and_cvc));
        columns.push(&facets);
        columns.push(&containers);
        if self.rows(INSERT_TOKEN, &columns).await?.is_empty() {
            return Ok(None);
        }
        self.usage.count_created(tenant, record.token_type, record.created_at);
        Ok(Some(number))
    }

    async fn replace_token(
        &self,
        tenant: TenantId,
        previous: &NumberedToken,
        updated: &TokenRecord,
        cvc: &CvcChange,
    ) -> Result<(), StoreError> {
        let number = previous.number;
        self.execute(UPDATE_TOKEN, &update_token_parameters(tenant, number, updated)).await?;
        match cvc {
            CvcChange::Keep => 0,
            CvcChange::Remove => self.execute(DELETE_CVC, &parameters![tenant, number]).await?,
            CvcChange::Replace(cvc) => {
                let row = parameters![tenant, number, cvc.expires_at, &cvc.sealed];
                self.execute(PUT_CVC, &row).await?
            }
        };
        replace_index_entries(self, previous, updated).await
    }

    /// Foreign keys cascade to the CVC and to the token data of stored responses.
    async fn remove_token(
        &mut self,
        _: TenantId,
        number: i64,
        record: &TokenRecord,
    ) -> Result<(), StoreError> {
        execute_for_entries(self, DELETE_INDEX_ENTRIES, number, record).await?;
        delete_token_row(self, number).await
    }

    async fn cap_at_shared_clock(&self, at: Timestamp) -> Result<Timestamp, StoreError> {
        cap_at_database_clock(self, self.client()?.clock, at).await
    }
}

/// Replaces the index entries of a token if they changed. Most updates do not change them.
async fn replace_index_entries(
    transaction: &PostgresTransaction,
    previous: &NumberedToken,
    updated: &TokenRecord,
) -> Result<(), StoreError> {
    let NumberedToken { number, token } = previous;
    if has_same_index_entries(&token.record, updated) {
        return Ok(());
    }
    execute_for_entries(transaction, DELETE_INDEX_ENTRIES, *number, &token.record).await?;
    execute_for_entries(transaction, INSERT_INDEX_ENTRIES, *number, updated).await
}

/// Inserts or deletes the index entries of a token.
async fn execute_for_entries(
    transaction: &PostgresTransaction,
    sql: &str,
    number: i64,
    record: &TokenRecord,
) -> Result<(), StoreError> {
    let (facets, containers) = index_entry_columns(record);
    let (tenant, created_at) = (transaction.tenant.0, record.created_at.unix_ms);
    transaction
        .execute_raw(sql, &[&tenant, &facets, &containers, &created_at, &number])
        .await
        .map(drop)
}

/// Deletes a token's row and leaves the index entries, which then point to no token. Every deletion
/// of a token row must use this function while the tenant has usage counters: it decreases the
/// counter of the row's type.
pub(crate) async fn delete_token_row(
    transaction: &mut PostgresTransaction,
    number: i64,
) -> Result<(), StoreError> {
    let tenant = transaction.tenant;
    let key = parameters![tenant, number];
    let deleted_types =
        transaction.query(DELETE_TOKEN, &key, |row| Ok(read_required::<TokenType>(row, 0).ok()));
    for token_type in deleted_types.await?.into_iter().flatten() {
        transaction.usage.count_removed(tenant, token_type);
    }
    Ok(())
}

const INSERT_TOKEN_INTENT: &str = "
-- insert_token_intent
WITH inserted AS (
    INSERT INTO token_intents (tenant, id, type, fingerprint, containers, created_by, created_at,
        expires_at, body)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    RETURNING id
)
INSERT INTO intent_cvcs (tenant, intent, expires_at, sealed)
SELECT $1, id, $10::bigint, $11::bytea FROM inserted WHERE $10::bigint IS NOT NULL";

pub(crate) async fn insert_token_intent(
    transaction: &mut PostgresTransaction,
    intent: &StoredTokenIntent,
    extras: &CommitExtras,
) -> Result<(), StoreError> {
    let tenant = transaction.tenant;
    transaction.check_sealed(tenant, &[&intent.record.body]).await?;
    let row = insert_intent_parameters(tenant, &intent.record);
    let cvc = intent.cvc.as_ref();
    let cvc_columns = parameters![cvc.map(|it| it.expires_at), cvc.map(|it| &it.sealed)];
    let mut columns = driver_parameters(&row);
    columns.extend(driver_parameters(&cvc_columns));
    transaction.execute_raw(INSERT_TOKEN_INTENT, &columns).await?;
    insert_commit_extras(transaction, tenant, extras, "created").await
}
