//! Group commit: writes of one tenant wait in a queue while the previous group is made durable, and
//! then share the next transaction. The longer the queue, the less each write costs.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use scrip_core::types::{
    StoreError,
    id::TenantId,
    metrics::{Counter, Histogram, WriterMetrics},
};
use tokio::{sync::oneshot, time::Instant};

use crate::postgres::engine::error::unavailable;

/// Maximum length of a tenant's queue. Further writes are rejected immediately.
const QUEUE_MAX: usize = 4096;
/// A write that was queued for longer is rejected when its group starts: its client has timed out
/// or retries.
const QUEUE_TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum number of bytes per group. A single larger write gets a group alone.
const GROUP_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Histogram bounds of group sizes, up to the length of a full queue.
const GROUP_SIZE_BOUNDS: &[u64; 9] = &[1, 2, 4, 8, 16, 32, 64, 256, 4096];

pub(crate) type Reply<R> = oneshot::Sender<Result<R, StoreError>>;

/// A queued write and the channel for its result.
pub(crate) struct QueuedWrite<T, R> {
    pub(crate) work: T,
    pub(crate) bytes: usize,
    pub(crate) reply: Reply<R>,
    queued_at: Instant,
}

/// Queued writes of all tenants for one log.
pub(crate) struct TenantQueues<T, R>(Arc<QueueState<T, R>>);

struct QueueState<T, R> {
    /// A tenant has an entry while a drain runs for it.
    queues: Mutex<HashMap<TenantId, VecDeque<QueuedWrite<T, R>>>>,
    rejected: Counter,
    failed: Counter,
    group_sizes: Histogram<9>,
}

impl<T, R> fmt::Debug for TenantQueues<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TenantQueues")
    }
}

impl<T, R> Default for TenantQueues<T, R> {
    fn default() -> Self {
        Self(Arc::new(QueueState {
            queues: Mutex::default(),
            rejected: Counter::default(),
            failed: Counter::default(),
            group_sizes: Histogram::new(GROUP_SIZE_BOUNDS),
        }))
    }
}

impl<T, R> QueueState<T, R> {
    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, VecDeque<QueuedWrite<T, R>>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the caller must start a drain for this tenant.
    fn push(&self, tenant: TenantId, queued_write: QueuedWrite<T, R>) -> Result<bool, StoreError> {
        match self.lock().entry(tenant) {
            Entry::Occupied(it) if it.get().len() >= QUEUE_MAX => {
                self.rejected.increment();
                Err(StoreError::Busy)
            }
            Entry::Occupied(mut it) => {
                it.get_mut().push_back(queued_write);
                Ok(false)
            }
            Entry::Vacant(it) => {
                it.insert(VecDeque::from([queued_write]));
                Ok(true)
            }
        }
    }
}

impl<T: Send + 'static, R: Send + 'static> TenantQueues<T, R> {
    /// Returns when the write is durable. `run_drain` writes the groups of a tenant until its
    /// queue is empty.
    pub(crate) async fn submit_and_wait<F>(
        &self,
        tenant: TenantId,
        work: T,
        bytes: usize,
        run_drain: impl FnOnce(Drain<T, R>) -> F,
    ) -> Result<R, StoreError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let receiver = self.submit(tenant, work, bytes, run_drain)?;
        receiver.await.map_err(|_| unavailable("the server is stopping"))?
    }

    /// Queues a write and does not wait. The receiver gets the result.
    pub(crate) fn submit<F>(
        &self,
        tenant: TenantId,
        work: T,
        bytes: usize,
        run_drain: impl FnOnce(Drain<T, R>) -> F,
    ) -> Result<oneshot::Receiver<Result<R, StoreError>>, StoreError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (reply, receiver) = oneshot::channel();
        if self.0.push(tenant, QueuedWrite { work, bytes, reply, queued_at: Instant::now() })? {
            let drain = Drain { state: Arc::clone(&self.0), tenant, is_finished: false };
            // A separate task: if it ran in the request, a disconnecting client would stop the
            // drain for all others.
            drop(tokio::spawn(run_drain(drain)));
        }
        Ok(receiver)
    }

    pub(crate) fn metrics(&self, log: &'static str) -> WriterMetrics {
        let to_u64 = |it: usize| u64::try_from(it).unwrap_or(u64::MAX);
        WriterMetrics {
            log,
            queued: self.0.lock().values().map(|it| to_u64(it.len())).sum(),
            queue_capacity: to_u64(QUEUE_MAX),
            rejected: self.0.rejected.get(),
            batch_sizes: self.0.group_sizes.snapshot(),
            unknown_outcomes: self.0.failed.get(),
            ..WriterMetrics::default()
        }
    }
}

