//! Approvals of a second operator under dual control, for the commands that wait for one.

pub(crate) mod offline;

use std::{thread::sleep, time::Duration};

use anyhow::{Context, bail};
use scrip_core::approval::{
    StoredDualControl,
    ledger::{ApprovalLedger, ApprovalSigner, DualControlStatus},
};
use scrip_operator::{action::approval_text, error::explain, operator::Operator};
use scrip_server::{
    clock::ticks,
    config::Settings,
    control::protocol::{ControlAddress, ControlAnswer, ControlRequest, send_request, try_request},
    dual_control::{DualControlReport, requests::ApprovalTicket},
};
use scrip_store::sqlite::backup::read_dual_control;
use scrip_types::duration::parse_seconds;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::commands::{output::print_message, runtime};

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Parses a time such as 90s, 10m or 1h.
pub(crate) fn parse_wait(text: &str) -> Result<Duration, String> {
    let seconds = parse_seconds(text).map(Duration::from_secs);
    seconds.ok_or_else(|| "must be a time such as 30s, 10m or 1h".to_owned())
}

/// The requests that wait for a second operator.
pub(super) fn load_tickets(address: &ControlAddress) -> anyhow::Result<Vec<ApprovalTicket>> {
    send_request(address, &ControlRequest::ListApprovals {})
}

/// What a server answered to a change.
pub(crate) enum ServerAnswer<T> {
    Done(T),
    /// No server executed it, with the reason if it is not simply that no server runs.
    NoServer(Option<String>),
}

/// Sends a change to the server, and waits until a second operator has approved it.
/// Errors: no server answers, it rejects the change, or the request was not approved in time.
pub(crate) fn send_change<T: DeserializeOwned>(
    settings: &Settings,
    wait: Duration,
    request: &ControlRequest,
) -> anyhow::Result<T> {
    let address = settings.control_address();
    match try_change(&address, wait, request)? {
        ServerAnswer::Done(value) => Ok(value),
        ServerAnswer::NoServer(_) => send_request(&address, request),
    }
}

/// As [`send_change`], also if no server executes it.
pub(crate) fn try_change<T: DeserializeOwned>(
    address: &ControlAddress,
    wait: Duration,
    request: &ControlRequest,
) -> anyhow::Result<ServerAnswer<T>> {
    let ticket = match try_request(address, request)? {
        ControlAnswer::Done(value) => return Ok(ServerAnswer::Done(value)),
        ControlAnswer::Waiting(ticket) => ticket,
        ControlAnswer::NoServer(it) => {
            return Ok(ServerAnswer::NoServer(it.is_denied().then(|| it.to_string())));
        }
        ControlAnswer::Unable(reason) => return Ok(ServerAnswer::NoServer(Some(reason))),
    };
    wait_for_approval(address, wait, &ticket)?;
    match try_request(address, request)? {
        ControlAnswer::Done(value) => Ok(ServerAnswer::Done(value)),
        ControlAnswer::Waiting(_) => {
            bail!("request {} was used by another command of this user", ticket.id)
        }
        ControlAnswer::NoServer(it) => bail!("the server was stopped: {it}"),
        ControlAnswer::Unable(reason) => bail!("the server cannot run this command: {reason}"),
    }
}

/// Prints what the second operator must do, and waits.
fn wait_for_approval(
    address: &ControlAddress,
    wait: Duration,
    ticket: &ApprovalTicket,
) -> anyhow::Result<()> {
    let id = &ticket.id;
    print_message(&format!(
        "dual control: request {id} waits for a second operator until {}. Another user runs: scrip \
         approve {id}",
        ticket.expires_at
    ));
    let start = ticks();
    loop {
        let tickets = load_tickets(address)?;
        let Some(current) = tickets.iter().find(|it| it.id == *id) else {
            bail!("request {id} was rejected or has expired; nothing was changed");
        };
        if current.approved_by.is_some() {
            return Ok(());
        }
        let remaining = wait.saturating_sub(ticks().saturating_sub(start));
        if remaining.is_zero() {
            bail!(
                "request {id} is not approved yet; nothing was changed. After the approval, run \
                 the same command again"
            );
        }
        sleep(remaining.min(POLL_INTERVAL));
    }
}

/// The result of [`require`]: the action may run after [`Approved::check_state`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Approved {
    /// The server used an approval.
    Used,
    /// No approval is needed, which the open vault verifies.
    NotNeeded,
}

/// What a command with an approval must be able to do itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NeededAccess {
    /// Read the database.
    Database,
    /// Open the vault, with an unlock method that needs no people.
    VaultKey,
}

