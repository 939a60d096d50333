//! Requests for an approval: create, list, approve, reject, use and expire them.

use anyhow::{Context, bail};
use scrip_core::{
    Timestamp,
    approval::{
        ActionText, ApprovalId, ApprovalRecord, OPEN_APPROVALS_MAX, OPEN_APPROVALS_PER_USER_MAX,
        ledger::NewApproval,
    },
};
use serde::{Deserialize, Serialize};

use crate::dual_control::{ATTEMPTS_MAX, BUSY, DualControl, OpenLedger};

/// An open request, for the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalTicket {
    pub id: String,
    pub action: String,
    pub requested_by: u32,
    pub requested_at: String,
    pub expires_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<u32>,
}

impl ApprovalTicket {
    fn new(record: &ApprovalRecord) -> Self {
        Self {
            id: record.id.to_string(),
            action: record.action.to_string(),
            requested_by: record.requested_by,
            requested_at: record.requested_at.to_string(),
            expires_at: record.expires_at.to_string(),
            approved_by: record.approved_by.filter(|_| record.is_approved()),
        }
    }
}

/// Whether an action may run now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authorization {
    /// Dual control is off.
    NotNeeded,
    /// The approval was used; the action may run once.
    Granted,
    /// The request waits for a second operator.
    Waiting(ApprovalTicket),
}

/// The result of using an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalUse {
    /// Dual control is off.
    NotNeeded,
    Used,
    /// There is no approved request.
    Missing,
}

impl DualControl {
    /// Uses the approval of this user for exactly this action. Without one, stores a request.
    /// Errors: the vault is sealed, the store is unavailable, or there are too many requests.
    pub async fn authorize(&self, uid: u32, action: &ActionText) -> anyhow::Result<Authorization> {
        match self.use_approval(uid, action).await? {
            ApprovalUse::NotNeeded => Ok(Authorization::NotNeeded),
            ApprovalUse::Used => Ok(Authorization::Granted),
            ApprovalUse::Missing => {
                let ticket = self.request(uid, action).await?;
                Ok(ticket.map_or(Authorization::NotNeeded, Authorization::Waiting))
            }
        }
    }

    /// Uses the approval of this user for exactly this action, and stores no request without one.
    /// Errors: the vault is sealed, or the store is unavailable.
    pub async fn use_approval(&self, uid: u32, action: &ActionText) -> anyhow::Result<ApprovalUse> {
        if !self.is_in_force().await? {
            return Ok(ApprovalUse::NotNeeded);
        }
        let _guard = self.changes.lock().await;
        for _ in 0..ATTEMPTS_MAX {
            let (open, now) = self.load_current().await?;
            let request = open.ledger.find_request(uid, action, now);
            let approved = request.filter(|it| it.is_approved());
            let Some((request, approver)) = approved.and_then(|it| Some((it, it.approved_by?)))
            else {
                return Ok(ApprovalUse::Missing);
            };
            let id = request.id.clone();
            let change = open.ledger.remove(open.signer(), vec![id.clone()], now);
            if self.write(change).await? {
                let step =
                    format!("approval {id} use by uid {uid}, approved by uid {approver}: {action}");
                // Without the record, the action must not run.
                self.record(&step).await?;
                return Ok(ApprovalUse::Used);
            }
        }
        bail!(BUSY)
    }

    /// Stores a request without using it, or finds an open one. `None` if dual control is off.
    /// Errors: as [`DualControl::authorize`].
    pub async fn request(
        &self,
        uid: u32,
        action: &ActionText,
    ) -> anyhow::Result<Option<ApprovalTicket>> {
        if !self.is_in_force().await? {
            return Ok(None);
        }
        let _guard = self.changes.lock().await;
        for _ in 0..ATTEMPTS_MAX {
            let (open, now) = self.load_current().await?;
            if let Some(request) = open.ledger.find_request(uid, action, now) {
                return Ok(Some(ApprovalTicket::new(request)));
            }
            if let Some(ticket) = self.add_request(&open, uid, action, now).await? {
                return Ok(Some(ticket));
            }
        }
        bail!(BUSY)
    }

