//! Whose turn it is within a node: one transaction of a tenant and log at a time. The engine would
//! see to that by itself, but whoever waits there has a connection, and those who wait for one busy
//! tenant would have them all.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use scrip_core::{audit::Log, id::TenantId, store::StoreError};
use tokio::sync::OwnedMutexGuard;

/// As long as the engine lets somebody wait for a lock.
const WAIT_MAX: Duration = Duration::from_secs(5);

type Turns = Arc<tokio::sync::Mutex<()>>;

/// What one transaction at a time may write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Lane {
    pub(crate) log: Log,
    pub(crate) tenant: TenantId,
}

/// What is in it is used or waited for by so many.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lanes(Arc<Mutex<HashMap<Lane, (Turns, usize)>>>);

impl Lanes {
    fn lock(&self) -> MutexGuard<'_, HashMap<Lane, (Turns, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In the order of those who came.
    pub(crate) async fn wait(&self, of: Lane) -> Result<LaneTurn, StoreError> {
        let (turns, place) = self.place(of);
        let turn = tokio::time::timeout(WAIT_MAX, turns.lock_owned()).await;
        let turn = turn.map_err(|_| StoreError::Busy)?;
        Ok(LaneTurn { _turn: turn, _place: place })
    }

    fn place(&self, of: Lane) -> (Turns, Place) {
        let mut lanes = self.lock();
        let (turns, users) = lanes.entry(of).or_default();
        *users = users.saturating_add(1);
        (Arc::clone(turns), Place { lanes: self.clone(), of })
    }
}

/// Until it is dropped.
#[derive(Debug)]
pub(crate) struct LaneTurn {
    /// Ends first: the last who leaves takes the lane away.
    _turn: OwnedMutexGuard<()>,
    _place: Place,
}

#[derive(Debug)]
struct Place {
    lanes: Lanes,
    of: Lane,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lanes = self.lanes.lock();
        if let Some((_, users)) = lanes.get_mut(&self.of) {
            *users = users.saturating_sub(1);
            if *users == 0 {
                lanes.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn one_of_a_lane_at_a_time_and_nothing_is_left_of_it() {
        let lanes = Lanes::default();
        let of = |log| Lane { log, tenant: TenantId(Uuid::nil()) };
        let first = lanes.wait(of(Log::Audit)).await.unwrap();
        let other = lanes.wait(of(Log::Access)).await.unwrap();
        let theirs =
            lanes.wait(Lane { log: Log::Audit, tenant: TenantId(Uuid::max()) }).await.unwrap();
        let mut second = Box::pin(lanes.wait(of(Log::Audit)));
        let given_up = Box::pin(lanes.wait(of(Log::Audit)));
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
    async fn nobody_waits_for_ever() {
        let lanes = Lanes::default();
        let of = Lane { log: Log::Audit, tenant: TenantId(Uuid::nil()) };
        let _held = lanes.wait(of).await.unwrap();
        assert!(matches!(lanes.wait(of).await, Err(StoreError::Busy)));
    }
}