/// Checks, before a request is made, that this process can run the command after the approval.
/// Errors: the settings do not lead to the vault, or this user may not open it.
fn check_access(settings: &Settings, access: NeededAccess) -> anyhow::Result<()> {
    let opened = runtime()?.block_on(async {
        let vault = settings.open_vault_for_command().await?;
        if access == NeededAccess::VaultKey {
            let records = vault.store.load_directory().await.map_err(explain)?;
            settings.unlock(&records).await?;
        }
        Ok(())
    });
    opened.map_err(|error: anyhow::Error| {
        error.context(
            "this command opens the vault itself, which this process cannot do, so no approval was \
             requested. Run it as the user of the server, with its settings",
        )
    })
}

/// Whether a running server says that dual control is on.
fn is_on_at_server(address: &ControlAddress) -> bool {
    let report = try_request::<DualControlReport>(address, &ControlRequest::DualControl {});
    matches!(report, Ok(ControlAnswer::Done(it)) if it.is_on)
}

/// Gets the approval of a command that opens the vault itself, before it does so.
/// Errors: there is no approval, dual control is on and no server runs, or this process cannot run
/// the command.
pub(crate) fn require(
    settings: &Settings,
    wait: Duration,
    command: &str,
    parameters: &Value,
    access: NeededAccess,
) -> anyhow::Result<Approved> {
    let action = approval_text(command, parameters)?;
    let request = ControlRequest::UseApproval { action: action.text().to_owned() };
    let address = settings.control_address();
    if is_on_at_server(&address) {
        check_access(settings, access)?;
    }
    match try_change::<bool>(&address, wait, &request)? {
        ServerAnswer::Done(true) => Ok(Approved::Used),
        ServerAnswer::Done(false) => Ok(Approved::NotNeeded),
        ServerAnswer::NoServer(Some(reason)) => bail!(reason),
        ServerAnswer::NoServer(None) => {
            check_off_without_server(settings)?;
            Ok(Approved::NotNeeded)
        }
    }
}

/// Errors: dual control must be assumed, and there is no server.
pub(crate) fn check_off_without_server(settings: &Settings) -> anyhow::Result<()> {
    match is_on_without_server(settings)? {
        true => bail!(NEEDS_SERVER),
        false => Ok(()),
    }
}

const NEEDS_SERVER: &str = "dual control is on: a second operator must approve this command, which \
     needs a running server on this machine";

/// Whether dual control must be assumed without a server and without the vault key. A row that cannot
/// be read counts as on; a row that says off is verified later.
fn is_on_without_server(settings: &Settings) -> anyhow::Result<bool> {
    Ok(settings.keys.dual_control
        || match load_state(settings)? {
            StoredDualControl::Missing => false,
            StoredDualControl::Unreadable => true,
            StoredDualControl::Present(it) => it.is_on,
        })
}

/// Reads the state without the vault key. Never migrates a database: a backup copies it as it is.
fn load_state(settings: &Settings) -> anyhow::Result<StoredDualControl> {
    if settings.storage.url.is_some() {
        return runtime()?.block_on(async {
            let vault = settings.open_vault_for_command().await?;
            let stored = vault.store.load_approvals().await.map_err(explain)?;
            Ok(stored.dual_control)
        });
    }
    let folder = settings.existing_data_dir()?;
    let state = read_dual_control(&settings.database_file()).map_err(explain);
    state.with_context(|| format!("{} cannot be opened", folder.display()))
}

impl Approved {
    /// Verifies with the vault key that dual control is off, unless an approval was used.
    /// Errors: dual control is on, or its row was altered.
    pub(crate) async fn check_state(self, operator: &Operator) -> anyhow::Result<()> {
        if self == Self::Used {
            return Ok(());
        }
        match load_ledger(operator).await?.map(|(it, _)| it.status()) {
            None | Some(DualControlStatus::Off) => Ok(()),
            Some(DualControlStatus::On) => bail!(NEEDS_SERVER),
            Some(DualControlStatus::Altered) => {
                bail!("the row of dual_control was altered outside the vault. {NEEDS_SERVER}")
            }
        }
    }
}

/// The verified requests, with the id of the vault. `None` if dual control was never on.
async fn load_ledger(
    operator: &Operator,
) -> anyhow::Result<Option<(ApprovalLedger, scrip_core::types::id::VaultId)>> {
    let store = &operator.vault.store;
    let stored = store.load_approvals().await.map_err(explain)?;
    if stored.dual_control == StoredDualControl::Missing {
        return Ok(None);
    }
    let unlocks = store.load_unlocks().await.map_err(explain)?;
    let identity = unlocks.identity.context("the row of vault_state is missing")?;
    let signer = ApprovalSigner { key: operator.directory.audit_key(), vault: identity.id };
    Ok(Some((ApprovalLedger::verify(stored, signer), identity.id)))
}
