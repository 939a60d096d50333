//! Token intents.

use scrip_core::{
    audit::AuditRecord,
    id::TokenIntentId,
    policy::LookupPermit,
    store::{ChangeOutcome, CommitExtras, StoreFuture, TokenIntentStore},
    time::Timestamp,
    token::StoredTokenIntent,
};

use crate::{
    shared::tokens::intents::{consume_token_intent, stored_token_intent},
    sql::{ColumnReader, Statements, for_both_engines, parameters},
};

for_both_engines! {
impl TokenIntentStore {
    fn insert_token_intent(
        &self,
        inquiry: LookupPermit,
        intent: StoredTokenIntent,
        written: CommitExtras,
    ) -> StoreFuture<'_, ()> {
        Box::pin(self.put_token_intent(inquiry.tenant().id, intent, written))
    }

    fn find_token_intent(
        &self,
        inquiry: LookupPermit,
        id: TokenIntentId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<StoredTokenIntent>> {
        let tenant = inquiry.tenant().id;
        Box::pin(async move {
            let stored = |row: &dyn ColumnReader| stored_token_intent(row, id);
            let of = parameters![tenant, id, now];
            self.for_tenant(tenant).find(Self::FIND_TOKEN_INTENT, &of, stored).await
        })
    }

    fn delete_token_intent(
        &self,
        inquiry: LookupPermit,
        id: TokenIntentId,
        audit: AuditRecord,
    ) -> StoreFuture<'_, ChangeOutcome> {
        let tenant = inquiry.tenant().id;
        Box::pin(self.write(tenant, async move |it| {
            consume_token_intent(it, tenant, id, &audit, "deleted").await
        }))
    }
}
}
