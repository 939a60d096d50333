//! Transactions that remain open after the `ARes`, and their progress. No card number is stored.

mod progress;

pub(crate) use progress::{ChallengePhase, ChallengeProgress, ChallengeStart};

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use scrip_threeds::{
    code::{AuthenticationCategory, DeviceChannel, Scheme},
    format::{Text, TransId, Url, Version},
    message::{AcsRendering, TransactionContext},
};
use tokio::{task::AbortHandle, time::Instant};

use crate::{app_encryption::AppKeys, card::ChallengeScenario, page::Purchase};

/// The immutable part of a transaction.
#[derive(Debug)]
pub(crate) struct TransactionDetails {
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
    pub(crate) challenge: ChallengeScenario,
    pub(crate) flow: ChallengeFlow,
    pub(crate) purchase: Purchase,
    pub(crate) app_keys: Option<AppKeys>,
}

impl TransactionDetails {
    pub(crate) fn transaction_context(&self) -> TransactionContext {
        TransactionContext::for_version(self.version).with_channel(self.channel, self.category)
    }
}

/// Where the cardholder is authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChallengeFlow {
    /// On a page of the simulator.
    Browser,
    /// In an app with an SDK.
    App,
    /// By the bank, outside of the browser or app.
    Decoupled,
}

/// An open transaction.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) details: TransactionDetails,
    pub(crate) progress: ChallengeProgress,
    /// The number of entered codes, correct or wrong.
    pub(crate) attempts: Mutex<u8>,
    /// The number of messages of the app.
    pub(crate) app_message_count: Mutex<u16>,
    /// Received with the `CReq` and returned with the `CRes`.
    pub(crate) session_data: Mutex<Option<Text<1, 1024>>>,
    timer: Mutex<Option<AbortOnDrop>>,
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl fmt::Debug for AbortOnDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AbortOnDrop")
    }
}

impl Transaction {
    pub(crate) fn new(details: TransactionDetails) -> Self {
        Self {
            details,
            progress: ChallengeProgress::new(),
            attempts: Mutex::new(0),
            app_message_count: Mutex::new(0),
            session_data: Mutex::new(None),
            timer: Mutex::new(None),
        }
    }

    /// Replaces and stops the old timer. Evicting the transaction stops its timer.
    pub(crate) fn set_timer(&self, task: AbortHandle) {
        let old_timer =
            self.timer.lock().unwrap_or_else(PoisonError::into_inner).replace(AbortOnDrop(task));
        drop(old_timer);
    }

    /// Counts an entered code and returns the new count.
    pub(crate) fn count_attempt(&self) -> u8 {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        *attempts = attempts.saturating_add(1);
        *attempts
    }

    pub(crate) fn attempt_count(&self) -> u8 {
        *self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The stored transactions, limited by number and lifetime.
#[derive(Debug)]
pub(crate) struct Transactions {
    capacity: usize,
    table: Mutex<TransactionTable>,
}

#[derive(Debug, Default)]
struct TransactionTable {
    by_id: HashMap<String, (Instant, Arc<Transaction>)>,
    order: VecDeque<String>,
    last_expiry_check: Option<Instant>,
}

const EXPIRY_INTERVAL: Duration = Duration::from_secs(60);

impl Transactions {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), table: Mutex::default() }
    }

    pub(crate) fn insert(&self, transaction: Transaction, lifetime: Duration) -> Arc<Transaction> {
        let transaction = Arc::new(transaction);
        let now = Instant::now();
        let id = normalize_id(&transaction.details.acs_trans_id);
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.remove_expired(now);
        while table.order.len() >= self.capacity {
            let Some(oldest) = table.order.pop_front() else { break };
            table.by_id.remove(&oldest);
        }
        let expires_at = now.checked_add(lifetime).unwrap_or(now);
        table.by_id.insert(id.clone(), (expires_at, Arc::clone(&transaction)));
        table.order.push_back(id);
        transaction
    }

    pub(crate) fn find(&self, acs_trans_id: &TransId) -> Option<Arc<Transaction>> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let (expires_at, transaction) = table.by_id.get(&normalize_id(acs_trans_id))?;
        (*expires_at > Instant::now()).then(|| Arc::clone(transaction))
    }
}

impl TransactionTable {
    fn remove_expired(&mut self, now: Instant) {
        let is_due =
            self.last_expiry_check.is_none_or(|it| now.duration_since(it) >= EXPIRY_INTERVAL);
        if is_due {
            self.last_expiry_check = Some(now);
            self.by_id.retain(|_, (until, _)| *until > now);
            self.order.retain(|it| self.by_id.contains_key(it));
        }
    }
}

/// Ids may be returned in another case.
fn normalize_id(id: &TransId) -> String {
    id.expose().to_ascii_lowercase()
}
