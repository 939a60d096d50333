//! Lists: stretches of the entries of one facet, or of every type side by side.

use scrip_core::{
    id::TenantId,
    listing::{Facet, ListTokens, Listing, Position, STRETCH_BYTES_MAX},
    store::StoreError,
    token::{Span, StoredToken},
};

pub(crate) const MISFILED: StoreError =
    StoreError::Corrupt("a token is filed under what it is not");

/// How an engine reads the entries of lists. Its statements see one instant.
pub(crate) trait ListingReader {
    /// An entry that leads to a token.
    type Entry;

    fn position(entry: &Self::Entry) -> &Position;

    /// The first entries behind a place in a span, so many at most, in the order of lists.
    async fn stretch(
        &self,
        tenant: TenantId,
        list: &ListTokens,
        from: &Stretch<'_>,
    ) -> Result<Vec<Self::Entry>, StoreError>;

    /// The live token that an entry leads to, and the facet under which it is filed.
    async fn token(
        &self,
        tenant: TenantId,
        list: &ListTokens,
        entry: Self::Entry,
    ) -> Result<Option<FiledToken>, StoreError>;
}

/// A token that an entry led to. An entry stands in clear and is bound to nothing; the row that it
/// leads to is.
pub(crate) struct FiledToken {
    pub(crate) position: Position,
    /// Nothing where the entry has none of those that were asked for.
    pub(crate) facet: Option<Facet>,
    pub(crate) token: StoredToken,
}

/// Where entries begin, and how many are wanted.
pub(crate) struct Stretch<'a> {
    pub(crate) from: &'a str,
    pub(crate) container: &'a str,
    pub(crate) created_at: i64,
    pub(crate) number: i64,
    pub(crate) most: usize,
}

impl<'a> Stretch<'a> {
    /// From the beginning of a span, or behind the position if that lies in it.
    fn new(span: &'a Span, list: &'a ListTokens, most: usize) -> Self {
        let after = list.after.as_ref().filter(|it| it.container.as_str() < span.to());
        let (container, created_at, number) = match after {
            None => (span.to(), i64::MIN, i64::MIN),
            Some(it) => (it.container.as_str(), it.created_at.unix_ms, it.number),
        };
        Self { from: span.from(), container, created_at, number, most }
    }
}

pub(crate) async fn list_tokens<R: ListingReader>(
    reader: &R,
    tenant: TenantId,
    list: &ListTokens,
) -> Result<Listing, StoreError> {
    let mut listing = Listing::default();
    let (mut left, mut bytes) = (list.entries_max, 0_usize);
    for span in list.spans.iter() {
        let entries = reader.stretch(tenant, list, &Stretch::new(span, list, left)).await?;
        left = left.saturating_sub(entries.len());
        let last = entries.last().map(|it| R::position(it).clone());
        for entry in entries {
            let Some(found) = reader.token(tenant, list, entry).await? else { continue };
            check(&found)?;
            let FiledToken { position, token, .. } = found;
            bytes = bytes.saturating_add(token.record.body.as_bytes().len());
            let rest = (bytes > STRETCH_BYTES_MAX).then(|| position.clone());
            // In several containers, and shown under one of them.
            if list.spans.place(&token.record.containers) == Some(&position.container) {
                listing.tokens.push((position, token));
            }
            if rest.is_some() {
                listing.rest = rest;
                return Ok(listing);
            }
        }
        if left == 0 {
            listing.rest = last;
            return Ok(listing);
        }
    }
    Ok(listing)
}

fn check(FiledToken { position, facet, token }: &FiledToken) -> Result<(), StoreError> {
    let record = &token.record;
    let is_filed = facet.is_some_and(|it| it.is_of(record))
        && record.created_at == position.created_at
        && record.containers.iter().any(|it| *it == position.container);
    if is_filed { Ok(()) } else { Err(MISFILED) }
}
