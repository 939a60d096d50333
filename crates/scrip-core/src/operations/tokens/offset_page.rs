//! A page by number, with totals, newest first. This is the older kind of list; the newer kind has
//! a cursor.
//!
//! Counting and skipping scan everything before the page, so both have a limit.

use scrip_seal::Fingerprint;

use crate::{
    Error, FieldError, Timestamp, Vault,
    card::TokenType,
    equality::Comparable,
    listing::{
        NEWEST_TOKENS_MAX, NewestTokens, NewestTokensScan, Page, PageRequest, SEARCHES_EXHAUSTED,
        SearchFacet,
    },
    operations::tokens::cursor_page::PageBudget,
    policy::{AccessTarget, Caller},
    read_log::ReadLogEntry,
    reveal::{Audience, build_view},
    token::{StoredToken, TokenBody, TokenRecord, TokenView},
    types::{Container, ContainerRange, Operation, Permission, id::TokenId},
    work_meter::yield_now,
};

/// The tokens of a page: all given attributes must match.
#[derive(Debug, Default)]
pub struct OffsetPageQuery {
    /// Only these ids; `None` for all.
    pub ids: Option<Vec<TokenId>>,
    /// Only tokens in this container or below it.
    pub container: Option<Container>,
    pub token_type: Option<TokenType>,
    pub fingerprint: Option<Fingerprint>,
    /// One of the values of the search indexes.
    pub data: Option<String>,
    /// Names and values, ignoring case.
    pub metadata: Vec<(String, String)>,
    pub page: PageRequest,
}

/// Builds the page and records the read.
///
/// Errors: no rule allows the caller to list the container, the page number is too large, there are
/// too many tokens to scan, or the read cannot be recorded.
pub(crate) async fn load_offset_page(
    vault: &Vault,
    caller: &Caller,
    operation: Operation,
    permission: Permission,
    query: OffsetPageQuery,
) -> Result<Page<TokenView>, Error> {
    let page = query.page;
    if offset(page) >= NEWEST_TOKENS_MAX {
        let rule = "page numbers end at 10000 tokens; use a list with a cursor";
        return Err(FieldError::new("page", rule).into());
    }
    let now = vault.clock.latest();
    // The caller must be allowed to list the container even if the query has ids.
    let ranges = caller.container_ranges(permission, query.container.as_ref())?;
    let facets = query_facets(vault, caller, &query).await?;
    let matching_ids = match &query.ids {
        Some(ids) => {
            let subtree = query.container.as_ref().map(ContainerRange::subtree);
            let matches = |it: &TokenRecord| {
                subtree
                    .as_ref()
                    .is_none_or(|range| it.containers.iter().any(|it| range.contains(it)))
                    && facets.iter().all(|facet| facet.facet().matches(it))
            };
            find_matching_ids(vault, caller, permission, ids, matches, now).await?
        }
        None => {
            let scan = NewestTokensScan { facets, ranges, now };
            find_newest_ids(vault, caller, permission, scan).await?
        }
    };
    let total = matching_ids.len();
    let ids: Vec<_> = matching_ids.into_iter().skip(offset(page)).take(page.size).collect();
    let mut budget = PageBudget::new();
    let mut items = Vec::with_capacity(ids.len());
    let mut token_entries = Vec::new();
    for ids in ids.chunks(TOKENS_PER_BATCH) {
        for mut stored in find_visible_tokens(vault, caller, permission, ids, now).await? {
            if budget.is_exhausted() {
                let reason = "this page is too large; request a smaller size";
                return Err(Error::Unprocessable { reason });
            }
            // Opening a large row takes milliseconds: yield to other requests after each.
            yield_now().await;
            let permit = caller.permit(permission, &stored.record)?;
            stored.resolve_cvc(&vault.epoch_keys, permit.transform(), now).await?;
            let work_before = caller.work().spent();
            let audience = Audience::Caller { vault, now };
            let build = |body: TokenBody| {
                budget.charge_row(&permit, &stored, &body);
                build_view(&permit, &stored, body, audience)
            };
            let (work, tenant) = (caller.work(), caller.tenant());
            let view = TokenBody::open_in_step(work, tenant, &stored.record, build)?;
            budget.charge_work(&permit, caller.work().spent().saturating_sub(work_before));
            // A request with ids reads single tokens, so each has its own entry.
            if query.ids.is_some() {
                let transform = view.limit_transform(permit.transform());
                token_entries.push(ReadLogEntry::for_token(&stored.record, transform));
            }
            items.push(view);
        }
    }
    let entries = if token_entries.is_empty() {
        let container = query.container.as_ref().map_or("", Container::as_str);
        vec![ReadLogEntry::for_token_list(container, &items)]
    } else {
        token_entries
    };
    let shown = items.iter().map(|it: &TokenView| (&it.id, it.token_type));
    vault.record_token_reads(caller, operation, entries, shown).await?;
    Ok(Page { items, request: page, total })
}

