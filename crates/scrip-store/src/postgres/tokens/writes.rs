//! Tokens: found, written and removed.

use scrip_core::{
    id::{TenantId, TokenId},
    policy::{Inquiry, Permit},
    store::{Changed, StoreError, StoreFuture, TokenStore},
    time::Timestamp,
    token::{
        Batched, CvcChange, DeleteToken, StoredToken, TokenBatch, TokenRecord, TokenType,
        disclosure::DuplicateLookup,
    },
};

use crate::{
    facets::entry_columns,
    postgres::{
        PostgresStore,
        engine::{
            statement::{PostgresClient, not_after, raw},
            transaction::Transaction,
        },
        tokens::entries::{REMOVE_ENTRIES, each_entry, replace_entries},
    },
    rules::tokens::{
        rows::{
            NumberedToken, inserted_columns, inserted_token, numbered_token, update_token,
            updated_token,
        },
        writes::{TokenTransaction, delete_token, find_token},
    },
    sql::{Execute, Statements, parameters, required},
    uses::Uses,
};

/// A token's row with its code.
macro_rules! select_tokens {
    () => {
        concat!(
            "SELECT ",
            $crate::rules::tokens::rows::token_columns!("number"),
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
    inserted_columns!(),
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

impl TokenTransaction for Transaction {
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
        let of = parameters![tenant, first, second, now, own_id];
        self.query(sql, &of, numbered_token).await
    }

    async fn insert_token(
        &mut self,
        tenant: TenantId,
        StoredToken { record, cvc }: &StoredToken,
    ) -> Result<Option<i64>, StoreError> {
        let number = self.next_number();
        let row = inserted_token(tenant, record);
        let code = cvc.as_ref();
        let more = parameters![number, code.map(|it| it.expires_at), code.map(|it| &it.sealed)];
        let (facets, containers) = entry_columns(record);
        let mut columns = raw(&row);
        columns.extend(raw(&more));
        columns.push(&facets);
        columns.push(&containers);
        if self.rows(INSERT_TOKEN, &columns).await?.is_empty() {
            return Ok(None);
        }
        self.tally.made(tenant, record.token_type, record.created_at);
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
        self.execute(UPDATE_TOKEN, &updated_token(tenant, number, after)).await?;
        match cvc {
            CvcChange::Keep => 0,
            CvcChange::Remove => self.execute(DELETE_CVC, &parameters![tenant, number]).await?,
            CvcChange::Replace(cvc) => {
                let row = parameters![tenant, number, cvc.expires_at, &cvc.sealed];
                self.execute(PUT_CVC, &row).await?
            }
        };
        replace_entries(self, before, after).await
    }

    /// The code and the data in remembered answers go with the row, by the schema.
    async fn remove_token(
        &mut self,
        _: TenantId,
        number: i64,
        record: &TokenRecord,
    ) -> Result<(), StoreError> {
        each_entry(self, REMOVE_ENTRIES, number, record).await?;
        remove_row(self, number).await
    }

    async fn earliest_time(&self, at: Timestamp) -> Result<Timestamp, StoreError> {
        not_after(self, self.client()?.clock, at).await
    }
}

/// Without the entries by which it was found, which lead nowhere then. The only way out for a row of
/// a tenant that has counts: it is taken from those it says it is in.
pub(crate) async fn remove_row(
    transaction: &mut Transaction,
    number: i64,
) -> Result<(), StoreError> {
    let tenant = transaction.tenant;
    let of = parameters![tenant, number];
    let gone = transaction.query(DELETE_TOKEN, &of, |row| Ok(required::<TokenType>(row, 0).ok()));
    for of in gone.await?.into_iter().flatten() {
        transaction.tally.gone(tenant, of);
    }
    Ok(())
}

impl TokenStore for PostgresStore {
    fn write_tokens(&self, inquiry: Inquiry, batch: TokenBatch) -> StoreFuture<'_, Batched> {
        Box::pin(async move {
            let tenant = inquiry.tenant().id;
            let uses = Uses::of(&batch);
            let batched = self.writes.write_tokens(tenant, batch).await?;
            self.access.note_active(tenant, uses.active(&batched));
            Ok(batched)
        })
    }

    fn find_token<'a>(
        &'a self,
        inquiry: Inquiry,
        id: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, Option<StoredToken>> {
        Box::pin(async move {
            let tenant = inquiry.tenant().id;
            let found = find_token(&self.of(tenant), FIND_TOKEN, tenant, id, now).await?;
            Ok(found.map(|it| it.token))
        })
    }

    /// Each where its id stands. One statement sees one instant.
    fn find_tokens<'a>(
        &'a self,
        inquiry: Inquiry,
        ids: &'a [TokenId],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<Option<StoredToken>>> {
        Box::pin(async move {
            let tenant = inquiry.tenant().id;
            let texts: Vec<_> = ids.iter().map(TokenId::as_str).collect();
            let client = self.of(tenant);
            let rows = client.rows(FIND_TOKENS, &[&tenant.0, &texts, &now.unix_ms]).await?;
            let found = rows.iter().map(|row| numbered_token(row).map(|it| it.token));
            let found = found.collect::<Result<Vec<_>, _>>()?;
            let of = |id: &TokenId| found.iter().find(|it| it.record.id == *id).cloned();
            Ok(ids.iter().map(of).collect())
        })
    }

    fn delete_token(&self, permit: Permit, delete: DeleteToken) -> StoreFuture<'_, Changed> {
        let tenant = permit.tenant().id;
        Box::pin(self.write(tenant, async move |it| delete_token(it, tenant, &delete).await))
    }
}
