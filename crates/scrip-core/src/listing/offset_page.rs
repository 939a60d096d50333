//! A page by its number, with totals, newest first: the older way to list.
//!
//! To count and to skip is to go through all that comes before, so both end at a bound.

use crate::{
    Error, FieldError, Timestamp, Vault,
    audit::{Operation, ReadLogEntry},
    id::TokenId,
    listing::{
        Facet, NEWEST_TOKENS_MAX, NewestTokens, NewestTokensScan, Page, PageRequest,
        cursor_page::PageBudget,
    },
    operations::yield_now,
    policy::{AccessTarget, Caller, Permission},
    token::{
        StoredToken, TokenView,
        expression::evaluation::metadata_index_digest,
        reveal::{Audience, reveal},
    },
};

/// All that is given must hold.
#[derive(Debug, Default)]
pub struct OffsetPageQuery {
    /// Only these; all when nothing is said.
    pub ids: Option<Vec<TokenId>>,
    /// One of the values of its search indexes.
    pub data: Option<String>,
    /// Names and values, without regard to case.
    pub metadata: Vec<(String, String)>,
    pub page: PageRequest,
}

/// # Errors
/// The page is too far behind, there is too much to look through, or the read cannot be recorded.
pub(crate) async fn load_offset_page(
    vault: &Vault,
    caller: &Caller,
    operation: Operation,
    permission: Permission,
    query: OffsetPageQuery,
) -> Result<Page<TokenView>, Error> {
    let page = query.page;
    if offset(page) >= NEWEST_TOKENS_MAX {
        let rule = "pages by number end at 10000 tokens; lists with a cursor go on";
        return Err(FieldError::new("page", rule).into());
    }
    let now = vault.clock.latest();
    let facets = facets(caller, &query);
    let (total, ids) = match &query.ids {
        Some(ids) => {
            let mut found = Vec::new();
            for ids in ids.chunks(TOKENS_PER_BATCH) {
                let some =
                    find_visible_tokens(vault, caller, permission, ids, now).await?.into_iter();
                let some = some.filter(|it| facets.iter().all(|facet| facet.matches(&it.record)));
                found.extend(some.map(|it| (it.record.created_at, it.record.id)));
            }
            found.sort_by_key(|(created_at, _)| std::cmp::Reverse(*created_at));
            let ids = found.iter().map(|(_, id)| id.clone());
            (found.len(), ids.skip(offset(page)).take(page.size).collect())
        }
        None => {
            let ids = find_newest_ids(vault, caller, permission, facets, now).await?;
            let total = ids.len();
            (total, ids.into_iter().skip(offset(page)).take(page.size).collect::<Vec<_>>())
        }
    };
    let mut room = PageBudget::new();
    let mut items = Vec::with_capacity(ids.len());
    let mut named = Vec::new();
    for ids in ids.chunks(TOKENS_PER_BATCH) {
        for mut stored in find_visible_tokens(vault, caller, permission, ids, now).await? {
            if room.is_exhausted(caller) {
                let reason = "this page is too much to show at once; ask for a smaller size";
                return Err(Error::Unprocessable { reason });
            }
            // To open a large row takes milliseconds: other requests go on after each.
            yield_now().await;
            let permit = caller.permit(permission, &stored.record)?;
            stored.resolve_cvc(&vault.epoch_keys, permit.transform(), now).await?;
            let view = reveal(&permit, &stored, Audience::Caller { vault, now })?;
            room.charge(&stored);
            // Whoever asks by id is shown single tokens, and not a list.
            if query.ids.is_some() {
                named.push(ReadLogEntry::for_token(&stored.record, permit.transform()));
            }
            items.push(view);
        }
    }
    let entries =
        if named.is_empty() { vec![ReadLogEntry::for_token_list("", &items)] } else { named };
    vault.record_reads(caller, operation, entries).await?;
    Ok(Page { items, request: page, total })
}

/// Tokens that are in memory at once: each may be of a megabyte.
const TOKENS_PER_BATCH: usize = 16;

fn offset(page: PageRequest) -> usize {
    page.number.saturating_sub(1).saturating_mul(page.size)
}

fn facets(caller: &Caller, query: &OffsetPageQuery) -> Vec<Facet> {
    let tenant = caller.tenant();
    let data = query.data.as_ref().map(|it| tenant.keys.index_digest(it.as_bytes()));
    let metadata =
        query.metadata.iter().map(|(name, value)| metadata_index_digest(tenant, name, value));
    data.into_iter().chain(metadata).map(Facet::Index).collect()
}

/// The ids of all that the caller may count, newest first.
async fn find_newest_ids(
    vault: &Vault,
    caller: &Caller,
    permission: Permission,
    facets: Vec<Facet>,
    now: Timestamp,
) -> Result<Vec<TokenId>, Error> {
    let spans = caller.container_ranges(permission, None)?;
    let survey = NewestTokensScan { facets, ranges: spans, now };
    let outlines =
        match vault.store.find_newest_tokens(caller.permit_lookup(permission)?, survey).await? {
            NewestTokens::Found(outlines) => outlines,
            NewestTokens::TooManyToScan => {
                let reason = "there is too much to look through for a list by page number; lists \
                          with a cursor have no such bound";
                return Err(Error::Unprocessable { reason });
            }
        };
    let visible = outlines.into_iter().filter(|it| {
        let subject = AccessTarget { containers: &it.containers, id: Some(&it.id) };
        caller.transform(permission, subject).is_some()
    });
    Ok(visible.map(|it| it.id).collect())
}

/// Those that are there and the caller's to see.
async fn find_visible_tokens(
    vault: &Vault,
    caller: &Caller,
    permission: Permission,
    ids: &[TokenId],
    now: Timestamp,
) -> Result<Vec<StoredToken>, Error> {
    let lookup = caller.permit_lookup(permission)?;
    let found = vault.store.find_tokens(lookup, ids, now).await?.into_iter().flatten();
    Ok(found.filter(|it| caller.transform(permission, &it.record).is_some()).collect())
}
