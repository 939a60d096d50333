//! A page by its number, with totals, newest first: the older way to list.
//!
//! To count and to skip is to go through all that comes before, so both end at a bound.

use crate::{
    Error, FieldError, Timestamp, Vault,
    audit::{Operation, Seen},
    id::TokenId,
    listing::{
        Facet, Page, PageAsked, SURVEY_TOKENS_MAX, SurveyTokens, Surveyed, cursor_page::Room,
    },
    operations::give_way,
    policy::{Caller, Permission, Subject},
    token::{
        StoredToken, TokenView,
        expression::evaluation::metadata_index,
        reveal::{Audience, reveal},
    },
};

/// All that is given must hold.
#[derive(Debug, Default)]
pub struct NumberedAsked {
    /// Only these; all when nothing is said.
    pub ids: Option<Vec<TokenId>>,
    /// One of the values of its search indexes.
    pub data: Option<String>,
    /// Names and values, without regard to case.
    pub metadata: Vec<(String, String)>,
    pub page: PageAsked,
}

/// # Errors
/// The page is too far behind, there is too much to look through, or the read cannot be recorded.
pub(crate) async fn find_page(
    vault: &Vault,
    caller: &Caller,
    operation: Operation,
    permission: Permission,
    asked: NumberedAsked,
) -> Result<Page<TokenView>, Error> {
    let page = asked.page;
    if before(page) >= SURVEY_TOKENS_MAX {
        let rule = "pages by number end at 10000 tokens; lists with a cursor go on";
        return Err(FieldError::new("page", rule).into());
    }
    let now = vault.clock.latest();
    let facets = facets(caller, &asked);
    let (total, ids) = match &asked.ids {
        Some(ids) => {
            let mut found = Vec::new();
            for ids in ids.chunks(AT_ONCE) {
                let some = find(vault, caller, permission, ids, now).await?.into_iter();
                let some = some.filter(|it| facets.iter().all(|facet| facet.is_of(&it.record)));
                found.extend(some.map(|it| (it.record.created_at, it.record.id)));
            }
            found.sort_by_key(|(created_at, _)| std::cmp::Reverse(*created_at));
            let ids = found.iter().map(|(_, id)| id.clone());
            (found.len(), ids.skip(before(page)).take(page.size).collect())
        }
        None => {
            let ids = survey(vault, caller, permission, facets, now).await?;
            let total = ids.len();
            (total, ids.into_iter().skip(before(page)).take(page.size).collect::<Vec<_>>())
        }
    };
    let mut room = Room::new();
    let mut items = Vec::with_capacity(ids.len());
    let mut named = Vec::new();
    for ids in ids.chunks(AT_ONCE) {
        for mut stored in find(vault, caller, permission, ids, now).await? {
            if room.is_used_up(caller) {
                let reason = "this page is too much to show at once; ask for a smaller size";
                return Err(Error::Unprocessable { reason });
            }
            // To open a large row takes milliseconds: other requests go on after each.
            give_way().await;
            let permit = caller.permit(permission, &stored.record)?;
            stored.settle_cvc(&vault.epochs, permit.transform(), now).await?;
            let view = reveal(&permit, &stored, Audience::Caller { vault, now })?;
            room.take(&stored);
            // Whoever asks by id is shown single tokens, and not a list.
            if asked.ids.is_some() {
                named.push(Seen::token(&stored.record, permit.transform()));
            }
            items.push(view);
        }
    }
    let seen = if named.is_empty() { vec![Seen::list("", &items)] } else { named };
    vault.record_seen(caller, operation, seen).await?;
    Ok(Page { items, asked: page, total })
}

/// Tokens that are in memory at once: each may be of a megabyte.
const AT_ONCE: usize = 16;

fn before(page: PageAsked) -> usize {
    page.number.saturating_sub(1).saturating_mul(page.size)
}

fn facets(caller: &Caller, asked: &NumberedAsked) -> Vec<Facet> {
    let tenant = caller.tenant();
    let data = asked.data.as_ref().map(|it| tenant.keys.index(it.as_bytes()));
    let metadata = asked.metadata.iter().map(|(name, value)| metadata_index(tenant, name, value));
    data.into_iter().chain(metadata).map(Facet::Index).collect()
}

/// The ids of all that the caller may count, newest first.
async fn survey(
    vault: &Vault,
    caller: &Caller,
    permission: Permission,
    facets: Vec<Facet>,
    now: Timestamp,
) -> Result<Vec<TokenId>, Error> {
    let spans = caller.spans(permission, None)?;
    let survey = SurveyTokens { facets, spans, now };
    let outlines = match vault.store.survey_tokens(caller.inquire(permission)?, survey).await? {
        Surveyed::Found(outlines) => outlines,
        Surveyed::TooSpread => {
            let reason = "there is too much to look through for a list by page number; lists \
                          with a cursor have no such bound";
            return Err(Error::Unprocessable { reason });
        }
    };
    let seen = outlines.into_iter().filter(|it| {
        let subject = Subject { containers: &it.containers, id: Some(&it.id) };
        caller.transform(permission, subject).is_some()
    });
    Ok(seen.map(|it| it.id).collect())
}

/// Those that are there and the caller's to see.
async fn find(
    vault: &Vault,
    caller: &Caller,
    permission: Permission,
    ids: &[TokenId],
    now: Timestamp,
) -> Result<Vec<StoredToken>, Error> {
    let inquiry = caller.inquire(permission)?;
    let found = vault.store.find_tokens(inquiry, ids, now).await?.into_iter().flatten();
    Ok(found.filter(|it| caller.transform(permission, &it.record).is_some()).collect())
}
