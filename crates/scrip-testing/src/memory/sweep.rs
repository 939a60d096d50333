//! What leaves because its time is over: all of it at once.

use scrip_core::{audit::AuditRecord, time::Timestamp, token_intent::StoredTokenIntent};

use crate::memory::State;

impl State {
    pub(super) fn sweep_tokens(&mut self, ended: Timestamp, audit: &AuditRecord) -> usize {
        let mut swept = 0;
        while let Some(at) = self.first_to_end(ended) {
            self.expire(at, audit);
            swept += 1;
        }
        swept
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

    pub(super) fn sweep_token_intents(&mut self, ended: Timestamp, audit: &AuditRecord) -> usize {
        let is_live = |(_, it): &(_, StoredTokenIntent)| it.record.is_live(ended);
        let (live, expired) = std::mem::take(&mut self.intents).into_iter().partition(is_live);
        self.intents = live;
        let expired: Vec<_> = expired;
        for (tenant, it) in &expired {
            self.record(*tenant, audit, &it.record.id.to_string(), "expired");
        }
        expired.len()
    }

    pub(super) fn sweep_cvcs(&mut self, ended: Timestamp) -> usize {
        let had = self.cvcs();
        for row in &mut self.tokens {
            row.token.cvc.take_if(|it| it.expires_at <= ended);
        }
        for (_, intent) in &mut self.intents {
            intent.cvc.take_if(|it| it.expires_at <= ended);
        }
        had - self.cvcs()
    }

    pub(super) fn cvcs(&self) -> usize {
        let of_tokens = self.tokens.iter().filter(|it| it.token.cvc.is_some()).count();
        of_tokens + self.intents.iter().filter(|(_, it)| it.cvc.is_some()).count()
    }
}
