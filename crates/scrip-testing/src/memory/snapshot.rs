//! A copy of the state of a store. Tests restore it to run thousands of short sequences of requests
//! from the same state.

use crate::memory::{MemoryStore, MemoryStoreState};

/// The complete state of a store at one moment.
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
