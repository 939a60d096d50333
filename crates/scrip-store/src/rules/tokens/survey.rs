//! The newest tokens first, whatever their container: the entries of every container side by side.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, VecDeque},
};

use scrip_core::{
    id::TenantId,
    listing::{
        Facet, Outline, SURVEY_CONTAINERS_MAX, SURVEY_ENTRIES_MAX, SURVEY_TOKENS_MAX, SurveyTokens,
        Surveyed,
    },
    store::StoreError,
    token::Span,
};
use scrip_seal::IndexDigest;

use crate::{
    facets::{facet_bytes, facets},
    rules::tokens::rows::NO_TOKEN,
    sql::{ColumnReader, required},
};

/// How an engine reads the entries of a survey. Its statements see one instant.
pub(crate) trait SurveyReader {
    /// An entry that leads to a token.
    type Entry;

    fn place(entry: &Self::Entry) -> Place;

    /// The containers of a span that have entries of a facet, the last first. One more than there
    /// may be tells that there are too many.
    async fn list_containers(
        &self,
        tenant: TenantId,
        facet: &[u8],
        span: &Span,
    ) -> Result<Vec<String>, StoreError>;

    /// Some entries of one facet in one container behind a place, the newest first.
    async fn newest(
        &self,
        tenant: TenantId,
        survey: &SurveyTokens,
        name: &StreamName,
        after: Place,
    ) -> Result<VecDeque<Self::Entry>, StoreError>;

    /// The token that an entry leads to, if that is live.
    async fn outline(
        &self,
        tenant: TenantId,
        survey: &SurveyTokens,
        entry: Self::Entry,
    ) -> Result<Option<IndexedOutline>, StoreError>;
}

/// When a token was made, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) created_at: i64,
    pub(crate) number: i64,
}

pub(crate) struct IndexedOutline {
    outline: Outline,
    indexes: Vec<IndexDigest>,
}

/// One facet in one container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamName {
    pub(crate) facet: Vec<u8>,
    pub(crate) container: String,
}

/// The next entry of a stream, and those behind it that were read with it.
struct Stream<E> {
    place: Place,
    name: StreamName,
    entry: E,
    ready: VecDeque<E>,
}

/// The newest first. Two with one place are of one token.
impl<E> Ord for Stream<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.place, &self.name).cmp(&(other.place, &other.name))
    }
}

impl<E> PartialOrd for Stream<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Stream<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for Stream<E> {}

pub(crate) async fn survey_tokens<R: SurveyReader>(
    reader: &R,
    tenant: TenantId,
    survey: &SurveyTokens,
) -> Result<Surveyed, StoreError> {
    let mut heap = BinaryHeap::new();
    let beginning = Place { created_at: i64::MAX, number: i64::MAX };
    for facet in facets(survey.facets.first().copied()) {
        let facet = facet_bytes(&facet);
        for span in survey.spans.iter() {
            for container in reader.list_containers(tenant, &facet, span).await? {
                if heap.len() >= SURVEY_CONTAINERS_MAX {
                    return Ok(Surveyed::TooSpread);
                }
                let name = StreamName { facet: facet.clone(), container };
                let ready = reader.newest(tenant, survey, &name, beginning).await?;
                heap.extend(stream::<R>(name, ready));
            }
        }
    }
    let mut found = Vec::new();
    let mut entries_left = SURVEY_ENTRIES_MAX;
    while let Some(Stream { place, name, entry, mut ready }) = heap.pop() {
        entries_left = match entries_left.checked_sub(1) {
            Some(left) => left,
            None => return Ok(Surveyed::TooSpread),
        };
        let outline = reader.outline(tenant, survey, entry).await?;
        if let Some(outline) = outline.and_then(|it| it.shown(survey, &name.container)) {
            found.push(outline);
            if found.len() >= SURVEY_TOKENS_MAX {
                break;
            }
        }
        if ready.is_empty() {
            ready = reader.newest(tenant, survey, &name, place).await?;
        }
        heap.extend(stream::<R>(name, ready));
    }
    Ok(Surveyed::Found(found))
}

/// Nothing at its end.
fn stream<R: SurveyReader>(
    name: StreamName,
    mut ready: VecDeque<R::Entry>,
) -> Option<Stream<R::Entry>> {
    let entry = ready.pop_front()?;
    Some(Stream { place: R::place(&entry), name, entry, ready })
}

impl IndexedOutline {
    /// Three columns: id, containers and indexes.
    pub(crate) fn decode(row: &dyn ColumnReader, from: usize) -> Result<Self, StoreError> {
        let column = |offset: usize| from.saturating_add(offset);
        let decoded = || {
            let outline =
                Outline { id: required(row, column(0))?, containers: required(row, column(1))? };
            Ok(Self { outline, indexes: required(row, column(2))? })
        };
        decoded().map_err(|_: StoreError| NO_TOKEN)
    }

    /// Nothing for a token that is shown under another container, or lacks a facet.
    fn shown(self, survey: &SurveyTokens, container: &str) -> Option<Outline> {
        let Self { outline, indexes } = self;
        let is_here = survey.spans.place(&outline.containers)?.as_str() == container;
        (is_here && survey.facets.iter().all(|it| has(&indexes, it))).then_some(outline)
    }
}

/// The first facet is the one that led here; only indexes are asked for together.
fn has(indexes: &[IndexDigest], facet: &Facet) -> bool {
    match facet {
        Facet::Index(digest) => indexes.contains(digest),
        Facet::Type(_) | Facet::Fingerprint(_) => true,
    }
}
