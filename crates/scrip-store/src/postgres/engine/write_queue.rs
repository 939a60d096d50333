//! Work of one tenant gathers while what came before it is made durable, and is then done as one:
//! the more there is, the less each piece costs.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use scrip_core::{
    id::TenantId,
    metrics::{Counter, Histogram, WriterMetrics},
    store::StoreError,
};
use tokio::{sync::oneshot, time::Instant};

use crate::postgres::engine::error::unavailable;

/// Past this a tenant's next piece of work is refused at once.
const QUEUE_MAX: usize = 4096;
/// Whoever waited for longer is refused when its turn comes: its client does not wait any more, or
/// asks again.
const QUEUE_TIME_MAX: Duration = Duration::from_secs(5);
/// Of what is done together, except where one piece alone has more.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Up to a tenant's whole queue.
const BATCH_BOUNDS: &[u64; 9] = &[1, 2, 4, 8, 16, 32, 64, 256, 4096];

pub(crate) type Reply<R> = oneshot::Sender<Result<R, StoreError>>;

/// A piece of work, and whoever wants to hear what became of it.
pub(crate) struct QueuedWrite<T, R> {
    pub(crate) work: T,
    pub(crate) bytes: usize,
    pub(crate) reply: Reply<R>,
    queued_at: Instant,
}

/// What waits for one log, of all tenants.
pub(crate) struct TenantQueues<T, R>(Arc<QueueState<T, R>>);

struct QueueState<T, R> {
    /// A tenant is in it while somebody works for it.
    queues: Mutex<HashMap<TenantId, VecDeque<QueuedWrite<T, R>>>>,
    rejected: Counter,
    failed: Counter,
    batch: Histogram<9>,
}

impl<T, R> fmt::Debug for TenantQueues<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gathering")
    }
}

impl<T, R> Default for TenantQueues<T, R> {
    fn default() -> Self {
        Self(Arc::new(QueueState {
            queues: Mutex::default(),
            rejected: Counter::default(),
            failed: Counter::default(),
            batch: Histogram::new(BATCH_BOUNDS),
        }))
    }
}

impl<T, R> QueueState<T, R> {
    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, VecDeque<QueuedWrite<T, R>>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody works for this tenant yet.
    fn push(&self, tenant: TenantId, waiting: QueuedWrite<T, R>) -> Result<bool, StoreError> {
        match self.lock().entry(tenant) {
            Entry::Occupied(it) if it.get().len() >= QUEUE_MAX => {
                self.rejected.increment();
                Err(StoreError::Busy)
            }
            Entry::Occupied(mut it) => {
                it.get_mut().push_back(waiting);
                Ok(false)
            }
            Entry::Vacant(it) => {
                it.insert(VecDeque::from([waiting]));
                Ok(true)
            }
        }
    }
}

impl<T: Send + 'static, R: Send + 'static> TenantQueues<T, R> {
    /// Answers once it is durable. `run` works for a tenant, until its turn is over.
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

    /// The same, for one who does not wait for it: what became of it is told to whoever wants to
    /// hear.
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
            // Not by the one who asked: should that go away, the others would wait for nobody.
            drop(tokio::spawn(run_drain(drain)));
        }
        Ok(receiver)
    }

    pub(crate) fn metrics(&self, log: &'static str) -> WriterMetrics {
        let number = |it: usize| u64::try_from(it).unwrap_or(u64::MAX);
        WriterMetrics {
            log,
            queued: self.0.lock().values().map(|it| number(it.len())).sum(),
            queue_capacity: number(QUEUE_MAX),
            rejected: self.0.rejected.get(),
            batch_sizes: self.0.batch.snapshot(),
            unknown_outcomes: self.0.failed.get(),
            ..WriterMetrics::default()
        }
    }
}

/// Somebody works for this tenant, until nothing waits.
pub(crate) struct Drain<T, R> {
    state: Arc<QueueState<T, R>>,
    pub(crate) tenant: TenantId,
    is_finished: bool,
}

impl<T, R> Drain<T, R> {
    /// What has waited longest, so many at most; nothing, and the turn is over, when nothing does.
    pub(crate) fn next_batch(&mut self, batch_max: usize) -> Option<Vec<QueuedWrite<T, R>>> {
        self.next_batch_at(Instant::now(), batch_max)
    }

    fn next_batch_at(&mut self, now: Instant, batch_max: usize) -> Option<Vec<QueuedWrite<T, R>>> {
        let mut tenants = self.state.lock();
        if let Some(queue) = tenants.get_mut(&self.tenant) {
            while let Some(late) =
                queue.pop_front_if(|it| now.duration_since(it.queued_at) > QUEUE_TIME_MAX)
            {
                self.state.rejected.increment();
                drop(late.reply.send(Err(StoreError::Busy)));
            }
        }
        let (mut taken, mut bytes) = (Vec::new(), 0_usize);
        while taken.len() < batch_max
            && let Some(queue) = tenants.get_mut(&self.tenant)
            && let Some(first) = queue.front()
            && (taken.is_empty() || bytes.saturating_add(first.bytes) <= BATCH_BYTES_MAX)
        {
            bytes = bytes.saturating_add(first.bytes);
            taken.extend(queue.pop_front());
        }
        if taken.is_empty() {
            tenants.remove(&self.tenant);
            self.is_finished = true;
            return None;
        }
        Some(taken)
    }

