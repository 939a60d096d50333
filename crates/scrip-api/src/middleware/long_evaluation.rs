//! Runs long evaluations of expressions outside of the workers that serve requests.
//!
//! An evaluation that reaches the inline bound of its request hands its worker to the other
//! requests and waits for one of a few slots. Half of the cores remain free for other work.

use std::{
    sync::{Condvar, LazyLock, Mutex, PoisonError},
    thread::available_parallelism,
    time::Duration,
};

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
};

/// Maximum number of evaluations that wait for a slot. Each one blocks a thread and the memory of
/// its request, so the wait is short.
const WAITING_MAX: usize = 32;
const WAIT_MAX: Duration = Duration::from_secs(2);

static SLOTS: LazyLock<EvaluationSlots> = LazyLock::new(|| {
    let cores = available_parallelism().map_or(1, usize::from);
    EvaluationSlots::new((cores / 2).max(1), WAITING_MAX, WAIT_MAX)
});

/// Runs an evaluation in a slot. Returns `false` if the queue is full or the wait timed out.
pub(crate) fn run_in_slot(evaluate: &mut dyn FnMut()) -> bool {
    let is_on_worker = Handle::try_current()
        .is_ok_and(|it| matches!(it.runtime_flavor(), RuntimeFlavor::MultiThread));
    if !is_on_worker {
        // A thread of a store engine: it serves no requests, so the evaluation can run without a
        // slot.
        evaluate();
        return true;
    }
    SLOTS.run(evaluate)
}

struct EvaluationSlots {
    running_max: usize,
    waiting_max: usize,
    wait_max: Duration,
    state: Mutex<SlotCounts>,
    slot_freed: Condvar,
}

#[derive(Default)]
struct SlotCounts {
    running: usize,
    waiting: usize,
}

/// Frees the slot when the evaluation ends, also after a panic.
struct EvaluationSlot<'a>(&'a EvaluationSlots);

impl Drop for EvaluationSlot<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.running = state.running.saturating_sub(1);
        self.0.slot_freed.notify_one();
    }
}

impl EvaluationSlots {
    fn new(running_max: usize, waiting_max: usize, wait_max: Duration) -> Self {
        let (state, slot_freed) = (Mutex::default(), Condvar::new());
        Self { running_max, waiting_max, wait_max, state, slot_freed }
    }

    fn run(&self, evaluate: &mut dyn FnMut()) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.running >= self.running_max && state.waiting >= self.waiting_max {
            return false;
        }
        state.waiting = state.waiting.saturating_add(1);
        drop(state);
        block_in_place(|| {
            let slot = self.wait_for_slot();
            if slot.is_some() {
                evaluate();
            }
            slot.is_some()
        })
    }

    fn wait_for_slot(&self) -> Option<EvaluationSlot<'_>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |it: &mut SlotCounts| it.running >= self.running_max;
        let wait_result = self.slot_freed.wait_timeout_while(state, self.wait_max, is_full);
        let (mut state, timeout) = wait_result.unwrap_or_else(PoisonError::into_inner);
        state.waiting = state.waiting.saturating_sub(1);
        if timeout.timed_out() {
            return None;
        }
        state.running = state.running.saturating_add(1);
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
            run_in_slot(&mut || {
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

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn evaluation_that_waits_too_long_for_a_slot_is_rejected_and_leaves_the_queue() {
        let slots = Arc::new(EvaluationSlots::new(1, 2, Duration::from_millis(20)));
        let (end_sender, end_receiver) = mpsc::channel::<()>();
        let (start_sender, start_receiver) = tokio::sync::oneshot::channel::<()>();
        let first_slots = Arc::clone(&slots);
        let first = tokio::spawn(async move {
            let mut start_sender = Some(start_sender);
            first_slots.run(&mut || {
                start_sender.take().unwrap().send(()).unwrap();
                end_receiver.recv_timeout(DEADLINE).unwrap();
            })
        });
        start_receiver.await.unwrap();
        let second_slots = Arc::clone(&slots);
        let second =
            tokio::spawn(async move { second_slots.run(&mut || panic!("no slot is free")) });
        assert!(!second.await.unwrap());
        assert_eq!(slots.state.lock().unwrap().waiting, 0);
        end_sender.send(()).unwrap();
        assert!(first.await.unwrap());
        assert!(tokio::spawn(async move { slots.run(&mut || ()) }).await.unwrap());
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
                slots.run(&mut || {
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
                (state.running, state.waiting)
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
}
