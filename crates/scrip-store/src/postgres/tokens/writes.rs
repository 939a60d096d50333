//! Tokens: found, written and removed.

use scrip_core::{
    id::{TenantId, TokenId},
    policy::{LookupPermit, Permit},
    store::{ChangeOutcome, StoreError, StoreFuture, TokenStore},
    time::Timestamp,
    token::{
        BatchOutcome, CvcChange, DeleteToken, StoredToken, TokenBatch, TokenRecord, TokenType,
        disclosure::DuplicateLookup,
    },
};

use crate::{
    facets::index_entry_columns,
    postgres::{
        PostgresStore,
        engine::{
            statement::{PostgresClient, cap_at_database_clock, raw},
            transaction::PostgresTransaction,
        },
        tokens::index_entries::{DELETE_INDEX_ENTRIES, execute_for_entries, replace_index_entries},
    },
    shared::tokens::{
        rows::{
            NumberedToken, decode_numbered_token, insert_token_columns, insert_token_parameters,
            update_token, update_token_parameters,
        },
        writes::{TokenTransaction, delete_token, find_token},
    },
    sql::{Execute, Statements, parameters, required},
    token_activity::TokenActivity,
};

/// A token's row with its code.
macro_rules! select_tokens {
    () => {
        concat!(
            "SELECT ",
            $crate::shared::tokens::rows::token_columns!("number"),
            " FROM tokens
              LEFT JOIN cvcs ON cvcs.tenant = tokens.tenant AND cvcs.token = tokens.number"
        )
    };
}
pub(crate) use select_tokens;

pub(crate) const FIND_TOKEN: &str = concat!(
    "-- find_token\n",
    select_tokens!(),
    " WHERE tokens.tenant = $1 AND tokens.id = $2
      AND (tokens.expires_at IS NULL OR tokens.expires_at > $3)"
);

const FIND_TOKENS: &str = concat!(
    "-- find_tokens\n",
    select_tokens!(),
    " WHERE tokens.tenant = $1 AND tokens.id = ANY ($2)
      AND (tokens.expires_at IS NULL OR tokens.expires_at > $3)"
);

/// One seek: the longest-lived, then the oldest.
macro_rules! seek_duplicate {
    ($column:literal, $key:literal) => {
        concat!(
            "(",
            select_tokens!(),
            " WHERE tokens.tenant = $1 AND tokens.",
            $column,
            " = ",
            $key,
            " AND coalesce(tokens.expires_at, 9223372036854775807) > $4 AND tokens.id <> $5
              ORDER BY coalesce(tokens.expires_at, 9223372036854775807) DESC, tokens.created_at,
                  tokens.number
              LIMIT 1)"
        )
    };
}

const FIND_DUPLICATE: &str = concat!(
    "-- find_duplicate\n",
    seek_duplicate!("duplicate_key", "$2"),
    " UNION ALL ",
    seek_duplicate!("duplicate_key", "$3")
);
const FIND_DUPLICATE_TO_READ: &str = concat!(
    "-- find_duplicate_to_read\n",
    seek_duplicate!("duplicate_key", "$2"),
    " UNION ALL ",
    seek_duplicate!("duplicate_read_key", "$3")
);

/// With its code and its entries: nothing of it where a token has the id.
const INSERT_TOKEN: &str = concat!(
    "-- insert_token\nWITH made AS (INSERT INTO tokens (",
    insert_token_columns!(),
    ", number)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
    ON CONFLICT (tenant, id) DO NOTHING
    RETURNING number
), coded AS (
    INSERT INTO cvcs (tenant, token, expires_at, sealed)
    SELECT $1, number, $16::bigint, $17::bytea FROM made WHERE $16::bigint IS NOT NULL
), entered AS (
    INSERT INTO filed (tenant, facet, container, created_at, token)
    SELECT $1, it.facet, it.container, $7, made.number
    FROM made CROSS JOIN unnest($18::bytea[], $19::text[]) AS it (facet, container)
)
    SELECT number FROM made"
);

const PUT_CVC: &str = "
-- put_cvc
INSERT INTO cvcs (tenant, token, expires_at, sealed) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant, token) DO UPDATE SET expires_at = $3, sealed = $4";

const DELETE_CVC: &str = "
-- delete_cvc
DELETE FROM cvcs WHERE tenant = $1 AND token = $2";

const UPDATE_TOKEN: &str = update_token!("number");