    /// `None` if another node was faster.
    async fn add_request(
        &self,
        open: &OpenLedger,
        uid: u32,
        action: &ActionText,
        now: Timestamp,
    ) -> anyhow::Result<Option<ApprovalTicket>> {
        let requests = open.ledger.requests();
        let own_count = requests.iter().filter(|it| it.requested_by == uid).count();
        if requests.len() >= OPEN_APPROVALS_MAX || own_count >= OPEN_APPROVALS_PER_USER_MAX {
            bail!("there are too many open requests; reject some first: scrip approvals");
        }
        let id = ApprovalId::random(self.app.vault.fill_random);
        let request = NewApproval { id, action: action.clone(), uid, now };
        let change = open.ledger.add(open.signer(), request);
        let Some(record) = change.put.clone() else { return Ok(None) };
        if !self.write(change).await? {
            return Ok(None);
        }
        let id = &record.id;
        self.record(&format!("approval {id} request by uid {uid}: {action}")).await?;
        Ok(Some(ApprovalTicket::new(&record)))
    }

    /// The open requests, oldest first.
    /// Errors: the vault is sealed, or the store is unavailable.
    pub async fn list(&self) -> anyhow::Result<Vec<ApprovalTicket>> {
        if self.was_never_on(&self.load_stored().await?) {
            return Ok(Vec::new());
        }
        let now = self.app.vault.clock.now();
        let open = self.load().await?;
        let requests = open.ledger.requests().iter().filter(|it| !it.is_expired(now));
        Ok(requests.map(ApprovalTicket::new).collect())
    }

    /// Approves a request of another user.
    /// Errors: the request does not exist, has another action, or is a request of this user.
    pub async fn approve(&self, id: &str, action: &str, uid: u32) -> anyhow::Result<()> {
        let _guard = self.changes.lock().await;
        for _ in 0..ATTEMPTS_MAX {
            let (open, now) = self.load_current().await?;
            let request = find(&open, id, now)?;
            check_action(request, action)?;
            if request.requested_by == uid {
                bail!(
                    "request {id} is a request of this user (uid {uid}); another user must \
                     approve it"
                );
            }
            if request.is_approved() {
                bail!("request {id} is approved already");
            }
            let (id, requester) = (&request.id, request.requested_by);
            let change = open.ledger.approve(open.signer(), request, uid, now);
            if self.write(change).await? {
                let step = format!(
                    "approval {id} approve by uid {uid}, requested by uid {requester}: {action}"
                );
                return self.record(&step).await;
            }
        }
        bail!(BUSY)
    }

    /// Removes a request. Its requester may withdraw it, too.
    /// Errors: the request does not exist, or has another action.
    pub async fn reject(&self, id: &str, action: &str, uid: u32) -> anyhow::Result<()> {
        let _guard = self.changes.lock().await;
        for _ in 0..ATTEMPTS_MAX {
            let (open, now) = self.load_current().await?;
            let request = find(&open, id, now)?;
            check_action(request, action)?;
            let (id, requester) = (&request.id, request.requested_by);
            let change = open.ledger.remove(open.signer(), vec![request.id.clone()], now);
            if self.write(change).await? {
                let step = format!(
                    "approval {id} reject by uid {uid}, requested by uid {requester}: {action}"
                );
                return self.record(&step).await;
            }
        }
        bail!(BUSY)
    }

    pub(super) async fn remove_expired(&self) -> anyhow::Result<()> {
        if self.was_never_on(&self.load_stored().await?) {
            return Ok(());
        }
        let _guard = self.changes.lock().await;
        self.load_current().await.map(drop)
    }

    /// The requests without those that have expired, which are removed first.
    async fn load_current(&self) -> anyhow::Result<(OpenLedger, Timestamp)> {
        let now = self.app.vault.clock.now();
        let open = self.load().await?;
        let expired = open.ledger.expired(now);
        if expired.is_empty() {
            return Ok((open, now));
        }
        let ids = expired.iter().map(|it| it.id.clone()).collect();
        let change = open.ledger.remove(open.signer(), ids, now);
        if self.write(change).await? {
            for it in expired {
                let ApprovalRecord { id, requested_by, action, .. } = it;
                let step =
                    format!("approval {id} expire, requested by uid {requested_by}: {action}");
                self.record(&step).await?;
            }
        }
        Ok((self.load().await?, now))
    }
}

fn find<'a>(open: &'a OpenLedger, id: &str, now: Timestamp) -> anyhow::Result<&'a ApprovalRecord> {
    let id = ApprovalId::parse(id).context("this is not the id of a request")?;
    let request = open.ledger.find(&id, now);
    request.with_context(|| {
        format!("request {id} does not exist: it was used or rejected, or has expired")
    })
}

/// The operator approves the text that the command showed.
fn check_action(request: &ApprovalRecord, action: &str) -> anyhow::Result<()> {
    match request.action.text() == action {
        true => Ok(()),
        false => bail!("request {} has another action; run the command again", request.id),
    }
}
