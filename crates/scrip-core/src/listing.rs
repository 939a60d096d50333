//! What lists and searches ask of a store: where to look, what for, and from where on.

pub(crate) mod cursor;
pub mod cursor_page;
pub mod offset_page;
pub mod page;

pub use self::{
    cursor_page::{CursorPage, ListTokensQuery, TokenFilter},
    offset_page::OffsetPageQuery,
    page::{Page, PageRequest},
};

use scrip_seal::{Fingerprint, IndexDigest};

use crate::{
    id::TokenId,
    time::Timestamp,
    token::{Container, ContainerRanges, Containers, StoredToken, TokenRecord, TokenType},
};

/// By what a token can be asked for. Each of its record's is an entry of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Facet {
    Type(TokenType),
    Fingerprint(Fingerprint),
    Index(IndexDigest),
}

impl Facet {
    pub fn all_for_record(record: &TokenRecord) -> impl Iterator<Item = Self> {
        let by_type = Self::Type(record.token_type);
        let by_fingerprint = record.fingerprint.map(Self::Fingerprint);
        let by_index = record.indexes.iter().copied().map(Self::Index);
        std::iter::once(by_type).chain(by_fingerprint).chain(by_index)
    }

    #[must_use]
    pub fn matches(&self, record: &TokenRecord) -> bool {
        match self {
            Self::Type(token_type) => record.token_type == *token_type,
            Self::Fingerprint(fingerprint) => record.fingerprint == Some(*fingerprint),
            Self::Index(digest) => record.indexes.contains(digest),
        }
    }
}

/// Where a token stands in a list: by container, then by creation, both descending.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListPosition {
    pub container: Container,
    pub created_at: Timestamp,
    /// The engine's own number of the token: it tells apart what one instant made, and never
    /// changes while the token is there.
    pub row_number: i64,
}

/// A stretch ends early when its tokens are this large together.
pub const SCAN_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A stretch of a list.
#[derive(Debug, Clone)]
pub struct TokenScan {
    /// All tokens when there is none.
    pub facet: Option<Facet>,
    pub ranges: ContainerRanges,
    pub after: Option<ListPosition>,
    /// How many entries are looked at.
    pub entries_max: usize,
    pub now: Timestamp,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct ScannedTokens {
    /// The live ones.
    pub tokens: Vec<(ListPosition, StoredToken)>,
    /// The last entry that was looked at, when there may be more.
    pub resume_after: Option<ListPosition>,
}

/// What the pages with totals are made from: the newest tokens that have every one of the facets.
#[derive(Debug, Clone)]
pub struct NewestTokensScan {
    pub facets: Vec<Facet>,
    pub ranges: ContainerRanges,
    pub now: Timestamp,
}

/// Counting and skipping go through every token before the page, so there is an end to it.
pub const NEWEST_TOKENS_MAX: usize = 10_000;
/// Tokens that lack one of several facets are looked at and not counted; that ends, too.
pub const NEWEST_ENTRIES_MAX: usize = 3 * NEWEST_TOKENS_MAX;
/// Newest first means to look into every container at once.
pub const NEWEST_CONTAINERS_MAX: usize = 4096;

#[derive(Debug, PartialEq, Eq)]
pub enum NewestTokens {
    /// Newest first; [`SURVEY_TOKENS_MAX`] of them when there are more.
    Found(Vec<TokenOutline>),
    /// They lie in too many containers, or among too many others.
    TooManyToScan,
}

/// Enough of a live token to know whether it is the caller's to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenOutline {
    pub id: TokenId,
    pub containers: Containers,
}
