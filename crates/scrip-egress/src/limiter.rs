//! A limit of simultaneous uses with a fair share for each key.
//!
//! A key may begin another use only while it has fewer than are free. So one key alone gets half of
//! the limit, two keys get a third each, and a new key finds a free place.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    hash::Hash,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// Limits of a [`KeyedLimiter`].
#[derive(Debug, Clone, Copy)]
pub struct KeyedLimits {
    /// Shared by all keys.
    pub total_max: usize,
    pub per_key_max: usize,
    /// Waiting uses, shared in the same way.
    pub waiting_max: usize,
}

pub struct KeyedLimiter<K: Hash + Eq + Clone> {
    limits: KeyedLimits,
    state: Mutex<LimiterState<K>>,
}

struct LimiterState<K: Hash + Eq + Clone> {
    total: usize,
    waiting: usize,
    keys: HashMap<K, KeyLoad<K>>,
    /// Keys with waiting uses, in the order of their next turn.
    turns: VecDeque<K>,
    next_waiter: u64,
}

struct KeyLoad<K: Hash + Eq + Clone> {
    active: usize,
    waiters: VecDeque<(u64, oneshot::Sender<KeyedPermit<K>>)>,
}

/// The key has its share of waiting places.
#[derive(Debug)]
pub struct LimiterFull;

/// One use. Dropping it ends the use.
pub struct KeyedPermit<K: Hash + Eq + Clone> {
    limiter: Arc<KeyedLimiter<K>>,
    key: K,
}

impl<K: Hash + Eq + Clone> KeyedLimiter<K> {
    pub fn new(limits: KeyedLimits) -> Arc<Self> {
        let state = LimiterState {
            total: 0,
            waiting: 0,
            keys: HashMap::new(),
            turns: VecDeque::new(),
            next_waiter: 0,
        };
        Arc::new(Self { limits, state: Mutex::new(state) })
    }

    /// Active and waiting uses.
    pub fn load(&self) -> (usize, usize) {
        let state = self.lock();
        (state.total, state.waiting)
    }

    /// Takes a place if one is free for the key.
    pub fn try_acquire(self: &Arc<Self>, key: &K) -> Option<KeyedPermit<K>> {
        self.take_place(&mut self.lock(), key)
    }

    fn take_place(
        self: &Arc<Self>,
        state: &mut LimiterState<K>,
        key: &K,
    ) -> Option<KeyedPermit<K>> {
        let load = state.keys.get(key);
        let (active, waiting) = load.map_or((0, 0), |it| (it.active, it.waiters.len()));
        if waiting > 0 || !self.has_place(state.total, active) {
            return None;
        }
        state.total += 1;
        state.load_mut(key).active += 1;
        Some(KeyedPermit { limiter: Arc::clone(self), key: key.clone() })
    }

    /// Waits for a place.
    pub async fn acquire(self: &Arc<Self>, key: &K) -> Result<KeyedPermit<K>, LimiterFull> {
        let (id, receiver) = {
            let mut guard = self.lock();
            let state = &mut *guard;
            if let Some(permit) = self.take_place(state, key) {
                return Ok(permit);
            }
            let waiting = state.keys.get(key).map_or(0, |it| it.waiters.len());
            if waiting >= self.limits.waiting_max.saturating_sub(state.waiting) {
                return Err(LimiterFull);
            }
            let (sender, receiver) = oneshot::channel();
            let id = state.next_waiter;
            state.next_waiter = id.wrapping_add(1);
            state.waiting += 1;
            if waiting == 0 {
                state.turns.push_back(key.clone());
            }
            state.load_mut(key).waiters.push_back((id, sender));
            (id, receiver)
        };
        let place = WaitingPlace { limiter: self, key, id };
        let permit = receiver.await;
        // A granted waiter is no longer in the queue.
        mem::forget(place);
        permit.map_err(|_| LimiterFull)
    }

    fn has_place(&self, total: usize, active: usize) -> bool {
        let free = self.limits.total_max.saturating_sub(total);
        active < free.min(self.limits.per_key_max)
    }

