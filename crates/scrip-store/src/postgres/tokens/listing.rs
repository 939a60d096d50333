//! Index scans for token lists.

use scrip_core::{
    listing::{Facet, ListPosition, SearchFacet, TokenScan},
    token::StoredToken,
    types::{StoreError, id::TenantId},
};
use tokio_postgres::Row;

use crate::{
    postgres::engine::statement::{PostgresClient, ReadSnapshot},
    shared::tokens::{
        listing::{ChunkRequest, INDEX_MISMATCH, IndexedToken, TokenScanReader},
        rows::{decode_numbered_token, encode_facet, facets_or_all_types},
    },
    sql::{read_optional, read_required},
};

/// One index seek and a range scan per facet, then the tokens of the first entries.
const LIST_ENTRIES: &str = "
-- list_entries
SELECT tokens.number, tokens.id, tokens.type, tokens.fingerprint, tokens.containers,
    tokens.created_by, tokens.created_at, tokens.modified_by, tokens.modified_at,
    tokens.expires_at, tokens.revision, tokens.indexes, tokens.body, tokens.expressions,
    cvcs.expires_at, cvcs.sealed, it.container, it.created_at, it.token, it.facet
FROM (
    SELECT entries.* FROM unnest($2::bytea[]) AS requested (facet) CROSS JOIN LATERAL (
        SELECT token_index.facet, token_index.container, token_index.created_at,
            token_index.token
        FROM token_index
        WHERE token_index.tenant = $1 AND token_index.facet = requested.facet
            AND token_index.container >= $3
            AND (token_index.container, token_index.created_at, token_index.token)
                < ($4, $5::bigint, $6::bigint)
        ORDER BY token_index.container DESC, token_index.created_at DESC, token_index.token DESC
        LIMIT $7
    ) AS entries
    ORDER BY entries.container DESC, entries.created_at DESC, entries.token DESC
    LIMIT $7
) AS it
LEFT JOIN tokens ON tokens.tenant = $1 AND tokens.number = it.token
LEFT JOIN cvcs ON cvcs.tenant = $1 AND cvcs.token = it.token
ORDER BY it.container DESC, it.created_at DESC, it.token DESC";

/// An index entry with its token.
pub(crate) struct PostgresListingEntry {
    position: ListPosition,
    facet: Vec<u8>,
    token: Option<StoredToken>,
}

impl TokenScanReader for ReadSnapshot {
    type Entry = PostgresListingEntry;

    fn position(entry: &PostgresListingEntry) -> &ListPosition {
        &entry.position
    }

    async fn list_chunk(
        &self,
        tenant: TenantId,
        scan: &TokenScan,
        request: &ChunkRequest<'_>,
    ) -> Result<Vec<PostgresListingEntry>, StoreError> {
        let ChunkRequest { from, container, created_at, number, entries_max } = *request;
        let facets: Vec<_> = facets_or_all_types(scan.facet.map(SearchFacet::facet))
            .iter()
            .map(encode_facet)
            .collect();
        let entries_max = i64::try_from(entries_max).unwrap_or(i64::MAX);
        let rows = self
            .rows(
                LIST_ENTRIES,
                &[&tenant.0, &facets, &from, &container, &created_at, &number, &entries_max],
            )
            .await?;
        rows.iter().map(decode_entry).collect()
    }

    async fn find_token(
        &self,
        _: TenantId,
        scan: &TokenScan,
        PostgresListingEntry { position, facet, token }: PostgresListingEntry,
    ) -> Result<Option<IndexedToken>, StoreError> {
        let Some(token) = token.filter(|it| it.record.is_live(scan.now)) else { return Ok(None) };
        let is_facet_of_entry = |it: &Facet| it.matches(&token.record) && encode_facet(it) == facet;
        let facet = facets_or_all_types(scan.facet.map(SearchFacet::facet))
            .into_iter()
            .find(is_facet_of_entry);
        Ok(Some(IndexedToken { position, facet, token }))
    }
}

fn decode_entry(row: &Row) -> Result<PostgresListingEntry, StoreError> {
    let position = ListPosition {
        container: read_required(row, 16).map_err(|_| INDEX_MISMATCH)?,
        created_at: read_required(row, 17)?,
        row_number: read_required(row, 18)?,
    };
    let token = read_optional::<i64>(row, 0)?.map(|_| decode_numbered_token(row)).transpose()?;
    Ok(PostgresListingEntry {
        position,
        facet: read_required(row, 19)?,
        token: token.map(|it| it.token),
    })
}
