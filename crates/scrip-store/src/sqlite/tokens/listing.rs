//! The entries of lists.

use rusqlite::Connection;
use scrip_core::{
    id::TenantId,
    listing::{Facet, ListPosition, TokenScan},
    store::StoreError,
};

use crate::{
    facets::{encode_facet, facets_or_all_types},
    shared::tokens::{
        listing::{ChunkRequest, INDEX_MISMATCH, IndexedToken, TokenScanReader},
        rows::decode_numbered_token,
    },
    sql::{ColumnReader, Statements, parameters, required},
    sqlite::tokens::writes::select_tokens,
};

/// Row values of three are one bound of the index, so this is one seek and a walk.
const LIST_ENTRIES: &str = "
-- list_entries
SELECT container, created_at, token FROM filed
WHERE tenant = $1 AND facet = $2 AND container >= $3
    AND (container, created_at, token) < ($4, $5, $6)
ORDER BY container DESC, created_at DESC, token DESC
LIMIT $7";

const FIND_TOKEN_BY_NUMBER: &str = concat!(
    "-- find_at\n",
    select_tokens!(),
    " WHERE tokens.seq = $1 AND tokens.tenant = $2
      AND (tokens.expires_at IS NULL OR tokens.expires_at > $3)"
);

pub(crate) const STATEMENTS: &[&str] = &[LIST_ENTRIES, FIND_TOKEN_BY_NUMBER];

/// An entry; the token that it leads to is found when its turn comes.
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
        let ChunkRequest { from, container, created_at, number, entries_max: most } = *request;
        let mut entries = Vec::new();
        for facet in facets_or_all_types(scan.facet) {
            let name = encode_facet(&facet);
            let key = parameters![tenant, name, from, container, created_at, number, most];
            let entry = |row: &dyn ColumnReader| {
                let position = ListPosition {
                    container: required(row, 0).map_err(|_| INDEX_MISMATCH)?,
                    created_at: required(row, 1)?,
                    row_number: required(row, 2)?,
                };
                Ok(SqliteListingEntry { facet, position })
            };
            entries.extend(self.query(LIST_ENTRIES, &key, entry).await?);
        }
        entries.sort_unstable_by(|one, other| other.position.cmp(&one.position));
        entries.truncate(most);
        Ok(entries)
    }

    async fn find_token(
        &self,
        tenant: TenantId,
        scan: &TokenScan,
        SqliteListingEntry { facet, position }: SqliteListingEntry,
    ) -> Result<Option<IndexedToken>, StoreError> {
        let at = parameters![position.row_number, tenant, scan.now];
        let found = self.find(FIND_TOKEN_BY_NUMBER, &at, decode_numbered_token).await?;
        Ok(found.map(|it| IndexedToken { position, facet: Some(facet), token: it.token }))
    }
}
