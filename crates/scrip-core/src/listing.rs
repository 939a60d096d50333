//! Lists and searches of tokens: scans, positions and results.

pub(crate) mod cursor;

pub use crate::token_batch::Facet;

use scrip_seal::{Fingerprint, IndexDigest, Sealed};

use crate::{
    Error, Timestamp,
    card::TokenType,
    equality::Comparison,
    policy::Tenant,
    token::StoredToken,
    types::{Container, ContainerRanges, Containers, id::TokenId},
};

/// The error of a search with an exhausted budget.
pub(crate) const SEARCHES_EXHAUSTED: Error = Error::BudgetExhausted {
    reason: "too many searches for values like this one; a key with a reveal right is not limited",
};

/// A facet by which a caller may search. The value of a search index is hidden data, so a search for
/// it needs a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchFacet(Facet);

impl SearchFacet {
    pub fn with_comparison(facet: Facet, _: Comparison) -> Self {
        Self(facet)
    }

    pub(crate) fn by_type(token_type: TokenType) -> Self {
        Self(Facet::Type(token_type))
    }

    /// A fingerprint is a keyed digest that a caller can only have got from the vault.
    pub(crate) fn by_fingerprint(fingerprint: Fingerprint) -> Self {
        Self(Facet::Fingerprint(fingerprint))
    }

    /// Metadata is not hidden from a caller that may search.
    pub(crate) fn by_metadata(tenant: &Tenant, name: &str, value: &str) -> Self {
        Self(Facet::Index(metadata_index_digest(tenant, name, value)))
    }

    pub(crate) fn by_data(tenant: &Tenant, value: &str, comparison: Comparison) -> Self {
        let digest = tenant.keys.index_digest(value.as_bytes());
        Self::with_comparison(Facet::Index(digest), comparison)
    }

    pub fn facet(self) -> Facet {
        self.0
    }
}

/// The position of a token in a list: by container, then by creation, both descending.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListPosition {
    pub container: Container,
    pub created_at: Timestamp,
    /// The row number of the engine. It distinguishes tokens that were created at the same time,
    /// and never changes.
    pub row_number: i64,
}

/// The maximum size of all tokens of one scan. The scan ends early when it is reached.
pub const SCAN_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A scan of a chunk of a list.
#[derive(Debug, Clone)]
pub struct TokenScan {
    /// `None` for all tokens.
    pub facet: Option<SearchFacet>,
    pub ranges: ContainerRanges,
    pub after: Option<ListPosition>,
    /// The maximum number of entries to scan.
    pub entries_max: usize,
    pub now: Timestamp,
}

/// The result of [`TokenScan`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ScannedTokens {
    /// Live tokens only.
    pub tokens: Vec<(ListPosition, StoredToken)>,
    /// The last scanned entry, if there may be more.
    pub resume_after: Option<ListPosition>,
}

/// The scan for pages with totals: the newest tokens that have all facets.
#[derive(Debug, Clone)]
pub struct NewestTokensScan {
    pub facets: Vec<SearchFacet>,
    pub ranges: ContainerRanges,
    pub now: Timestamp,
}

/// The maximum number of tokens in pages with totals, because counting and skipping scan every
/// token before the page.
pub const NEWEST_TOKENS_MAX: usize = 10_000;
/// The maximum number of scanned entries. Tokens without all facets are scanned but not counted.
pub const NEWEST_ENTRIES_MAX: usize = 3 * NEWEST_TOKENS_MAX;
/// The maximum number of containers. A list with the newest tokens first scans all of them
/// together.
pub const NEWEST_CONTAINERS_MAX: usize = 4096;

/// The result of [`NewestTokensScan`].
#[derive(Debug, PartialEq, Eq)]
pub enum NewestTokens {
    /// Newest first, at most [`NEWEST_TOKENS_MAX`].
    Found(Vec<TokenOutline>),
    /// The tokens are in too many containers, or among too many other tokens.
    TooManyToScan,
}

/// The properties of a live token that decide whether the caller may count it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenOutline {
    pub id: TokenId,
    pub containers: Containers,
}

pub(crate) fn metadata_index_digest(tenant: &Tenant, name: &str, value: &str) -> IndexDigest {
    let (name, value) = (name.to_lowercase(), value.to_lowercase());
    tenant.keys.metadata_index_digest(name.as_bytes(), value.as_bytes())
}

/// The number and size of a requested page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest {
    /// The first page is 1.
    pub number: usize,
    pub size: usize,
}

pub const PAGE_SIZE_DEFAULT: usize = 20;
pub const PAGE_SIZE_MAX: usize = 100;

impl Default for PageRequest {
    fn default() -> Self {
        Self { number: 1, size: PAGE_SIZE_DEFAULT }
    }
}

/// A page of a list, and the number of all items.
#[derive(Debug, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub request: PageRequest,
    pub total: usize,
}

/// The start and size of a requested page of a list with a cursor.
#[derive(Debug)]
pub struct CursorRequest {
    pub start: Option<Sealed>,
    pub size: usize,
}

/// A page of a list with a cursor.
#[derive(Debug)]
pub struct CursorPage<T> {
    pub items: Vec<T>,
    pub size: usize,
    /// `None` on the last page.
    pub next: Option<Sealed>,
}

impl<T: Clone> Page<T> {
    /// Takes the requested page out of all items.
    pub fn from_all(items: &[&T], request: PageRequest) -> Self {
        let offset = request.number.saturating_sub(1).saturating_mul(request.size);
        let page = items.iter().skip(offset).take(request.size).copied().cloned().collect();
        Self { items: page, request, total: items.len() }
    }
}

impl<T> Page<T> {
    pub fn total_pages(&self) -> usize {
        self.total.div_ceil(self.request.size.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(number: usize, size: usize, expected: &[u8], total_pages: usize) {
        let items = [1, 2, 3, 4, 5];
        let page = Page::from_all(&items.iter().collect::<Vec<_>>(), PageRequest { number, size });
        assert_eq!(page.items, expected, "page {number} of size {size}");
        assert_eq!((page.total, page.total_pages()), (5, total_pages));
    }

    #[test]
    fn page_contains_its_items_and_the_number_of_all_pages() {
        check(1, 2, &[1, 2], 3);
        check(3, 2, &[5], 3);
        check(4, 2, &[], 3);
        check(1, 100, &[1, 2, 3, 4, 5], 1);
        check(usize::MAX, usize::MAX, &[], 1);
    }
}