const DELETE_TOKEN: &str = "
-- delete_token
DELETE FROM tokens WHERE tenant = $1 AND number = $2 RETURNING type";

impl TokenTransaction for PostgresTransaction {
    const FIND_TOKEN: &'static str = FIND_TOKEN;

    async fn find_duplicates(
        &self,
        tenant: TenantId,
        lookup: &DuplicateLookup,
        now: Timestamp,
        own_id: &str,
    ) -> Result<Vec<NumberedToken>, StoreError> {
        let DuplicateLookup { keys: [first, second], read_key } = lookup;
        let sql = if read_key.is_some() { FIND_DUPLICATE_TO_READ } else { FIND_DUPLICATE };
        let second = read_key.as_ref().unwrap_or(second);
        let key = parameters![tenant, first, second, now, own_id];
        self.query(sql, &key, decode_numbered_token).await
    }

    async fn insert_token(
        &mut self,
        tenant: TenantId,
        StoredToken { record, cvc }: &StoredToken,
    ) -> Result<Option<i64>, StoreError> {
        let number = self.next_number();
        let row = insert_token_parameters(tenant, record);
        let code = cvc.as_ref();
        let more = parameters![number, code.map(|it| it.expires_at), code.map(|it| &it.sealed)];
        let (facets, containers) = index_entry_columns(record);
        let mut columns = raw(&row);
        columns.extend(raw(&more));
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
        before: &NumberedToken,
        after: &TokenRecord,
        cvc: &CvcChange,
    ) -> Result<(), StoreError> {
        let number = before.number;
        self.execute(UPDATE_TOKEN, &update_token_parameters(tenant, number, after)).await?;
        match cvc {
            CvcChange::Keep => 0,
            CvcChange::Remove => self.execute(DELETE_CVC, &parameters![tenant, number]).await?,
            CvcChange::Replace(cvc) => {
                let row = parameters![tenant, number, cvc.expires_at, &cvc.sealed];
                self.execute(PUT_CVC, &row).await?
            }
        };
        replace_index_entries(self, before, after).await
    }

    /// The code and the data in remembered answers go with the row, by the schema.
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

/// Without the entries by which it was found, which lead nowhere then. The only way out for a row of
/// a tenant that has counts: it is taken from those it says it is in.
pub(crate) async fn delete_token_row(
    transaction: &mut PostgresTransaction,
    number: i64,
) -> Result<(), StoreError> {
    let tenant = transaction.tenant;
    let key = parameters![tenant, number];
    let gone = transaction.query(DELETE_TOKEN, &key, |row| Ok(required::<TokenType>(row, 0).ok()));
    for key in gone.await?.into_iter().flatten() {
        transaction.usage.count_removed(tenant, key);
    }
    Ok(())
}

impl TokenStore for PostgresStore {
    fn write_tokens(
        &self,
        lookup: LookupPermit,
        batch: TokenBatch,
    ) -> StoreFuture<'_, BatchOutcome> {
        Box::pin(async move {
            let tenant = lookup.tenant().id;
            let uses = TokenActivity::from_batch(&batch);
            let batched = self.write_queue.write_tokens(tenant, batch).await?;
            self.read_log.record_activity(tenant, uses.active_tokens(&batched));
            Ok(batched)
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
            let found = find_token(&self.for_tenant(tenant), FIND_TOKEN, tenant, id, now).await?;
            Ok(found.map(|it| it.token))
        })
    }

    /// Each where its id stands. One statement sees one instant.
    fn find_tokens<'a>(
        &'a self,
        lookup: LookupPermit,
        ids: &'a [TokenId],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<Option<StoredToken>>> {
        Box::pin(async move {
            let tenant = lookup.tenant().id;
            let texts: Vec<_> = ids.iter().map(TokenId::as_str).collect();
            let client = self.for_tenant(tenant);
            let rows = client.rows(FIND_TOKENS, &[&tenant.0, &texts, &now.unix_ms]).await?;
            let found = rows.iter().map(|row| decode_numbered_token(row).map(|it| it.token));
            let found = found.collect::<Result<Vec<_>, _>>()?;
            let key = |id: &TokenId| found.iter().find(|it| it.record.id == *id).cloned();
            Ok(ids.iter().map(key).collect())
        })
    }

    fn delete_token(&self, permit: Permit, delete: DeleteToken) -> StoreFuture<'_, ChangeOutcome> {
        let tenant = permit.tenant().id;
        Box::pin(self.write(tenant, async move |it| delete_token(it, tenant, &delete).await))
    }
}
