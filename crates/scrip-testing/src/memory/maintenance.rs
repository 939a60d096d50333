//! Expiry, which removes everything that has ended at once, and the status for the operator.

use scrip_core::{
    audit::{AuditRecord, SignedWatermark},
    metrics::StoreMetrics,
    store::{ExpiringEntity, Maintenance, StoreFuture, StoreStatus},
    threeds::ThreeDsSessionRecord,
    time::Timestamp,
    token::StoredTokenIntent,
};

use crate::memory::{MemoryStore, MemoryStoreState};

impl Maintenance for MemoryStore {
    fn delete_expired(
        &self,
        ending: ExpiringEntity,
        expired_by: Timestamp,
        audit: AuditRecord,
    ) -> StoreFuture<'_, usize> {
        self.with(move |state| match ending {
            ExpiringEntity::Token => state.expire_tokens(expired_by, &audit),
            ExpiringEntity::TokenIntent => state.expire_intents(expired_by, &audit),
            ExpiringEntity::ThreeDsSession => state.expire_sessions(expired_by, &audit),
        })
    }

    fn erase_expired_cvcs(&self, expired_by: Timestamp) -> StoreFuture<'_, usize> {
        self.with(move |state| {
            let had = state.count_cvcs();
            for row in &mut state.tokens {
                row.token.cvc.take_if(|it| it.expires_at <= expired_by);
            }
            for (_, intent) in &mut state.intents {
                intent.cvc.take_if(|it| it.expires_at <= expired_by);
            }
            had - state.count_cvcs()
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
            let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
            let policies = &state.directory.tenants;
            let applications = policies.iter().map(|it| it.applications.len()).sum();
            let api_keys = policies.iter().map(|it| it.api_keys.len()).sum();
            let counts = vec![
                ("tenants", count(policies.len())),
                ("applications", count(applications)),
                ("api_keys", count(api_keys)),
                ("access_sessions", count(state.access_sessions.len())),
                ("tokens", count(state.tokens.len())),
                ("token_intents", count(state.intents.len())),
                ("verification_codes", count(state.count_cvcs())),
                ("sessions", count(state.threeds_sessions.len())),
                ("session_events", count(state.events.len())),
                ("remembered_answers", count(state.idempotency_records.len())),
                ("audit_records", count(state.audit.len())),
                ("access_records", count(state.read_log.len())),
            ];
            StoreStatus { engine: "memory", counts, ..StoreStatus::default() }
        })
    }

    fn check_ready(&self) -> StoreFuture<'_, ()> {
        self.with(|_| ())
    }
}

impl MemoryStoreState {
    fn expire_tokens(&mut self, expired_by: Timestamp, audit: &AuditRecord) -> usize {
        let mut swept = 0;
        while let Some(at) = self.first_expired(expired_by) {
            self.expire(at, audit);
            swept += 1;
        }
        swept
    }

    fn expire_intents(&mut self, expired_by: Timestamp, audit: &AuditRecord) -> usize {
        let is_live = |(_, it): &(_, StoredTokenIntent)| it.record.is_live(expired_by);
        let (live, expired): (_, Vec<_>) =
            std::mem::take(&mut self.intents).into_iter().partition(is_live);
        self.intents = live;
        for (tenant, it) in &expired {
            self.append_audit_record(*tenant, audit, &it.record.id.to_string(), "expired");
        }
        expired.len()
    }

    /// Records are left in the order in which sessions end.
    fn expire_sessions(&mut self, expired_by: Timestamp, audit: &AuditRecord) -> usize {
        let has_ended =
            |it: &ThreeDsSessionRecord| it.deletes_at.is_some_and(|it| it <= expired_by);
        let (mut gone, left): (Vec<_>, _) =
            std::mem::take(&mut self.threeds_sessions).into_iter().partition(has_ended);
        self.threeds_sessions = left;
        gone.sort_by_key(|it| it.deletes_at);
        for it in &gone {
            self.append_audit_record(it.tenant, audit, &it.id.to_string(), "expired");
        }
        gone.len()
    }

    /// Records are left in the order in which tokens end.
    fn first_expired(&self, expired_by: Timestamp) -> Option<usize> {
        let rows = self.tokens.iter().enumerate();
        let expired = rows.filter(|(_, it)| !it.token.record.is_live(expired_by));
        let first = expired.min_by_key(|(_, it)| (it.token.record.expires_at, it.number));
        first.map(|(at, _)| at)
    }

    /// However an expired token goes, it leaves a record.
    pub(super) fn expire(&mut self, at: usize, audit: &AuditRecord) {
        let found = self.tokens.get(at).map(|it| (it.tenant, it.token.record.id.clone()));
        if let Some((tenant, id)) = found {
            self.remove_token(at);
            self.append_audit_record(tenant, audit, id.as_str(), "expired");
        }
    }

    pub(super) fn count_cvcs(&self) -> usize {
        let of_tokens = self.tokens.iter().filter(|it| it.token.cvc.is_some()).count();
        of_tokens + self.intents.iter().filter(|(_, it)| it.cvc.is_some()).count()
    }
}
