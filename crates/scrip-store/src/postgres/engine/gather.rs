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
    measure::{Counter, Histogram, LogMeasures},
    store::StoreError,
};
use tokio::{sync::oneshot, time::Instant};

use crate::postgres::engine::fault::unavailable;

/// Past this a tenant's next piece of work is refused at once.
const WAITING_MAX: usize = 4096;
/// Whoever waited for longer is refused when its turn comes: its client does not wait any more, or
/// asks again.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Of what is done together, except where one piece alone has more.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// Up to a tenant's whole queue.
const BATCH_BOUNDS: &[u64; 9] = &[1, 2, 4, 8, 16, 32, 64, 256, 4096];

pub(crate) type Reply<R> = oneshot::Sender<Result<R, StoreError>>;

/// A piece of work, and whoever wants to hear what became of it.
pub(crate) struct Waiting<T, R> {
    pub(crate) work: T,
    pub(crate) bytes: usize,
    pub(crate) reply: Reply<R>,
    since: Instant,
}

/// What waits for one log, of all tenants.
pub(crate) struct Gathering<T, R>(Arc<Shared<T, R>>);

struct Shared<T, R> {
    /// A tenant is in it while somebody works for it.
    tenants: Mutex<HashMap<TenantId, VecDeque<Waiting<T, R>>>>,
    refused: Counter,
    failed: Counter,
    batch: Histogram<9>,
}

impl<T, R> fmt::Debug for Gathering<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gathering")
    }
}

impl<T, R> Default for Gathering<T, R> {
    fn default() -> Self {
        Self(Arc::new(Shared {
            tenants: Mutex::default(),
            refused: Counter::default(),
            failed: Counter::default(),
            batch: Histogram::new(BATCH_BOUNDS),
        }))
    }
}

