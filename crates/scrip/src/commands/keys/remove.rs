//! `scrip keys remove`: remove an unlock method.

use anyhow::Context;
use scrip_server::{
    config::{Environment, Settings},
    control::protocol::{ControlRequest, send_request},
    unlock::methods::MethodList,
};
use serde_json::{Value, json};

use crate::commands::{
    approval::send_change,
    arguments::CommonArguments,
    keys::{
        rotate_vault::{self, RotationPlan},
        share_output::ShareOutput,
    },
    output::CommandOutput,
};

/// What follows the removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterRemoval {
    Nothing,
    RotateVault,
}

const PENDING_ADVICE: &str = "Its shares never opened the vault. Destroy the shares that were handed \
    out: enough of them open a copy of the database that was made in between\n";

pub(super) fn run(
    id: &str,
    after: AfterRemoval,
    common: &CommonArguments,
    environment: &Environment,
) -> anyhow::Result<()> {
    let settings = common.socket_settings(environment)?;
    let share_output = ShareOutput::select(&[], &[]);
    if after == AfterRemoval::RotateVault {
        share_output.check_rotation(&settings, None)?;
    }
    let is_pending = is_pending(&settings, id)?;
    let request = ControlRequest::RemoveMethod { id: id.to_owned() };
    send_change::<Value>(&settings, common.wait, &request)?;
    let removed = format!("removed unlock method {id} and overwrote its row\n");
    let (advice, mut json) = match after {
        AfterRemoval::RotateVault => {
            let plan = RotationPlan { count: None, new_keys: None, share_output };
            let rotated = rotate_vault::rotate(&settings, common, plan);
            let rotated = rotated.with_context(|| {
                format!("unlock method {id} was removed, but the vault key was not rotated")
            })?;
            (rotated.text, json!({ "rotated": rotated.json }))
        }
        AfterRemoval::Nothing if is_pending => (PENDING_ADVICE.to_owned(), json!({})),
        AfterRemoval::Nothing => (
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
