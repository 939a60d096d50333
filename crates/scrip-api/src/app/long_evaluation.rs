//! Runs long evaluations of expressions outside of the workers that serve requests.
//!
//! An evaluation that reaches the inline bound of its request hands its worker to the other
//! requests and waits for one of a few slots. Half of the cores remain free for other work.
//!
//! Slots are shared fairly between tenants: a tenant that waits with one evaluation is not behind
//! all evaluations of a tenant that waits with many, and a full queue rejects an evaluation of the
//! tenant that has the most.

use std::{
    cell::Cell,
    sync::{Condvar, LazyLock, Mutex, PoisonError},
    thread::available_parallelism,
    time::Duration,
};

use scrip_core::types::{id::TenantId, metrics::LONG_WORK_MICROS};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
    time::Instant,
};

/// Maximum number of evaluations that wait for a slot. Each one blocks a thread and the memory of
/// its request.
const WAITING_MAX: usize = 32;
/// Shorter than the timeouts of clients (30 s and more), so that a client gets the reason. A wait of
/// seconds is better for a payment than an error, and [`WAITING_MAX`] bounds its cost.
const WAIT_MAX: Duration = Duration::from_secs(10);

static SLOTS: LazyLock<EvaluationSlots> = LazyLock::new(|| {
    let cores = available_parallelism().map_or(1, usize::from);
    EvaluationSlots::new((cores / 2).max(1), WAITING_MAX, WAIT_MAX)
});

/// Runs an evaluation of a tenant in a slot. Returns `false` if the queue is full or the wait timed
/// out. Evaluations without a tenant share the slots as if they were those of one more tenant.
pub(crate) fn run_in_slot(tenant: Option<TenantId>, evaluate: &mut dyn FnMut()) -> bool {
    if !is_on_worker() {
        // A thread of a store engine: it serves no requests, so the evaluation can run without a
        // slot.
        evaluate();
        return true;
    }
    SLOTS.run(tenant, evaluate)
}

thread_local! {
    /// Whether this thread runs an evaluation in a slot.
    static HAS_SLOT: Cell<bool> = const { Cell::new(false) };
}

/// Runs work of the server itself that may take long, without a slot. Other requests get the worker
/// meanwhile.
pub(crate) fn leave_worker<T>(work: impl FnOnce() -> T) -> T {
    match is_on_worker() {
        true => block_in_place(|| count_time(work)),
        false => work(),
    }
}

fn count_time<T>(work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = work();
    LONG_WORK_MICROS.add(started.elapsed().as_micros().try_into().unwrap_or(u64::MAX));
    result
}

fn is_on_worker() -> bool {
    let handle = Handle::try_current();
    handle.is_ok_and(|it| matches!(it.runtime_flavor(), RuntimeFlavor::MultiThread))
}

type SlotOwner = Option<TenantId>;

struct EvaluationSlots {
    running_max: usize,
    waiting_max: usize,
    wait_max: Duration,
    state: Mutex<SlotQueue>,
    slot_freed: Condvar,
}

#[derive(Default)]
struct SlotQueue {
    running: usize,
    waiting: Vec<WaitingEvaluation>,
    next_ticket: u64,
    /// The round of the evaluation that got a slot last.
    round: u64,
}

#[derive(Clone, Copy)]
struct WaitingEvaluation {
    owner: SlotOwner,
    ticket: u64,
    /// The evaluations of an owner are in different rounds, so owners take turns.
    round: u64,
}

impl SlotQueue {
    /// Joins the queue. If it is full, the owner with the most waiting evaluations loses its last
    /// one. Returns `None` if this is the new one.
    fn join(&mut self, owner: SlotOwner, waiting_max: usize) -> Option<u64> {
        let last_round = self.filter_by_owner(owner).map(|it| it.round).max();
        let next_round = last_round.map_or(self.round, |it| it.saturating_add(1));
        let (ticket, round) = (self.next_ticket, next_round.max(self.round));
        self.next_ticket = ticket.saturating_add(1);
        self.waiting.push(WaitingEvaluation { owner, ticket, round });
        if self.waiting.len() > waiting_max {
            let count = |it: &WaitingEvaluation| self.filter_by_owner(it.owner).count();
            let last = self.waiting.iter().max_by_key(|it| (count(it), it.ticket));
            let last_ticket = last.map(|it| it.ticket);
            self.waiting.retain(|it| Some(it.ticket) != last_ticket);
        }
        self.is_waiting(ticket).then_some(ticket)
    }

    fn filter_by_owner(&self, owner: SlotOwner) -> impl Iterator<Item = &WaitingEvaluation> {
        self.waiting.iter().filter(move |it| it.owner == owner)
    }

