//! A page of a list that goes on at a cursor: filled with what the caller may see, and bounded in
//! what it looks at.

use scrip_seal::{Fingerprint, Place, Sealed};

use crate::{
    Error, Vault,
    audit::{Operation, ReadLogEntry},
    listing::{Facet, ListPosition, TokenScan, cursor},
    operations::yield_now,
    policy::{Caller, Permission, Permit, Tenant},
    token::{
        Container, ContainerRanges, StoredToken, TokenBody, TokenType, TokenView,
        expression::evaluation::metadata_index_digest,
        reveal::{Audience, build_view},
    },
};

/// Which tokens are asked for, and which page of them.
#[derive(Debug)]
pub struct ListTokensQuery {
    /// In this one or beneath it.
    pub container: Option<Container>,
    pub filter: TokenFilter,
    pub start: Option<Sealed>,
    pub size: usize,
}

#[derive(Debug)]
pub enum TokenFilter {
    All,
    Type(TokenType),
    /// Nothing for a text that is no fingerprint, and so no token's.
    Fingerprint(Option<Fingerprint>),
    /// One of the values of its search indexes.
    Data(String),
    Metadata {
        name: String,
        value: String,
    },
}

#[derive(Debug)]
pub struct CursorPage {
    pub tokens: Vec<TokenView>,
    pub size: usize,
    /// Nothing on the last page.
    pub next: Option<Sealed>,
}

/// Rows that are looked at for one page. Past them the page ends early: who may see one in a
/// thousand of the tokens in its own containers turns some pages that are not full.
const ENTRIES_MAX: usize = 10_000;
const ENTRIES_PER_SCAN_MAX: usize = 1000;

impl TokenFilter {
    fn facet(&self, tenant: &Tenant) -> Option<Facet> {
        match self {
            Self::All => None,
            Self::Type(token_type) => Some(Facet::Type(*token_type)),
            Self::Fingerprint(fingerprint) => fingerprint.map(Facet::Fingerprint),
            Self::Data(value) => Some(Facet::Index(tenant.keys.index_digest(value.as_bytes()))),
            Self::Metadata { name, value } => {
                Some(Facet::Index(metadata_index_digest(tenant, name, value)))
            }
        }
    }

    /// What the index does not tell: it knows no case.
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

/// # Errors
/// No rule lets the caller look there, the cursor belongs to another question, or the read cannot be
/// recorded.
pub(crate) async fn load_cursor_page(
    vault: &Vault,
    caller: &Caller,
    operation: Operation,
    permission: Permission,
    query: ListTokensQuery,
) -> Result<CursorPage, Error> {
    let spans = caller.container_ranges(permission, query.container.as_ref())?;
    let start = query.start.as_ref();
    let start =
        start.map(|it| cursor::open_position(caller, query.place(permission), it)).transpose()?;
    let mut filling = PageBuilder {
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
    let rest = match query.filter {
        TokenFilter::Fingerprint(None) => None,
        TokenFilter::All
        | TokenFilter::Type(_)
        | TokenFilter::Fingerprint(Some(_))
        | TokenFilter::Data(_)
        | TokenFilter::Metadata { .. } => filling.fill(spans, start).await?,
    };
    let next = rest.map(|it| cursor::seal_position(caller, query.place(permission), &it));
    let tokens = filling.page;
    let container = query.container.as_ref().map_or("", Container::as_str);
    vault
        .record_reads(caller, operation, vec![ReadLogEntry::for_token_list(container, &tokens)])
        .await?;
    Ok(CursorPage { tokens, size: query.size, next })
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
    /// Where the last token of the page stands.
    last_shown: Option<ListPosition>,
    /// Where the last token stands that was opened or is hidden from the caller.
    last_scanned: Option<ListPosition>,
}

impl PageBuilder<'_> {
    /// Where the next page begins; nothing when there is none.
    async fn fill(
        &mut self,
        spans: ContainerRanges,
        mut after: Option<ListPosition>,
    ) -> Result<Option<ListPosition>, Error> {
        let now = self.vault.clock.latest();
        let facet = self.filter.facet(self.caller.tenant());
        // One more than the page has: whether there is a next one is part of the answer.
        let mut at_once = self.size.saturating_add(1);
        let mut left = ENTRIES_MAX;
        while left > 0 {
            let entries_max = at_once.min(left);
            let list = TokenScan { facet, ranges: spans.clone(), after, entries_max, now };
            let lookup = self.caller.permit_lookup(self.permission)?;
            let listing = self.vault.store.scan_tokens(lookup, list).await?;
            for (position, mut stored) in listing.tokens {
                if self.budget.is_exhausted(self.caller) {
                    return Ok(self.last_scanned.take());
                }
                // To open a large row takes milliseconds: other requests go on after each.
                yield_now().await;
                let Some((permit, body)) = self.open_visible(&stored)? else {
                    self.last_scanned = Some(position);
                    continue;
                };
                if self.page.len() >= self.size {
                    return Ok(self.last_shown.take());
                }
                stored.resolve_cvc(&self.vault.epoch_keys, permit.transform(), now).await?;
                let audience = Audience::Caller { vault: self.vault, now };
                let view = build_view(&permit, &stored, body, audience)?;
                self.page.push(view);
                self.last_shown = Some(position.clone());
                self.last_scanned = Some(position);
            }
            let Some(rest) = listing.resume_after else { return Ok(None) };
            after = Some(rest);
            left = left.saturating_sub(entries_max);
            at_once = at_once.saturating_mul(4).min(ENTRIES_PER_SCAN_MAX);
        }
        Ok(after)
    }

    /// The token, opened, when it is one of those that were asked for and the caller's to see.
    fn open_visible(&mut self, stored: &StoredToken) -> Result<Option<(Permit, TokenBody)>, Error> {
        let Ok(permit) = self.caller.permit(self.permission, &stored.record) else {
            return Ok(None);
        };
        self.budget.charge(stored);
        let body = TokenBody::open(self.caller.tenant(), &stored.record)?;
        Ok(self.filter.matches(&body).then_some((permit, body)))
    }
}

/// What one page may take: a hundred large tokens, or a hundred long masks, are several pages. Each
/// row that is opened counts, also one that turns out not to be asked for.
pub(crate) struct PageBudget {
    bytes_left: usize,
}

const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// One more mask, the most expensive that is accepted, fits into the rest of the request's budget.
const PAGE_WORK_MAX: usize = 5 * 1024 * 1024;

impl PageBudget {
    pub(crate) fn new() -> Self {
        Self { bytes_left: PAGE_BYTES_MAX }
    }

    pub(crate) fn charge(&mut self, stored: &StoredToken) {
        let bytes = stored.record.body.as_bytes().len();
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
    }

    pub(crate) fn is_exhausted(&self, caller: &Caller) -> bool {
        self.bytes_left == 0 || caller.work().spent() >= PAGE_WORK_MAX
    }
}
