//! The newest tokens first, whatever their container: the entries of every container side by side.

use std::collections::{BinaryHeap, VecDeque};

use scrip_core::{
    id::{TenantId, TokenId},
    listing::{
        Facet, Outline, SURVEY_CONTAINERS_MAX, SURVEY_ENTRIES_MAX, SURVEY_TOKENS_MAX, Span,
        SurveyTokens, Surveyed,
    },
    store::StoreError,
};
use scrip_seal::IndexDigest;
use tokio_postgres::Row;

use crate::{
    facets::{facet_bytes, facets},
    postgres::{
        row::{NO_TOKEN, column, containers, indexes},
        statement::{Parameters, PostgresClient, query},
    },
};

/// In a transaction that sees one instant.
pub(super) async fn survey_tokens(
    client: &impl PostgresClient,
    tenant: TenantId,
    survey: &SurveyTokens,
) -> Result<Surveyed, StoreError> {
    let mut heap = BinaryHeap::new();
    for facet in facets(survey.facets.first().copied()) {
        let facet = facet_bytes(&facet);
        for span in survey.spans.iter() {
            for container in list_containers(client, tenant, &facet, span).await? {
                if heap.len() >= SURVEY_CONTAINERS_MAX {
                    return Ok(Surveyed::TooSpread);
                }
                let mut stream = Stream { facet: facet.clone(), container, ready: VecDeque::new() };
                if let Some(head) = stream.next(client, (tenant, survey), None).await? {
                    heap.push((head.at, Ready { head, stream }));
                }
            }
        }
    }
    let mut found = Vec::new();
    let mut entries_left = SURVEY_ENTRIES_MAX;
    while let Some((at, Ready { head, mut stream })) = heap.pop() {
        entries_left = match entries_left.checked_sub(1) {
            Some(left) => left,
            None => return Ok(Surveyed::TooSpread),
        };
        if let Some(outline) = head.shown(survey, &stream.container) {
            found.push(outline);
            if found.len() >= SURVEY_TOKENS_MAX {
                break;
            }
        }
        if let Some(head) = stream.next(client, (tenant, survey), Some(at)).await? {
            heap.push((head.at, Ready { head, stream }));
        }
    }
    Ok(Surveyed::Found(found))
}

/// When a token was made, and its number.
type At = (i64, i64);

/// An entry, and the token that it leads to if that is live.
struct Head {
    at: At,
    token: Option<(Outline, Vec<IndexDigest>)>,
}

/// The next entry of a stream. Two with one place in the heap are of one token.
struct Ready {
    head: Head,
    stream: Stream,
}

impl PartialEq for Ready {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ready {}

impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ready {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let name = |it: &'_ Self| (it.stream.facet.clone(), it.stream.container.clone());
        name(self).cmp(&name(other))
    }
}

/// The entries of one facet in one container, newest first, some at a time.
struct Stream {
    facet: Vec<u8>,
    container: String,
    ready: VecDeque<Head>,
}

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

impl Stream {
    async fn next(
        &mut self,
        client: &impl PostgresClient,
        (tenant, survey): (TenantId, &SurveyTokens),
        after: Option<At>,
    ) -> Result<Option<Head>, StoreError> {
        if let Some(head) = self.ready.pop_front() {
            return Ok(Some(head));
        }
        let (created_at, token) = after.unwrap_or((i64::MAX, i64::MAX));
        let Self { facet, container, .. } = &*self;
        let now = survey.now.unix_ms;
        let parameters: Parameters<'_, 7> =
            [&tenant.0, facet, container, &created_at, &token, &AT_ONCE, &now];
        let rows = query(client, LIST_NEWEST, &parameters).await?;
        self.ready = rows.iter().map(head).collect::<Result<_, _>>()?;
        Ok(self.ready.pop_front())
    }
}

fn head(row: &Row) -> Result<Head, StoreError> {
    let at = (column(row, 0)?, column(row, 1)?);
    let Some(id) = column::<Option<&str>>(row, 2)? else { return Ok(Head { at, token: None }) };
    let id = TokenId::parse(id).map_err(|_| NO_TOKEN)?;
    let indexes = indexes(column(row, 4)?).ok_or(NO_TOKEN)?;
    Ok(Head { at, token: Some((Outline { id, containers: containers(row, 3)? }, indexes)) })
}

impl Head {
    /// Nothing for a token that has expired, is shown under another container, or lacks a facet.
    fn shown(self, survey: &SurveyTokens, container: &str) -> Option<Outline> {
        let (outline, indexes) = self.token?;
        let place = survey.spans.place(&outline.containers)?;
        let shown = place.as_str() == container;
        (shown && survey.facets.iter().all(|it| has(&indexes, it))).then_some(outline)
    }
}

/// Each found by one seek behind the one before, however many tokens lie in it. One more than there
/// may be tells that there are too many.
const LIST_CONTAINERS: &str = "
-- list_containers
WITH RECURSIVE it (container, n) AS (
    SELECT (SELECT container FROM filed
        WHERE tenant = $1 AND facet = $2 AND container >= $3 AND container < $4
        ORDER BY container DESC LIMIT 1), 1
    UNION ALL SELECT (SELECT filed.container FROM filed
        WHERE tenant = $1 AND facet = $2 AND filed.container >= $3
            AND filed.container < it.container
        ORDER BY filed.container DESC LIMIT 1), it.n + 1
    FROM it WHERE it.container IS NOT NULL AND it.n <= $5
)
    SELECT container FROM it WHERE container IS NOT NULL";

async fn list_containers(
    client: &impl PostgresClient,
    tenant: TenantId,
    facet: &[u8],
    span: &Span,
) -> Result<Vec<String>, StoreError> {
    let most = i32::try_from(SURVEY_CONTAINERS_MAX).unwrap_or(i32::MAX);
    let parameters: Parameters<'_, 5> = [&tenant.0, &facet, &span.from(), &span.to(), &most];
    let rows = query(client, LIST_CONTAINERS, &parameters).await?;
    rows.iter().map(|row| column(row, 0)).collect()
}

/// The first facet is the one that led here; only indexes are asked for together.
fn has(indexes: &[IndexDigest], facet: &Facet) -> bool {
    match facet {
        Facet::Index(digest) => indexes.contains(digest),
        Facet::Type(_) | Facet::Fingerprint(_) => true,
    }
}
