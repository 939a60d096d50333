//! The entries of a survey.

use std::collections::VecDeque;

use rusqlite::Connection;
use scrip_core::{
    id::TenantId,
    listing::{NEWEST_CONTAINERS_MAX, NewestTokensScan},
    store::StoreError,
    token::ContainerRange,
};

use crate::{
    shared::tokens::newest_tokens::{
        EntryPosition, IndexedOutline, NewestTokensReader, StreamName,
    },
    sql::{ColumnReader, Statements, parameters, required},
};

const ENTRIES_BATCH: i64 = 64;

const LIST_NEWEST: &str = "
-- list_newest
SELECT created_at, token FROM filed
WHERE tenant = $1 AND facet = $2 AND container = $3 AND (created_at, token) < ($4, $5)
ORDER BY created_at DESC, token DESC
LIMIT $6";

const LAST_CONTAINER: &str = "
-- last_container
SELECT container FROM filed
WHERE tenant = $1 AND facet = $2 AND container >= $3 AND container < $4
ORDER BY container DESC
LIMIT 1";

const FIND_OUTLINE: &str = "
-- find_outline
SELECT id, containers, indexes FROM tokens
WHERE seq = $1 AND tenant = $2 AND (expires_at IS NULL OR expires_at > $3)";

pub(crate) const STATEMENTS: &[&str] = &[LIST_NEWEST, LAST_CONTAINER, FIND_OUTLINE];

/// The token that an entry leads to is found when its turn comes.
impl NewestTokensReader for Connection {
    type Entry = EntryPosition;

    fn position(entry: &EntryPosition) -> EntryPosition {
        *entry
    }

    async fn list_containers(
        &self,
        tenant: TenantId,
        facet: &[u8],
        span: &ContainerRange,
    ) -> Result<Vec<String>, StoreError> {
        let (mut found, mut before) = (Vec::new(), span.to().to_owned());
        while found.len() <= NEWEST_CONTAINERS_MAX {
            let below = parameters![tenant, facet, span.from(), &before];
            let last: Option<String> =
                self.find(LAST_CONTAINER, &below, |row| required(row, 0)).await?;
            let Some(container) = last else { break };
            before.clone_from(&container);
            found.push(container);
        }
        Ok(found)
    }

    async fn list_newest(
        &self,
        tenant: TenantId,
        _: &NewestTokensScan,
        name: &StreamName,
        after: EntryPosition,
    ) -> Result<VecDeque<EntryPosition>, StoreError> {
        let StreamName { facet, container } = name;
        let bounds =
            parameters![tenant, facet, container, after.created_at, after.number, ENTRIES_BATCH];
        let place = |row: &dyn ColumnReader| {
            Ok(EntryPosition { created_at: required(row, 0)?, number: required(row, 1)? })
        };
        self.query(LIST_NEWEST, &bounds, place).await.map(VecDeque::from)
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
