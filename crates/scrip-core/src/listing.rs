//! Lists and searches of tokens: scans, positions and results.

pub(crate) mod cursor;
pub mod page;

pub use self::page::{CursorPage, CursorRequest, Page, PageRequest};

use scrip_seal::{Fingerprint, IndexDigest};

use crate::{
    Error, Timestamp,
    card::TokenType,
    equality::Comparison,
    policy::Tenant,
    token::{StoredToken, TokenRecord},
    types::{Container, ContainerRanges, Containers, id::TokenId},
};

/// The error of a search with an exhausted budget.
pub(crate) const SEARCHES_EXHAUSTED: Error = Error::BudgetExhausted {
    reason: "too many searches for values like this one; a key with a reveal right is not limited",
};

/// A property by which tokens can be searched. Each facet of a record is an entry of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Facet {
    Type(TokenType),
    Fingerprint(Fingerprint),
    Index(IndexDigest),
}

impl Facet {
    /// All facets of a record.
    pub fn all_for_record(record: &TokenRecord) -> impl Iterator<Item = Self> {
        let type_facet = Self::Type(record.token_type);
        let fingerprint_facet = record.fingerprint.map(Self::Fingerprint);
        let index_facets = record.indexes.iter().copied().map(Self::Index);
        std::iter::once(type_facet).chain(fingerprint_facet).chain(index_facets)
    }

    pub fn matches(&self, record: &TokenRecord) -> bool {
        match self {
            Self::Type(token_type) => record.token_type == *token_type,
            Self::Fingerprint(fingerprint) => record.fingerprint == Some(*fingerprint),
            Self::Index(digest) => record.indexes.contains(digest),
        }
    }
}

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
