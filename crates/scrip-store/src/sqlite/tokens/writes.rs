//! Tokens: found, written and removed.

use rusqlite::Connection;
use scrip_core::{
    id::{TenantId, TokenId},
    policy::{Inquiry, Permit},
    store::{Changed, StoreError, StoreFuture, TokenStore},
    time::Timestamp,
    token::{
        Batched, CvcChange, DeleteToken, StoredToken, TokenBatch, TokenRecord, TokenType,
        disclosure::{DuplicateKey, DuplicateLookup},
    },
};

use crate::{
    rules::{
        answers::insert_answer,
        tokens::{
            rows::{
                NumberedToken, inserted_columns, inserted_token, numbered_token, update_token,
                updated_token,
            },
            writes::{BatchAttempt, TokenTransaction, delete_token, find_token, write_tokens},
        },
    },
    sql::{ColumnReader, Execute, Statements, WriteTransaction, parameters, required, run_ready},
    sqlite::{
        SqliteStore,
        engine::{
            statement::{at_one_instant, try_insert},
            transaction::Transaction,
        },
        tokens::entries::{INSERT_ENTRY, REMOVE_ENTRY, each_entry, replace_entries},
    },
    uses::Uses,
};

/// A token's row with its code.
macro_rules! select_tokens {
    () => {
        concat!(
            "SELECT ",
            $crate::rules::tokens::rows::token_columns!("seq"),
            " FROM tokens LEFT JOIN cvcs ON cvcs.token = tokens.seq"
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

/// One seek: the longest-lived, then the oldest.
macro_rules! find_duplicate {
    ($name:literal, $column:literal) => {
        concat!(
            "-- ",
            $name,
            "\n",
            select_tokens!(),
            " WHERE tokens.tenant = $1 AND tokens.",
            $column,
            " = $2 AND ifnull(tokens.expires_at, 9223372036854775807) > $3 AND tokens.id <> $4
              ORDER BY ifnull(tokens.expires_at, 9223372036854775807) DESC, tokens.created_at,
                  tokens.seq
              LIMIT 1"
        )
    };
}

const FIND_DUPLICATE: &str = find_duplicate!("find_duplicate", "duplicate_key");
const FIND_DUPLICATE_TO_READ: &str =
    find_duplicate!("find_duplicate_to_read", "duplicate_read_key");

const INSERT_TOKEN: &str = concat!(
    "-- insert_token\nINSERT INTO tokens (",
    inserted_columns!(),
    ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
);

const PUT_CVC: &str = "
-- put_cvc
INSERT OR REPLACE INTO cvcs (token, expires_at, sealed) VALUES ($1, $2, $3)";

const DELETE_CVC: &str = "
-- delete_cvc
DELETE FROM cvcs WHERE token = $1";

const UPDATE_TOKEN: &str = update_token!("seq");

const DELETE_TOKEN: &str = "
-- delete_token
DELETE FROM tokens WHERE seq = $1 RETURNING tenant, type";

pub(crate) const STATEMENTS: &[&str] = &[
    FIND_TOKEN,
    FIND_DUPLICATE,
    FIND_DUPLICATE_TO_READ,
    INSERT_TOKEN,
    PUT_CVC,
    DELETE_CVC,
    UPDATE_TOKEN,
    DELETE_TOKEN,
];

impl TokenTransaction for Transaction<'_> {
    const FIND_TOKEN: &'static str = FIND_TOKEN;

    async fn find_duplicates(
        &self,
        tenant: TenantId,
        lookup: &DuplicateLookup,
        now: Timestamp,
        own_id: &str,
    ) -> Result<Vec<NumberedToken>, StoreError> {
        let DuplicateLookup { keys: [first, second], read_key } = lookup;
        let second = (second != first).then_some(second);
        let seeks = [
            (FIND_DUPLICATE, Some(first)),
            (FIND_DUPLICATE, second),
            (FIND_DUPLICATE_TO_READ, read_key.as_ref()),
        ];
        let mut found = Vec::new();
        for (sql, key) in seeks {
            let Some(DuplicateKey(key)) = key else { continue };
            let of = parameters![tenant, key, now, own_id];
            found.extend(self.find(sql, &of, numbered_token).await?);
        }
        Ok(found)
    }

    async fn insert_token(
        &mut self,
        tenant: TenantId,
        StoredToken { record, cvc }: &StoredToken,
    ) -> Result<Option<i64>, StoreError> {
        let Some(seq) = try_insert(self, INSERT_TOKEN, &inserted_token(tenant, record))? else {
            return Ok(None);
        };
        self.tally.made(tenant, record.token_type, record.created_at);
        if let Some(cvc) = cvc {
            let row = parameters![seq, cvc.expires_at, &cvc.sealed];
            self.execute(PUT_CVC, &row).await?;
        }
        each_entry(self, INSERT_ENTRY, tenant, seq, record)?;
        Ok(Some(seq))
    }

    async fn replace_token(
        &self,
        tenant: TenantId,
        before: &NumberedToken,
        after: &TokenRecord,
        cvc: &CvcChange,
    ) -> Result<(), StoreError> {
        let seq = before.number;
        self.execute(UPDATE_TOKEN, &updated_token(tenant, seq, after)).await?;
        match cvc {
            CvcChange::Keep => 0,
            CvcChange::Remove => self.execute(DELETE_CVC, &parameters![seq]).await?,
            CvcChange::Replace(cvc) => {
                self.execute(PUT_CVC, &parameters![seq, cvc.expires_at, &cvc.sealed]).await?
            }
        };
        replace_entries(self, tenant, before, after)
    }

    /// The cvc and the data in remembered answers go with the row, by the schema.
    async fn remove_token(
        &mut self,
        tenant: TenantId,
        number: i64,
        record: &TokenRecord,
    ) -> Result<(), StoreError> {
        each_entry(self, REMOVE_ENTRY, tenant, number, record)?;
        remove_row(self, number).await
    }

    async fn earliest_time(&self, at: Timestamp) -> Result<Timestamp, StoreError> {
        Ok(at)
    }
}

/// Without the entries by which it was found, which lead nowhere then. The only way out for a row of
/// a tenant that has counts: it is taken from those it says it is in, whatever else is altered in it.
pub(crate) async fn remove_row(
    transaction: &mut Transaction<'_>,
    seq: i64,
) -> Result<(), StoreError> {
    let counted = |row: &dyn ColumnReader| {
        let tenant = required::<TenantId>(row, 0).ok();
        Ok(tenant.zip(required::<TokenType>(row, 1).ok()))
    };
    let gone = transaction.query(DELETE_TOKEN, &parameters![seq], counted).await?;
    for (tenant, of) in gone.into_iter().flatten() {
        transaction.tally.gone(tenant, of);
    }
    Ok(())
}

/// The work of one savepoint.
async fn write_batch(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    batch: TokenBatch,
) -> Result<Batched, StoreError> {
    transaction.check_tenant(tenant).await?;
    let BatchAttempt { batched, numbers } =
        write_tokens(transaction, tenant, &batch.writes).await?;
    if let Batched::Written(outcomes) = &batched
        && let Some(answer) = batch.render.and_then(|it| it(outcomes))
    {
        insert_answer(transaction, tenant, &answer, &numbers).await?;
    }
    Ok(batched)
}

fn find(
    connection: &Connection,
    tenant: TenantId,
    id: &TokenId,
    now: Timestamp,
) -> Result<Option<StoredToken>, StoreError> {
    let found = run_ready(find_token(connection, FIND_TOKEN, tenant, id, now))?;
    Ok(found.map(|it| it.token))
}

impl TokenStore for SqliteStore {
    fn write_tokens(&self, inquiry: Inquiry, batch: TokenBatch) -> StoreFuture<'_, Batched> {
        let tenant = inquiry.tenant().id;
        let uses = Uses::of(&batch);
        let work = move |it: &mut Transaction<'_>| run_ready(write_batch(it, tenant, batch));
        let written = self.writer.write_if(work, |it| matches!(it, Batched::Written(_)));
        Box::pin(async move {
            let written = written.await?;
            self.access.note_active(tenant, uses.active(&written));
            Ok(written)
        })
    }

    fn find_token<'a>(
        &'a self,
        inquiry: Inquiry,
        id: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, Option<StoredToken>> {
        let tenant = inquiry.tenant().id;
        self.read(move |it| find(it, tenant, id, now))
    }

    /// Each where its id stands, all as of one instant.
    fn find_tokens<'a>(
        &'a self,
        inquiry: Inquiry,
        ids: &'a [TokenId],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<Option<StoredToken>>> {
        let tenant = inquiry.tenant().id;
        self.read(move |it| {
            at_one_instant(it, || ids.iter().map(|id| find(it, tenant, id, now)).collect())
        })
    }

    fn delete_token(&self, permit: Permit, delete: DeleteToken) -> StoreFuture<'_, Changed> {
        let tenant = permit.tenant().id;
        Box::pin(self.write(tenant, async move |it| delete_token(it, tenant, &delete).await))
    }
}