/// Writes the queue of one tenant until it is empty.
pub(crate) struct Drain<T, R> {
    state: Arc<QueueState<T, R>>,
    pub(crate) tenant: TenantId,
    is_finished: bool,
}

impl<T, R> Drain<T, R> {
    /// Takes the writes that have waited longest, at most `writes_max`; `None` ends the drain
    /// because the queue is empty.
    pub(crate) fn next_group(&mut self, writes_max: usize) -> Option<Vec<QueuedWrite<T, R>>> {
        self.next_group_at(Instant::now(), writes_max)
    }

    fn next_group_at(&mut self, now: Instant, writes_max: usize) -> Option<Vec<QueuedWrite<T, R>>> {
        let mut queues = self.state.lock();
        if let Some(queue) = queues.get_mut(&self.tenant) {
            while let Some(expired) =
                queue.pop_front_if(|it| now.duration_since(it.queued_at) > QUEUE_TIME_MAX)
            {
                self.state.rejected.increment();
                drop(expired.reply.send(Err(StoreError::Busy)));
            }
        }
        let (mut group, mut bytes) = (Vec::new(), 0_usize);
        while group.len() < writes_max
            && let Some(queue) = queues.get_mut(&self.tenant)
            && let Some(first) = queue.front()
            && (group.is_empty() || bytes.saturating_add(first.bytes) <= GROUP_BYTES_MAX)
        {
            bytes = bytes.saturating_add(first.bytes);
            group.extend(queue.pop_front());
        }
        if group.is_empty() {
            queues.remove(&self.tenant);
            self.is_finished = true;
            return None;
        }
        Some(group)
    }

    /// Returns writes that did not fit into the transaction to the front of the queue.
    pub(crate) fn requeue(&self, unfinished: Vec<QueuedWrite<T, R>>) {
        let mut queues = self.state.lock();
        let queue = queues.entry(self.tenant).or_default();
        unfinished.into_iter().rev().for_each(|it| queue.push_front(it));
    }

    /// Counts one transaction: the number of its writes, or `None` if its outcome is unknown.
    pub(crate) fn count_transaction(&self, committed: Option<usize>) {
        match committed {
            Some(size) => self.state.group_sizes.record(u64::try_from(size).unwrap_or(u64::MAX)),
            None => self.state.failed.increment(),
        }
    }
}

