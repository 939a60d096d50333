//! A copy of everything a store holds, to start again from: tests run thousands of short histories from one state.

use crate::memory::{MemoryStore, MemoryStoreState};

/// Everything a store held at one moment.
#[derive(Debug)]
pub struct MemorySnapshot(MemoryStoreState);

impl MemoryStore {
    #[must_use]
    pub fn snapshot(&self) -> MemorySnapshot {
        MemorySnapshot(self.lock().clone())
    }

    pub fn restore(&self, snapshot: &MemorySnapshot) {
        self.lock().clone_from(&snapshot.0);
    }
}
