//! The store of tokens and token intents. It is above `tokens`, because the store has the write
//! queue of `tokens/write_group.rs`.

use scrip_core::{
    Timestamp,
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
    postgres::{
        PostgresStore,
        engine::statement::PostgresClient,
        tokens::writes::{FIND_TOKEN, FIND_TOKENS},
    },
    shared::tokens::{
        rows::decode_numbered_token,
        writes::{delete_token, find_token},
    },
    token_activity::TokenActivity,
};

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

impl PostgresStore {
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
