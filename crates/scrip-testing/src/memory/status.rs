//! What there is, for the operator.

use scrip_core::store::StoreStatus;

use crate::memory::State;

impl State {
    pub(super) fn status(&self) -> StoreStatus {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let policies = &self.directory.tenants;
        let applications = policies.iter().map(|it| it.applications.len()).sum();
        let api_keys = policies.iter().map(|it| it.api_keys.len()).sum();
        let counts = vec![
            ("tenants", count(policies.len())),
            ("applications", count(applications)),
            ("api_keys", count(api_keys)),
            ("access_sessions", count(self.access_sessions.len())),
            ("tokens", count(self.tokens.len())),
            ("token_intents", count(self.intents.len())),
            ("verification_codes", count(self.cvcs())),
            ("sessions", count(self.sessions.len())),
            ("session_events", count(self.events.len())),
            ("remembered_answers", count(self.answers.len())),
            ("audit_records", count(self.audit.len())),
            ("access_records", count(self.access.len())),
        ];
        StoreStatus { engine: "memory", counts, ..StoreStatus::default() }
    }
}
