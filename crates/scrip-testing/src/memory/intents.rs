//! Token intents, in a list.

use scrip_core::{
    audit::AuditRecord,
    id::{TenantId, TokenIntentId},
    policy::Inquiry,
    store::{Beside, Changed, StoreFuture, TokenIntentStore},
    time::Timestamp,
    token::StoredTokenIntent,
};

use crate::memory::{MemoryStore, State};

impl TokenIntentStore for MemoryStore {
    fn insert_token_intent(
        &self,
        inquiry: Inquiry,
        intent: StoredTokenIntent,
        written: Beside,
    ) -> StoreFuture<'_, ()> {
        self.attempt(move |it| {
            let tenant = inquiry.tenant().id;
            it.check_tenant(tenant)?;
            it.intents.push((tenant, intent));
            it.beside(tenant, written, "created")
        })
    }

    fn find_token_intent(
        &self,
        inquiry: Inquiry,
        id: TokenIntentId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<StoredTokenIntent>> {
        self.with(move |it| it.find_intent(inquiry.tenant().id, id, now))
    }

    fn delete_token_intent(
        &self,
        inquiry: Inquiry,
        id: TokenIntentId,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Changed> {
        self.with(move |it| it.end_intent(inquiry.tenant().id, id, &audit, "deleted"))
    }
}

impl State {
    pub(super) fn find_intent(
        &self,
        tenant: TenantId,
        id: TokenIntentId,
        now: Timestamp,
    ) -> Option<StoredTokenIntent> {
        let is = |(of, it): &&(TenantId, StoredTokenIntent)| {
            *of == tenant && it.record.id == id && it.record.is_live(now)
        };
        self.intents.iter().find(is).map(|(_, it)| it.clone())
    }

    /// By deleting it, or by making a token of it.
    pub(super) fn end_intent(
        &mut self,
        tenant: TenantId,
        id: TokenIntentId,
        audit: &AuditRecord,
        word: &'static str,
    ) -> Changed {
        if self.find_intent(tenant, id, audit.at).is_none() {
            return Changed::Stale;
        }
        self.intents.retain(|(of, it)| *of != tenant || it.record.id != id);
        self.record(tenant, audit, &id.to_string(), word);
        Changed::Done
    }
}
