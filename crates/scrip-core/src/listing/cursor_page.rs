//! A page of a list that goes on at a cursor: filled with what the caller may see, and bounded in
//! what it looks at.

use scrip_seal::{Fingerprint, Place, Sealed};

use crate::{
    Error, Vault,
    audit::{Operation, Seen},
    listing::{Facet, ListTokens, Position, cursor},
    operations::give_way,
    policy::{Caller, Permission, Permit, Tenant},
    token::{
        Body, Container, Spans, StoredToken, TokenType, TokenView,
        expression::evaluation::metadata_index,
        reveal::{Audience, show},
    },
};

/// Which tokens are asked for, and which page of them.
#[derive(Debug)]
pub struct TokensAsked {
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
const ENTRIES_AT_ONCE_MAX: usize = 1000;

impl TokenFilter {
    fn facet(&self, tenant: &Tenant) -> Option<Facet> {
        match self {
            Self::All => None,
            Self::Type(token_type) => Some(Facet::Type(*token_type)),
            Self::Fingerprint(fingerprint) => fingerprint.map(Facet::Fingerprint),
            Self::Data(value) => Some(Facet::Index(tenant.keys.index(value.as_bytes()))),
            Self::Metadata { name, value } => {
                Some(Facet::Index(metadata_index(tenant, name, value)))
            }
        }
    }

    /// What the index does not tell: it knows no case.
    fn is_met(&self, body: &Body) -> bool {
        match self {
            Self::Metadata { name, value } => {
                body.metadata.as_ref().and_then(|it| it.get(name)) == Some(value)
            }
            Self::All | Self::Type(_) | Self::Fingerprint(_) | Self::Data(_) => true,
        }
    }

    fn write(&self, place: Place) -> Place {
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

impl TokensAsked {
    fn place(&self, permission: Permission) -> Place {
        let container = self.container.as_ref().map(|it| it.as_str().as_bytes());
        let place = Place::new("cursor").text(permission.as_str()).optional_bytes(container);
        self.filter.write(place)
    }
}

/// # Errors
/// No rule lets the caller look there, the cursor belongs to another question, or the read cannot be
/// recorded.
pub(crate) async fn turn_page(
    vault: &Vault,
    caller: &Caller,
    operation: Operation,
    permission: Permission,
    asked: TokensAsked,
) -> Result<CursorPage, Error> {
    let spans = caller.spans(permission, asked.container.as_ref())?;
    let start = asked.start.as_ref();
    let start = start.map(|it| cursor::open(caller, asked.place(permission), it)).transpose()?;
    let mut filling = Filling {
        vault,
        caller,
        permission,
        filter: &asked.filter,
        page: Vec::new(),
        size: asked.size,
        room: Room::new(),
        last: None,
        passed: None,
    };
    let rest = match asked.filter {
        TokenFilter::Fingerprint(None) => None,
        TokenFilter::All
        | TokenFilter::Type(_)
        | TokenFilter::Fingerprint(Some(_))
        | TokenFilter::Data(_)
        | TokenFilter::Metadata { .. } => filling.fill(spans, start).await?,
    };
    let next = rest.map(|it| cursor::seal(caller, asked.place(permission), &it));
    let tokens = filling.page;
    let container = asked.container.as_ref().map_or("", Container::as_str);
    vault.record_seen(caller, operation, vec![Seen::list(container, &tokens)]).await?;
    Ok(CursorPage { tokens, size: asked.size, next })
}

/// A page that is being filled.
struct Filling<'a> {
    vault: &'a Vault,
    caller: &'a Caller,
    permission: Permission,
    filter: &'a TokenFilter,
    page: Vec<TokenView>,
    size: usize,
    room: Room,
    /// Where the last token of the page stands.
    last: Option<Position>,
    /// Where the last token stands that was opened or is hidden from the caller.
    passed: Option<Position>,
}

impl Filling<'_> {
    /// Where the next page begins; nothing when there is none.
    async fn fill(
        &mut self,
        spans: Spans,
        mut after: Option<Position>,
    ) -> Result<Option<Position>, Error> {
        let now = self.vault.clock.latest();
        let facet = self.filter.facet(self.caller.tenant());
        // One more than the page has: whether there is a next one is part of the answer.
        let mut at_once = self.size.saturating_add(1);
        let mut left = ENTRIES_MAX;
        while left > 0 {
            let entries_max = at_once.min(left);
            let list = ListTokens { facet, spans: spans.clone(), after, entries_max, now };
            let inquiry = self.caller.inquire(self.permission)?;
            let listing = self.vault.store.list_tokens(inquiry, list).await?;
            for (position, mut stored) in listing.tokens {
                if self.room.is_used_up(self.caller) {
                    return Ok(self.passed.take());
                }
                // To open a large row takes milliseconds: other requests go on after each.
                give_way().await;
                let Some((permit, body)) = self.sees(&stored)? else {
                    self.passed = Some(position);
                    continue;
                };
                if self.page.len() >= self.size {
                    return Ok(self.last.take());
                }
                stored.settle_cvc(&self.vault.epochs, permit.transform(), now).await?;
                let audience = Audience::Caller { vault: self.vault, now };
                let view = show(&permit, &stored, body, audience)?;
                self.page.push(view);
                self.last = Some(position.clone());
                self.passed = Some(position);
            }
            let Some(rest) = listing.rest else { return Ok(None) };
            after = Some(rest);
            left = left.saturating_sub(entries_max);
            at_once = at_once.saturating_mul(4).min(ENTRIES_AT_ONCE_MAX);
        }
        Ok(after)
    }

    /// The token, opened, when it is one of those that were asked for and the caller's to see.
    fn sees(&mut self, stored: &StoredToken) -> Result<Option<(Permit, Body)>, Error> {
        let Ok(permit) = self.caller.permit(self.permission, &stored.record) else {
            return Ok(None);
        };
        self.room.take(stored);
        let body = Body::open(self.caller.tenant(), &stored.record)?;
        Ok(self.filter.is_met(&body).then_some((permit, body)))
    }
}

/// What one page may take: a hundred large tokens, or a hundred long masks, are several pages. Each
/// row that is opened counts, also one that turns out not to be asked for.
pub(crate) struct Room {
    bytes_left: usize,
}

const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// One more mask, the most expensive that is accepted, fits into the rest of the request's budget.
const PAGE_WORK_MAX: usize = 5 * 1024 * 1024;

impl Room {
    pub(crate) fn new() -> Self {
        Self { bytes_left: PAGE_BYTES_MAX }
    }

    pub(crate) fn take(&mut self, stored: &StoredToken) {
        let bytes = stored.record.body.as_bytes().len();
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
    }

    pub(crate) fn is_used_up(&self, caller: &Caller) -> bool {
        self.bytes_left == 0 || caller.work().spent() >= PAGE_WORK_MAX
    }
}
