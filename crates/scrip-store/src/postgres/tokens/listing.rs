//! The entries of lists.

use scrip_core::{
    id::TenantId,
    listing::{Facet, ListTokens, Position},
    store::StoreError,
    token::StoredToken,
};
use tokio_postgres::Row;

use crate::{
    facets::{facet_bytes, facets},
    postgres::engine::statement::{Instant, PostgresClient},
    rules::tokens::{
        listing::{FiledToken, ListingReader, MISFILED, Stretch},
        rows::{numbered_token, token_columns},
    },
    sql::{optional, required},
};

/// For each facet one seek and a walk; then the tokens of those that come first.
const LIST_ENTRIES: &str = concat!(
    "-- list_entries\nSELECT ",
    token_columns!("number"),
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

/// An entry with the token that it leads to.
pub(crate) struct Entry {
    position: Position,
    facet: Vec<u8>,
    token: Option<StoredToken>,
}

impl ListingReader for Instant {
    type Entry = Entry;

    fn position(entry: &Entry) -> &Position {
        &entry.position
    }

    async fn stretch(
        &self,
        tenant: TenantId,
        list: &ListTokens,
        stretch: &Stretch<'_>,
    ) -> Result<Vec<Entry>, StoreError> {
        let Stretch { from, container, created_at, number, most } = *stretch;
        let asked: Vec<_> = facets(list.facet).iter().map(facet_bytes).collect();
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = self
            .rows(
                LIST_ENTRIES,
                &[&tenant.0, &asked, &from, &container, &created_at, &number, &most],
            )
            .await?;
        rows.iter().map(entry).collect()
    }

    async fn token(
        &self,
        _: TenantId,
        list: &ListTokens,
        Entry { position, facet, token }: Entry,
    ) -> Result<Option<FiledToken>, StoreError> {
        let Some(token) = token.filter(|it| it.record.is_live(list.now)) else { return Ok(None) };
        let is_it = |it: &Facet| it.is_of(&token.record) && facet_bytes(it) == facet;
        let facet = facets(list.facet).into_iter().find(is_it);
        Ok(Some(FiledToken { position, facet, token }))
    }
}

fn entry(row: &Row) -> Result<Entry, StoreError> {
    let position = Position {
        container: required(row, 16).map_err(|_| MISFILED)?,
        created_at: required(row, 17)?,
        number: required(row, 18)?,
    };
    let token = optional::<i64>(row, 0)?.map(|_| numbered_token(row)).transpose()?;
    Ok(Entry { position, facet: required(row, 19)?, token: token.map(|it| it.token) })
}
