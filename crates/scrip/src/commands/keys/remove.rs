//! `scrip keys remove`: remove an unlock method.

use anyhow::Context;
use scrip_server::{config::Environment, control::protocol::ControlRequest};
use serde_json::{Value, json};

use crate::commands::{
    CommonArguments, approval::send_change, keys::rotate_vault, output::CommandOutput,
};

/// What follows the removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterRemoval {
    Nothing,
    RotateVault,
}

pub(super) fn run(
    id: &str,
    after: AfterRemoval,
    common: &CommonArguments,
    environment: &Environment,
) -> anyhow::Result<()> {
    let settings = common.socket_settings(environment)?;
    let request = ControlRequest::RemoveMethod { id: id.to_owned() };
    send_change::<Value>(&settings, common, &request)?;
    let removed = format!("removed unlock method {id} and overwrote its row\n");
    let (advice, mut json) = match after {
        AfterRemoval::RotateVault => {
            let rotated = rotate_vault::rotate(&settings, common, None, None);
            let rotated = rotated.with_context(|| {
                format!("unlock method {id} was removed, but the vault key was not rotated")
            })?;
            (rotated.text, json!({ "rotated": rotated.json }))
        }
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
