//! Index scans for token lists.

use rusqlite::Connection;
use scrip_core::{
    listing::{Facet, ListPosition, SearchFacet, TokenScan},
    types::{StoreError, id::TenantId},
};

use crate::{
    shared::tokens::{
        listing::{ChunkRequest, INDEX_MISMATCH, IndexedToken, TokenScanReader},
        rows::{decode_numbered_token, encode_facet, facets_or_all_types},
    },
    sql::{ColumnReader, Statements, parameters, read_required},
    sqlite::tokens::writes::select_tokens,
};

/// Lists the entries of one facet with one index seek and a range scan: SQLite uses the comparison
/// of three columns as one limit of the index range.
const LIST_ENTRIES: &str = "
-- list_entries
SELECT container, created_at, token FROM token_index
WHERE tenant = $1 AND facet = $2 AND container >= $3
    AND (container, created_at, token) < ($4, $5, $6)
ORDER BY container DESC, created_at DESC, token DESC
LIMIT $7";

pub(crate) const FIND_TOKEN_BY_NUMBER: &str = concat!(
    "-- find_token_by_number\n",
    select_tokens!(),
    "
WHERE tokens.seq = $1 AND tokens.tenant = $2
    AND (tokens.expires_at IS NULL OR tokens.expires_at > $3)"
);

/// An index entry. Its token is loaded when it is needed.
pub(crate) struct SqliteListingEntry {
    facet: Facet,
    position: ListPosition,
}

impl TokenScanReader for Connection {
    type Entry = SqliteListingEntry;

    fn position(entry: &SqliteListingEntry) -> &ListPosition {
        &entry.position
    }

    async fn list_chunk(
        &self,
        tenant: TenantId,
        scan: &TokenScan,
        request: &ChunkRequest<'_>,
    ) -> Result<Vec<SqliteListingEntry>, StoreError> {
        let ChunkRequest { from, container, created_at, number, entries_max } = *request;
        let mut entries = Vec::new();
        for facet in facets_or_all_types(scan.facet.map(SearchFacet::facet)) {
            let encoded_facet = encode_facet(&facet);
            let key = parameters![
                tenant,
                encoded_facet,
                from,
                container,
                created_at,
                number,
                entries_max
            ];
            let decode_entry = |row: &dyn ColumnReader| {
                let position = ListPosition {
                    container: read_required(row, 0).map_err(|_| INDEX_MISMATCH)?,
                    created_at: read_required(row, 1)?,
                    row_number: read_required(row, 2)?,
                };
                Ok(SqliteListingEntry { facet, position })
            };
            entries.extend(self.query(LIST_ENTRIES, &key, decode_entry).await?);
        }
        entries.sort_unstable_by(|left, right| right.position.cmp(&left.position));
        entries.truncate(entries_max);
        Ok(entries)
    }

    async fn find_token(
        &self,
        tenant: TenantId,
        scan: &TokenScan,
        SqliteListingEntry { facet, position }: SqliteListingEntry,
    ) -> Result<Option<IndexedToken>, StoreError> {
        let key = parameters![position.row_number, tenant, scan.now];
        let token = self.find(FIND_TOKEN_BY_NUMBER, &key, decode_numbered_token).await?;
        Ok(token.map(|it| IndexedToken { position, facet: Some(facet), token: it.token }))
    }
}
