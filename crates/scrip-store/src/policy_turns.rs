//! Turns of policy changes: the changes of one tenant in this process wait for each other.
//!
//! A change is decided on a snapshot and is repeated if the policy changed meanwhile. With turns,
//! only changes of other nodes and processes make it repeat.

use std::{
    collections::HashMap,
    fs::File,
    sync::{Arc, Mutex, PoisonError},
};

use scrip_core::{change::PolicyTurn, types::id::TenantId};
use tokio::sync::OwnedMutexGuard;

#[derive(Debug, Default)]
pub(crate) struct PolicyTurns {
    tenants: Mutex<HashMap<TenantId, Arc<tokio::sync::Mutex<()>>>>,
}

/// The turn of one change. The next one begins when it is dropped.
#[derive(Debug)]
pub(crate) struct ChangeTurn {
    _guard: OwnedMutexGuard<()>,
    /// Keeps the changes of another process waiting, if the engine can.
    _process_lock: Option<File>,
}

impl PolicyTurn for ChangeTurn {}

impl ChangeTurn {
    pub(crate) fn new(guard: OwnedMutexGuard<()>, process_lock: Option<File>) -> Self {
        Self { _guard: guard, _process_lock: process_lock }
    }
}

impl PolicyTurns {
    /// Waits until no other change of the tenant has its turn. Turns are in the order of arrival.
    pub(crate) async fn wait(&self, tenant: TenantId) -> OwnedMutexGuard<()> {
        let turn = {
            let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
            // Only tenants with a change that runs or waits have an entry.
            tenants.retain(|id, it| *id == tenant || Arc::strong_count(it) > 1);
            Arc::clone(tenants.entry(tenant).or_default())
        };
        turn.lock_owned().await
    }
}
