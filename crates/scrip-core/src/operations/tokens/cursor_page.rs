//! A page of a list with a cursor: filled with tokens that the caller may see, with a bounded scan.

use scrip_expression::padded_size;
use scrip_seal::{Fingerprint, Place, Sealed};

use crate::{
    Error, Timestamp, Vault,
    card::TokenType,
    equality::Comparable,
    listing::{CursorPage, ListPosition, SEARCHES_EXHAUSTED, SearchFacet, TokenScan, cursor},
    policy::{Caller, Permit},
    read_log::ReadLogEntry,
    reveal::{Audience, build_view},
    token::{StoredToken, TokenBody, TokenView},
    types::{Container, ContainerRanges, Operation, Permission, Transform},
    work_meter::yield_now,
};

/// The tokens to list, and the page.
#[derive(Debug)]
pub struct ListTokensQuery {
    /// Only tokens in this container or below it.
    pub container: Option<Container>,
    pub filter: TokenFilter,
    pub start: Option<Sealed>,
    pub size: usize,
}

/// A filter of tokens.
#[derive(Debug)]
pub enum TokenFilter {
    All,
    Type(TokenType),
    /// `None` for a text that is not a fingerprint and therefore matches no token.
    Fingerprint(Option<Fingerprint>),
    /// One of the values of the search indexes.
    Data(String),
    Metadata {
        name: String,
        value: String,
    },
}

/// The maximum number of entries scanned for one page. After that, the page ends early: a caller
/// that may see one in a thousand tokens of its containers gets some pages that are not full.
const ENTRIES_MAX: usize = 10_000;
const ENTRIES_PER_SCAN_MAX: usize = 1000;

impl TokenFilter {
    /// Counts the value of a search index before the search.
    async fn facet(
        &self,
        vault: &Vault,
        caller: &Caller,
        is_first_page: bool,
    ) -> Result<Option<SearchFacet>, Error> {
        let tenant = caller.tenant();
        Ok(match self {
            Self::All => None,
            Self::Type(token_type) => Some(SearchFacet::by_type(*token_type)),
            Self::Fingerprint(fingerprint) => fingerprint.map(SearchFacet::by_fingerprint),
            Self::Data(value) => {
                let term = Comparable::SearchTerm(value);
                let term = if is_first_page { term } else { Comparable::NextPage };
                let comparison = vault.may_compare(caller, term).await?;
                let comparison = comparison.ok_or(SEARCHES_EXHAUSTED)?;
                Some(SearchFacet::by_data(tenant, value, comparison))
            }
            Self::Metadata { name, value } => Some(SearchFacet::by_metadata(tenant, name, value)),
        })
    }

    /// Compares metadata with regard to case, because the index ignores case.
    fn matches(&self, body: &TokenBody) -> bool {
        match self {
            Self::Metadata { name, value } => {
                body.metadata.as_ref().and_then(|it| it.get(name)) == Some(value)
            }
            Self::All | Self::Type(_) | Self::Fingerprint(_) | Self::Data(_) => true,
        }
    }

    fn add_to_place(&self, place: Place) -> Place {
        match self {
            Self::All => place.text("all"),
            Self::Type(token_type) => place.text("type").text(token_type.as_str()),
            Self::Fingerprint(fingerprint) => place
                .text("fingerprint")
                .optional_bytes(fingerprint.map(|it| it.0).as_ref().map(<[u8; 32]>::as_slice)),
            Self::Data(value) => place.text("data").text(value),
            Self::Metadata { name, value } => place.text("metadata").text(name).text(value),
        }
    }
}

impl ListTokensQuery {
    fn place(&self, permission: Permission) -> Place {
        let container = self.container.as_ref().map(|it| it.as_str().as_bytes());
        let place = Place::new("cursor").text(permission.as_str()).optional_bytes(container);
        self.filter.add_to_place(place)
    }
}

