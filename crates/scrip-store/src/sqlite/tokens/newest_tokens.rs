//! Index scans for offset pages: the newest tokens.

use std::collections::VecDeque;

use rusqlite::Connection;
use scrip_core::{
    listing::{NEWEST_CONTAINERS_MAX, NewestTokensScan},
    types::{ContainerRange, StoreError, id::TenantId},
};

use crate::{
    shared::tokens::newest_tokens::{
        EntryPosition, IndexedOutline, NewestTokensReader, StreamName,
    },
    sql::{ColumnReader, Statements, parameters, read_required},
};

/// Maximum number of entries per statement.
const ENTRIES_BATCH_SIZE: i64 = 64;

const LIST_NEWEST: &str = "
-- list_newest
SELECT created_at, token FROM token_index
WHERE tenant = $1 AND facet = $2 AND container = $3 AND (created_at, token) < ($4, $5)
ORDER BY created_at DESC, token DESC
LIMIT $6";

const FIND_LAST_CONTAINER: &str = "
-- last_container
SELECT container FROM token_index
WHERE tenant = $1 AND facet = $2 AND container >= $3 AND container < $4
ORDER BY container DESC
LIMIT 1";

const FIND_OUTLINE: &str = "
-- find_outline
SELECT id, containers, indexes, type, fingerprint FROM tokens
WHERE seq = $1 AND tenant = $2 AND (expires_at IS NULL OR expires_at > $3)";

/// The token of an entry is loaded when it is needed.
impl NewestTokensReader for Connection {
    type Entry = EntryPosition;

    fn position(entry: &EntryPosition) -> EntryPosition {
        *entry
    }

    async fn list_containers(
        &self,
        tenant: TenantId,
        facet: &[u8],
        range: &ContainerRange,
    ) -> Result<Vec<String>, StoreError> {
        let (mut containers, mut upper_limit) = (Vec::new(), range.to().to_owned());
        while containers.len() <= NEWEST_CONTAINERS_MAX {
            let key = parameters![tenant, facet, range.from(), &upper_limit];
            let last_container: Option<String> =
                self.find(FIND_LAST_CONTAINER, &key, |row| read_required(row, 0)).await?;
            let Some(container) = last_container else { break };
            upper_limit.clone_from(&container);
            containers.push(container);
        }
        Ok(containers)
    }

    async fn list_newest(
        &self,
        tenant: TenantId,
        _: &NewestTokensScan,
        name: &StreamName,
        after: EntryPosition,
    ) -> Result<VecDeque<EntryPosition>, StoreError> {
        let StreamName { facet, container } = name;
        let parameters = parameters![
            tenant,
            facet,
            container,
            after.created_at,
            after.number,
            ENTRIES_BATCH_SIZE
        ];
        let decode_position = |row: &dyn ColumnReader| {
            Ok(EntryPosition { created_at: read_required(row, 0)?, number: read_required(row, 1)? })
        };
        self.query(LIST_NEWEST, &parameters, decode_position).await.map(VecDeque::from)
    }

    async fn outline(
        &self,
        tenant: TenantId,
        scan: &NewestTokensScan,
        entry: EntryPosition,
    ) -> Result<Option<IndexedOutline>, StoreError> {
        let key = parameters![entry.number, tenant, scan.now];
        self.find(FIND_OUTLINE, &key, |row| IndexedOutline::decode(row, 0)).await
    }
}