/// The maximum number of tokens in memory at the same time. A token may have a megabyte.
const TOKENS_PER_BATCH: usize = 16;

fn offset(page: PageRequest) -> usize {
    page.number.saturating_sub(1).saturating_mul(page.size)
}

/// The facets of a query. The first one selects the entries that are scanned, so the facet with the
/// fewest tokens comes first. Counts the value of a search index before the search.
async fn query_facets(
    vault: &Vault,
    caller: &Caller,
    query: &OffsetPageQuery,
) -> Result<Vec<SearchFacet>, Error> {
    let tenant = caller.tenant();
    let mut facets = Vec::new();
    facets.extend(query.fingerprint.map(SearchFacet::by_fingerprint));
    if let Some(value) = &query.data {
        let comparison = vault.may_compare(caller, Comparable::SearchTerm(value)).await?;
        let comparison = comparison.ok_or(SEARCHES_EXHAUSTED)?;
        facets.push(SearchFacet::by_data(tenant, value, comparison));
    }
    let metadata = query.metadata.iter();
    facets.extend(metadata.map(|(name, value)| SearchFacet::by_metadata(tenant, name, value)));
    facets.extend(query.token_type.map(SearchFacet::by_type));
    Ok(facets)
}

/// The ids of the requested tokens that the caller may see and that match, newest first.
async fn find_matching_ids(
    vault: &Vault,
    caller: &Caller,
    permission: Permission,
    ids: &[TokenId],
    matches: impl Fn(&TokenRecord) -> bool,
    now: Timestamp,
) -> Result<Vec<TokenId>, Error> {
    let mut found = Vec::new();
    for ids in ids.chunks(TOKENS_PER_BATCH) {
        let visible = find_visible_tokens(vault, caller, permission, ids, now).await?.into_iter();
        let matching = visible.map(|it| it.record).filter(&matches);
        found.extend(matching.map(|it| (it.created_at, it.id)));
    }
    found.sort_by_key(|(created_at, _)| std::cmp::Reverse(*created_at));
    Ok(found.into_iter().map(|(_, id)| id).collect())
}

/// The ids of all tokens that the caller may count, newest first.
async fn find_newest_ids(
    vault: &Vault,
    caller: &Caller,
    permission: Permission,
    scan: NewestTokensScan,
) -> Result<Vec<TokenId>, Error> {
    let outlines =
        match vault.store.find_newest_tokens(caller.permit_lookup(permission)?, scan).await? {
            NewestTokens::Found(outlines) => outlines,
            NewestTokens::TooManyToScan => {
                let reason = "too many tokens to scan for a list by page number; lists with a \
                              cursor have no such limit";
                return Err(Error::Unprocessable { reason });
            }
        };
    let visible = outlines.into_iter().filter(|it| {
        let target = AccessTarget { containers: &it.containers, id: Some(&it.id) };
        caller.transform(permission, target).is_some()
    });
    Ok(visible.map(|it| it.id).collect())
}

/// The tokens that exist and that the caller may see.
async fn find_visible_tokens(
    vault: &Vault,
    caller: &Caller,
    permission: Permission,
    ids: &[TokenId],
    now: Timestamp,
) -> Result<Vec<StoredToken>, Error> {
    let lookup = caller.permit_lookup(permission)?;
    let rows = vault.store.find_tokens(lookup, ids, now).await?.into_iter().flatten();
    Ok(rows.filter(|it| caller.transform(permission, &it.record).is_some()).collect())
}
