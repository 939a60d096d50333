//! Serializes the transactions of one tenant and log within a node. PostgreSQL's row lock would do
//! the same, but each waiting transaction would hold a connection, and one busy tenant could use up
//! the pool.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use scrip_core::{
    audit::LogKind,
    types::{StoreError, id::TenantId},
};
use tokio::sync::OwnedMutexGuard;

/// Same as the lock timeout of the server.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(5);

type SharedMutex = Arc<tokio::sync::Mutex<()>>;

/// A tenant and one of its logs: the unit that one transaction at a time may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TenantLog {
    pub(crate) log: LogKind,
    pub(crate) tenant: TenantId,
}

/// The mutex of each tenant and log, with the number of its owners and waiters.
#[derive(Debug, Clone, Default)]
pub(crate) struct TenantLocks(Arc<Mutex<HashMap<TenantLog, (SharedMutex, usize)>>>);

impl TenantLocks {
    fn lock(&self) -> MutexGuard<'_, HashMap<TenantLog, (SharedMutex, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the lock. Waiting callers get it in the order of their calls.
    pub(crate) async fn acquire(&self, tenant_log: TenantLog) -> Result<TenantGuard, StoreError> {
        let (mutex, reference) = self.register(tenant_log);
        let guard = tokio::time::timeout(LOCK_WAIT_MAX, mutex.lock_owned()).await;
        let guard = guard.map_err(|_| StoreError::Busy)?;
        Ok(TenantGuard { _guard: guard, _reference: reference })
    }

    fn register(&self, tenant_log: TenantLog) -> (SharedMutex, LockReference) {
        let mut locks = self.lock();
        let (mutex, users) = locks.entry(tenant_log).or_default();
        *users = users.saturating_add(1);
        (Arc::clone(mutex), LockReference { locks: self.clone(), tenant_log })
    }
}

/// Holds the lock until it is dropped.
#[derive(Debug)]
pub(crate) struct TenantGuard {
    /// Dropped first: the last reference removes the mutex from the map.
    _guard: OwnedMutexGuard<()>,
    _reference: LockReference,
}

/// Counts an owner or waiter of a mutex.
#[derive(Debug)]
struct LockReference {
    locks: TenantLocks,
    tenant_log: TenantLog,
}

impl Drop for LockReference {
    fn drop(&mut self) {
        let mut locks = self.locks.lock();
        if let Some((_, users)) = locks.get_mut(&self.tenant_log) {
            *users = users.saturating_sub(1);
            if *users == 0 {
                locks.remove(&self.tenant_log);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn tenant_lock_has_one_holder_and_is_removed_after_the_last() {
        let locks = TenantLocks::default();
        let tenant_log = |log| TenantLog { log, tenant: TenantId(Uuid::nil()) };
        let first_holder = locks.acquire(tenant_log(LogKind::Audit)).await.unwrap();
        let other_log = locks.acquire(tenant_log(LogKind::Read)).await.unwrap();
        let other_tenant = locks
            .acquire(TenantLog { log: LogKind::Audit, tenant: TenantId(Uuid::max()) })
            .await
            .unwrap();
        let mut second_holder = Box::pin(locks.acquire(tenant_log(LogKind::Audit)));
        let third_attempt = Box::pin(locks.acquire(tenant_log(LogKind::Audit)));
        let short_wait = Duration::from_millis(10);
        assert!(tokio::time::timeout(short_wait, second_holder.as_mut()).await.is_err());
        assert!(tokio::time::timeout(short_wait, third_attempt).await.is_err());
        drop(first_holder);
        let second_holder = second_holder.await.unwrap();
        assert_eq!(locks.lock().len(), 3);
        drop((second_holder, other_log, other_tenant));
        assert_eq!(locks.lock().len(), 0);
    }

    #[tokio::test]
    async fn waiting_for_a_tenant_lock_times_out_as_busy() {
        let locks = TenantLocks::default();
        let tenant_log = TenantLog { log: LogKind::Audit, tenant: TenantId(Uuid::nil()) };
        let _guard = locks.acquire(tenant_log).await.unwrap();
        assert!(matches!(locks.acquire(tenant_log).await, Err(StoreError::Busy)));
    }
}
