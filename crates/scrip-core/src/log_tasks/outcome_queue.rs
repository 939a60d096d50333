//! The outcomes of proxied calls that are not in the read log yet.
//!
//! The record that a call is about to be sent is on disk before the call. The outcome is written
//! after the response, together with other outcomes, so that no response waits for a second commit.

use std::{
    future::poll_fn,
    sync::{Mutex, PoisonError},
    task::Poll,
};

use crate::{
    read_log::ReadLogBatch,
    store::Store,
    types::{StoreFuture, metrics::Counter},
};

/// The maximum number of queued outcomes, in case that the store is slow.
const QUEUED_MAX: usize = 16 * 1024;
/// The number of outcomes that are written at the same time. The read log has a limited queue, which
/// other requests need too.
const CONCURRENT_WRITES: usize = 256;

/// A bounded queue of outcomes.
#[derive(Debug, Default)]
pub struct OutcomeQueue {
    queued: Mutex<Vec<ReadLogBatch>>,
    /// Outcomes that could not be recorded: the queue was full, or the store failed.
    pub lost: Counter,
}

impl OutcomeQueue {
    /// Queues an outcome.
    pub fn push(&self, outcome: ReadLogBatch) {
        let mut queued = self.queued.lock().unwrap_or_else(PoisonError::into_inner);
        if queued.len() >= QUEUED_MAX {
            self.lost.increment();
            return;
        }
        queued.push(outcome);
    }

    pub fn is_empty(&self) -> bool {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Writes all queued outcomes; returns how many of them were lost.
    pub async fn flush(&self, store: &dyn Store) -> usize {
        let mut outcomes = {
            let mut queued = self.queued.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *queued)
        };
        let mut lost = 0_usize;
        while !outcomes.is_empty() {
            let later = outcomes.split_off(outcomes.len().min(CONCURRENT_WRITES));
            let writes = outcomes.into_iter().map(|it| store.append_read_log(it)).collect();
            lost = lost.saturating_add(count_failures(writes).await);
            outcomes = later;
        }
        self.lost.add(u64::try_from(lost).unwrap_or(u64::MAX));
        lost
    }
}

/// Waits for all writes at the same time, so that they share a commit.
async fn count_failures(mut writes: Vec<StoreFuture<'_, ()>>) -> usize {
    let mut failures = 0_usize;
    // Each future is polled once, which queues its write; then one after the other, because polling
    // all of them at each wake-up would cost their number squared.
    poll_fn(|context| {
        writes.retain_mut(|it| match it.as_mut().poll(context) {
            Poll::Pending => true,
            Poll::Ready(result) => {
                failures = failures.saturating_add(usize::from(result.is_err()));
                false
            }
        });
        Poll::Ready(())
    })
    .await;
    for write in writes {
        failures = failures.saturating_add(usize::from(write.await.is_err()));
    }
    failures
}
