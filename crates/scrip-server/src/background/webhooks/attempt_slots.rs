//! The limit of attempts in progress, shared by all webhooks.
//!
//! A tenant may begin another attempt only while it has fewer than are free: one tenant alone gets
//! half of the limit, and another tenant always finds a free place. Slow receivers share a smaller
//! limit in the same way. So however many receivers hang, the others keep their places.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use scrip_core::types::id::TenantId;
use tokio::sync::Notify;

const ATTEMPTS_MAX: usize = 512;
const SLOW_ATTEMPTS_MAX: usize = 256;

/// Whether a receiver answered quickly and with success before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiverSpeed {
    Normal,
    Slow,
}

#[derive(Debug, Default)]
pub(super) struct AttemptSlots {
    state: Mutex<SlotCounts>,
    /// A slot became free.
    pub(super) freed: Notify,
}

#[derive(Debug, Default)]
struct SlotCounts {
    all: SharedLimit,
    slow: SharedLimit,
}

/// The uses of a limit, by tenant.
#[derive(Debug, Default)]
struct SharedLimit {
    total: usize,
    tenants: HashMap<TenantId, usize>,
}

/// The place of one attempt. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct AttemptSlot {
    slots: Arc<AttemptSlots>,
    tenant: TenantId,
    speed: ReceiverSpeed,
}

impl AttemptSlots {
    /// Takes a place if the tenant may have another one.
    pub(super) fn try_take(
        self: &Arc<Self>,
        tenant: TenantId,
        speed: ReceiverSpeed,
    ) -> Option<AttemptSlot> {
        let mut counts = self.lock();
        let is_slow = speed == ReceiverSpeed::Slow;
        let has_place = counts.all.has_place(tenant, ATTEMPTS_MAX)
            && (!is_slow || counts.slow.has_place(tenant, SLOW_ATTEMPTS_MAX));
        if !has_place {
            return None;
        }
        counts.all.take(tenant);
        if is_slow {
            counts.slow.take(tenant);
        }
        Some(AttemptSlot { slots: Arc::clone(self), tenant, speed })
    }

    fn lock(&self) -> MutexGuard<'_, SlotCounts> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedLimit {
    fn has_place(&self, tenant: TenantId, total_max: usize) -> bool {
        let active = self.tenants.get(&tenant).copied().unwrap_or_default();
        active < total_max.saturating_sub(self.total)
    }

    fn take(&mut self, tenant: TenantId) {
        self.total = self.total.saturating_add(1);
        let active = self.tenants.entry(tenant).or_default();
        *active = active.saturating_add(1);
    }

    fn release(&mut self, tenant: TenantId) {
        self.total = self.total.saturating_sub(1);
        if let Some(active) = self.tenants.get_mut(&tenant) {
            *active = active.saturating_sub(1);
            if *active == 0 {
                self.tenants.remove(&tenant);
            }
        }
    }
}

impl Drop for AttemptSlot {
    fn drop(&mut self) {
        let mut counts = self.slots.lock();
        counts.all.release(self.tenant);
        if self.speed == ReceiverSpeed::Slow {
            counts.slow.release(self.tenant);
        }
        drop(counts);
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
        let counts = slots.lock();
        assert_eq!((counts.all.total, counts.slow.total), (0, 0));
        assert!(counts.all.tenants.is_empty() && counts.slow.tenants.is_empty());
    }
}
