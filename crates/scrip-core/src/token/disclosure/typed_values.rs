//! Who reads what a payer typed into a hosted field.
//!
//! A page can have two keys: fields write with one of them, and the page reads with the other. So a
//! browser does not read in clear what was typed after the browser got its rights. A backend that
//! authorizes an access session later decides that the page may read what is stored by then.

use crate::{
    error::{Denial, Error},
    policy::{ApplicationKind, Caller},
    time::Timestamp,
    token::{TokenRecord, disclosure::has_reveal_right},
};

/// Whether data that was typed at this time is withheld from the caller: from an access session that
/// was authorized before, and from every public API key.
pub(crate) fn withholds_typed(caller: &Caller, typed_at: Option<Timestamp>) -> bool {
    let Some(typed_at) = typed_at else { return false };
    let principal = caller.principal();
    match principal.access_session_id() {
        Some(_) => principal.authorized_at().is_none_or(|it| it <= typed_at),
        None => principal.kind() == ApplicationKind::Public,
    }
}

/// Checks an update by a browser with a reveal right. With this right it could write an expression
/// over the data, and read the result.
///
/// # Errors
/// The data is withheld from the caller.
pub(crate) fn check_reader_update(
    caller: &Caller,
    before: &TokenRecord,
    typed_at: Option<Timestamp>,
) -> Result<(), Error> {
    if withholds_typed(caller, typed_at) && has_reveal_right(caller, before) {
        return Err(Error::Forbidden(Denial::LaterTypedData));
    }
    Ok(())
}
