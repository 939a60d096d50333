//! Token intents, in a list.

use scrip_core::{
    Timestamp,
    audit::AuditRecord,
    change::{ChangeOutcome, CommitExtras},
    events::NewDelivery,
    policy::LookupPermit,
    store::TokenIntentStore,
    token::StoredTokenIntent,
    types::{
        StoreFuture,
        id::{TenantId, TokenIntentId},
    },
};

use crate::memory::{MemoryStore, state::MemoryStoreState};

impl TokenIntentStore for MemoryStore {
    fn insert_token_intent(
        &self,
        lookup: LookupPermit,
        intent: StoredTokenIntent,
        extras: CommitExtras,
    ) -> StoreFuture<'_, ()> {
        self.attempt(move |it| {
            let tenant = lookup.tenant().id;
            it.check_tenant(tenant)?;
            it.intents.push((tenant, intent));
            it.insert_commit_extras(tenant, extras, "created")
        })
    }

    fn find_token_intent(
        &self,
        lookup: LookupPermit,
        id: TokenIntentId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<StoredTokenIntent>> {
        self.with(move |it| it.find_intent(lookup.tenant().id, id, now))
    }

    fn delete_token_intent(
        &self,
        lookup: LookupPermit,
        id: TokenIntentId,
        audit: AuditRecord,
        deliveries: Vec<NewDelivery>,
    ) -> StoreFuture<'_, ChangeOutcome> {
        self.with(move |it| {
            let outcome = it.delete_intent(lookup.tenant().id, id, &audit, "deleted");
            if outcome == ChangeOutcome::Done {
                it.insert_deliveries(deliveries);
            }
            outcome
        })
    }
}

impl MemoryStoreState {
    pub(super) fn find_intent(
        &self,
        tenant: TenantId,
        id: TokenIntentId,
        now: Timestamp,
    ) -> Option<StoredTokenIntent> {
        let is_requested = |(owner, it): &&(TenantId, StoredTokenIntent)| {
            *owner == tenant && it.record.id == id && it.record.is_live(now)
        };
        self.intents.iter().find(is_requested).map(|(_, it)| it.clone())
    }

    /// Removes an intent that is deleted or converted.
    pub(super) fn delete_intent(
        &mut self,
        tenant: TenantId,
        id: TokenIntentId,
        audit: &AuditRecord,
        outcome: &'static str,
    ) -> ChangeOutcome {
        if self.find_intent(tenant, id, audit.at).is_none() {
            return ChangeOutcome::Stale;
        }
        self.intents.retain(|(owner, it)| *owner != tenant || it.record.id != id);
        self.append_audit_record(tenant, audit, &id.to_string(), outcome);
        ChangeOutcome::Done
    }
}
