//! `scrip keys remove`: remove an unlock method.

use anyhow::{Context, bail};
use clap::Args;
use scrip_operator::output::CommandOutput;
use scrip_server::{
    config::{Environment, Settings},
    control::protocol::{ControlRequest, send_request},
    unlock::methods::MethodList,
};
use serde_json::{Value, json};

use crate::commands::{
    approval::send_change,
    arguments::ApprovedArguments,
    keys::{
        new_shares::NewShareArguments,
        rotate_vault::{self, RotationPlan},
    },
};

#[derive(Debug, Args)]
pub(crate) struct RemoveArguments {
    /// Id of the method, from `scrip keys list`.
    id: String,
    /// Rotate the vault key afterwards: the removed method still opens copies until then.
    #[arg(long)]
    rotate: bool,
    #[command(flatten)]
    new_shares: NewShareArguments,
    #[command(flatten)]
    common: ApprovedArguments,
}

const PENDING_ADVICE: &str = "Its shares never opened the vault. Destroy the shares that were handed \
    out: enough of them open a copy of the database that was made in between\n";

pub(super) fn run(arguments: &RemoveArguments, environment: &Environment) -> anyhow::Result<()> {
    let RemoveArguments { id, rotate, new_shares, common } = arguments;
    if !rotate && !new_shares.is_empty() {
        bail!(
            "--shares, --threshold, --to and --share-file are for the rotation; nothing was changed. \
             Use them with --rotate"
        );
    }
    let settings = common.socket_settings(environment)?;
    // Before the removal, which is not undone.
    let new_shares = rotate.then(|| new_shares.check(&settings, Some(id))).transpose()?;
    let is_pending = is_pending(&settings, id)?;
    let request = ControlRequest::RemoveMethod { id: id.clone() };
    send_change::<Value>(&settings, common.wait, &request)?;
    let removed = format!("removed unlock method {id} and overwrote its row\n");
    let (advice, mut json) = match new_shares {
        Some(new_shares) => {
            let plan = RotationPlan { new_shares, new_keys: None };
            let rotated = rotate_vault::rotate(&settings, common, plan);
            let rotated = rotated.with_context(|| {
                format!(
                    "unlock method {id} was removed, but the vault key was not rotated; run: scrip \
                     keys rotate vault"
                )
            })?;
            (rotated.text, json!({ "rotated": rotated.json }))
        }
        None if is_pending => (PENDING_ADVICE.to_owned(), json!({})),
        None => (
            "It still opens copies of the database that were made before, and everything that is \
             written until the vault key is rotated. Rotate it now: scrip keys rotate vault (or \
             remove with --rotate). If the method may be known to others together with a copy, use: \
             scrip keys rotate vault --compromised\n"
                .to_owned(),
            json!({}),
        ),
    };
    if let Some(object) = json.as_object_mut() {
        object.insert("removed".to_owned(), json!(id));
    }
    common.print_output(&CommandOutput::new(removed + &advice, json))
}

/// Whether the method has shares that were never confirmed.
fn is_pending(settings: &Settings, id: &str) -> anyhow::Result<bool> {
    let request = ControlRequest::ListMethods {};
    let list: MethodList = send_request(&settings.control_address(), &request)?;
    Ok(list.methods.iter().any(|it| it.id == id && it.state == "pending"))
}
