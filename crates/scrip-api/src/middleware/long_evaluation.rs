//! Long evaluations of expressions, off the workers that serve requests.
//!
//! An evaluation that reaches the inline bound of its request gives its worker to the other requests
//! and waits for one of a few slots. Half of the cores stay free for everything else.

use std::{
    sync::{Condvar, LazyLock, Mutex, PoisonError},
    thread::available_parallelism,
    time::Duration,
};

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
};

/// Evaluations that wait for a slot. Each holds a thread and the memory of its request, so none
/// waits long.
const WAITING_MAX: usize = 32;
const WAIT_MAX: Duration = Duration::from_secs(2);

static SLOTS: LazyLock<EvaluationSlots> = LazyLock::new(|| {
    let cores = available_parallelism().map_or(1, usize::from);
    EvaluationSlots::new((cores / 2).max(1), WAITING_MAX, WAIT_MAX)
});

/// Runs an evaluation in a slot; `false` if too many wait for one, or this one waited too long.
pub(crate) fn run_in_slot(evaluate: &mut dyn FnMut()) -> bool {
    let on_worker = Handle::try_current()
        .is_ok_and(|it| matches!(it.runtime_flavor(), RuntimeFlavor::MultiThread));
    if !on_worker {
        // The thread of a store engine: no request is served by it, and no slot is worth its wait.
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

/// Gives the slot back when the evaluation is over, also by a panic.
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
        let (state, freed) = (Mutex::default(), Condvar::new());
        Self { running_max, waiting_max, wait_max, state, slot_freed: freed }
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
        let waited = self.slot_freed.wait_timeout_while(state, self.wait_max, is_full);
        let (mut state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
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
        let (end, ended) = mpsc::channel::<()>();
        let (begin, started) = tokio::sync::oneshot::channel::<()>();
        let long = tokio::spawn(async move {
            let mut begin = Some(begin);
            run_in_slot(&mut || {
                let Some(begin) = begin.take() else { return };
                begin.send(()).unwrap();
                ended.recv_timeout(DEADLINE).unwrap();
            })
        });
        started.await.unwrap();
        // The only worker is free again, or this never runs.
        tokio::spawn(async move { end.send(()).unwrap() }).await.unwrap();
        assert!(long.await.unwrap());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn evaluation_that_waits_too_long_for_a_slot_is_rejected_and_leaves_the_queue() {
        let slots = Arc::new(EvaluationSlots::new(1, 2, Duration::from_millis(20)));
        let (end, ended) = mpsc::channel::<()>();
        let (begin, started) = tokio::sync::oneshot::channel::<()>();
        let running = Arc::clone(&slots);
        let first = tokio::spawn(async move {
            let mut begin = Some(begin);
            running.run(&mut || {
                begin.take().unwrap().send(()).unwrap();
                ended.recv_timeout(DEADLINE).unwrap();
            })
        });
        started.await.unwrap();
        let waiting = Arc::clone(&slots);
        let second = tokio::spawn(async move { waiting.run(&mut || panic!("there is no slot")) });
        assert!(!second.await.unwrap());
        assert_eq!(slots.state.lock().unwrap().waiting, 0);
        end.send(()).unwrap();
        assert!(first.await.unwrap());
        assert!(tokio::spawn(async move { slots.run(&mut || ()) }).await.unwrap());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn evaluations_past_the_slots_wait_and_past_the_queue_are_rejected() {
        let slots = Arc::new(EvaluationSlots::new(1, 2, DEADLINE));
        let (maximum, now) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        let spawn = || {
            let (slots, maximum, now) =
                (Arc::clone(&slots), Arc::clone(&maximum), Arc::clone(&now));
            let ended = Arc::clone(&ended);
            tokio::spawn(async move {
                slots.run(&mut || {
                    maximum.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                    ended.lock().unwrap().recv_timeout(DEADLINE).unwrap();
                    now.fetch_sub(1, SeqCst);
                })
            })
        };
        let accepted: Vec<_> = (0..3).map(|_| spawn()).collect();
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
            end.send(()).unwrap();
        }
        for it in accepted {
            assert!(it.await.unwrap());
        }
        assert_eq!(maximum.load(SeqCst), 1);
    }
}
