//! Where a list goes on, as the caller carries it: sealed, so that it tells nothing about tokens
//! that the caller may not see, and bound to what was asked, so that it fits no other question.

use scrip_seal::{Place, Purpose, Sealed, Secret};

use crate::{
    Error, FieldError, Timestamp, listing::ListPosition, policy::Caller, token::Container,
};

/// What a cursor is for. `asked` names the operation and every word of its filter.
fn place(caller: &Caller, query: Place) -> Place {
    query.bytes(caller.tenant().id.0.as_bytes()).bytes(caller.application().0.as_bytes())
}

pub(crate) fn seal_position(caller: &Caller, query: Place, position: &ListPosition) -> Sealed {
    let ListPosition { container, created_at, row_number: number } = position;
    let mut bytes = Vec::with_capacity(64);
    bytes.extend_from_slice(&created_at.unix_ms.to_be_bytes());
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(container.as_str().as_bytes());
    seal_bytes(caller, query, bytes)
}

/// # Errors
/// It is not one that was given to this application for this question.
pub(crate) fn open_position(
    caller: &Caller,
    query: Place,
    cursor: &Sealed,
) -> Result<ListPosition, Error> {
    open_bytes(caller, query, cursor, parse_position)
}

/// Where each of the two logs goes on.
pub(crate) fn seal_log_positions(caller: &Caller, query: Place, numbers: [i64; 2]) -> Sealed {
    let bytes = numbers.iter().flat_map(|it| it.to_be_bytes()).collect();
    seal_bytes(caller, query, bytes)
}

/// # Errors
/// As for [`open`].
pub(crate) fn open_log_positions(
    caller: &Caller,
    query: Place,
    cursor: &Sealed,
) -> Result<[i64; 2], Error> {
    open_bytes(caller, query, cursor, |bytes| {
        let (first, rest) = bytes.split_first_chunk()?;
        let second = rest.try_into().ok()?;
        Some([i64::from_be_bytes(*first), i64::from_be_bytes(second)])
    })
}

fn seal_bytes(caller: &Caller, query: Place, bytes: Vec<u8>) -> Sealed {
    caller.tenant().keys.seal(Purpose::Cursor, &place(caller, query), &Secret::new(bytes))
}

fn open_bytes<T>(
    caller: &Caller,
    query: Place,
    cursor: &Sealed,
    parse: impl FnOnce(&[u8]) -> Option<T>,
) -> Result<T, Error> {
    let opened = caller.tenant().keys.open(Purpose::Cursor, &place(caller, query), cursor);
    let read = opened.ok().and_then(|it| parse(it.expose()));
    read.ok_or_else(|| FieldError::new("start", CURSOR_RULE).into())
}

const CURSOR_RULE: &str = "must be the next of an earlier page of the same list";

fn parse_position(bytes: &[u8]) -> Option<ListPosition> {
    let (created_at, bytes) = bytes.split_first_chunk()?;
    let (number, container) = bytes.split_first_chunk()?;
    Some(ListPosition {
        container: Container::parse(std::str::from_utf8(container).ok()?).ok()?,
        created_at: Timestamp { unix_ms: i64::from_be_bytes(*created_at) },
        row_number: i64::from_be_bytes(*number),
    })
}
