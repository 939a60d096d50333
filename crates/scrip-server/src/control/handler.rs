//! Executes the requests of the control socket.

use std::sync::Arc;

use anyhow::{Context, bail};
use scrip_core::policy::UnlockKind;
use serde_json::{Value, json};

use crate::{
    control::protocol::{ControlRequest, ControlResponse},
    storage::unlock::{
        create::NewMethod, manager::KeyManager, rotation::RotationReason,
        unlock_settings::UnlockSettings,
    },
};

/// Executes a request of a user of this machine.
pub(super) async fn handle(
    manager: Option<&Arc<KeyManager>>,
    request: ControlRequest,
    uid: u32,
) -> ControlResponse {
    match try_handle(manager, request, uid).await {
        Ok(value) => ControlResponse::Result(value),
        Err(error) => ControlResponse::Error(format!("{error:#}")),
    }
}

async fn try_handle(
    manager: Option<&Arc<KeyManager>>,
    request: ControlRequest,
    uid: u32,
) -> anyhow::Result<Value> {
    let manager = manager.context("this server has no unlock methods")?;
    Ok(match request {
        ControlRequest::Status {} => Value::Null,
        ControlRequest::ListMethods {} => json!(manager.list_methods().await?),
        ControlRequest::AddMethod { kind, label, parameters } => {
            let kind = UnlockKind::parse(&kind).context("this kind of method is unknown")?;
            if kind.needs_people() {
                bail!("a method of shares needs a ceremony");
            }
            let settings = UnlockSettings::parse(kind, &Value::Object(parameters).to_string())?;
            json!(manager.add_method(&NewMethod { settings, label }, uid).await?)
        }
        ControlRequest::AddShares { label, count } => {
            json!(manager.add_shares(&label, &count, uid).await?)
        }
        ControlRequest::ConfirmShares { method, shares } => {
            json!(manager.confirm_shares(&method, &shares, uid).await?)
        }
        ControlRequest::RemoveMethod { id } => json!(manager.remove_method(&id, uid).await?),
        ControlRequest::RotateVault { count, compromised } => {
            let reason = match compromised {
                true => RotationReason::Compromise,
                false => RotationReason::Routine,
            };
            json!(manager.rotate_vault(reason, count.as_ref(), uid).await?)
        }
        ControlRequest::ConfirmRotation { shares } => {
            json!(manager.confirm_rotation(&shares, uid).await?)
        }
        ControlRequest::EnterShare { share } => json!(manager.enter_share(&share, uid).await?),
    })
}
