//! Token intents.

use scrip_core::{
    audit::AuditRecord,
    id::TokenIntentId,
    policy::Inquiry,
    store::{Beside, Changed, StoreFuture, TokenIntentStore},
    time::Timestamp,
    token::StoredTokenIntent,
};

use crate::{
    rules::tokens::intents::{end_token_intent, stored_token_intent},
    sql::{ColumnReader, Statements, for_both_engines, parameters},
};

for_both_engines! {
impl TokenIntentStore {
    fn insert_token_intent(
        &self,
        inquiry: Inquiry,
        intent: StoredTokenIntent,
        written: Beside,
    ) -> StoreFuture<'_, ()> {
        Box::pin(self.put_token_intent(inquiry.tenant().id, intent, written))
    }

    fn find_token_intent(
        &self,
        inquiry: Inquiry,
        id: TokenIntentId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<StoredTokenIntent>> {
        let tenant = inquiry.tenant().id;
        Box::pin(async move {
            let stored = |row: &dyn ColumnReader| stored_token_intent(row, id);
            let of = parameters![tenant, id, now];
            self.of(tenant).find(Self::FIND_TOKEN_INTENT, &of, stored).await
        })
    }

    fn delete_token_intent(
        &self,
        inquiry: Inquiry,
        id: TokenIntentId,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Changed> {
        let tenant = inquiry.tenant().id;
        Box::pin(self.write(tenant, async move |it| {
            end_token_intent(it, tenant, id, &audit, "deleted").await
        }))
    }
}
}
