//! The cursor of a list. It is sealed, so that it reveals nothing about tokens that the caller may
//! not see. It is bound to the query, so that it cannot be used with another one.

use scrip_seal::{Place, Purpose, Sealed, Secret};
use uuid::Uuid;

use crate::{
    Error, FieldError, Timestamp, listing::ListPosition, policy::Caller, types::Container,
};

/// The place of a cursor. `query` contains the operation and all attributes of the filter.
fn place(caller: &Caller, query: Place) -> Place {
    query.bytes(caller.tenant().id.0.as_bytes()).bytes(caller.application().0.as_bytes())
}

pub(crate) fn seal_position(caller: &Caller, query: Place, position: &ListPosition) -> Sealed {
    let ListPosition { container, created_at, row_number } = position;
    let mut bytes = Vec::with_capacity(64);
    bytes.extend_from_slice(&created_at.unix_ms.to_be_bytes());
    bytes.extend_from_slice(&row_number.to_be_bytes());
    bytes.extend_from_slice(container.as_str().as_bytes());
    seal_bytes(caller, query, bytes)
}

/// Errors: the cursor was not created for this application and this query.
pub(crate) fn open_position(
    caller: &Caller,
    query: Place,
    cursor: &Sealed,
) -> Result<ListPosition, Error> {
    open_bytes(caller, query, cursor, parse_position)
}

/// Seals the positions of the two logs.
pub(crate) fn seal_log_positions(caller: &Caller, query: Place, positions: [i64; 2]) -> Sealed {
    let bytes = positions.iter().flat_map(|it| it.to_be_bytes()).collect();
    seal_bytes(caller, query, bytes)
}

/// Errors: as for [`open_position`].
pub(crate) fn open_log_positions(
    caller: &Caller,
    query: Place,
    cursor: &Sealed,
) -> Result<[i64; 2], Error> {
    open_bytes(caller, query, cursor, |bytes| {
        let (first, remaining) = bytes.split_first_chunk()?;
        let second = remaining.try_into().ok()?;
        Some([i64::from_be_bytes(*first), i64::from_be_bytes(second)])
    })
}

/// The position after an entity of a list that is newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntityPosition {
    pub(crate) created_at: Timestamp,
    pub(crate) id: Uuid,
}

pub(crate) fn seal_entity_position(
    caller: &Caller,
    query: Place,
    position: EntityPosition,
) -> Sealed {
    let mut bytes = position.created_at.unix_ms.to_be_bytes().to_vec();
    bytes.extend_from_slice(position.id.as_bytes());
    seal_bytes(caller, query, bytes)
}

/// Errors: as for [`open_position`].
pub(crate) fn open_entity_position(
    caller: &Caller,
    query: Place,
    cursor: &Sealed,
) -> Result<EntityPosition, Error> {
    open_bytes(caller, query, cursor, |bytes| {
        let (created_at, id) = bytes.split_first_chunk()?;
        let created_at = Timestamp { unix_ms: i64::from_be_bytes(*created_at) };
        Some(EntityPosition { created_at, id: Uuid::from_slice(id).ok()? })
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
    let parsed = opened.ok().and_then(|it| parse(it.expose()));
    parsed.ok_or_else(|| FieldError::new("start", CURSOR_RULE).into())
}

const CURSOR_RULE: &str = "must be the next of an earlier page of the same list";

fn parse_position(bytes: &[u8]) -> Option<ListPosition> {
    let (created_at, bytes) = bytes.split_first_chunk()?;
    let (row_number, container) = bytes.split_first_chunk()?;
    Some(ListPosition {
        container: Container::parse(std::str::from_utf8(container).ok()?).ok()?,
        created_at: Timestamp { unix_ms: i64::from_be_bytes(*created_at) },
        row_number: i64::from_be_bytes(*row_number),
    })
}
