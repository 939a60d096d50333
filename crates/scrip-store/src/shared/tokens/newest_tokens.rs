//! The newest tokens of all containers: merges the index entries of each container.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, VecDeque},
};

use scrip_core::{
    card::TokenType,
    listing::{
        Facet, NEWEST_CONTAINERS_MAX, NEWEST_ENTRIES_MAX, NEWEST_TOKENS_MAX, NewestTokens,
        NewestTokensScan, TokenOutline,
    },
    types::{ContainerRange, StoreError, id::TenantId},
};
use scrip_seal::{Fingerprint, IndexDigest};

use crate::{
    shared::tokens::rows::{encode_facet, facets_or_all_types},
    sql::{ColumnReader, NO_TOKEN, read_optional, read_required},
};

/// Reads index entries for offset pages. All statements read one snapshot.
pub(crate) trait NewestTokensReader {
    /// An index entry that points to a token.
    type Entry;

    fn position(entry: &Self::Entry) -> EntryPosition;

    /// Lists the containers of a range that have entries of a facet, in descending order. One more
    /// than the maximum means that there are too many.
    async fn list_containers(
        &self,
        tenant: TenantId,
        facet: &[u8],
        range: &ContainerRange,
    ) -> Result<Vec<String>, StoreError>;

    /// Lists entries of one facet in one container after a position, newest first.
    async fn list_newest(
        &self,
        tenant: TenantId,
        scan: &NewestTokensScan,
        name: &StreamName,
        after: EntryPosition,
    ) -> Result<VecDeque<Self::Entry>, StoreError>;

    /// Finds the token of an entry, if it is live.
    async fn outline(
        &self,
        tenant: TenantId,
        scan: &NewestTokensScan,
        entry: Self::Entry,
    ) -> Result<Option<IndexedOutline>, StoreError>;
}

/// Creation time and number of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryPosition {
    pub(crate) created_at: i64,
    pub(crate) number: i64,
}

pub(crate) struct IndexedOutline {
    outline: TokenOutline,
    indexes: Vec<IndexDigest>,
    token_type: TokenType,
    fingerprint: Option<Fingerprint>,
}

/// One facet in one container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamName {
    pub(crate) facet: Vec<u8>,
    pub(crate) container: String,
}

/// The next entry of a stream, and the entries that were read with it.
struct EntryStream<E> {
    position: EntryPosition,
    name: StreamName,
    entry: E,
    buffered: VecDeque<E>,
}

/// Newest first. Entries with the same position belong to the same token.
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
    let mut streams = BinaryHeap::new();
    let before_first = EntryPosition { created_at: i64::MAX, number: i64::MAX };
    for facet in facets_or_all_types(scan.facets.first().map(|it| it.facet())) {
        let facet = encode_facet(&facet);
        for range in scan.ranges.iter() {
            for container in reader.list_containers(tenant, &facet, range).await? {
                if streams.len() >= NEWEST_CONTAINERS_MAX {
                    return Ok(NewestTokens::TooManyToScan);
                }
                let name = StreamName { facet: facet.clone(), container };
                let entries = reader.list_newest(tenant, scan, &name, before_first).await?;
                streams.extend(next_stream::<R>(name, entries));
            }
        }
    }
    let mut outlines = Vec::new();
    let mut remaining_entries = NEWEST_ENTRIES_MAX;
    while let Some(EntryStream { position, name, entry, mut buffered }) = streams.pop() {
        remaining_entries = match remaining_entries.checked_sub(1) {
            Some(remaining) => remaining,
            None => return Ok(NewestTokens::TooManyToScan),
        };
        let outline = reader.outline(tenant, scan, entry).await?;
        if let Some(outline) = outline.and_then(|it| it.filter(scan, &name.container)) {
            outlines.push(outline);
            if outlines.len() >= NEWEST_TOKENS_MAX {
                break;
            }
        }
        if buffered.is_empty() {
            buffered = reader.list_newest(tenant, scan, &name, position).await?;
        }
        streams.extend(next_stream::<R>(name, buffered));
    }
    Ok(NewestTokens::Found(outlines))
}

/// Takes the next entry of a stream; `None` at the end of the stream.
fn next_stream<R: NewestTokensReader>(
    name: StreamName,
    mut buffered: VecDeque<R::Entry>,
) -> Option<EntryStream<R::Entry>> {
    let entry = buffered.pop_front()?;
    Some(EntryStream { position: R::position(&entry), name, entry, buffered })
}

impl IndexedOutline {
    /// Decodes five columns: id, containers, indexes, type and fingerprint.
    pub(crate) fn decode(row: &dyn ColumnReader, first_column: usize) -> Result<Self, StoreError> {
        let column = |offset: usize| first_column.saturating_add(offset);
        let decode = || {
            let outline = TokenOutline {
                id: read_required(row, column(0))?,
                containers: read_required(row, column(1))?,
            };
            Ok(Self {
                outline,
                indexes: read_required(row, column(2))?,
                token_type: read_required(row, column(3))?,
                fingerprint: read_optional(row, column(4))?,
            })
        };
        decode().map_err(|_: StoreError| NO_TOKEN)
    }

    /// Returns `None` for a token that is listed under another container or lacks a facet.
    fn filter(self, scan: &NewestTokensScan, container: &str) -> Option<TokenOutline> {
        let is_listed_here =
            scan.ranges.listed_container(&self.outline.containers)?.as_str() == container;
        let has_all_facets = scan.facets.iter().all(|it| self.has_facet(&it.facet()));
        (is_listed_here && has_all_facets).then_some(self.outline)
    }

    fn has_facet(&self, facet: &Facet) -> bool {
        match facet {
            Facet::Index(digest) => self.indexes.contains(digest),
            Facet::Type(token_type) => self.token_type == *token_type,
            Facet::Fingerprint(fingerprint) => self.fingerprint == Some(*fingerprint),
        }
    }
}
