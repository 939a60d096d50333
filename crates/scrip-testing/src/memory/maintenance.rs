//! Expiry, which removes everything that has ended at once, and the status for the operator.

use scrip_core::{
    audit::{AuditRecord, NotedTime},
    measure::StoreMeasures,
    store::{Ending, Maintenance, StoreFuture, StoreStatus},
    threeds::SessionRecord,
    time::Timestamp,
    token::StoredTokenIntent,
};

use crate::memory::{MemoryStore, State};

impl Maintenance for MemoryStore {
    fn sweep(
        &self,
        ending: Ending,
        ended: Timestamp,
        audit: AuditRecord,
    ) -> StoreFuture<'_, usize> {
        self.with(move |state| match ending {
            Ending::Token => state.expire_tokens(ended, &audit),
            Ending::TokenIntent => state.expire_intents(ended, &audit),
            Ending::Session => state.expire_sessions(ended, &audit),
        })
    }

    fn sweep_cvcs(&self, ended: Timestamp) -> StoreFuture<'_, usize> {
        self.with(move |state| {
            let had = state.cvcs();
            for row in &mut state.tokens {
                row.token.cvc.take_if(|it| it.expires_at <= ended);
            }
            for (_, intent) in &mut state.intents {
                intent.cvc.take_if(|it| it.expires_at <= ended);
            }
            had - state.cvcs()
        })
    }

    fn note_time(&self, noted: NotedTime) -> StoreFuture<'_, ()> {
        self.with(move |it| it.known_time = Some(noted))
    }

    fn known_time(&self) -> StoreFuture<'_, Option<NotedTime>> {
        self.with(|it| it.known_time)
    }

    fn measures(&self) -> StoreMeasures {
        StoreMeasures::default()
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
                ("verification_codes", count(state.cvcs())),
                ("sessions", count(state.sessions.len())),
                ("session_events", count(state.events.len())),
                ("remembered_answers", count(state.answers.len())),
                ("audit_records", count(state.audit.len())),
                ("access_records", count(state.access.len())),
            ];
            StoreStatus { engine: "memory", counts, ..StoreStatus::default() }
        })
    }

    fn check_ready(&self) -> StoreFuture<'_, ()> {
        self.with(|_| ())
    }
}

impl State {
    fn expire_tokens(&mut self, ended: Timestamp, audit: &AuditRecord) -> usize {
        let mut swept = 0;
        while let Some(at) = self.first_to_end(ended) {
            self.expire(at, audit);
            swept += 1;
        }
        swept
    }

    fn expire_intents(&mut self, ended: Timestamp, audit: &AuditRecord) -> usize {
        let is_live = |(_, it): &(_, StoredTokenIntent)| it.record.is_live(ended);
        let (live, expired): (_, Vec<_>) =
            std::mem::take(&mut self.intents).into_iter().partition(is_live);
        self.intents = live;
        for (tenant, it) in &expired {
            self.record(*tenant, audit, &it.record.id.to_string(), "expired");
        }
        expired.len()
    }

    /// Records are left in the order in which sessions end.
    fn expire_sessions(&mut self, ended: Timestamp, audit: &AuditRecord) -> usize {
        let has_ended = |it: &SessionRecord| it.ends_at.is_some_and(|it| it <= ended);
        let (mut gone, left): (Vec<_>, _) =
            std::mem::take(&mut self.sessions).into_iter().partition(has_ended);
        self.sessions = left;
        gone.sort_by_key(|it| it.ends_at);
        for it in &gone {
            self.record(it.tenant, audit, &it.id.to_string(), "expired");
        }
        gone.len()
    }

    /// Records are left in the order in which tokens end.
    fn first_to_end(&self, ended: Timestamp) -> Option<usize> {
        let rows = self.tokens.iter().enumerate();
        let expired = rows.filter(|(_, it)| !it.token.record.is_live(ended));
        let first = expired.min_by_key(|(_, it)| (it.token.record.expires_at, it.number));
        first.map(|(at, _)| at)
    }

    /// However an expired token goes, it leaves a record.
    pub(super) fn expire(&mut self, at: usize, audit: &AuditRecord) {
        let found = self.tokens.get(at).map(|it| (it.tenant, it.token.record.id.clone()));
        if let Some((tenant, id)) = found {
            self.remove(at);
            self.record(tenant, audit, id.as_str(), "expired");
        }
    }

    pub(super) fn cvcs(&self) -> usize {
        let of_tokens = self.tokens.iter().filter(|it| it.token.cvc.is_some()).count();
        of_tokens + self.intents.iter().filter(|(_, it)| it.cvc.is_some()).count()
    }
}
