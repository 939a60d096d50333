//! The entries of a survey.

use std::collections::VecDeque;

use scrip_core::{
    id::TenantId,
    listing::{NEWEST_CONTAINERS_MAX, NewestTokensScan},
    store::StoreError,
    token::ContainerRange,
};

use crate::{
    postgres::engine::statement::ReadSnapshot,
    shared::tokens::newest_tokens::{
        EntryPosition, IndexedOutline, NewestTokensReader, StreamName,
    },
    sql::{ColumnReader, Statements, optional, parameters, required},
};

const ENTRIES_BATCH: i64 = 256;

const LIST_NEWEST: &str = "
-- list_newest
SELECT it.created_at, it.token, tokens.id, tokens.containers, tokens.indexes
FROM (
    SELECT created_at, token FROM filed
    WHERE tenant = $1 AND facet = $2 AND container = $3
        AND (created_at, token) < ($4::bigint, $5::bigint)
    ORDER BY created_at DESC, token DESC
    LIMIT $6
) AS it
LEFT JOIN tokens ON tokens.tenant = $1 AND tokens.number = it.token
    AND (tokens.expires_at IS NULL OR tokens.expires_at > $7)
ORDER BY it.created_at DESC, it.token DESC";

/// Each found by one seek behind the one before, however many tokens lie in it.
const LIST_CONTAINERS: &str = "
-- list_containers
WITH RECURSIVE it (container, n) AS (
    SELECT (SELECT container FROM filed
        WHERE tenant = $1 AND facet = $2 AND container >= $3 AND container < $4
        ORDER BY container DESC LIMIT 1), CAST(1 AS bigint)
    UNION ALL SELECT (SELECT filed.container FROM filed
        WHERE tenant = $1 AND facet = $2 AND filed.container >= $3
            AND filed.container < it.container
        ORDER BY filed.container DESC LIMIT 1), it.n + 1
    FROM it WHERE it.container IS NOT NULL AND it.n <= $5
)
    SELECT container FROM it WHERE container IS NOT NULL";

/// An entry with the token that it leads to.
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
        span: &ContainerRange,
    ) -> Result<Vec<String>, StoreError> {
        let key = parameters![tenant, facet, span.from(), span.to(), NEWEST_CONTAINERS_MAX];
        self.query(LIST_CONTAINERS, &key, |row| required(row, 0)).await
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
        let bounds =
            parameters![tenant, facet, container, created_at, number, ENTRIES_BATCH, scan.now];
        self.query(LIST_NEWEST, &bounds, decode_entry).await.map(VecDeque::from)
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
    let place = EntryPosition { created_at: required(row, 0)?, number: required(row, 1)? };
    let id: Option<&str> = optional(row, 2)?;
    let outline = id.map(|_| IndexedOutline::decode(row, 2)).transpose()?;
    Ok(PostgresNewestEntry { position: place, outline })
}
