//! Notify Method: a browser says that the method page has run.
//!
//! Anybody can say so. It decides one letter of a message, and is heard until that is sent.

use scrip_threeds::{encoding::MethodData, session::Event};

use crate::{
    Error, FieldError, Vault,
    audit::Operation,
    id::SessionId,
    policy::{Directory, Origin},
    threeds::notify,
};

/// # Errors
/// There is no such session, or the form is not about it.
pub async fn notify_method(
    vault: &Vault,
    directory: &Directory,
    origin: &Origin,
    id: SessionId,
    data: &str,
) -> Result<(), Error> {
    let wrong = || FieldError::new("threeDSMethodData", "is not about this session");
    let data = MethodData::read(data).map_err(|_| wrong())?;
    let event = Event::MethodNotification { server_trans_id: data.server_trans_id };
    let told = notify(vault, directory, Operation::NotifyMethod, origin, id, &event).await?;
    told.map(drop).map_err(|_| wrong().into())
}