    /// What there was no room for, before all that waits.
    pub(crate) fn requeue(&self, unfinished: Vec<QueuedWrite<T, R>>) {
        let mut tenants = self.state.lock();
        let queue = tenants.entry(self.tenant).or_default();
        unfinished.into_iter().rev().for_each(|it| queue.push_front(it));
    }

    /// One transaction that did this many, or of which nobody knows what became.
    pub(crate) fn count_batch(&self, committed: Option<usize>) {
        match committed {
            Some(size) => self.state.batch.record(u64::try_from(size).unwrap_or(u64::MAX)),
            None => self.state.failed.increment(),
        }
    }
}

/// When the work is broken off, nobody is left waiting for it. After its end the tenant may be
/// somebody else's.
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

    fn work_ids(batch: Option<Vec<QueuedWrite<usize, ()>>>) -> Vec<usize> {
        batch.into_iter().flatten().map(|it| it.work).collect()
    }

    #[test]
    fn batch_is_bounded_by_count_and_bytes() {
        let all = TenantQueues::<usize, ()>::default();
        let sizes = [0, 0, 0, BATCH_BYTES_MAX, 1, BATCH_BYTES_MAX.saturating_mul(2), 1];
        for (work, bytes) in sizes.into_iter().enumerate() {
            assert_eq!(all.0.push(TENANT, queued_write(work, bytes)).ok(), Some(work == 0));
        }
        let mut drain = Drain { state: Arc::clone(&all.0), tenant: TENANT, is_finished: false };
        assert_eq!(work_ids(drain.next_batch(2)), [0, 1]);
        // One may have more than all together; then it is by itself.
        assert_eq!(work_ids(drain.next_batch(9)), [2, 3]);
        assert_eq!(work_ids(drain.next_batch(9)), [4]);
        assert_eq!(work_ids(drain.next_batch(9)), [5]);
        assert_eq!(work_ids(drain.next_batch(9)), [6]);
        assert!(drain.next_batch(9).is_none());
    }

    #[test]
    fn write_queued_too_long_is_rejected_as_busy() {
        let all = TenantQueues::<usize, ()>::default();
        let began = Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        let mut responses = Vec::new();
        for (work, seconds) in [0, 1, 2].into_iter().enumerate() {
            let (reply, receiver) = oneshot::channel();
            let waiting = QueuedWrite { work, bytes: 0, reply, queued_at: after(seconds) };
            assert!(all.0.push(TENANT, waiting).is_ok());
            responses.push(receiver);
        }
        let mut drain = Drain { state: Arc::clone(&all.0), tenant: TENANT, is_finished: false };
        // Two of them are late; the third is done.
        let mut taken = drain.next_batch_at(after(7), 9).unwrap();
        assert_eq!(taken.iter().map(|it| it.work).collect::<Vec<_>>(), [2]);
        let [first, second, third] = responses.as_mut_slice() else { panic!("there are three") };
        for late in [first, second] {
            assert!(matches!(late.try_recv(), Ok(Err(StoreError::Busy))));
        }
        assert!(third.try_recv().is_err());
        assert_eq!(all.metrics("audit").rejected, 2);
        // What there was no room for keeps its time.
        drain.requeue(taken.split_off(0));
        assert!(drain.next_batch_at(after(8), 9).is_none());
        assert!(matches!(third.try_recv(), Ok(Err(StoreError::Busy))));
    }

    #[test]
    fn requeued_writes_come_before_the_rest_of_the_queue() {
        let all = TenantQueues::<usize, ()>::default();
        for work in 0..4 {
            assert!(all.0.push(TENANT, queued_write(work, 0)).is_ok());
        }
        let mut drain = Drain { state: Arc::clone(&all.0), tenant: TENANT, is_finished: false };
        let mut taken = drain.next_batch(3).unwrap();
        drain.requeue(taken.split_off(1));
        assert_eq!(work_ids(drain.next_batch(9)), [1, 2, 3]);
    }

    #[test]
    fn finished_drain_does_not_remove_the_next_drains_queue() {
        let all = TenantQueues::<usize, ()>::default();
        let drain = || Drain { state: Arc::clone(&all.0), tenant: TENANT, is_finished: false };
        assert!(all.0.push(TENANT, queued_write(1, 0)).is_ok_and(|is_first| is_first));
        let mut first = drain();
        assert_eq!(work_ids(first.next_batch(9)), [1]);
        assert!(first.next_batch(9).is_none());
        assert!(all.0.push(TENANT, queued_write(2, 0)).is_ok_and(|is_first| is_first));
        drop(first);
        let mut second = drain();
        assert_eq!(work_ids(second.next_batch(9)), [2]);
        // One that is broken off leaves nobody waiting.
        assert!(all.0.push(TENANT, queued_write(3, 0)).is_ok_and(|is_first| !is_first));
        drop(second);
        assert!(all.0.push(TENANT, queued_write(4, 0)).is_ok_and(|is_first| is_first));
    }

    #[test]
    fn tenant_queue_rejects_writes_when_full() {
        let all = TenantQueues::<usize, ()>::default();
        for work in 0..QUEUE_MAX {
            assert!(all.0.push(TENANT, queued_write(work, 0)).is_ok());
        }
        assert!(matches!(all.0.push(TENANT, queued_write(0, 0)), Err(StoreError::Busy)));
        assert!(all.0.push(TenantId(Uuid::max()), queued_write(0, 0)).is_ok());
        let measures = all.metrics("audit");
        assert_eq!((measures.queued, measures.queue_capacity, measures.rejected), (4097, 4096, 1));
    }
}
