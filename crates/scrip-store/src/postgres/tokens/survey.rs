//! The entries of a survey.

use std::collections::VecDeque;

use scrip_core::{
    id::TenantId,
    listing::{SURVEY_CONTAINERS_MAX, SurveyTokens},
    store::StoreError,
    token::Span,
};

use crate::{
    postgres::engine::statement::Instant,
    rules::tokens::survey::{IndexedOutline, Place, StreamName, SurveyReader},
    sql::{ColumnReader, Statements, optional, parameters, required},
};

const AT_ONCE: i64 = 256;

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
pub(crate) struct Entry {
    place: Place,
    outline: Option<IndexedOutline>,
}

impl SurveyReader for Instant {
    type Entry = Entry;

    fn place(entry: &Entry) -> Place {
        entry.place
    }

    async fn list_containers(
        &self,
        tenant: TenantId,
        facet: &[u8],
        span: &Span,
    ) -> Result<Vec<String>, StoreError> {
        let of = parameters![tenant, facet, span.from(), span.to(), SURVEY_CONTAINERS_MAX];
        self.query(LIST_CONTAINERS, &of, |row| required(row, 0)).await
    }

    async fn newest(
        &self,
        tenant: TenantId,
        survey: &SurveyTokens,
        name: &StreamName,
        after: Place,
    ) -> Result<VecDeque<Entry>, StoreError> {
        let StreamName { facet, container } = name;
        let Place { created_at, number } = after;
        let behind = parameters![tenant, facet, container, created_at, number, AT_ONCE, survey.now];
        self.query(LIST_NEWEST, &behind, entry).await.map(VecDeque::from)
    }

    async fn outline(
        &self,
        _: TenantId,
        _: &SurveyTokens,
        entry: Entry,
    ) -> Result<Option<IndexedOutline>, StoreError> {
        Ok(entry.outline)
    }
}

fn entry(row: &dyn ColumnReader) -> Result<Entry, StoreError> {
    let place = Place { created_at: required(row, 0)?, number: required(row, 1)? };
    let id: Option<&str> = optional(row, 2)?;
    let outline = id.map(|_| IndexedOutline::decode(row, 2)).transpose()?;
    Ok(Entry { place, outline })
}