/// Fills a page and records the read.
/// Errors: no rule allows the caller to list the container, the cursor belongs to another query, or
/// the read cannot be recorded.
pub(crate) async fn load_cursor_page(
    vault: &Vault,
    caller: &Caller,
    operation: Operation,
    permission: Permission,
    query: ListTokensQuery,
) -> Result<CursorPage<TokenView>, Error> {
    let ranges = caller.container_ranges(permission, query.container.as_ref())?;
    let sealed_start = query.start.as_ref();
    let start = sealed_start
        .map(|it| cursor::open_position(caller, query.place(permission), it))
        .transpose()?;
    let mut builder = PageBuilder {
        vault,
        caller,
        permission,
        filter: &query.filter,
        page: Vec::new(),
        size: query.size,
        budget: PageBudget::new(),
        last_shown: None,
        last_scanned: None,
    };
    let next_position = match query.filter {
        TokenFilter::Fingerprint(None) => None,
        TokenFilter::All
        | TokenFilter::Type(_)
        | TokenFilter::Fingerprint(Some(_))
        | TokenFilter::Data(_)
        | TokenFilter::Metadata { .. } => {
            let facet = query.filter.facet(vault, caller, start.is_none()).await?;
            builder.fill(facet, ranges, start).await?
        }
    };
    let next = next_position.map(|it| cursor::seal_position(caller, query.place(permission), &it));
    let tokens = builder.page;
    let container = query.container.as_ref().map_or("", Container::as_str);
    let entries = vec![ReadLogEntry::for_token_list(container, &tokens)];
    let shown = tokens.iter().map(|it| (&it.id, it.token_type));
    vault.record_token_reads(caller, operation, entries, shown).await?;
    Ok(CursorPage { items: tokens, size: query.size, next })
}

/// A page that is being filled.
struct PageBuilder<'a> {
    vault: &'a Vault,
    caller: &'a Caller,
    permission: Permission,
    filter: &'a TokenFilter,
    page: Vec<TokenView>,
    size: usize,
    budget: PageBudget,
    /// The position of the last token of the page.
    last_shown: Option<ListPosition>,
    /// The position of the last token that was opened or is hidden from the caller.
    last_scanned: Option<ListPosition>,
}

impl PageBuilder<'_> {
    /// Returns the start of the next page; `None` when there is none.
    async fn fill(
        &mut self,
        facet: Option<SearchFacet>,
        ranges: ContainerRanges,
        mut after: Option<ListPosition>,
    ) -> Result<Option<ListPosition>, Error> {
        let now = self.vault.clock.latest();
        // Read one entry more than the page size, to know whether there is a next page.
        let mut scan_entries = self.size.saturating_add(1);
        let mut entries_remaining = ENTRIES_MAX;
        while entries_remaining > 0 {
            let entries_max = scan_entries.min(entries_remaining);
            let scan = TokenScan { facet, ranges: ranges.clone(), after, entries_max, now };
            let lookup = self.caller.permit_lookup(self.permission)?;
            let scanned = self.vault.store.scan_tokens(lookup, scan).await?;
            for (position, mut stored) in scanned.tokens {
                if self.budget.is_exhausted() {
                    return Ok(self.last_scanned.take());
                }
                // Opening a large row takes milliseconds: yield to other requests after each.
                yield_now().await;
                let Ok(permit) = self.caller.permit(self.permission, &stored.record) else {
                    self.last_scanned = Some(position);
                    continue;
                };
                stored.resolve_cvc(&self.vault.epoch_keys, permit.transform(), now).await?;
                match self.open_row(&permit, &stored, now)? {
                    OpenedRow::NoMatch => (),
                    OpenedRow::BeyondPage => return Ok(self.last_shown.take()),
                    OpenedRow::Shown(view) => {
                        self.page.push(*view);
                        self.last_shown = Some(position.clone());
                    }
                }
                self.last_scanned = Some(position);
            }
            let Some(resume_after) = scanned.resume_after else { return Ok(None) };
            after = Some(resume_after);
            entries_remaining = entries_remaining.saturating_sub(entries_max);
            scan_entries = scan_entries.saturating_mul(4).min(ENTRIES_PER_SCAN_MAX);
        }
        Ok(after)
    }

    /// Decrypts a token and builds its view, if it matches the filter and the page is not full. Large
    /// tokens are opened outside of the async workers.
    fn open_row(
        &mut self,
        permit: &Permit,
        stored: &StoredToken,
        now: Timestamp,
    ) -> Result<OpenedRow, Error> {
        let (caller, work) = (self.caller, self.caller.work());
        let work_before = work.spent();
        let (filter, is_full) = (self.filter, self.page.len() >= self.size);
        let audience = Audience::Caller { vault: self.vault, now };
        let budget = &mut self.budget;
        let use_body = |body: TokenBody| {
            budget.charge_row(permit, stored, &body);
            match filter.matches(&body) {
                false => Ok(OpenedRow::NoMatch),
                true if is_full => Ok(OpenedRow::BeyondPage),
                true => {
                    build_view(permit, stored, body, audience).map(Box::new).map(OpenedRow::Shown)
                }
            }
        };
        let opened = TokenBody::open_in_step(work, caller.tenant(), &stored.record, use_body);
        self.budget.charge_work(permit, work.spent().saturating_sub(work_before));
        opened
    }
}

