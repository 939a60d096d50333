//! What the shared counters have refused, and until when: what they would say again is known
//! without asking them.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use scrip_core::{
    policy::rate_limit::{CounterCheck, CounterKey, RateLimitName, counters::RateLimitRejection},
    time::Timestamp,
};

#[derive(Debug)]
pub(super) struct RejectionCache {
    until_ms: Mutex<HashMap<(RateLimitName, CounterKey), i64>>,
    /// When the last of them ends: mostly there are none, and nobody takes the lock.
    latest_until_ms: AtomicI64,
}

/// More are asked about again. It is a short cut, and no promise.
const REJECTIONS_MAX: usize = 4096;

impl Default for RejectionCache {
    fn default() -> Self {
        Self { until_ms: Mutex::default(), latest_until_ms: AtomicI64::new(i64::MIN) }
    }
}

impl RejectionCache {
    pub(super) fn find_rejection(
        &self,
        now: Timestamp,
        check: &CounterCheck,
    ) -> Result<(), RateLimitRejection> {
        if self.latest_until_ms.load(Ordering::Relaxed) < now.unix_ms {
            return Ok(());
        }
        let known = self.until_ms.lock().unwrap_or_else(PoisonError::into_inner);
        let until_ms =
            known.get(&(check.limit, check.key)).copied().filter(|it| now.unix_ms <= *it);
        drop(known);
        let Some(until_ms) = until_ms else { return Ok(()) };
        let wait_ms = until_ms.saturating_sub(now.unix_ms).saturating_add(1);
        let wait = Duration::from_millis(u64::try_from(wait_ms).unwrap_or_default());
        Err(RateLimitRejection { limit: check.limit, rate: check.rate, retry_after: wait })
    }

    /// The wait may have begun a little before now, so it is kept a little shorter: the counters
    /// themselves have the last word.
    pub(super) fn insert(&self, now: Timestamp, check: &CounterCheck, wait: Duration) {
        let until_ms = now.plus(wait).unix_ms.saturating_sub(1);
        let mut known = self.until_ms.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REJECTIONS_MAX {
            known.retain(|_, until_ms| now.unix_ms <= *until_ms);
        }
        if known.len() < REJECTIONS_MAX {
            known.insert((check.limit, check.key), until_ms);
            self.latest_until_ms.fetch_max(until_ms, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use scrip_core::policy::rate_limit::{ClientNetwork, EffectiveRates, address_check};

    use super::*;

    fn demand_of_address(number: u32) -> CounterCheck {
        let network = ClientNetwork::from_address(std::net::Ipv4Addr::from(number).into());
        address_check(&EffectiveRates::default(), network).unwrap()
    }

    #[test]
    fn rejection_expires_after_its_wait_and_cache_size_is_bounded() {
        let refusals = RejectionCache::default();
        let at = |unix_ms| Timestamp { unix_ms };
        refusals.insert(at(1000), &demand_of_address(0), Duration::from_millis(500));
        assert_eq!(
            refusals
                .find_rejection(at(1499), &demand_of_address(0))
                .unwrap_err()
                .retry_after
                .as_millis(),
            1
        );
        assert_eq!(refusals.find_rejection(at(1500), &demand_of_address(0)), Ok(()));
        assert_eq!(refusals.find_rejection(at(1400), &demand_of_address(1)), Ok(()));
        for number in 0..10_000 {
            refusals.insert(at(2000), &demand_of_address(number), Duration::from_secs(30));
        }
        assert_eq!(refusals.until_ms.lock().unwrap().len(), REJECTIONS_MAX);
        assert!(refusals.find_rejection(at(3000), &demand_of_address(17)).is_err());
    }
}
