//! Token intents.

use scrip_core::{
    change::CommitExtras,
    token::StoredTokenIntent,
    types::{StoreError, id::TenantId},
};

use crate::{
    shared::{
        idempotency::insert_commit_extras, key_versions::check_sealed,
        tokens::intents::insert_intent_parameters,
    },
    sql::{Execute, parameters},
    sqlite::{
        SqliteStore,
        engine::{statement::insert, transaction::SqliteTransaction},
    },
};

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
