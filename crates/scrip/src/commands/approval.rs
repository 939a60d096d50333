//! Approvals of a second operator under dual control, for the commands that wait for one.

use std::{thread::sleep, time::Duration};

use anyhow::bail;
use scrip_server::{
    clock::ticks,
    config::Settings,
    control::protocol::{ControlAddress, ControlAnswer, ControlRequest, send_request, try_request},
    dual_control::requests::ApprovalTicket,
};
use scrip_types::duration::parse_seconds;
use serde::de::DeserializeOwned;

use crate::commands::output::print_message;

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
pub(crate) fn wait_for_approval(
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
