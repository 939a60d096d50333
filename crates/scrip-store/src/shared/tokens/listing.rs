//! Lists: stretches of the entries of one facet, or of every type side by side.

use scrip_core::{
    id::TenantId,
    listing::{Facet, ListPosition, SCAN_BYTES_MAX, ScannedTokens, TokenScan},
    store::StoreError,
    token::{ContainerRange, StoredToken},
};

pub(crate) const INDEX_MISMATCH: StoreError =
    StoreError::Corrupt("a token is filed under what it is not");

/// How an engine reads the entries of lists. Its statements see one instant.
pub(crate) trait TokenScanReader {
    /// An entry that leads to a token.
    type Entry;

    fn position(entry: &Self::Entry) -> &ListPosition;

    /// The first entries behind a place in a span, so many at most, in the order of lists.
    async fn list_chunk(
        &self,
        tenant: TenantId,
        scan: &TokenScan,
        request: &ChunkRequest<'_>,
    ) -> Result<Vec<Self::Entry>, StoreError>;

    /// The live token that an entry leads to, and the facet under which it is filed.
    async fn find_token(
        &self,
        tenant: TenantId,
        scan: &TokenScan,
        entry: Self::Entry,
    ) -> Result<Option<IndexedToken>, StoreError>;
}

/// A token that an entry led to. An entry stands in clear and is bound to nothing; the row that it
/// leads to is.
pub(crate) struct IndexedToken {
    pub(crate) position: ListPosition,
    /// Nothing where the entry has none of those that were asked for.
    pub(crate) facet: Option<Facet>,
    pub(crate) token: StoredToken,
}

/// Where entries begin, and how many are wanted.
pub(crate) struct ChunkRequest<'a> {
    pub(crate) from: &'a str,
    pub(crate) container: &'a str,
    pub(crate) created_at: i64,
    pub(crate) number: i64,
    pub(crate) entries_max: usize,
}

impl<'a> ChunkRequest<'a> {
    /// From the beginning of a span, or behind the position if that lies in it.
    fn new(span: &'a ContainerRange, scan: &'a TokenScan, entries_max: usize) -> Self {
        let after = scan.after.as_ref().filter(|it| it.container.as_str() < span.to());
        let (container, created_at, number) = match after {
            None => (span.to(), i64::MIN, i64::MIN),
            Some(it) => (it.container.as_str(), it.created_at.unix_ms, it.row_number),
        };
        Self { from: span.from(), container, created_at, number, entries_max }
    }
}

pub(crate) async fn scan_tokens<R: TokenScanReader>(
    reader: &R,
    tenant: TenantId,
    scan: &TokenScan,
) -> Result<ScannedTokens, StoreError> {
    let mut listing = ScannedTokens::default();
    let (mut left, mut bytes) = (scan.entries_max, 0_usize);
    for span in scan.ranges.iter() {
        let entries = reader.list_chunk(tenant, scan, &ChunkRequest::new(span, scan, left)).await?;
        left = left.saturating_sub(entries.len());
        let last = entries.last().map(|it| R::position(it).clone());
        for entry in entries {
            let Some(found) = reader.find_token(tenant, scan, entry).await? else { continue };
            check_entry(&found)?;
            let IndexedToken { position, token, .. } = found;
            bytes = bytes.saturating_add(token.record.body.as_bytes().len());
            let rest = (bytes > SCAN_BYTES_MAX).then(|| position.clone());
            // In several containers, and shown under one of them.
            if scan.ranges.listed_container(&token.record.containers) == Some(&position.container) {
                listing.tokens.push((position, token));
            }
            if rest.is_some() {
                listing.resume_after = rest;
                return Ok(listing);
            }
        }
        if left == 0 {
            listing.resume_after = last;
            return Ok(listing);
        }
    }
    Ok(listing)
}

fn check_entry(IndexedToken { position, facet, token }: &IndexedToken) -> Result<(), StoreError> {
    let record = &token.record;
    let is_filed = facet.is_some_and(|it| it.matches(record))
        && record.created_at == position.created_at
        && record.containers.iter().any(|it| *it == position.container);
    if is_filed { Ok(()) } else { Err(INDEX_MISMATCH) }
}