    fn release(self: &Arc<Self>, key: &K) {
        let grants = {
            let mut guard = self.lock();
            let state = &mut *guard;
            state.total = state.total.saturating_sub(1);
            if let Some(load) = state.keys.get_mut(key) {
                load.active = load.active.saturating_sub(1);
                if load.active == 0 && load.waiters.is_empty() {
                    state.keys.remove(key);
                }
            }
            self.take_next_waiters(state)
        };
        // Without the lock: if the waiter is gone, the permit comes back and is released.
        for (key, sender) in grants {
            drop(sender.send(KeyedPermit { limiter: Arc::clone(self), key }));
        }
    }

    /// Reserves places for waiting uses, one key after the other.
    fn take_next_waiters(
        &self,
        state: &mut LimiterState<K>,
    ) -> Vec<(K, oneshot::Sender<KeyedPermit<K>>)> {
        let mut grants = Vec::new();
        let mut turns_without_grant = 0;
        while turns_without_grant < state.turns.len() {
            let Some(key) = state.turns.pop_front() else { break };
            let total = state.total;
            let Some(load) = state.keys.get_mut(&key) else { continue };
            if !self.has_place(total, load.active) {
                state.turns.push_back(key);
                turns_without_grant += 1;
                continue;
            }
            let Some((_, sender)) = load.waiters.pop_front() else { continue };
            load.active += 1;
            state.total += 1;
            state.waiting = state.waiting.saturating_sub(1);
            if !load.waiters.is_empty() {
                state.turns.push_back(key.clone());
            }
            grants.push((key, sender));
            turns_without_grant = 0;
        }
        grants
    }

    fn remove_waiter(&self, key: &K, id: u64) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let Some(load) = state.keys.get_mut(key) else { return };
        let Some(index) = load.waiters.iter().position(|(it, _)| *it == id) else { return };
        drop(load.waiters.remove(index));
        state.waiting = state.waiting.saturating_sub(1);
        if load.waiters.is_empty() {
            if load.active == 0 {
                state.keys.remove(key);
            }
            state.turns.retain(|it| it != key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, LimiterState<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq + Clone> LimiterState<K> {
    fn load_mut(&mut self, key: &K) -> &mut KeyLoad<K> {
        let new = || KeyLoad { active: 0, waiters: VecDeque::new() };
        self.keys.entry(key.clone()).or_insert_with(new)
    }
}

impl<K: Hash + Eq + Clone> Drop for KeyedPermit<K> {
    fn drop(&mut self) {
        self.limiter.release(&self.key);
    }
}

impl<K: Hash + Eq + Clone> fmt::Debug for KeyedPermit<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("KeyedPermit").finish_non_exhaustive()
    }
}

impl<K: Hash + Eq + Clone> fmt::Debug for KeyedLimiter<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("KeyedLimiter").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Leaves the queue when the request is cancelled.
struct WaitingPlace<'a, K: Hash + Eq + Clone> {
    limiter: &'a KeyedLimiter<K>,
    key: &'a K,
    id: u64,
}

impl<K: Hash + Eq + Clone> Drop for WaitingPlace<'_, K> {
    fn drop(&mut self) {
        self.limiter.remove_waiter(self.key, self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limiter_without_uses_stores_no_key() {
        let limits = KeyedLimits { total_max: 4, per_key_max: 4, waiting_max: 0 };
        let limiter = KeyedLimiter::new(limits);
        let take_all =
            |key: u8| -> Vec<_> { std::iter::from_fn(|| limiter.try_acquire(&key)).collect() };
        let permits = [take_all(1), take_all(2), take_all(3)];
        assert_eq!(permits.each_ref().map(Vec::len), [2, 1, 1]);
        assert!(limiter.try_acquire(&1).is_none());
        drop(permits);
        assert_eq!(limiter.load(), (0, 0));
        assert!(limiter.lock().keys.is_empty());
    }
}
