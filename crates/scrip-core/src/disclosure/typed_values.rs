//! Who reads what a payer typed into a hosted field.
//!
//! A page can have two keys: fields write with one of them, and the page reads with the other. So a
//! browser does not read in clear what was typed after the browser got its rights. A backend that
//! authorizes an access session later decides that the page may read what is stored by then.

use crate::{
    Error, Timestamp,
    disclosure::hides_marked,
    policy::{AccessTarget, Caller, has_reveal_right},
    token::TokenRecord,
    types::{ApplicationKind, error::Denial},
};

/// What limits the readers of data, in addition to the rules of its containers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadLimits {
    /// As in [`TokenBody`](crate::token::TokenBody).
    pub(crate) is_marked: bool,
    pub(crate) typed_at: Option<Timestamp>,
    /// Whether a proxied call stored the data, and its sender may not read it.
    pub(crate) is_hidden: bool,
}

/// Whether the caller may read data in clear at this place. Each rule that lets a reader do more than
/// others asks this function, because a reveal right alone is not enough.
pub(crate) fn may_read_clear<'a>(
    caller: &Caller,
    target: impl Into<AccessTarget<'a>>,
    limits: ReadLimits,
) -> bool {
    let ReadLimits { is_marked, typed_at, is_hidden } = limits;
    has_reveal_right(caller, target)
        && !is_hidden
        && !hides_marked(caller, is_marked)
        && !withholds_typed(caller, typed_at)
}

/// Whether data that was typed at this time is withheld from the caller: from an access session that
/// was authorized before, and from every public API key. A proxy that collects data for such a sender
/// has no more rights.
pub(crate) fn withholds_typed(caller: &Caller, typed_at: Option<Timestamp>) -> bool {
    let Some(typed_at) = typed_at else { return false };
    if caller.collection_sender().is_some_and(|it| withholds_typed(it, Some(typed_at))) {
        return true;
    }
    let principal = caller.principal();
    match principal.access_session_id() {
        Some(_) => principal.authorized_at().is_none_or(|it| it <= typed_at),
        None => principal.kind() == ApplicationKind::Public,
    }
}

/// Checks an update by a browser with a reveal right. With this right it could write an expression
/// over the data, and read the result.
/// Errors: the data is withheld from the caller.
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
