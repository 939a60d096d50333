//! The verified requests of dual control, and the changes of them.

use scrip_seal::{AuditKey, Mac};

use crate::{
    Timestamp,
    approval::{
        APPROVAL_LIFETIME, ActionText, ApprovalChange, ApprovalId, ApprovalRecord,
        DualControlRecord, StoredApprovals, StoredDualControl,
    },
    types::id::VaultId,
};

/// The length of a MAC in the list of open requests.
const MAC_BYTES: usize = 32;

/// Whether dual control is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DualControlStatus {
    Off,
    On,
    /// The row was altered outside the vault. Dual control is in force.
    Altered,
}

/// What signs the rows of dual control.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalSigner<'a> {
    pub key: &'a AuditKey,
    pub vault: VaultId,
}

/// The requests that the vault wrote and that were not used, with the state of dual control.
#[derive(Debug, Clone)]
pub struct ApprovalLedger {
    stored: StoredDualControl,
    status: DualControlStatus,
    sequence: i64,
    requests: Vec<ApprovalRecord>,
    /// Number of rows that the vault did not write, or that were used.
    ignored: usize,
}

impl ApprovalLedger {
    pub fn verify(stored: StoredApprovals, signer: ApprovalSigner<'_>) -> Self {
        let StoredApprovals { dual_control, requests, unreadable } = stored;
        let (status, sequence, members) = match &dual_control {
            StoredDualControl::Missing => (DualControlStatus::Off, 0, [].as_slice()),
            StoredDualControl::Present(it) if it.is_authentic(signer.key, signer.vault) => {
                let status = match it.is_on {
                    true => DualControlStatus::On,
                    false => DualControlStatus::Off,
                };
                (status, it.sequence, it.members.as_slice())
            }
            StoredDualControl::Present(_) | StoredDualControl::Unreadable => {
                (DualControlStatus::Altered, 0, [].as_slice())
            }
        };
        let is_member = |mac: &Mac| members.chunks_exact(MAC_BYTES).any(|it| it == mac.0);
        let row_count = requests.len().saturating_add(unreadable);
        let mut requests = requests;
        requests.retain(|it| is_member(&it.mac) && it.is_authentic(signer.key, signer.vault));
        let ignored = row_count.saturating_sub(requests.len());
        Self { stored: dual_control, status, sequence, requests, ignored }
    }

    pub fn status(&self) -> DualControlStatus {
        self.status
    }

    pub fn sequence(&self) -> i64 {
        self.sequence
    }

    /// The open requests, also those that have expired.
    pub fn requests(&self) -> &[ApprovalRecord] {
        &self.requests
    }

    pub fn ignored(&self) -> usize {
        self.ignored
    }

    pub fn expired(&self, now: Timestamp) -> Vec<ApprovalRecord> {
        self.requests.iter().filter(|it| it.is_expired(now)).cloned().collect()
    }

    /// An open request that has not expired.
    pub fn find(&self, id: &ApprovalId, now: Timestamp) -> Option<&ApprovalRecord> {
        self.requests.iter().find(|it| it.id == *id && !it.is_expired(now))
    }

    /// The request of this user for exactly this action.
    pub fn find_request(
        &self,
        uid: u32,
        action: &ActionText,
        now: Timestamp,
    ) -> Option<&ApprovalRecord> {
        let is_match = |it: &&ApprovalRecord| {
            it.requested_by == uid && it.action == *action && !it.is_expired(now)
        };
        self.requests.iter().find(is_match)
    }

    /// Adds a request.
    pub fn add(&self, signer: ApprovalSigner<'_>, request: NewApproval) -> ApprovalChange {
        let NewApproval { id, action, uid, now } = request;
        let record = ApprovalRecord {
            id,
            action,
            requested_by: uid,
            requested_at: now,
            expires_at: now.plus(APPROVAL_LIFETIME),
            approved_by: None,
            approved_at: None,
            mac: Mac([0; MAC_BYTES]),
        };
        self.change(signer, now, self.is_on(), Some(record), Vec::new())
    }

    /// Stores the approval of a request.
    pub fn approve(
        &self,
        signer: ApprovalSigner<'_>,
        request: &ApprovalRecord,
        uid: u32,
        now: Timestamp,
    ) -> ApprovalChange {
        let approved =
            ApprovalRecord { approved_by: Some(uid), approved_at: Some(now), ..request.clone() };
        self.change(signer, now, self.is_on(), Some(approved), Vec::new())
    }

    /// Removes requests that were used, rejected, or have expired.
    pub fn remove(
        &self,
        signer: ApprovalSigner<'_>,
        ids: Vec<ApprovalId>,
        now: Timestamp,
    ) -> ApprovalChange {
        self.change(signer, now, self.is_on(), None, ids)
    }

    /// Switches dual control on or off. Switching it off removes all requests.
    pub fn switch(
        &self,
        signer: ApprovalSigner<'_>,
        is_on: bool,
        now: Timestamp,
    ) -> ApprovalChange {
        let removed = match is_on {
            true => Vec::new(),
            false => self.requests.iter().map(|it| it.id.clone()).collect(),
        };
        self.change(signer, now, is_on, None, removed)
    }

    /// Signs the state with the newest key after a compromise. Requests that an older key signed
    /// end: the attacker may have that key.
    pub(crate) fn sign_again(&self, signer: ApprovalSigner<'_>, now: Timestamp) -> ApprovalChange {
        let is_old = |it: &&ApprovalRecord| !it.has_newest_mac(signer.key, signer.vault);
        let removed = self.requests.iter().filter(is_old).map(|it| it.id.clone()).collect();
        self.change(signer, now, self.is_on(), None, removed)
    }

    /// A changed row must not switch an altered state off.
    fn is_on(&self) -> bool {
        self.status != DualControlStatus::Off
    }

    fn change(
        &self,
        signer: ApprovalSigner<'_>,
        now: Timestamp,
        is_on: bool,
        put: Option<ApprovalRecord>,
        deleted: Vec<ApprovalId>,
    ) -> ApprovalChange {
        let put = put.map(|it| it.signed(signer.key, signer.vault));
        let is_replaced = |id: &ApprovalId| put.as_ref().is_some_and(|it| it.id == *id);
        let kept = self.requests.iter().filter(|it| !deleted.contains(&it.id));
        let kept = kept.filter(|it| !is_replaced(&it.id));
        let members = kept.chain(&put).flat_map(|it| it.mac.0).collect();
        let dual_control = DualControlRecord {
            is_on,
            sequence: self.sequence.saturating_add(1),
            members,
            changed_at: now,
            mac: Mac([0; MAC_BYTES]),
        };
        let dual_control = dual_control.signed(signer.key, signer.vault);
        ApprovalChange { expected: self.stored.clone(), dual_control, put, deleted }
    }

    /// Continues after a sequence that this process has seen, so that other processes do not take
    /// the next change for a rollback.
    #[must_use]
    pub fn after_sequence(mut self, sequence: i64) -> Self {
        self.sequence = self.sequence.max(sequence);
        self
    }

    /// Treats the row as altered, because it is older than one that this process has seen.
    #[must_use]
    pub fn rolled_back(mut self) -> Self {
        self.ignored = self.ignored.saturating_add(self.requests.len());
        self.status = DualControlStatus::Altered;
        self.requests.clear();
        self
    }
}

/// A request before it is stored.
#[derive(Debug)]
pub struct NewApproval {
    pub id: ApprovalId,
    pub action: ActionText,
    /// The requester.
    pub uid: u32,
    pub now: Timestamp,
}