/// Replies to all waiting writes if the drain is cancelled. After a normal end, another drain may
/// already own the tenant's queue.
impl<T, R> Drop for Drain<T, R> {
    fn drop(&mut self) {
        if !self.is_finished {
            drop(self.state.lock().remove(&self.tenant));
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const TENANT: TenantId = TenantId(Uuid::nil());

    fn queued_write(work: usize, bytes: usize) -> QueuedWrite<usize, ()> {
        QueuedWrite { work, bytes, reply: oneshot::channel().0, queued_at: Instant::now() }
    }

    fn work_ids(group: Option<Vec<QueuedWrite<usize, ()>>>) -> Vec<usize> {
        group.into_iter().flatten().map(|it| it.work).collect()
    }

    #[test]
    fn group_is_limited_by_count_and_bytes() {
        let queues = TenantQueues::<usize, ()>::default();
        let sizes = [0, 0, 0, GROUP_BYTES_MAX, 1, GROUP_BYTES_MAX.saturating_mul(2), 1];
        for (work, bytes) in sizes.into_iter().enumerate() {
            assert_eq!(queues.0.push(TENANT, queued_write(work, bytes)).ok(), Some(work == 0));
        }
        let mut drain = Drain { state: Arc::clone(&queues.0), tenant: TENANT, is_finished: false };
        assert_eq!(work_ids(drain.next_group(2)), [0, 1]);
        // A single write may exceed the byte limit; it gets a group alone.
        assert_eq!(work_ids(drain.next_group(9)), [2, 3]);
        assert_eq!(work_ids(drain.next_group(9)), [4]);
        assert_eq!(work_ids(drain.next_group(9)), [5]);
        assert_eq!(work_ids(drain.next_group(9)), [6]);
        assert!(drain.next_group(9).is_none());
    }

    #[test]
    fn write_queued_too_long_is_rejected_as_busy() {
        let queues = TenantQueues::<usize, ()>::default();
        let start = Instant::now();
        let seconds_later = |seconds| start + Duration::from_secs(seconds);
        let mut receivers = Vec::new();
        for (work, seconds) in [0, 1, 2].into_iter().enumerate() {
            let (reply, receiver) = oneshot::channel();
            let queued_write =
                QueuedWrite { work, bytes: 0, reply, queued_at: seconds_later(seconds) };
            assert!(queues.0.push(TENANT, queued_write).is_ok());
            receivers.push(receiver);
        }
        let mut drain = Drain { state: Arc::clone(&queues.0), tenant: TENANT, is_finished: false };
        // Two writes waited too long; the third is in the group.
        let mut group = drain.next_group_at(seconds_later(7), 9).unwrap();
        assert_eq!(group.iter().map(|it| it.work).collect::<Vec<_>>(), [2]);
        let [first, second, third] = receivers.as_mut_slice() else {
            panic!("expected three receivers")
        };
        for receiver in [first, second] {
            assert!(matches!(receiver.try_recv(), Ok(Err(StoreError::Busy))));
        }
        assert!(third.try_recv().is_err());
        assert_eq!(queues.metrics("audit").rejected, 2);
        // A requeued write keeps its queue time.
        drain.requeue(group.split_off(0));
        assert!(drain.next_group_at(seconds_later(8), 9).is_none());
        assert!(matches!(third.try_recv(), Ok(Err(StoreError::Busy))));
    }

    #[test]
    fn requeued_writes_come_before_the_other_writes_of_the_queue() {
        let queues = TenantQueues::<usize, ()>::default();
        for work in 0..4 {
            assert!(queues.0.push(TENANT, queued_write(work, 0)).is_ok());
        }
        let mut drain = Drain { state: Arc::clone(&queues.0), tenant: TENANT, is_finished: false };
        let mut group = drain.next_group(3).unwrap();
        drain.requeue(group.split_off(1));
        assert_eq!(work_ids(drain.next_group(9)), [1, 2, 3]);
    }

    #[test]
    fn finished_drain_does_not_remove_the_next_drains_queue() {
        let queues = TenantQueues::<usize, ()>::default();
        let new_drain =
            || Drain { state: Arc::clone(&queues.0), tenant: TENANT, is_finished: false };
        assert!(queues.0.push(TENANT, queued_write(1, 0)).is_ok_and(|is_first| is_first));
        let mut first = new_drain();
        assert_eq!(work_ids(first.next_group(9)), [1]);
        assert!(first.next_group(9).is_none());
        assert!(queues.0.push(TENANT, queued_write(2, 0)).is_ok_and(|is_first| is_first));
        drop(first);
        let mut second = new_drain();
        assert_eq!(work_ids(second.next_group(9)), [2]);
        // A cancelled drain leaves no write waiting.
        assert!(queues.0.push(TENANT, queued_write(3, 0)).is_ok_and(|is_first| !is_first));
        drop(second);
        assert!(queues.0.push(TENANT, queued_write(4, 0)).is_ok_and(|is_first| is_first));
    }

    #[test]
    fn tenant_queue_rejects_writes_when_full() {
        let queues = TenantQueues::<usize, ()>::default();
        for work in 0..QUEUE_MAX {
            assert!(queues.0.push(TENANT, queued_write(work, 0)).is_ok());
        }
        assert!(matches!(queues.0.push(TENANT, queued_write(0, 0)), Err(StoreError::Busy)));
        assert!(queues.0.push(TenantId(Uuid::max()), queued_write(0, 0)).is_ok());
        let metrics = queues.metrics("audit");
        assert_eq!((metrics.queued, metrics.queue_capacity, metrics.rejected), (4097, 4096, 1));
    }
}
