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
    policy::rate_limit::{Demand, Row, Subject, counters::Refused},
    time::Timestamp,
};

#[derive(Debug)]
pub(super) struct Refusals {
    until_ms: Mutex<HashMap<(Row, Subject), i64>>,
    /// When the last of them ends: mostly there are none, and nobody takes the lock.
    all_until_ms: AtomicI64,
}

/// More are asked about again. It is a short cut, and no promise.
const REMEMBERED_MAX: usize = 4096;

impl Default for Refusals {
    fn default() -> Self {
        Self { until_ms: Mutex::default(), all_until_ms: AtomicI64::new(i64::MIN) }
    }
}

impl Refusals {
    pub(super) fn ask(&self, now: Timestamp, demand: &Demand) -> Result<(), Refused> {
        if self.all_until_ms.load(Ordering::Relaxed) < now.unix_ms {
            return Ok(());
        }
        let known = self.until_ms.lock().unwrap_or_else(PoisonError::into_inner);
        let until_ms =
            known.get(&(demand.row, demand.subject)).copied().filter(|it| now.unix_ms <= *it);
        drop(known);
        let Some(until_ms) = until_ms else { return Ok(()) };
        let wait_ms = until_ms.saturating_sub(now.unix_ms).saturating_add(1);
        let wait = Duration::from_millis(u64::try_from(wait_ms).unwrap_or_default());
        Err(Refused { row: demand.row, rate: demand.rate, wait })
    }

    /// The wait may have begun a little before now, so it is kept a little shorter: the counters
    /// themselves have the last word.
    pub(super) fn remember(&self, now: Timestamp, demand: &Demand, wait: Duration) {
        let until_ms = now.after(wait).unix_ms.saturating_sub(1);
        let mut known = self.until_ms.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX {
            known.retain(|_, until_ms| now.unix_ms <= *until_ms);
        }
        if known.len() < REMEMBERED_MAX {
            known.insert((demand.row, demand.subject), until_ms);
            self.all_until_ms.fetch_max(until_ms, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use scrip_core::policy::rate_limit::{Figures, Network, address_demand};

    use super::*;

    fn demand(number: u32) -> Demand {
        let network = Network::of(std::net::Ipv4Addr::from(number).into());
        address_demand(&Figures::default(), network).unwrap()
    }

    #[test]
    fn a_refusal_lasts_as_long_as_was_said_and_room_is_bounded() {
        let refusals = Refusals::default();
        let at = |unix_ms| Timestamp { unix_ms };
        refusals.remember(at(1000), &demand(0), Duration::from_millis(500));
        assert_eq!(refusals.ask(at(1499), &demand(0)).unwrap_err().wait.as_millis(), 1);
        assert_eq!(refusals.ask(at(1500), &demand(0)), Ok(()));
        assert_eq!(refusals.ask(at(1400), &demand(1)), Ok(()));
        for number in 0..10_000 {
            refusals.remember(at(2000), &demand(number), Duration::from_secs(30));
        }
        assert_eq!(refusals.until_ms.lock().unwrap().len(), REMEMBERED_MAX);
        assert!(refusals.ask(at(3000), &demand(17)).is_err());
    }
}
