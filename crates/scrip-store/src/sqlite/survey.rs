//! The newest tokens first, whatever their container: the entries of every container side by side.

use std::collections::{BinaryHeap, VecDeque};

use rusqlite::{Connection, OptionalExtension, named_params};
use scrip_core::{
    container::Containers,
    id::{TenantId, TokenId},
    listing::{
        Facet, Outline, SURVEY_CONTAINERS_MAX, SURVEY_ENTRIES_MAX, SURVEY_TOKENS_MAX, Span,
        SurveyTokens, Surveyed,
    },
    store::StoreError,
};
use scrip_seal::IndexDigest;

use crate::{
    facets::{facet_bytes, facets},
    sqlite::{fault, listing::at_one_instant, row::indexes},
};

pub(super) fn survey_tokens(
    connection: &Connection,
    tenant: TenantId,
    survey: &SurveyTokens,
) -> Result<Surveyed, StoreError> {
    at_one_instant(connection, || {
        let mut heap = BinaryHeap::new();
        for facet in facets(survey.facets.first().copied()) {
            let facet = facet_bytes(&facet);
            for span in survey.spans.iter() {
                let mut before = span.to().to_owned();
                while let Some(container) =
                    last_container(connection, tenant, &facet, (span, &before))?
                {
                    if heap.len() >= SURVEY_CONTAINERS_MAX {
                        return Ok(Surveyed::TooSpread);
                    }
                    before.clone_from(&container);
                    let mut stream =
                        Stream { facet: facet.clone(), container, ready: VecDeque::new() };
                    if let Some(head) = stream.next(connection, tenant, None)? {
                        heap.push((head, stream));
                    }
                }
            }
        }
        let mut found = Vec::new();
        let mut entries_left = SURVEY_ENTRIES_MAX;
        while let Some((head, mut stream)) = heap.pop() {
            entries_left = match entries_left.checked_sub(1) {
                Some(left) => left,
                None => return Ok(Surveyed::TooSpread),
            };
            if let Some(outline) = outline(connection, tenant, survey, (head, &stream.container))? {
                found.push(outline);
                if found.len() >= SURVEY_TOKENS_MAX {
                    break;
                }
            }
            if let Some(next) = stream.next(connection, tenant, Some(head))? {
                heap.push((next, stream));
            }
        }
        Ok(Surveyed::Found(found))
    })
}

/// When a token was made, and its number.
type Head = (i64, i64);

/// The entries of one facet in one container, newest first, some at a time.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Stream {
    facet: Vec<u8>,
    container: String,
    ready: VecDeque<Head>,
}

const AT_ONCE: i64 = 64;

const LIST_NEWEST: &str = "
-- list_newest
SELECT created_at, token FROM filed
WHERE tenant = :tenant AND facet = :facet AND container = :container
    AND (created_at, token) < (:created_at, :token)
ORDER BY created_at DESC, token DESC
LIMIT :most";

impl Stream {
    fn next(
        &mut self,
        connection: &Connection,
        tenant: TenantId,
        after: Option<Head>,
    ) -> Result<Option<Head>, StoreError> {
        if let Some(head) = self.ready.pop_front() {
            return Ok(Some(head));
        }
        let (created_at, token) = after.unwrap_or((i64::MAX, i64::MAX));
        let parameters = named_params! {
            ":tenant": tenant.0.as_bytes(),
            ":facet": self.facet,
            ":container": self.container,
            ":created_at": created_at,
            ":token": token,
            ":most": AT_ONCE,
        };
        let mut statement = connection.prepare_cached(LIST_NEWEST).map_err(fault)?;
        let rows = statement.query_map(parameters, |row| Ok((row.get(0)?, row.get(1)?)));
        self.ready = rows.and_then(Iterator::collect).map_err(fault)?;
        Ok(self.ready.pop_front())
    }
}

const LAST_CONTAINER: &str = "
-- last_container
SELECT container FROM filed
WHERE tenant = :tenant AND facet = :facet AND container >= :from AND container < :before
ORDER BY container DESC
LIMIT 1";

fn last_container(
    connection: &Connection,
    tenant: TenantId,
    facet: &[u8],
    (span, before): (&Span, &str),
) -> Result<Option<String>, StoreError> {
    let parameters = named_params! {
        ":tenant": tenant.0.as_bytes(), ":facet": facet, ":from": span.from(), ":before": before,
    };
    let mut statement = connection.prepare_cached(LAST_CONTAINER).map_err(fault)?;
    statement.query_row(parameters, |row| row.get(0)).optional().map_err(fault)
}

const FIND_OUTLINE: &str = "
-- find_outline
SELECT id, containers, indexes FROM tokens
WHERE seq = :token AND tenant = :tenant AND (expires_at IS NULL OR expires_at > :now)";

/// Nothing for a token that has expired, is shown under another container, or lacks a facet.
fn outline(
    connection: &Connection,
    tenant: TenantId,
    survey: &SurveyTokens,
    ((_, token), container): (Head, &str),
) -> Result<Option<Outline>, StoreError> {
    let corrupt = || StoreError::Corrupt("a token's row is not one of ours");
    let mut statement = connection.prepare_cached(FIND_OUTLINE).map_err(fault)?;
    let parameters = named_params! {
        ":token": token, ":tenant": tenant.0.as_bytes(), ":now": survey.now.unix_ms,
    };
    let mut rows = statement.query(parameters).map_err(fault)?;
    let Some(row) = rows.next().map_err(fault)? else { return Ok(None) };
    let text = |at| row.get_ref(at).map_err(fault)?.as_str().map_err(|_| corrupt());
    let containers = Containers::parse(text(1)?.split(',')).map_err(|_| corrupt())?;
    let indexes = indexes(row.get_ref(2).map_err(fault)?).ok_or_else(corrupt)?;
    let shown = survey.spans.place(&containers).is_some_and(|it| it.as_str() == container);
    if !shown || !survey.facets.iter().all(|it| has(&indexes, it)) {
        return Ok(None);
    }
    let id = TokenId::parse(text(0)?).map_err(|_| corrupt())?;
    Ok(Some(Outline { id, containers }))
}

/// The first facet is the one that led here; only indexes are asked for together.
fn has(indexes: &[IndexDigest], facet: &Facet) -> bool {
    match facet {
        Facet::Index(digest) => indexes.contains(digest),
        Facet::Type(_) | Facet::Fingerprint(_) => true,
    }
}