/// A row that the caller may see.
enum OpenedRow {
    NoMatch,
    /// The page is full, and this is the first token of the next one.
    BeyondPage,
    Shown(Box<TokenView>),
}

/// The limits of one page: a hundred large tokens, or a hundred long masks, take several pages.
/// Each opened row counts, even if it does not match. A row that the caller may not read in clear
/// counts by a padded size: otherwise the end of the page would disclose the length of its data.
pub(crate) struct PageBudget {
    bytes_remaining: usize,
    work_remaining: usize,
}

const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// After this, one more mask of the maximum cost fits into the budget of the request.
const PAGE_WORK_MAX: usize = 5 * 1024 * 1024;

impl PageBudget {
    pub(crate) fn new() -> Self {
        Self { bytes_remaining: PAGE_BYTES_MAX, work_remaining: PAGE_WORK_MAX }
    }

    pub(crate) fn charge_row(&mut self, permit: &Permit, stored: &StoredToken, body: &TokenBody) {
        let bytes = match counted_transform(permit) {
            Transform::Reveal => stored.record.body.as_bytes().len(),
            Transform::Mask | Transform::Redact => body.padded_size(),
        };
        self.bytes_remaining = self.bytes_remaining.saturating_sub(bytes);
    }

    /// Charges the work of the mask of one row.
    pub(crate) fn charge_work(&mut self, permit: &Permit, work: usize) {
        let work = count_work(counted_transform(permit), work);
        self.work_remaining = self.work_remaining.saturating_sub(work);
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.bytes_remaining == 0 || self.work_remaining == 0
    }
}

/// A browser with a reveal right does not read everything: what was typed later is withheld from it.
fn counted_transform(permit: &Permit) -> Transform {
    let transform = permit.transform();
    if permit.caller().is_browser() { transform.min(Transform::Mask) } else { transform }
}

fn count_work(transform: Transform, work: usize) -> usize {
    match transform {
        Transform::Reveal => work,
        Transform::Mask | Transform::Redact => padded_size(work),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_of_a_row_that_the_caller_may_not_read_counts_by_padded_work() {
        for transform in [Transform::Mask, Transform::Redact] {
            assert_eq!(count_work(transform, 300), count_work(transform, 500));
            assert_eq!(count_work(transform, 300_000), count_work(transform, 500_000));
        }
        assert_eq!(count_work(Transform::Reveal, 300), 300);
    }
}
