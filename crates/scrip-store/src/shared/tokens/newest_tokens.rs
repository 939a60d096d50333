//! The newest tokens first, whatever their container: the entries of every container side by side.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, VecDeque},
};

use scrip_core::{
    id::TenantId,
    listing::{
        Facet, NEWEST_CONTAINERS_MAX, NEWEST_ENTRIES_MAX, NEWEST_TOKENS_MAX, NewestTokens,
        NewestTokensScan, TokenOutline,
    },
    store::StoreError,
    token::ContainerRange,
};
use scrip_seal::IndexDigest;

use crate::{
    facets::{encode_facet, facets_or_all_types},
    shared::tokens::rows::NO_TOKEN,
    sql::{ColumnReader, required},
};

/// How an engine reads the entries of a survey. Its statements see one instant.
pub(crate) trait NewestTokensReader {
    /// An entry that leads to a token.
    type Entry;

    fn position(entry: &Self::Entry) -> EntryPosition;

    /// The containers of a span that have entries of a facet, the last first. One more than there
    /// may be tells that there are too many.
    async fn list_containers(
        &self,
        tenant: TenantId,
        facet: &[u8],
        span: &ContainerRange,
    ) -> Result<Vec<String>, StoreError>;

    /// Some entries of one facet in one container behind a place, the newest first.
    async fn list_newest(
        &self,
        tenant: TenantId,
        scan: &NewestTokensScan,
        name: &StreamName,
        after: EntryPosition,
    ) -> Result<VecDeque<Self::Entry>, StoreError>;

    /// The token that an entry leads to, if that is live.
    async fn outline(
        &self,
        tenant: TenantId,
        scan: &NewestTokensScan,
        entry: Self::Entry,
    ) -> Result<Option<IndexedOutline>, StoreError>;
}

/// When a token was made, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryPosition {
    pub(crate) created_at: i64,
    pub(crate) number: i64,
}

pub(crate) struct IndexedOutline {
    outline: TokenOutline,
    indexes: Vec<IndexDigest>,
}

/// One facet in one container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamName {
    pub(crate) facet: Vec<u8>,
    pub(crate) container: String,
}

/// The next entry of a stream, and those behind it that were read with it.
struct EntryStream<E> {
    position: EntryPosition,
    name: StreamName,
    entry: E,
    buffered: VecDeque<E>,
}

/// The newest first. Two with one place are of one token.
impl<E> Ord for EntryStream<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.position, &self.name).cmp(&(other.position, &other.name))
    }
}

impl<E> PartialOrd for EntryStream<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for EntryStream<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for EntryStream<E> {}

pub(crate) async fn find_newest_tokens<R: NewestTokensReader>(
    reader: &R,
    tenant: TenantId,
    scan: &NewestTokensScan,
) -> Result<NewestTokens, StoreError> {
    let mut heap = BinaryHeap::new();
    let beginning = EntryPosition { created_at: i64::MAX, number: i64::MAX };
    for facet in facets_or_all_types(scan.facets.first().copied()) {
        let facet = encode_facet(&facet);
        for span in scan.ranges.iter() {
            for container in reader.list_containers(tenant, &facet, span).await? {
                if heap.len() >= NEWEST_CONTAINERS_MAX {
                    return Ok(NewestTokens::TooManyToScan);
                }
                let name = StreamName { facet: facet.clone(), container };
                let ready = reader.list_newest(tenant, scan, &name, beginning).await?;
                heap.extend(next_stream::<R>(name, ready));
            }
        }
    }
    let mut found = Vec::new();
    let mut entries_left = NEWEST_ENTRIES_MAX;
    while let Some(EntryStream { position: place, name, entry, buffered: mut ready }) = heap.pop() {
        entries_left = match entries_left.checked_sub(1) {
            Some(left) => left,
            None => return Ok(NewestTokens::TooManyToScan),
        };
        let outline = reader.outline(tenant, scan, entry).await?;
        if let Some(outline) = outline.and_then(|it| it.filter(scan, &name.container)) {
            found.push(outline);
            if found.len() >= NEWEST_TOKENS_MAX {
                break;
            }
        }
        if ready.is_empty() {
            ready = reader.list_newest(tenant, scan, &name, place).await?;
        }
        heap.extend(next_stream::<R>(name, ready));
    }
    Ok(NewestTokens::Found(found))
}

/// Nothing at its end.
fn next_stream<R: NewestTokensReader>(
    name: StreamName,
    mut buffered: VecDeque<R::Entry>,
) -> Option<EntryStream<R::Entry>> {
    let entry = buffered.pop_front()?;
    Some(EntryStream { position: R::position(&entry), name, entry, buffered })
}

impl IndexedOutline {
    /// Three columns: id, containers and indexes.
    pub(crate) fn decode(row: &dyn ColumnReader, first_column: usize) -> Result<Self, StoreError> {
        let column = |offset: usize| first_column.saturating_add(offset);
        let decoded = || {
            let outline = TokenOutline {
                id: required(row, column(0))?,
                containers: required(row, column(1))?,
            };
            Ok(Self { outline, indexes: required(row, column(2))? })
        };
        decoded().map_err(|_: StoreError| NO_TOKEN)
    }

    /// Nothing for a token that is shown under another container, or lacks a facet.
    fn filter(self, scan: &NewestTokensScan, container: &str) -> Option<TokenOutline> {
        let Self { outline, indexes } = self;
        let is_here = scan.ranges.listed_container(&outline.containers)?.as_str() == container;
        (is_here && scan.facets.iter().all(|it| matches_facet(&indexes, it))).then_some(outline)
    }
}

/// The first facet is the one that led here; only indexes are asked for together.
fn matches_facet(indexes: &[IndexDigest], facet: &Facet) -> bool {
    match facet {
        Facet::Index(digest) => indexes.contains(digest),
        Facet::Type(_) | Facet::Fingerprint(_) => true,
    }
}
