//! Approvals of commands that need a stopped server: they are given while the server runs, and used
//! after it was stopped.

use std::time::Duration;

use anyhow::bail;
use nix::unistd::Uid;
use scrip_core::{
    approval::{
        ActionText, StoredDualControl,
        ledger::{ApprovalSigner, DualControlStatus},
    },
    change::ChangeOutcome,
};
use scrip_operator::{
    action::approval_text, error::explain, operator::Operator,
    record_failure::explain_record_failure,
};
use scrip_server::{
    config::Settings,
    control::{
        protocol::{ControlRequest, send_request},
        status::query_status,
    },
    dual_control::requests::ApprovalTicket,
};
use serde_json::Value;

use crate::commands::{
    approval::{is_on_without_server, load_ledger, load_state, wait_for_approval},
    open_operator::open_operator,
    runtime,
};

/// Whether a command without a server may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OfflineApproval {
    /// Dual control is off.
    NotNeeded,
    /// An approval was used. It is for one complete run.
    Used,
}

/// Requests the approval from a running server, and waits for it. Does nothing if no server runs.
/// Errors: the approval is missing, or was given: then the server must be stopped.
pub(crate) fn request_from_server(
    settings: &Settings,
    wait: Duration,
    action: &ActionText,
) -> anyhow::Result<()> {
    if query_status(&settings.storage.data_dir).is_none() {
        return Ok(());
    }
    let address = settings.control_address();
    let request = ControlRequest::RequestApproval { action: action.text().to_owned() };
    let ticket: Option<ApprovalTicket> = send_request(&address, &request)?;
    // The command itself reports that the server runs.
    let Some(ticket) = ticket else { return Ok(()) };
    wait_for_approval(&address, wait, &ticket)?;
    bail!("request {} is approved. Stop every server, and run the same command again", ticket.id);
}

/// Uses an approval after the server was stopped.
/// Errors: the approval is missing.
pub(crate) async fn use_without_server(
    operator: &Operator,
    action: &ActionText,
    is_set: bool,
) -> anyhow::Result<OfflineApproval> {
    let Some((ledger, vault)) = load_ledger(operator).await? else {
        return match is_set {
            true => bail!(MISSING),
            false => Ok(OfflineApproval::NotNeeded),
        };
    };
    if ledger.status() == DualControlStatus::Off && !is_set {
        return Ok(OfflineApproval::NotNeeded);
    }
    let (uid, now) = (Uid::effective().as_raw(), operator.vault.clock.now());
    let request = ledger.find_request(uid, action, now);
    let Some((request, approver)) =
        request.filter(|it| it.is_approved()).and_then(|it| Some((it, it.approved_by?)))
    else {
        bail!(MISSING)
    };
    let signer = ApprovalSigner { key: operator.directory.audit_key(), vault };
    let change = ledger.remove(signer, vec![request.id.clone()], now);
    if operator.vault.store.change_approvals(change).await.map_err(explain)? == ChangeOutcome::Stale
    {
        bail!("another command changes the requests at the same time; try again");
    }
    let id = &request.id;
    let step = format!("approval {id} use by uid {uid}, approved by uid {approver}: {action}");
    let recorded = operator.vault.record_command(&step, "completed").await;
    recorded.map_err(|error| explain_record_failure(&operator.vault, error))?;
    Ok(OfflineApproval::Used)
}

/// Whether commands need an approval.
pub(crate) async fn is_in_force(operator: &Operator, is_set: bool) -> anyhow::Result<bool> {
    let ledger = load_ledger(operator).await?;
    Ok(is_set || ledger.is_some_and(|(it, _)| it.status() != DualControlStatus::Off))
}

/// The approval of an export: requested from a running server, or used after it was stopped.
/// Errors: the approval is missing, or the server still runs.
pub(crate) fn require_for_export(
    settings: &Settings,
    wait: Duration,
    parameters: &Value,
    has_root_key: bool,
) -> anyhow::Result<OfflineApproval> {
    let action = approval_text("export", parameters)?;
    request_from_server(settings, wait, &action)?;
    if query_status(&settings.storage.data_dir).is_some() {
        return Ok(OfflineApproval::NotNeeded);
    }
    let is_on = is_on_without_server(settings)?;
    // Without a row there is nothing to verify.
    let is_missing = load_state(settings)? == StoredDualControl::Missing;
    if !has_root_key || (is_missing && !is_on) {
        return match is_on {
            true => {
                bail!("dual control is on: an export needs the vault key to verify its approval")
            }
            false => Ok(OfflineApproval::NotNeeded),
        };
    }
    runtime()?.block_on(async {
        let operator = open_operator(settings).await?;
        use_without_server(&operator, &action, is_on).await
    })
}

const MISSING: &str = "dual control is on, and this command is not approved. Start the server, run \
     the same command to request the approval, and stop the server after the approval";
