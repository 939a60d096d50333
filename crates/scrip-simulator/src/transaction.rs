//! Transactions that an `ARes` left open, and where each of them stands. No card number is kept.

mod progress;

pub(crate) use progress::{Phase, Progress, Visit};

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use scrip_threeds::{
    code::{AuthenticationCategory, DeviceChannel, Scheme},
    format::{Text, TransId, Url, Version},
    message::{AcsRendering, Scene},
};
use tokio::{task::AbortHandle, time::Instant};

use crate::{acs::AppKeys, card::Challenge, page::Purchase};

/// What does not change.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) scheme: Scheme,
    pub(crate) version: Version,
    pub(crate) channel: DeviceChannel,
    pub(crate) category: AuthenticationCategory,
    pub(crate) server_trans_id: TransId,
    pub(crate) acs_trans_id: TransId,
    pub(crate) ds_trans_id: TransId,
    pub(crate) sdk_trans_id: Option<TransId>,
    pub(crate) server_url: Url<2048>,
    pub(crate) notification_url: Option<Url<256>>,
    pub(crate) rendering: Option<AcsRendering>,
    pub(crate) challenge: Challenge,
    pub(crate) course: Course,
    pub(crate) purchase: Purchase,
    pub(crate) app: Option<AppKeys>,
}

impl Facts {
    pub(crate) fn scene(&self) -> Scene {
        Scene::of(self.version).within(self.channel, self.category)
    }
}

/// Who asks the cardholder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// A page of ours.
    Page,
    /// An app, with an SDK in it.
    App,
    /// The bank, somewhere else.
    Decoupled,
}

/// One transaction.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) facts: Facts,
    pub(crate) progress: Progress,
    /// Codes that were typed, right or wrong.
    pub(crate) tries: Mutex<u8>,
    /// Messages of an app, which are numbered.
    pub(crate) messages: Mutex<u16>,
    /// Comes with the `CReq` and goes with the `CRes`.
    pub(crate) session_data: Mutex<Option<Text<1, 1024>>>,
    timer: Mutex<Option<Timer>>,
}

struct Timer(AbortHandle);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Timer")
    }
}

impl Transaction {
    pub(crate) fn new(facts: Facts) -> Self {
        Self {
            facts,
            progress: Progress::new(),
            tries: Mutex::new(0),
            messages: Mutex::new(0),
            session_data: Mutex::new(None),
            timer: Mutex::new(None),
        }
    }

    /// The new timer stops the old one; forgetting the transaction stops them all.
    pub(crate) fn set_timer(&self, task: AbortHandle) {
        let old = self.timer.lock().unwrap_or_else(PoisonError::into_inner).replace(Timer(task));
        drop(old);
    }

    /// Another code was typed; how many that makes.
    pub(crate) fn count_try(&self) -> u8 {
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        *tries = tries.saturating_add(1);
        *tries
    }

    pub(crate) fn tries(&self) -> u8 {
        *self.tries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As many as fit, for as long as they may stay.
#[derive(Debug)]
pub(crate) struct Transactions {
    places: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    by_id: HashMap<String, (Instant, Arc<Transaction>)>,
    order: VecDeque<String>,
    swept: Option<Instant>,
}

const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

impl Transactions {
    pub(crate) fn new(places: usize) -> Self {
        Self { places: places.max(1), inner: Mutex::default() }
    }

    pub(crate) fn insert(&self, transaction: Transaction, keep: Duration) -> Arc<Transaction> {
        let transaction = Arc::new(transaction);
        let now = Instant::now();
        let id = name(&transaction.facts.acs_trans_id);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.sweep(now);
        while inner.order.len() >= self.places {
            let Some(oldest) = inner.order.pop_front() else { break };
            inner.by_id.remove(&oldest);
        }
        let until = now.checked_add(keep).unwrap_or(now);
        inner.by_id.insert(id.clone(), (until, Arc::clone(&transaction)));
        inner.order.push_back(id);
        transaction
    }

    pub(crate) fn find(&self, acs_trans_id: &TransId) -> Option<Arc<Transaction>> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, transaction) = inner.by_id.get(&name(acs_trans_id))?;
        (*until > Instant::now()).then(|| Arc::clone(transaction))
    }
}

impl Inner {
    fn sweep(&mut self, now: Instant) {
        let due = self.swept.is_none_or(|it| now.duration_since(it) >= SWEEP_INTERVAL);
        if due {
            self.swept = Some(now);
            self.by_id.retain(|_, (until, _)| *until > now);
            self.order.retain(|it| self.by_id.contains_key(it));
        }
    }
}

/// Ids may come back in another case.
fn name(id: &TransId) -> String {
    id.expose().to_ascii_lowercase()
}
