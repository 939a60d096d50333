//! Dual control of a running server: actions of operators wait for a second operator.

pub mod requests;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail};
use scrip_api::app::App;
use scrip_core::{
    approval::{
        ApprovalChange, ApprovalRecord, StoredApprovals, StoredDualControl,
        ledger::{ApprovalLedger, ApprovalSigner, DualControlStatus},
    },
    change::ChangeOutcome,
    policy::Directory,
    types::id::VaultId,
};
use serde::{Deserialize, Serialize};
use tokio::{sync::Mutex, time::sleep};

/// Expired requests are removed this often.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(60);
/// Other nodes may change the requests at the same time.
const ATTEMPTS_MAX: usize = 8;

/// The state of dual control, for the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DualControlReport {
    pub is_on: bool,
    /// Whether `keys.dual_control` of this server is true.
    pub is_set: bool,
    /// Whether the rows were altered outside the vault.
    pub is_altered: bool,
    pub open_requests: usize,
}

/// Decides whether an action needs an approval, and keeps the requests.
#[derive(Debug)]
pub struct DualControl {
    app: Arc<App>,
    /// From `keys.dual_control`.
    is_set: bool,
    /// One change of this node at a time.
    changes: Mutex<()>,
    /// The highest sequence that this process has seen. A lower one is a rollback.
    seen_sequence: AtomicI64,
    /// For metrics: the requests without an approval, when the rows were last loaded.
    waiting: AtomicUsize,
}

/// The verified requests, and what signs a change of them.
struct OpenLedger {
    ledger: ApprovalLedger,
    directory: Arc<Directory>,
    vault: VaultId,
}

impl OpenLedger {
    fn signer(&self) -> ApprovalSigner<'_> {
        ApprovalSigner { key: self.directory.audit_key(), vault: self.vault }
    }
}

impl DualControl {
    pub fn new(app: Arc<App>, is_set: bool) -> Self {
        Self {
            app,
            is_set,
            changes: Mutex::default(),
            seen_sequence: AtomicI64::new(0),
            waiting: AtomicUsize::default(),
        }
    }

