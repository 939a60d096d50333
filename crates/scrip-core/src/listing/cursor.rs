//! Where a list goes on, as the caller carries it: sealed, so that it tells nothing about tokens
//! that the caller may not see, and bound to what was asked, so that it fits no other question.

use scrip_seal::{Place, Purpose, Sealed, Secret};

use crate::{Error, FieldError, Timestamp, listing::Position, policy::Caller, token::Container};

/// What a cursor is for. `asked` names the operation and every word of its filter.
fn place(caller: &Caller, asked: Place) -> Place {
    asked.bytes(caller.tenant().id.0.as_bytes()).bytes(caller.application().0.as_bytes())
}

pub(crate) fn seal(caller: &Caller, asked: Place, position: &Position) -> Sealed {
    let Position { container, created_at, number } = position;
    let mut bytes = Vec::with_capacity(64);
    bytes.extend_from_slice(&created_at.unix_ms.to_be_bytes());
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(container.as_str().as_bytes());
    seal_bytes(caller, asked, bytes)
}

/// # Errors
/// It is not one that was given to this application for this question.
pub(crate) fn open(caller: &Caller, asked: Place, cursor: &Sealed) -> Result<Position, Error> {
    open_bytes(caller, asked, cursor, read)
}

/// Where each of the two logs goes on.
pub(crate) fn seal_numbers(caller: &Caller, asked: Place, numbers: [i64; 2]) -> Sealed {
    let bytes = numbers.iter().flat_map(|it| it.to_be_bytes()).collect();
    seal_bytes(caller, asked, bytes)
}

/// # Errors
/// As for [`open`].
pub(crate) fn open_numbers(
    caller: &Caller,
    asked: Place,
    cursor: &Sealed,
) -> Result<[i64; 2], Error> {
    open_bytes(caller, asked, cursor, |bytes| {
        let (first, rest) = bytes.split_first_chunk()?;
        let second = rest.try_into().ok()?;
        Some([i64::from_be_bytes(*first), i64::from_be_bytes(second)])
    })
}

fn seal_bytes(caller: &Caller, asked: Place, bytes: Vec<u8>) -> Sealed {
    caller.tenant().keys.seal(Purpose::Cursor, &place(caller, asked), &Secret::new(bytes))
}

fn open_bytes<T>(
    caller: &Caller,
    asked: Place,
    cursor: &Sealed,
    read: impl FnOnce(&[u8]) -> Option<T>,
) -> Result<T, Error> {
    let opened = caller.tenant().keys.open(Purpose::Cursor, &place(caller, asked), cursor);
    let read = opened.ok().and_then(|it| read(it.expose()));
    read.ok_or_else(|| FieldError::new("start", RULE).into())
}

const RULE: &str = "must be the next of an earlier page of the same list";

fn read(bytes: &[u8]) -> Option<Position> {
    let (created_at, bytes) = bytes.split_first_chunk()?;
    let (number, container) = bytes.split_first_chunk()?;
    Some(Position {
        container: Container::parse(std::str::from_utf8(container).ok()?).ok()?,
        created_at: Timestamp { unix_ms: i64::from_be_bytes(*created_at) },
        number: i64::from_be_bytes(*number),
    })
}