impl<T, R> Shared<T, R> {
    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, VecDeque<Waiting<T, R>>>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody works for this tenant yet.
    fn push(&self, tenant: TenantId, waiting: Waiting<T, R>) -> Result<bool, StoreError> {
        match self.lock().entry(tenant) {
            Entry::Occupied(it) if it.get().len() >= WAITING_MAX => {
                self.refused.one();
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

impl<T: Send + 'static, R: Send + 'static> Gathering<T, R> {
    /// Answers once it is durable. `run` works for a tenant, until its turn is over.
    pub(crate) async fn done<F>(
        &self,
        tenant: TenantId,
        work: T,
        bytes: usize,
        run: impl FnOnce(Turn<T, R>) -> F,
    ) -> Result<R, StoreError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let answer = self.hand(tenant, work, bytes, run)?;
        answer.await.map_err(|_| unavailable("the server is stopping"))?
    }

    /// The same, for one who does not wait for it: what became of it is told to whoever wants to
    /// hear.
    pub(crate) fn hand<F>(
        &self,
        tenant: TenantId,
        work: T,
        bytes: usize,
        run: impl FnOnce(Turn<T, R>) -> F,
    ) -> Result<oneshot::Receiver<Result<R, StoreError>>, StoreError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        if self.0.push(tenant, Waiting { work, bytes, reply, since: Instant::now() })? {
            let turn = Turn { shared: Arc::clone(&self.0), tenant, is_over: false };
            // Not by the one who asked: should that go away, the others would wait for nobody.
            drop(tokio::spawn(run(turn)));
        }
        Ok(answer)
    }

    pub(crate) fn measures(&self, log: &'static str) -> LogMeasures {
        let number = |it: usize| u64::try_from(it).unwrap_or(u64::MAX);
        LogMeasures {
            log,
            waiting: self.0.lock().values().map(|it| number(it.len())).sum(),
            waiting_max: number(WAITING_MAX),
            refused: self.0.refused.get(),
            batch: self.0.batch.read(),
            failed: self.0.failed.get(),
            ..LogMeasures::default()
        }
    }
}

/// Somebody works for this tenant, until nothing waits.
pub(crate) struct Turn<T, R> {
    shared: Arc<Shared<T, R>>,
    pub(crate) tenant: TenantId,
    is_over: bool,
}

impl<T, R> Turn<T, R> {
    /// What has waited longest, so many at most; nothing, and the turn is over, when nothing does.
    pub(crate) fn next(&mut self, most: usize) -> Option<Vec<Waiting<T, R>>> {
        self.next_at(Instant::now(), most)
    }

    fn next_at(&mut self, now: Instant, most: usize) -> Option<Vec<Waiting<T, R>>> {
        let mut tenants = self.shared.lock();
        if let Some(queue) = tenants.get_mut(&self.tenant) {
            while let Some(late) = queue.pop_front_if(|it| now.duration_since(it.since) > WAIT_MAX)
            {
                self.shared.refused.one();
                drop(late.reply.send(Err(StoreError::Busy)));
            }
        }
        let (mut taken, mut bytes) = (Vec::new(), 0_usize);
        while taken.len() < most
            && let Some(queue) = tenants.get_mut(&self.tenant)
            && let Some(first) = queue.front()
            && (taken.is_empty() || bytes.saturating_add(first.bytes) <= BYTES_MAX)
        {
            bytes = bytes.saturating_add(first.bytes);
            taken.extend(queue.pop_front());
        }
        if taken.is_empty() {
            tenants.remove(&self.tenant);
            self.is_over = true;
            return None;
        }
        Some(taken)
    }

    /// What there was no room for, before all that waits.
    pub(crate) fn put_back(&self, left: Vec<Waiting<T, R>>) {
        let mut tenants = self.shared.lock();
        let queue = tenants.entry(self.tenant).or_default();
        left.into_iter().rev().for_each(|it| queue.push_front(it));
    }

    /// One transaction that did this many, or of which nobody knows what became.
    pub(crate) fn note(&self, committed: Option<usize>) {
        match committed {
            Some(size) => self.shared.batch.note(u64::try_from(size).unwrap_or(u64::MAX)),
            None => self.shared.failed.one(),
        }
    }
}

/// When the work is broken off, nobody is left waiting for it. After its end the tenant may be
/// somebody else's.
impl<T, R> Drop for Turn<T, R> {
    fn drop(&mut self) {
        if !self.is_over {
            drop(self.shared.lock().remove(&self.tenant));
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const TENANT: TenantId = TenantId(Uuid::nil());

    fn waiting(work: usize, bytes: usize) -> Waiting<usize, ()> {
        Waiting { work, bytes, reply: oneshot::channel().0, since: Instant::now() }
    }

    fn works(taken: Option<Vec<Waiting<usize, ()>>>) -> Vec<usize> {
        taken.into_iter().flatten().map(|it| it.work).collect()
    }

    #[test]
    fn a_turn_is_bounded() {
        let all = Gathering::<usize, ()>::default();
        let sizes = [0, 0, 0, BYTES_MAX, 1, BYTES_MAX.saturating_mul(2), 1];
        for (work, bytes) in sizes.into_iter().enumerate() {
            assert_eq!(all.0.push(TENANT, waiting(work, bytes)).ok(), Some(work == 0));
        }
        let mut turn = Turn { shared: Arc::clone(&all.0), tenant: TENANT, is_over: false };
        assert_eq!(works(turn.next(2)), [0, 1]);
        // One may have more than all together; then it is by itself.
        assert_eq!(works(turn.next(9)), [2, 3]);
        assert_eq!(works(turn.next(9)), [4]);
        assert_eq!(works(turn.next(9)), [5]);
        assert_eq!(works(turn.next(9)), [6]);
        assert!(turn.next(9).is_none());
    }

    #[test]
    fn what_waited_too_long_is_refused() {
        let all = Gathering::<usize, ()>::default();
        let began = Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        let mut answers = Vec::new();
        for (work, seconds) in [0, 1, 2].into_iter().enumerate() {
            let (reply, answer) = oneshot::channel();
            let waiting = Waiting { work, bytes: 0, reply, since: after(seconds) };
            assert!(all.0.push(TENANT, waiting).is_ok());
            answers.push(answer);
        }
        let mut turn = Turn { shared: Arc::clone(&all.0), tenant: TENANT, is_over: false };
        // Two of them are late; the third is done.
        let mut taken = turn.next_at(after(7), 9).unwrap();
        assert_eq!(taken.iter().map(|it| it.work).collect::<Vec<_>>(), [2]);
        let [first, second, third] = answers.as_mut_slice() else { panic!("there are three") };
        for late in [first, second] {
            assert!(matches!(late.try_recv(), Ok(Err(StoreError::Busy))));
        }
        assert!(third.try_recv().is_err());
        assert_eq!(all.measures("audit").refused, 2);
        // What there was no room for keeps its time.
        turn.put_back(taken.split_off(0));
        assert!(turn.next_at(after(8), 9).is_none());
        assert!(matches!(third.try_recv(), Ok(Err(StoreError::Busy))));
    }

    #[test]
    fn what_is_put_back_comes_first() {
        let all = Gathering::<usize, ()>::default();
        for work in 0..4 {
            assert!(all.0.push(TENANT, waiting(work, 0)).is_ok());
        }
        let mut turn = Turn { shared: Arc::clone(&all.0), tenant: TENANT, is_over: false };
        let mut taken = turn.next(3).unwrap();
        turn.put_back(taken.split_off(1));
        assert_eq!(works(turn.next(9)), [1, 2, 3]);
    }

    #[test]
    fn a_turn_that_is_over_takes_nothing_from_the_next() {
        let all = Gathering::<usize, ()>::default();
        let turn = || Turn { shared: Arc::clone(&all.0), tenant: TENANT, is_over: false };
        assert!(all.0.push(TENANT, waiting(1, 0)).is_ok_and(|is_first| is_first));
        let mut first = turn();
        assert_eq!(works(first.next(9)), [1]);
        assert!(first.next(9).is_none());
        assert!(all.0.push(TENANT, waiting(2, 0)).is_ok_and(|is_first| is_first));
        drop(first);
        let mut second = turn();
        assert_eq!(works(second.next(9)), [2]);
        // One that is broken off leaves nobody waiting.
        assert!(all.0.push(TENANT, waiting(3, 0)).is_ok_and(|is_first| !is_first));
        drop(second);
        assert!(all.0.push(TENANT, waiting(4, 0)).is_ok_and(|is_first| is_first));
    }

    #[test]
    fn a_queue_is_bounded() {
        let all = Gathering::<usize, ()>::default();
        for work in 0..WAITING_MAX {
            assert!(all.0.push(TENANT, waiting(work, 0)).is_ok());
        }
        assert!(matches!(all.0.push(TENANT, waiting(0, 0)), Err(StoreError::Busy)));
        assert!(all.0.push(TenantId(Uuid::max()), waiting(0, 0)).is_ok());
        let measures = all.measures("audit");
        assert_eq!((measures.waiting, measures.waiting_max, measures.refused), (4097, 4096, 1));
    }
}
