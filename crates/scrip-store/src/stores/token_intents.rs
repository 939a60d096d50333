//! Token intents.

use scrip_core::{
    Timestamp,
    audit::AuditRecord,
    change::{ChangeOutcome, CommitExtras},
    events::NewDelivery,
    policy::LookupPermit,
    store::TokenIntentStore,
    token::StoredTokenIntent,
    types::{StoreFuture, id::TokenIntentId},
};

use crate::{
    shared::tokens::{rows::decode_token_intent, writes::consume_token_intent},
    sql::{ColumnReader, Statements, WriteTransaction, parameters},
};

for_both_engines! {
impl TokenIntentStore {
    fn insert_token_intent(
        &self,
        lookup: LookupPermit,
        intent: StoredTokenIntent,
        extras: CommitExtras,
    ) -> StoreFuture<'_, ()> {
        Box::pin(self.put_token_intent(lookup.tenant().id, intent, extras))
    }

    fn find_token_intent(
        &self,
        lookup: LookupPermit,
        id: TokenIntentId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<StoredTokenIntent>> {
        let tenant = lookup.tenant().id;
        Box::pin(async move {
            let decode_intent = |row: &dyn ColumnReader| decode_token_intent(row, id);
            let key = parameters![tenant, id, now];
            self.for_tenant(tenant).find(Self::FIND_TOKEN_INTENT, &key, decode_intent).await
        })
    }

    fn delete_token_intent(
        &self,
        lookup: LookupPermit,
        id: TokenIntentId,
        audit: AuditRecord,
        deliveries: Vec<NewDelivery>,
    ) -> StoreFuture<'_, ChangeOutcome> {
        let tenant = lookup.tenant().id;
        Box::pin(self.write(tenant, async move |it| {
            let outcome = consume_token_intent(it, tenant, id, &audit, "deleted").await?;
            if outcome == ChangeOutcome::Done {
                it.insert_deliveries(&deliveries).await?;
            }
            Ok(outcome)
        }))
    }
}
}
