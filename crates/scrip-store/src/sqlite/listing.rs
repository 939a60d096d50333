//! Lists: stretches of the entries of one facet, or of every type side by side.

use rusqlite::{Connection, named_params};
use scrip_core::{
    container::Container,
    id::TenantId,
    listing::{Facet, ListTokens, Listing, Position, STRETCH_BYTES_MAX, Span},
    store::{StoreError, StoredToken},
    time::Timestamp,
};

use crate::{
    facets::{facet_bytes, facets},
    sqlite::{fault, row::token_columns, tokens},
};

/// Statements inside see the database as the first of them does.
pub(super) fn at_one_instant<T>(
    connection: &Connection,
    read: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let snapshot = connection.unchecked_transaction().map_err(fault)?;
    let result = read();
    // Nothing was written; ending it either way is the same.
    snapshot.finish().map_err(fault)?;
    result
}

pub(super) fn list_tokens(
    connection: &Connection,
    tenant: TenantId,
    list: &ListTokens,
) -> Result<Listing, StoreError> {
    at_one_instant(connection, || {
        let mut listing = Listing::default();
        let mut left = list.entries_max;
        let mut bytes = 0_usize;
        for span in list.spans.iter() {
            let entries = stretch(connection, tenant, list, (span, left))?;
            left = left.saturating_sub(entries.len());
            for (facet, position) in &entries {
                let token = token_at(connection, tenant, position, list.now)?;
                let Some(token) = token else { continue };
                check(&token, facet, position)?;
                // In several containers, and shown under one of them.
                bytes = bytes.saturating_add(token.record.body.as_bytes().len());
                if list.spans.place(&token.record.containers) == Some(&position.container) {
                    listing.tokens.push((position.clone(), token));
                }
                if bytes > STRETCH_BYTES_MAX {
                    listing.rest = Some(position.clone());
                    return Ok(listing);
                }
            }
            if left == 0 {
                listing.rest = entries.into_iter().next_back().map(|(_, position)| position);
                return Ok(listing);
            }
        }
        Ok(listing)
    })
}

/// Row values of three are one bound of the index, so this is one seek and a walk.
const LIST_ENTRIES: &str = "
-- list_entries
SELECT container, created_at, token FROM filed
WHERE tenant = :tenant AND facet = :facet AND container >= :from
    AND (container, created_at, token) < (:container, :created_at, :token)
ORDER BY container DESC, created_at DESC, token DESC
LIMIT :most";

/// The first entries of a span, or those after the position if it lies in it.
fn stretch(
    connection: &Connection,
    tenant: TenantId,
    list: &ListTokens,
    (span, most): (&Span, usize),
) -> Result<Vec<(Facet, Position)>, StoreError> {
    let after = list.after.as_ref().filter(|it| it.container.as_str() < span.to());
    let (container, created_at, token) = match after {
        None => (span.to(), i64::MIN, i64::MIN),
        Some(it) => (it.container.as_str(), it.created_at.unix_ms, it.number),
    };
    let mut statement = connection.prepare_cached(LIST_ENTRIES).map_err(fault)?;
    let mut entries = Vec::new();
    for facet in facets(list.facet) {
        let parameters = named_params! {
            ":tenant": tenant.0.as_bytes(),
            ":facet": facet_bytes(&facet),
            ":from": span.from(),
            ":container": container,
            ":created_at": created_at,
            ":token": token,
            ":most": i64::try_from(most).unwrap_or(i64::MAX),
        };
        let mut rows = statement.query(parameters).map_err(fault)?;
        while let Some(row) = rows.next().map_err(fault)? {
            let text = row.get_ref(0).map_err(fault)?;
            let position = Position {
                container: text
                    .as_str()
                    .ok()
                    .and_then(|it| Container::parse(it).ok())
                    .ok_or(MISFILED)?,
                created_at: Timestamp { unix_ms: row.get(1).map_err(fault)? },
                number: row.get(2).map_err(fault)?,
            };
            entries.push((facet, position));
        }
    }
    entries.sort_unstable_by(|(_, one), (_, other)| other.cmp(one));
    entries.truncate(most);
    Ok(entries)
}

const MISFILED: StoreError = StoreError::Corrupt("a token is filed under what it is not");

/// An entry stands in clear and is bound to nothing; the row that it leads to is.
fn check(token: &StoredToken, facet: &Facet, position: &Position) -> Result<(), StoreError> {
    let record = &token.record;
    let filed = facet.is_of(record)
        && record.created_at == position.created_at
        && record.containers.iter().any(|it| *it == position.container);
    if filed { Ok(()) } else { Err(MISFILED) }
}

const FIND_AT: &str = concat!(
    "-- find_at\nSELECT ",
    token_columns!(),
    " WHERE tokens.seq = :token AND tokens.tenant = :tenant
      AND (tokens.expires_at IS NULL OR tokens.expires_at > :now)"
);

fn token_at(
    connection: &Connection,
    tenant: TenantId,
    position: &Position,
    now: Timestamp,
) -> Result<Option<StoredToken>, StoreError> {
    let parameters = named_params! {
        ":token": position.number, ":tenant": tenant.0.as_bytes(), ":now": now.unix_ms,
    };
    let found = tokens::first_token(connection, FIND_AT, parameters)?;
    Ok(found.map(|(_, token)| token))
}
