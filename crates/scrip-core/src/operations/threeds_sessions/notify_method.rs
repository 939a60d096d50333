//! Notify Method: a browser says that the method page has run.
//!
//! Anybody can say so. It decides one letter of a message, and is heard until that is sent.

use scrip_threeds::{encoding::MethodData, session::StateMachineEvent};

use crate::{
    Error, FieldError, Vault,
    audit::Operation,
    id::ThreeDsSessionId,
    policy::{Directory, RequestOrigin},
    threeds::apply_notification,
};

/// # Errors
/// There is no such session, or the form is not about it.
pub async fn notify_method(
    vault: &Vault,
    directory: &Directory,
    origin: &RequestOrigin,
    id: ThreeDsSessionId,
    data: &str,
) -> Result<(), Error> {
    let wrong = || FieldError::new("threeDSMethodData", "is not about this session");
    let data = MethodData::decode(data).map_err(|_| wrong())?;
    let event = StateMachineEvent::MethodNotification { server_trans_id: data.server_trans_id };
    let outcome =
        apply_notification(vault, directory, Operation::NotifyMethod, origin, id, &event).await?;
    outcome.map(drop).map_err(|_| wrong().into())
}
