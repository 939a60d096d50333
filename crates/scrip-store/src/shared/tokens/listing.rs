//! Token lists: merges chunks of the index entries of one facet, or of all token types.

use scrip_core::{
    listing::{Facet, ListPosition, SCAN_BYTES_MAX, ScannedTokens, TokenScan},
    token::StoredToken,
    types::{ContainerRange, StoreError, id::TenantId},
};

pub(crate) const INDEX_MISMATCH: StoreError =
    StoreError::Corrupt("an index entry does not match its token");

/// Reads index entries for lists. All statements read one snapshot.
pub(crate) trait TokenScanReader {
    /// An index entry that points to a token.
    type Entry;

    fn position(entry: &Self::Entry) -> &ListPosition;

    /// Lists the first entries after a position in a container range, with a limit, in list order.
    async fn list_chunk(
        &self,
        tenant: TenantId,
        scan: &TokenScan,
        request: &ChunkRequest<'_>,
    ) -> Result<Vec<Self::Entry>, StoreError>;

    /// Finds the live token of an entry, and the facet of the entry.
    async fn find_token(
        &self,
        tenant: TenantId,
        scan: &TokenScan,
        entry: Self::Entry,
    ) -> Result<Option<IndexedToken>, StoreError>;
}

/// A token that was found through an index entry. Entries are not authenticated; the token's row
/// is.
pub(crate) struct IndexedToken {
    pub(crate) position: ListPosition,
    /// `None` if the entry has none of the requested facets.
    pub(crate) facet: Option<Facet>,
    pub(crate) token: StoredToken,
}

/// The start and the maximum number of entries of a chunk.
pub(crate) struct ChunkRequest<'a> {
    pub(crate) from: &'a str,
    pub(crate) container: &'a str,
    pub(crate) created_at: i64,
    pub(crate) number: i64,
    pub(crate) entries_max: usize,
}

impl<'a> ChunkRequest<'a> {
    /// Starts at the beginning of a range, or after the position if it is inside the range.
    fn new(range: &'a ContainerRange, scan: &'a TokenScan, entries_max: usize) -> Self {
        let position = scan.after.as_ref().filter(|it| it.container.as_str() < range.to());
        let (container, created_at, number) = match position {
            None => (range.to(), i64::MIN, i64::MIN),
            Some(it) => (it.container.as_str(), it.created_at.unix_ms, it.row_number),
        };
        Self { from: range.from(), container, created_at, number, entries_max }
    }
}

pub(crate) async fn scan_tokens<R: TokenScanReader>(
    reader: &R,
    tenant: TenantId,
    scan: &TokenScan,
) -> Result<ScannedTokens, StoreError> {
    let mut listing = ScannedTokens::default();
    let (mut remaining_entries, mut bytes) = (scan.entries_max, 0_usize);
    for range in scan.ranges.iter() {
        let entries = reader
            .list_chunk(tenant, scan, &ChunkRequest::new(range, scan, remaining_entries))
            .await?;
        remaining_entries = remaining_entries.saturating_sub(entries.len());
        let last_position = entries.last().map(|it| R::position(it).clone());
        for entry in entries {
            let Some(found) = reader.find_token(tenant, scan, entry).await? else { continue };
            check_entry(&found)?;
            let IndexedToken { position, token, .. } = found;
            bytes = bytes.saturating_add(token.record.body.as_bytes().len());
            let resume_after = (bytes > SCAN_BYTES_MAX).then(|| position.clone());
            // A token in several containers is listed under only one of them.
            if scan.ranges.listed_container(&token.record.containers) == Some(&position.container) {
                listing.tokens.push((position, token));
            }
            if resume_after.is_some() {
                listing.resume_after = resume_after;
                return Ok(listing);
            }
        }
        if remaining_entries == 0 {
            listing.resume_after = last_position;
            return Ok(listing);
        }
    }
    Ok(listing)
}

fn check_entry(IndexedToken { position, facet, token }: &IndexedToken) -> Result<(), StoreError> {
    let record = &token.record;
    let is_consistent = facet.is_some_and(|it| it.matches(record))
        && record.created_at == position.created_at
        && record.containers.iter().any(|it| *it == position.container);
    if is_consistent { Ok(()) } else { Err(INDEX_MISMATCH) }
}
