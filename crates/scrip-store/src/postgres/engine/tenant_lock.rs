//! Whose turn it is within a node: one transaction of a tenant and log at a time. The engine would
//! see to that by itself, but whoever waits there has a connection, and those who wait for one busy
//! tenant would have them all.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use scrip_core::{audit::LogKind, id::TenantId, store::StoreError};
use tokio::sync::OwnedMutexGuard;

/// As long as the engine lets somebody wait for a lock.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(5);

type SharedMutex = Arc<tokio::sync::Mutex<()>>;

/// What one transaction at a time may write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TenantLog {
    pub(crate) log: LogKind,
    pub(crate) tenant: TenantId,
}

/// What is in it is used or waited for by so many.
#[derive(Debug, Clone, Default)]
pub(crate) struct TenantLocks(Arc<Mutex<HashMap<TenantLog, (SharedMutex, usize)>>>);

impl TenantLocks {
    fn lock(&self) -> MutexGuard<'_, HashMap<TenantLog, (SharedMutex, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In the order of those who came.
    pub(crate) async fn acquire(&self, tenant_log: TenantLog) -> Result<TenantGuard, StoreError> {
        let (turns, place) = self.register(tenant_log);
        let guard = tokio::time::timeout(LOCK_WAIT_MAX, turns.lock_owned()).await;
        let guard = guard.map_err(|_| StoreError::Busy)?;
        Ok(TenantGuard { _guard: guard, _reference: place })
    }

    fn register(&self, tenant_log: TenantLog) -> (SharedMutex, LockReference) {
        let mut lanes = self.lock();
        let (turns, users) = lanes.entry(tenant_log).or_default();
        *users = users.saturating_add(1);
        (Arc::clone(turns), LockReference { locks: self.clone(), tenant_log })
    }
}

/// Until it is dropped.
#[derive(Debug)]
pub(crate) struct TenantGuard {
    /// Ends first: the last who leaves takes the lane away.
    _guard: OwnedMutexGuard<()>,
    _reference: LockReference,
}

#[derive(Debug)]
struct LockReference {
    locks: TenantLocks,
    tenant_log: TenantLog,
}

impl Drop for LockReference {
    fn drop(&mut self) {
        let mut lanes = self.locks.lock();
        if let Some((_, users)) = lanes.get_mut(&self.tenant_log) {
            *users = users.saturating_sub(1);
            if *users == 0 {
                lanes.remove(&self.tenant_log);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn tenant_lock_admits_one_holder_and_is_removed_after_the_last() {
        let lanes = TenantLocks::default();
        let of = |log| TenantLog { log, tenant: TenantId(Uuid::nil()) };
        let first = lanes.acquire(of(LogKind::Audit)).await.unwrap();
        let other = lanes.acquire(of(LogKind::Read)).await.unwrap();
        let theirs = lanes
            .acquire(TenantLog { log: LogKind::Audit, tenant: TenantId(Uuid::max()) })
            .await
            .unwrap();
        let mut second = Box::pin(lanes.acquire(of(LogKind::Audit)));
        let given_up = Box::pin(lanes.acquire(of(LogKind::Audit)));
        let soon = Duration::from_millis(10);
        assert!(tokio::time::timeout(soon, second.as_mut()).await.is_err());
        assert!(tokio::time::timeout(soon, given_up).await.is_err());
        drop(first);
        let second = second.await.unwrap();
        assert_eq!(lanes.lock().len(), 3);
        drop((second, other, theirs));
        assert_eq!(lanes.lock().len(), 0);
    }

    #[tokio::test]
    async fn waiting_for_a_tenant_lock_times_out_as_busy() {
        let lanes = TenantLocks::default();
        let of = TenantLog { log: LogKind::Audit, tenant: TenantId(Uuid::nil()) };
        let _held = lanes.acquire(of).await.unwrap();
        assert!(matches!(lanes.acquire(of).await, Err(StoreError::Busy)));
    }
}
