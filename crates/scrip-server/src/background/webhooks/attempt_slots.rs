//! The limit of attempts in progress, shared by all webhooks.
//!
//! A tenant may begin another attempt only while it has fewer than are free: one tenant alone gets
//! half of the limit, and another tenant always finds a free place. Slow receivers share a smaller
//! limit in the same way. So however many receivers hang, the others keep their places.

use std::sync::Arc;

use scrip_core::types::id::TenantId;
use scrip_egress::{KeyedLimiter, KeyedLimits, KeyedPermit};
use tokio::sync::Notify;

const ATTEMPTS_MAX: usize = 512;
const SLOW_ATTEMPTS_MAX: usize = 256;

/// Whether a receiver answered quickly and with success before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiverSpeed {
    Normal,
    Slow,
}

#[derive(Debug)]
pub(super) struct AttemptSlots {
    all: Arc<KeyedLimiter<TenantId>>,
    slow: Arc<KeyedLimiter<TenantId>>,
    /// A slot became free.
    pub(super) freed: Notify,
}

/// The place of one attempt. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct AttemptSlot {
    slots: Arc<AttemptSlots>,
    permits: Option<(KeyedPermit<TenantId>, Option<KeyedPermit<TenantId>>)>,
}

impl Default for AttemptSlots {
    fn default() -> Self {
        let limiter = |total_max| {
            KeyedLimiter::new(KeyedLimits { total_max, per_key_max: total_max, waiting_max: 0 })
        };
        let (all, slow) = (limiter(ATTEMPTS_MAX), limiter(SLOW_ATTEMPTS_MAX));
        Self { all, slow, freed: Notify::new() }
    }
}

impl AttemptSlots {
    /// Takes a place if the tenant may have another one.
    pub(super) fn try_take(
        self: &Arc<Self>,
        tenant: TenantId,
        speed: ReceiverSpeed,
    ) -> Option<AttemptSlot> {
        let slow_permit = match speed {
            ReceiverSpeed::Normal => None,
            ReceiverSpeed::Slow => Some(self.slow.try_acquire(&tenant)?),
        };
        let permits = Some((self.all.try_acquire(&tenant)?, slow_permit));
        Some(AttemptSlot { slots: Arc::clone(self), permits })
    }
}

impl Drop for AttemptSlot {
    fn drop(&mut self) {
        drop(self.permits.take());
        self.slots.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn tenant(number: u128) -> TenantId {
        TenantId(Uuid::from_u128(number))
    }

    /// Takes as many slots as the tenant can get.
    fn take_all(slots: &Arc<AttemptSlots>, number: u128, speed: ReceiverSpeed) -> Vec<AttemptSlot> {
        std::iter::from_fn(|| slots.try_take(tenant(number), speed)).collect()
    }

    #[test]
    fn tenant_gets_half_of_the_slots_and_later_tenants_get_some() {
        let slots = Arc::new(AttemptSlots::default());
        let first = take_all(&slots, 1, ReceiverSpeed::Normal);
        assert_eq!(first.len(), ATTEMPTS_MAX / 2);
        let second = take_all(&slots, 2, ReceiverSpeed::Normal);
        assert_eq!(second.len(), ATTEMPTS_MAX / 4);
        let mut others = Vec::new();
        for number in 3..100 {
            others.extend(take_all(&slots, number, ReceiverSpeed::Normal));
        }
        assert_eq!(first.len() + second.len() + others.len(), ATTEMPTS_MAX);
        drop(others.pop());
        assert!(slots.try_take(tenant(1), ReceiverSpeed::Normal).is_none(), "it has its share");
        assert!(slots.try_take(tenant(200), ReceiverSpeed::Normal).is_some());
    }

    #[test]
    fn slow_receivers_of_many_tenants_leave_half_of_the_slots() {
        let slots = Arc::new(AttemptSlots::default());
        let mut slow = Vec::new();
        for number in 0..1000 {
            slow.extend(take_all(&slots, number, ReceiverSpeed::Slow));
        }
        assert_eq!(slow.len(), SLOW_ATTEMPTS_MAX);
        let normal = take_all(&slots, 5000, ReceiverSpeed::Normal);
        assert_eq!(normal.len(), (ATTEMPTS_MAX - SLOW_ATTEMPTS_MAX) / 2);
        drop((slow, normal));
        assert_eq!((slots.all.load(), slots.slow.load()), ((0, 0), (0, 0)));
    }
}