    fn is_waiting(&self, ticket: u64) -> bool {
        self.waiting.iter().any(|it| it.ticket == ticket)
    }

    fn is_next(&self, ticket: u64) -> bool {
        let next = self.waiting.iter().min_by_key(|it| (it.round, it.ticket));
        next.is_some_and(|it| it.ticket == ticket)
    }

    /// Leaves the queue. Returns the entry if the queue still had it.
    fn leave(&mut self, ticket: u64) -> Option<WaitingEvaluation> {
        let index = self.waiting.iter().position(|it| it.ticket == ticket)?;
        Some(self.waiting.swap_remove(index))
    }
}

/// Frees the slot when the evaluation ends, also after a panic.
struct EvaluationSlot<'a>(&'a EvaluationSlots);

impl Drop for EvaluationSlot<'_> {
    fn drop(&mut self) {
        HAS_SLOT.set(false);
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.running = state.running.saturating_sub(1);
        self.0.slot_freed.notify_all();
    }
}

impl EvaluationSlots {
    fn new(running_max: usize, waiting_max: usize, wait_max: Duration) -> Self {
        let (state, slot_freed) = (Mutex::default(), Condvar::new());
        Self { running_max, waiting_max, wait_max, state, slot_freed }
    }

    fn run(&self, owner: SlotOwner, evaluate: &mut dyn FnMut()) -> bool {
        // An evaluation inside of another one would wait for the slot of its own request.
        if HAS_SLOT.get() {
            evaluate();
            return true;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // An evaluation that gets a free slot at once is in the queue for a moment.
        let free = self.running_max.saturating_sub(state.running);
        let ticket = state.join(owner, self.waiting_max.saturating_add(free));
        drop(state);
        // Another evaluation may have lost its place.
        self.slot_freed.notify_all();
        let Some(ticket) = ticket else { return false };
        block_in_place(|| {
            let Some(_slot) = self.wait_for_slot(ticket) else { return false };
            count_time(evaluate);
            true
        })
    }

    fn wait_for_slot(&self, ticket: u64) -> Option<EvaluationSlot<'_>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let must_wait = |it: &mut SlotQueue| {
            it.is_waiting(ticket) && (it.running >= self.running_max || !it.is_next(ticket))
        };
        let wait_result = self.slot_freed.wait_timeout_while(state, self.wait_max, must_wait);
        let (mut state, timeout) = wait_result.unwrap_or_else(PoisonError::into_inner);
        let left = state.leave(ticket);
        // The next one in the queue may have waited for this one only.
        self.slot_freed.notify_all();
        let granted = left.filter(|_| !timeout.timed_out())?;
        state.round = state.round.max(granted.round);
        state.running = state.running.saturating_add(1);
        HAS_SLOT.set(true);
        Some(EvaluationSlot(self))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::SeqCst},
            mpsc,
        },
        time::Duration,
    };

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(30);

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn long_evaluation_leaves_its_worker_to_other_requests() {
        let (end_sender, end_receiver) = mpsc::channel::<()>();
        let (start_sender, start_receiver) = tokio::sync::oneshot::channel::<()>();
        let evaluation = tokio::spawn(async move {
            let mut start_sender = Some(start_sender);
            run_in_slot(None, &mut || {
                let Some(start_sender) = start_sender.take() else { return };
                start_sender.send(()).unwrap();
                end_receiver.recv_timeout(DEADLINE).unwrap();
            })
        });
        start_receiver.await.unwrap();
        // This task can run only if the single worker is free again.
        tokio::spawn(async move { end_sender.send(()).unwrap() }).await.unwrap();
        assert!(evaluation.await.unwrap());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn evaluation_inside_of_another_one_uses_its_slot() {
        let slots = EvaluationSlots::new(1, 2, Duration::from_millis(20));
        let evaluation = tokio::spawn(async move {
            let (mut inner, mut inner_result) = (false, false);
            let outer = slots.run(None, &mut || {
                inner_result = slots.run(None, &mut || inner = true);
            });
            (outer, inner_result, inner, HAS_SLOT.get())
        });
        assert_eq!(evaluation.await.unwrap(), (true, true, true, false));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn evaluation_that_waits_too_long_for_a_slot_is_rejected_and_leaves_the_queue() {
        let slots = Arc::new(EvaluationSlots::new(1, 2, Duration::from_millis(20)));
        let (end_sender, end_receiver) = mpsc::channel::<()>();
        let (start_sender, start_receiver) = tokio::sync::oneshot::channel::<()>();
        let first_slots = Arc::clone(&slots);
        let first = tokio::spawn(async move {
            let mut start_sender = Some(start_sender);
            first_slots.run(None, &mut || {
                start_sender.take().unwrap().send(()).unwrap();
                end_receiver.recv_timeout(DEADLINE).unwrap();
            })
        });
        start_receiver.await.unwrap();
        let second_slots = Arc::clone(&slots);
        let second =
            tokio::spawn(async move { second_slots.run(None, &mut || panic!("no slot is free")) });
        assert!(!second.await.unwrap());
        assert_eq!(slots.state.lock().unwrap().waiting.len(), 0);
        end_sender.send(()).unwrap();
        assert!(first.await.unwrap());
        assert!(tokio::spawn(async move { slots.run(None, &mut || ()) }).await.unwrap());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn evaluations_past_the_slots_wait_and_past_the_queue_are_rejected() {
        let slots = Arc::new(EvaluationSlots::new(1, 2, DEADLINE));
        let (concurrent_max, concurrent) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (end_sender, end_receiver) = mpsc::channel::<()>();
        let end_receiver = Arc::new(Mutex::new(end_receiver));
        let spawn = || {
            let (slots, concurrent_max, concurrent) =
                (Arc::clone(&slots), Arc::clone(&concurrent_max), Arc::clone(&concurrent));
            let end_receiver = Arc::clone(&end_receiver);
            tokio::spawn(async move {
                slots.run(None, &mut || {
                    concurrent_max.fetch_max(concurrent.fetch_add(1, SeqCst) + 1, SeqCst);
                    end_receiver.lock().unwrap().recv_timeout(DEADLINE).unwrap();
                    concurrent.fetch_sub(1, SeqCst);
                })
            })
        };
        let evaluations: Vec<_> = (0..3).map(|_| spawn()).collect();
        loop {
            let (running, waiting) = {
                let state = slots.state.lock().unwrap();
                (state.running, state.waiting.len())
            };
            if (running, waiting) == (1, 2) {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert!(!spawn().await.unwrap());
        for _ in 0..3 {
            end_sender.send(()).unwrap();
        }
        for it in evaluations {
            assert!(it.await.unwrap());
        }
        assert_eq!(concurrent_max.load(SeqCst), 1);
    }

    #[test]
    fn tenant_with_one_evaluation_is_served_before_the_queue_of_another_tenant() {
        let [first, second] = [1, 2].map(|it| Some(TenantId(uuid::Uuid::from_u128(it))));
        let mut queue = SlotQueue::default();
        let flood: Vec<_> = (0..32).map(|_| queue.join(first, 32).unwrap()).collect();
        assert_eq!(queue.join(first, 32), None, "the queue is full");
        let single = queue.join(second, 32).expect("a place in the full queue");
        assert!(!queue.is_waiting(flood[31]), "the last evaluation of the flood loses its place");
        let mut order = Vec::new();
        while let Some(next) = queue.waiting.iter().find(|it| queue.is_next(it.ticket)).copied() {
            queue.leave(next.ticket);
            queue.round = next.round;
            order.push(next.ticket);
        }
        assert_eq!(order[..3], [flood[0], single, flood[1]]);
        assert_eq!(order.len(), 32);
    }

    /// Waits until this many evaluations are in the queue.
    async fn wait_for_queue(slots: &EvaluationSlots, waiting: usize) {
        while slots.state.lock().unwrap().waiting.len() != waiting {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn free_slot_goes_to_another_tenant_before_the_second_evaluation_of_a_flood() {
        let [flood, single] = [1, 2].map(|it| Some(TenantId(uuid::Uuid::from_u128(it))));
        let slots = Arc::new(EvaluationSlots::new(1, 8, DEADLINE));
        let order = Arc::new(Mutex::new(Vec::new()));
        let (end_sender, end_receiver) = mpsc::channel::<()>();
        let (start_sender, start_receiver) = tokio::sync::oneshot::channel::<()>();
        let first_slots = Arc::clone(&slots);
        let first = tokio::spawn(async move {
            let mut start_sender = Some(start_sender);
            first_slots.run(flood, &mut || {
                start_sender.take().unwrap().send(()).unwrap();
                end_receiver.recv_timeout(DEADLINE).unwrap();
            })
        });
        start_receiver.await.unwrap();
        let mut evaluations = vec![first];
        for (index, owner) in [flood, flood, flood, single].into_iter().enumerate() {
            let (slots_of_task, order) = (Arc::clone(&slots), Arc::clone(&order));
            evaluations.push(tokio::spawn(async move {
                slots_of_task.run(owner, &mut || order.lock().unwrap().push(index))
            }));
            wait_for_queue(&slots, index + 1).await;
        }
        end_sender.send(()).unwrap();
        for it in evaluations {
            assert!(it.await.unwrap());
        }
        assert_eq!(*order.lock().unwrap(), [0, 3, 1, 2]);
    }
}
