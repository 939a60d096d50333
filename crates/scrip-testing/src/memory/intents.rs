//! Token intents, in a list.

use scrip_core::{
    audit::AuditRecord,
    id::{TenantId, TokenIntentId},
    store::Changed,
    time::Timestamp,
    token_intent::StoredTokenIntent,
};

use super::State;

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
        (audit, word): (&AuditRecord, &'static str),
    ) -> Changed {
        if self.find_intent(tenant, id, audit.at).is_none() {
            return Changed::Stale;
        }
        self.intents.retain(|(of, it)| *of != tenant || it.record.id != id);
        self.record(tenant, audit, &id.to_string(), word);
        Changed::Done
    }
}
