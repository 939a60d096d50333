//! Notify Method: a browser reports that the method page has run.
//!
//! The report is not authenticated. It decides one indicator of the `AReq`, and is accepted until the
//! `AReq` is sent.

use scrip_threeds::{encoding::MethodData, session::StateMachineEvent};

use crate::{
    Error, FieldError, Vault,
    policy::{Directory, RequestOrigin},
    threeds_session::apply_notification,
    types::{Operation, id::ThreeDsSessionId},
};

/// Errors: there is no such session, or the form belongs to another session.
pub async fn notify_method(
    vault: &Vault,
    directory: &Directory,
    origin: &RequestOrigin,
    id: ThreeDsSessionId,
    data: &str,
) -> Result<(), Error> {
    let mismatch_error = || FieldError::new("threeDSMethodData", "does not match this session");
    let data = MethodData::decode(data).map_err(|_| mismatch_error())?;
    let event = StateMachineEvent::MethodNotification { server_trans_id: data.server_trans_id };
    let outcome =
        apply_notification(vault, directory, Operation::NotifyMethod, origin, id, &event).await?;
    outcome.map(drop).map_err(|_| mismatch_error().into())
}
