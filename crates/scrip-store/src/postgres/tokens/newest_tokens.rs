//! Index scans for offset pages: the newest tokens.

use std::collections::VecDeque;

use scrip_core::{
    listing::{NEWEST_CONTAINERS_MAX, NewestTokensScan},
    types::{ContainerRange, StoreError, id::TenantId},
};

use crate::{
    postgres::engine::statement::ReadSnapshot,
    shared::tokens::newest_tokens::{
        EntryPosition, IndexedOutline, NewestTokensReader, StreamName,
    },
    sql::{ColumnReader, Statements, parameters, read_optional, read_required},
};

/// Maximum number of entries per statement.
const ENTRIES_BATCH_SIZE: i64 = 256;

const LIST_NEWEST: &str = "
-- list_newest
SELECT it.created_at, it.token, tokens.id, tokens.containers, tokens.indexes,
    tokens.type, tokens.fingerprint
FROM (
    SELECT created_at, token FROM token_index
    WHERE tenant = $1 AND facet = $2 AND container = $3
        AND (created_at, token) < ($4::bigint, $5::bigint)
    ORDER BY created_at DESC, token DESC
    LIMIT $6
) AS it
LEFT JOIN tokens ON tokens.tenant = $1 AND tokens.number = it.token
    AND (tokens.expires_at IS NULL OR tokens.expires_at > $7)
ORDER BY it.created_at DESC, it.token DESC";

/// Finds each container with one index seek after the previous container, independent of the number
/// of tokens.
const LIST_CONTAINERS: &str = "
-- list_containers
WITH RECURSIVE it (container, count) AS (
    SELECT (SELECT container FROM token_index
        WHERE tenant = $1 AND facet = $2 AND container >= $3 AND container < $4
        ORDER BY container DESC LIMIT 1), CAST(1 AS bigint)
    UNION ALL SELECT (SELECT token_index.container FROM token_index
        WHERE tenant = $1 AND facet = $2 AND token_index.container >= $3
            AND token_index.container < it.container
        ORDER BY token_index.container DESC LIMIT 1), it.count + 1
    FROM it WHERE it.container IS NOT NULL AND it.count <= $5
)
    SELECT container FROM it WHERE container IS NOT NULL";

/// An index entry with its token.
pub(crate) struct PostgresNewestEntry {
    position: EntryPosition,
    outline: Option<IndexedOutline>,
}

impl NewestTokensReader for ReadSnapshot {
    type Entry = PostgresNewestEntry;

    fn position(entry: &PostgresNewestEntry) -> EntryPosition {
        entry.position
    }

    async fn list_containers(
        &self,
        tenant: TenantId,
        facet: &[u8],
        range: &ContainerRange,
    ) -> Result<Vec<String>, StoreError> {
        let key = parameters![tenant, facet, range.from(), range.to(), NEWEST_CONTAINERS_MAX];
        self.query(LIST_CONTAINERS, &key, |row| read_required(row, 0)).await
    }

    async fn list_newest(
        &self,
        tenant: TenantId,
        scan: &NewestTokensScan,
        name: &StreamName,
        after: EntryPosition,
    ) -> Result<VecDeque<PostgresNewestEntry>, StoreError> {
        let StreamName { facet, container } = name;
        let EntryPosition { created_at, number } = after;
        let parameters =
            parameters![tenant, facet, container, created_at, number, ENTRIES_BATCH_SIZE, scan.now];
        self.query(LIST_NEWEST, &parameters, decode_entry).await.map(VecDeque::from)
    }

    async fn outline(
        &self,
        _: TenantId,
        _: &NewestTokensScan,
        entry: PostgresNewestEntry,
    ) -> Result<Option<IndexedOutline>, StoreError> {
        Ok(entry.outline)
    }
}

fn decode_entry(row: &dyn ColumnReader) -> Result<PostgresNewestEntry, StoreError> {
    let position =
        EntryPosition { created_at: read_required(row, 0)?, number: read_required(row, 1)? };
    let id: Option<&str> = read_optional(row, 2)?;
    let outline = id.map(|_| IndexedOutline::decode(row, 2)).transpose()?;
    Ok(PostgresNewestEntry { position, outline })
}
