//! Dual control on the command line: `scrip approvals`, `approve` and `reject`.

use std::io::{self, BufRead, IsTerminal};

use anyhow::{Context, bail};
use clap::Args;
use nix::unistd::{Uid, User};
use scrip_operator::output::{CommandOutput, table};
use scrip_server::{
    config::Environment,
    control::protocol::{ControlRequest, send_request},
};
use serde_json::{Value, json};

use crate::commands::{approval::load_tickets, arguments::CommonArguments, output::print_message};

pub(crate) const EXAMPLES: &str = "\
Examples:
  scrip approvals
  scrip approve 7k2m9qxd
  SCRIP_SERVER_CONTROL_SOCKET=/run/scrip/control.sock scrip approvals

A request has the exact parameters of a command. It can be approved for 24 hours, by another user than
the one who made it, and is used once.";

#[derive(Debug, Args)]
pub(crate) struct DecisionArguments {
    /// Id of the request, from `scrip approvals`.
    id: String,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    common: CommonArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    Approve,
    Reject,
}

pub(crate) fn list(common: &CommonArguments, environment: &Environment) -> anyhow::Result<()> {
    let settings = common.socket_settings(environment)?;
    let tickets = load_tickets(&settings.control_address())?;
    let rows: Vec<_> = tickets
        .iter()
        .map(|it| {
            let state = it
                .approved_by
                .map_or_else(|| "open".to_owned(), |uid| format!("approved by {}", user_name(uid)));
            let requester = user_name(it.requested_by);
            [it.id.clone(), state, requester, it.expires_at.clone(), it.action.clone()]
        })
        .collect();
    let text = table(["ID", "STATE", "REQUESTED BY", "EXPIRES", "ACTION"], &rows);
    common.print_output(&CommandOutput::new(text, json!({ "requests": tickets })))
}

/// The number decides; the name is for the reader.
fn user_name(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => format!("{} (uid {uid})", user.name),
        Ok(None) | Err(_) => format!("uid {uid}"),
    }
}

pub(crate) fn decide(
    arguments: &DecisionArguments,
    decision: Decision,
    environment: &Environment,
) -> anyhow::Result<()> {
    let (common, id) = (&arguments.common, arguments.id.trim().to_ascii_lowercase());
    let settings = common.socket_settings(environment)?;
    let address = settings.control_address();
    let tickets = load_tickets(&address)?;
    let ticket = tickets.into_iter().find(|it| it.id == id).with_context(|| {
        format!("request {id} does not exist: it was used or rejected, or has expired")
    })?;
    let requester = user_name(ticket.requested_by);
    print_message(&format!("request {id} of {requester}, until {}:", ticket.expires_at));
    print_message(&format!("  {}", ticket.action));
    let (verb, done) = match decision {
        Decision::Approve => ("approve", "approved"),
        Decision::Reject => ("reject", "rejected"),
    };
    if !arguments.yes {
        confirm(verb)?;
    }
    let action = ticket.action.clone();
    let request = match decision {
        Decision::Approve => ControlRequest::Approve { id: id.clone(), action },
        Decision::Reject => ControlRequest::Reject { id: id.clone(), action },
    };
    send_request::<Value>(&address, &request)?;
    let text = format!("{done} request {id}\n");
    common.print_output(&CommandOutput::new(text, json!({ "id": id, done: true })))
}

fn confirm(verb: &str) -> anyhow::Result<()> {
    if !io::stdin().is_terminal() {
        bail!("nothing was changed. Use --yes to {verb} this action");
    }
    print_message(&format!("type yes to {verb} exactly this action:"));
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    match line.trim() {
        "yes" => Ok(()),
        _ => bail!("nothing was changed"),
    }
}
