//! Deletion of all expired entities in one step, and the status for the operator.

use scrip_core::{
    Timestamp,
    audit::{AuditRecord, SignedWatermark},
    events::ExpiryEvents,
    policy::{POLICY_ENTITIES, PolicyEntity, PolicyRecords},
    store::{ExpiringEntity, Maintenance, StoreStatus},
    threeds::ThreeDsSessionRecord,
    token::StoredTokenIntent,
    types::{StoreFuture, metrics::StoreMetrics},
};

use crate::memory::{MemoryStore, state::MemoryStoreState};

impl Maintenance for MemoryStore {
    fn delete_expired(
        &self,
        entity: ExpiringEntity,
        cutoff: Timestamp,
        audit: AuditRecord,
        events: ExpiryEvents,
    ) -> StoreFuture<'_, usize> {
        self.with(move |state| match entity {
            ExpiringEntity::Token => state.expire_tokens(cutoff, &audit, &events),
            ExpiringEntity::TokenIntent => state.expire_intents(cutoff, &audit),
            ExpiringEntity::ThreeDsSession => state.expire_sessions(cutoff, &audit),
        })
    }

    fn erase_expired_cvcs(
        &self,
        cutoff: Timestamp,
        events: ExpiryEvents,
    ) -> StoreFuture<'_, usize> {
        self.with(move |state| {
            let count_before = state.count_cvcs();
            let mut deliveries = Vec::new();
            for row in &mut state.tokens {
                if row.token.cvc.take_if(|it| it.expires_at <= cutoff).is_some() {
                    deliveries.extend(events.raise_expired_cvc(row.tenant, &row.token.record.id));
                }
            }
            state.insert_deliveries(deliveries);
            for (_, intent) in &mut state.intents {
                intent.cvc.take_if(|it| it.expires_at <= cutoff);
            }
            count_before - state.count_cvcs()
        })
    }

    fn save_watermark(&self, watermark: SignedWatermark) -> StoreFuture<'_, ()> {
        self.with(move |it| it.clock_watermark = Some(watermark))
    }

    fn load_watermark(&self) -> StoreFuture<'_, Option<SignedWatermark>> {
        self.with(|it| it.clock_watermark)
    }

    fn metrics(&self) -> StoreMetrics {
        StoreMetrics::default()
    }

    fn status(&self) -> StoreFuture<'_, StoreStatus> {
        self.with(move |state| {
            let to_u64 = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
            let tenants = &state.directory.tenants;
            let mut counts = vec![("tenants", to_u64(tenants.len()))];
            for PolicyEntity { entity, .. } in POLICY_ENTITIES {
                let rows = tenants.iter().flat_map(PolicyRecords::rows);
                counts
                    .push((entity.table, to_u64(rows.filter(|it| it.entity() == entity).count())));
            }
            counts.extend([
                ("access_sessions", to_u64(state.access_sessions.len())),
                ("tokens", to_u64(state.tokens.len())),
                ("token_intents", to_u64(state.intents.len())),
                ("verification_codes", to_u64(state.count_cvcs())),
                ("threeds_sessions", to_u64(state.threeds_sessions.len())),
                ("webhook_deliveries", to_u64(state.deliveries.len())),
                ("idempotency_records", to_u64(state.idempotency_records.len())),
                ("audit_records", to_u64(state.audit.len())),
                ("read_log_records", to_u64(state.read_log.len())),
            ]);
            StoreStatus { engine: "memory", counts, ..StoreStatus::default() }
        })
    }

    fn check_ready(&self) -> StoreFuture<'_, ()> {
        self.with(|_| ())
    }
}

impl MemoryStoreState {
    fn expire_tokens(
        &mut self,
        cutoff: Timestamp,
        audit: &AuditRecord,
        events: &ExpiryEvents,
    ) -> usize {
        let mut deleted_count = 0;
        while let Some(index) = self.first_expired(cutoff) {
            if let Some(row) = self.tokens.get(index) {
                self.insert_deliveries(
                    events.raise_expired_token(row.tenant, &row.token.record.id),
                );
            }
            self.expire(index, audit);
            deleted_count += 1;
        }
        deleted_count
    }

    fn expire_intents(&mut self, cutoff: Timestamp, audit: &AuditRecord) -> usize {
        let is_live = |(_, it): &(_, StoredTokenIntent)| it.record.is_live(cutoff);
        let (live, expired): (_, Vec<_>) =
            std::mem::take(&mut self.intents).into_iter().partition(is_live);
        self.intents = live;
        for (tenant, it) in &expired {
            self.append_audit_record(*tenant, audit, &it.record.id.to_string(), "expired");
        }
        expired.len()
    }

    /// Appends the audit records in the order of expiry.
    fn expire_sessions(&mut self, cutoff: Timestamp, audit: &AuditRecord) -> usize {
        let is_expired = |it: &ThreeDsSessionRecord| it.deletes_at.is_some_and(|it| it <= cutoff);
        let (mut expired, remaining): (Vec<_>, _) =
            std::mem::take(&mut self.threeds_sessions).into_iter().partition(is_expired);
        self.threeds_sessions = remaining;
        expired.sort_by_key(|it| it.deletes_at);
        for it in &expired {
            self.append_audit_record(it.tenant, audit, &it.id.to_string(), "expired");
        }
        expired.len()
    }

    /// Returns the index of the token that expired first. Of two tokens that expired at the same
    /// time, the older one is first. The audit records are appended in this order.
    fn first_expired(&self, cutoff: Timestamp) -> Option<usize> {
        let rows = self.tokens.iter().enumerate();
        let expired = rows.filter(|(_, it)| !it.token.record.is_live(cutoff));
        let first = expired.min_by_key(|(_, it)| (it.token.record.expires_at, it.number));
        first.map(|(index, _)| index)
    }

    /// Removes an expired token and appends its audit record. Deletion of expired tokens and the
    /// insert of a token with the same id both call this function.
    pub(super) fn expire(&mut self, index: usize, audit: &AuditRecord) {
        let token_key = self.tokens.get(index).map(|it| (it.tenant, it.token.record.id.clone()));
        if let Some((tenant, id)) = token_key {
            self.remove_token(index);
            self.append_audit_record(tenant, audit, id.as_str(), "expired");
        }
    }

    pub(super) fn count_cvcs(&self) -> usize {
        let token_cvcs = self.tokens.iter().filter(|it| it.token.cvc.is_some()).count();
        token_cvcs + self.intents.iter().filter(|(_, it)| it.cvc.is_some()).count()
    }
}
