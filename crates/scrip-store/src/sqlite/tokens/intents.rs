//! Token intents.

use scrip_core::{
    audit::AuditRecord,
    id::{TenantId, TokenIntentId},
    policy::Inquiry,
    store::{Beside, Changed, StoreError, StoreFuture, TokenIntentStore},
    time::Timestamp,
    token::StoredTokenIntent,
};

use crate::{
    rules::{
        answers::insert_beside,
        tokens::intents::{
            end_token_intent, find_token_intent, inserted_intent, inserted_intent_columns,
            intent_columns,
        },
    },
    sql::{Execute, WriteTransaction, parameters, run_ready},
    sqlite::{
        SqliteStore,
        engine::{statement::insert, transaction::Transaction},
    },
};

const INSERT_TOKEN_INTENT: &str = concat!(
    "-- insert_token_intent\nINSERT INTO token_intents (",
    inserted_intent_columns!(),
    ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
);

const INSERT_INTENT_CVC: &str = "
-- insert_intent_cvc
INSERT INTO intent_cvcs (intent, expires_at, sealed) VALUES ($1, $2, $3)";

async fn insert_token_intent(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    intent: &StoredTokenIntent,
    written: &Beside,
) -> Result<(), StoreError> {
    transaction.check_tenant(tenant).await?;
    let row = inserted_intent(tenant, &intent.record);
    let seq = insert(transaction, INSERT_TOKEN_INTENT, &row)?;
    if let Some(cvc) = &intent.cvc {
        let row = parameters![seq, cvc.expires_at, &cvc.sealed];
        transaction.execute(INSERT_INTENT_CVC, &row).await?;
    }
    insert_beside(transaction, tenant, written, "created").await
}

const FIND_TOKEN_INTENT: &str = concat!(
    "-- find_token_intent\nSELECT ",
    intent_columns!(),
    " FROM token_intents AS it LEFT JOIN intent_cvcs ON intent_cvcs.intent = it.seq
      WHERE it.tenant = $1 AND it.id = $2 AND it.expires_at > $3"
);

impl TokenIntentStore for SqliteStore {
    fn insert_token_intent(
        &self,
        inquiry: Inquiry,
        intent: StoredTokenIntent,
        written: Beside,
    ) -> StoreFuture<'_, ()> {
        let tenant = inquiry.tenant().id;
        self.write_old(move |it| run_ready(insert_token_intent(it, tenant, &intent, &written)))
    }

    fn find_token_intent(
        &self,
        inquiry: Inquiry,
        id: TokenIntentId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<StoredTokenIntent>> {
        let tenant = inquiry.tenant().id;
        self.read(move |it| run_ready(find_token_intent(it, FIND_TOKEN_INTENT, tenant, id, now)))
    }

    fn delete_token_intent(
        &self,
        inquiry: Inquiry,
        id: TokenIntentId,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Changed> {
        let tenant = inquiry.tenant().id;
        self.write_old(move |it| run_ready(end_token_intent(it, tenant, id, &audit, "deleted")))
    }
}
