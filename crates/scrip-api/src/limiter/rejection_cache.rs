//! Caches rejections by the shared counters until they end, so that the counters need not be called
//! again.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use scrip_core::{
    Timestamp,
    policy::rate_limit::{CounterCheck, CounterKey, RateLimitName, counters::RateLimitRejection},
};

#[derive(Debug)]
pub(super) struct RejectionCache {
    until_ms: Mutex<HashMap<(RateLimitName, CounterKey), i64>>,
    /// When the last rejection ends. Mostly there is none, and no request takes the lock.
    latest_until_ms: AtomicI64,
}

/// Maximum size of the cache. Further rejections are not cached. The cache only saves calls;
/// results do not depend on it.
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
        let entries = self.until_ms.lock().unwrap_or_else(PoisonError::into_inner);
        let until_ms =
            entries.get(&(check.limit, check.key)).copied().filter(|it| now.unix_ms <= *it);
        drop(entries);
        let Some(until_ms) = until_ms else { return Ok(()) };
        let wait_ms = until_ms.saturating_sub(now.unix_ms).saturating_add(1);
        let wait = Duration::from_millis(u64::try_from(wait_ms).unwrap_or_default());
        Err(RateLimitRejection { limit: check.limit, rate: check.rate, retry_after: wait })
    }

    /// Caches a rejection for the wait. The wait may have started slightly before now, so the entry
    /// ends a millisecond early, and the counters decide.
    pub(super) fn insert(&self, now: Timestamp, check: &CounterCheck, wait: Duration) {
        let until_ms = now.plus(wait).unix_ms.saturating_sub(1);
        let mut entries = self.until_ms.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= REJECTIONS_MAX {
            entries.retain(|_, until_ms| now.unix_ms <= *until_ms);
        }
        if entries.len() < REJECTIONS_MAX {
            entries.insert((check.limit, check.key), until_ms);
            self.latest_until_ms.fetch_max(until_ms, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use scrip_core::policy::rate_limit::{ClientNetwork, EffectiveRates, address_check};

    use super::*;

    fn check_for_address(number: u32) -> CounterCheck {
        let network = ClientNetwork::from_address(std::net::Ipv4Addr::from(number).into());
        address_check(&EffectiveRates::default(), network).unwrap()
    }

    #[test]
    fn rejection_expires_after_its_wait_and_cache_size_is_bounded() {
        let cache = RejectionCache::default();
        let timestamp = |unix_ms| Timestamp { unix_ms };
        cache.insert(timestamp(1000), &check_for_address(0), Duration::from_millis(500));
        assert_eq!(
            cache
                .find_rejection(timestamp(1499), &check_for_address(0))
                .unwrap_err()
                .retry_after
                .as_millis(),
            1
        );
        assert_eq!(cache.find_rejection(timestamp(1500), &check_for_address(0)), Ok(()));
        assert_eq!(cache.find_rejection(timestamp(1400), &check_for_address(1)), Ok(()));
        for number in 0..10_000 {
            cache.insert(timestamp(2000), &check_for_address(number), Duration::from_secs(30));
        }
        assert_eq!(cache.until_ms.lock().unwrap().len(), REJECTIONS_MAX);
        assert!(cache.find_rejection(timestamp(3000), &check_for_address(17)).is_err());
    }
}