    /// The requests that wait for a second operator.
    pub(crate) fn waiting_count(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether changes need an approval. Altered rows cannot switch dual control off.
    /// Errors: the store is unavailable, or the vault is sealed and cannot verify the rows.
    pub async fn is_in_force(&self) -> anyhow::Result<bool> {
        if self.is_set {
            return Ok(true);
        }
        if self.was_never_on(&self.load_stored().await?) {
            return Ok(false);
        }
        let open = self.load().await?;
        Ok(open.ledger.status() != DualControlStatus::Off)
    }

    /// Errors: as [`DualControl::is_in_force`].
    pub async fn report(&self) -> anyhow::Result<DualControlReport> {
        let is_set = self.is_set;
        if self.was_never_on(&self.load_stored().await?) {
            return Ok(DualControlReport {
                is_on: is_set,
                is_set,
                is_altered: false,
                open_requests: 0,
            });
        }
        let now = self.app.vault.clock.now();
        let OpenLedger { ledger, .. } = self.load().await?;
        let expired = ledger.expired(now).len();
        Ok(DualControlReport {
            is_on: is_set || ledger.status() != DualControlStatus::Off,
            is_set,
            is_altered: ledger.status() == DualControlStatus::Altered || ledger.ignored() > 0,
            open_requests: ledger.requests().len().saturating_sub(expired),
        })
    }

    /// Switches dual control on; does nothing if it is on.
    /// Errors: the vault is sealed or has no unlock methods, or the store is unavailable.
    pub async fn switch_on(&self, reason: &str) -> anyhow::Result<()> {
        let _guard = self.changes.lock().await;
        for _ in 0..ATTEMPTS_MAX {
            let open = self.load().await?;
            if open.ledger.status() == DualControlStatus::On {
                return Ok(());
            }
            let now = self.app.vault.clock.now();
            let change = open.ledger.switch(open.signer(), true, now);
            if self.write(change).await? {
                tracing::info!(reason, "dual control is on");
                return self.record(&format!("dual control on {reason}")).await;
            }
        }
        bail!(BUSY)
    }

    /// Switches dual control off. The caller has used an approval for it.
    /// Errors: the setting of this server switches it on, or as [`DualControl::switch_on`].
    pub async fn switch_off(&self, uid: u32) -> anyhow::Result<()> {
        self.check_can_switch_off()?;
        let _guard = self.changes.lock().await;
        for _ in 0..ATTEMPTS_MAX {
            let open = self.load().await?;
            let now = self.app.vault.clock.now();
            let change = open.ledger.switch(open.signer(), false, now);
            if self.write(change).await? {
                tracing::warn!(uid, "dual control is off");
                return self.record(&format!("dual control off by uid {uid}")).await;
            }
        }
        bail!(BUSY)
    }

    /// Errors: the setting would switch dual control on again.
    pub fn check_can_switch_off(&self) -> anyhow::Result<()> {
        match self.is_set {
            true => bail!(
                "the setting keys.dual_control is true: set it to false and restart the server. \
                 Dual control stays on until this command is approved"
            ),
            false => Ok(()),
        }
    }

    /// Stores the setting as soon as the vault is open, and removes expired requests.
    pub async fn run(self: Arc<Self>) {
        self.app.wait_until_unsealed().await;
        let mut is_started = false;
        loop {
            let result = match is_started {
                false => self.start().await,
                true => self.remove_expired().await,
            };
            match result {
                Ok(()) => is_started = true,
                Err(error) if !self.app.is_sealed() => {
                    let cause = format!("{error:#}");
                    tracing::error!(cause, "dual control: the requests cannot be updated");
                }
                Err(_) => (),
            }
            sleep(EXPIRY_INTERVAL).await;
        }
    }

    /// Switches dual control on if the setting says so. The setting never switches it off: its
    /// writer is one person.
    pub(crate) async fn start(&self) -> anyhow::Result<()> {
        if self.is_set {
            return self.switch_on("by the setting").await;
        }
        if self.is_in_force().await? {
            tracing::warn!(
                "dual control is on, although keys.dual_control is false. To switch it off, two \
                 operators are needed: scrip keys dual-control off"
            );
        }
        Ok(())
    }

    async fn load_stored(&self) -> anyhow::Result<StoredApprovals> {
        Ok(self.app.vault.store.load_approvals().await?)
    }

    /// Without the row, the vault key is not needed to know the state.
    fn was_never_on(&self, stored: &StoredApprovals) -> bool {
        stored.dual_control == StoredDualControl::Missing
            && self.seen_sequence.load(Ordering::Relaxed) == 0
    }

    /// Loads and verifies the rows.
    async fn load(&self) -> anyhow::Result<OpenLedger> {
        // Before the rows are read: another task may store a newer one.
        let seen_sequence = self.seen_sequence.load(Ordering::Relaxed);
        let stored = self.load_stored().await?;
        let unlocks = self.app.vault.store.load_unlocks().await?;
        let directory = self.app.directory.load_full();
        let directory = directory.context("the vault is sealed; unlock it first")?;
        let identity = unlocks.identity.context(
            "dual control needs a vault with unlock methods. Run first: scrip keys adopt",
        )?;
        let vault = identity.id;
        let signer = ApprovalSigner { key: directory.audit_key(), vault };
        let mut ledger = ApprovalLedger::verify(stored, signer);
        let is_rolled_back = ledger.sequence() < seen_sequence;
        if is_rolled_back {
            ledger = ledger.rolled_back().after_sequence(seen_sequence);
        } else {
            self.seen_sequence.fetch_max(ledger.sequence(), Ordering::Relaxed);
        }
        if ledger.status() == DualControlStatus::Altered || ledger.ignored() > 0 {
            tracing::error!(
                rows = ledger.ignored(),
                is_rolled_back,
                "rows of dual control were altered outside the vault: they are ignored"
            );
        }
        let now = self.app.vault.clock.now();
        let is_waiting = |it: &&ApprovalRecord| !it.is_approved() && !it.is_expired(now);
        let waiting = ledger.requests().iter().filter(is_waiting).count();
        self.waiting.store(waiting, Ordering::Relaxed);
        Ok(OpenLedger { ledger, directory, vault })
    }

    /// Returns whether the change was made. Another node may have been faster.
    async fn write(&self, change: ApprovalChange) -> anyhow::Result<bool> {
        let sequence = change.dual_control.sequence;
        let outcome = self.app.vault.store.change_approvals(change).await?;
        let is_done = outcome == ChangeOutcome::Done;
        if is_done {
            self.seen_sequence.fetch_max(sequence, Ordering::Relaxed);
        }
        Ok(is_done)
    }

    /// Records a step in the chain of the vault.
    async fn record(&self, step: &str) -> anyhow::Result<()> {
        let recorded = self.app.vault.record_command(step, "completed").await;
        recorded
            .map_err(|it| anyhow::Error::msg(it.cause_text()))
            .context("the step cannot be recorded in the audit log")
    }
}

const BUSY: &str = "other nodes change the requests at the same time; try again";
