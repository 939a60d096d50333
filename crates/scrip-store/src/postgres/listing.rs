//! Lists: stretches of the entries of one facet, or of every type side by side.

use scrip_core::{
    container::Container,
    id::TenantId,
    listing::{Facet, ListTokens, Listing, Position, STRETCH_BYTES_MAX, Span},
    store::{StoreError, StoredToken},
};
use tokio_postgres::Row;

use crate::{
    facets::{facet_bytes, facets},
    postgres::{
        row::{column, stored_token, time, token_columns},
        statement::{Parameters, PostgresClient, query},
    },
};

/// In a transaction that sees one instant.
pub(super) async fn list_tokens(
    client: &impl PostgresClient,
    tenant: TenantId,
    list: &ListTokens,
) -> Result<Listing, StoreError> {
    let mut listing = Listing::default();
    let mut left = list.entries_max;
    let mut bytes = 0_usize;
    for span in list.spans.iter() {
        let entries = stretch(client, tenant, list, (span, left)).await?;
        left = left.saturating_sub(entries.len());
        let last = entries.last().map(|it| it.position.clone());
        for Entry { position, token, is_filed } in entries {
            let Some(token) = token.filter(|it| it.record.is_live(list.now)) else { continue };
            if !is_filed {
                return Err(MISFILED);
            }
            bytes = bytes.saturating_add(token.record.body.as_bytes().len());
            let is_full = bytes > STRETCH_BYTES_MAX;
            let rest = is_full.then(|| position.clone());
            // In several containers, and shown under one of them.
            if list.spans.place(&token.record.containers) == Some(&position.container) {
                listing.tokens.push((position, token));
            }
            if is_full {
                listing.rest = rest;
                return Ok(listing);
            }
        }
        if left == 0 {
            listing.rest = last;
            return Ok(listing);
        }
    }
    Ok(listing)
}

/// An entry stands in clear and is bound to nothing; the row that it leads to is.
struct Entry {
    position: Position,
    token: Option<StoredToken>,
    is_filed: bool,
}

/// For each facet one seek and a walk; then the tokens of those that come first.
const LIST_ENTRIES: &str = concat!(
    "-- list_entries\nSELECT ",
    token_columns!(),
    ", it.container, it.created_at, it.token, it.facet
     FROM (
         SELECT entries.* FROM unnest($2::bytea[]) AS asked (facet) CROSS JOIN LATERAL (
             SELECT filed.facet, filed.container, filed.created_at, filed.token FROM filed
             WHERE filed.tenant = $1 AND filed.facet = asked.facet AND filed.container >= $3
                 AND (filed.container, filed.created_at, filed.token) < ($4, $5::bigint, $6::bigint)
             ORDER BY filed.container DESC, filed.created_at DESC, filed.token DESC
             LIMIT $7
         ) AS entries
         ORDER BY entries.container DESC, entries.created_at DESC, entries.token DESC
         LIMIT $7
     ) AS it
     LEFT JOIN tokens ON tokens.tenant = $1 AND tokens.number = it.token
     LEFT JOIN cvcs ON cvcs.tenant = $1 AND cvcs.token = it.token
     ORDER BY it.container DESC, it.created_at DESC, it.token DESC"
);

/// The first entries of a span, or those after the position if it lies in it.
async fn stretch(
    client: &impl PostgresClient,
    tenant: TenantId,
    list: &ListTokens,
    (span, most): (&Span, usize),
) -> Result<Vec<Entry>, StoreError> {
    let after = list.after.as_ref().filter(|it| it.container.as_str() < span.to());
    let (container, created_at, token) = match after {
        None => (span.to(), i64::MIN, i64::MIN),
        Some(it) => (it.container.as_str(), it.created_at.unix_ms, it.number),
    };
    let facets = facets(list.facet);
    let asked: Vec<_> = facets.iter().map(facet_bytes).collect();
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let parameters: Parameters<'_, 7> =
        [&tenant.0, &asked, &span.from(), &container, &created_at, &token, &most];
    let rows = query(client, LIST_ENTRIES, &parameters).await?;
    rows.iter().map(|row| entry(row, &facets)).collect()
}

const MISFILED: StoreError = StoreError::Corrupt("a token is filed under what it is not");

fn entry(row: &Row, asked: &[Facet]) -> Result<Entry, StoreError> {
    let position = Position {
        container: Container::parse(column(row, 16)?).map_err(|_| MISFILED)?,
        created_at: time(row, 17)?,
        number: column(row, 18)?,
    };
    let facet: &[u8] = column(row, 19)?;
    let number: Option<i64> = column(row, 0)?;
    let token = number.map(|_| stored_token(row)).transpose()?.map(|(_, it)| it);
    let is_filed = token.as_ref().is_some_and(|StoredToken { record, .. }| {
        asked.iter().any(|it| it.is_of(record) && facet_bytes(it) == facet)
            && record.created_at == position.created_at
            && record.containers.iter().any(|it| *it == position.container)
    });
    Ok(Entry { position, token, is_filed })
}
