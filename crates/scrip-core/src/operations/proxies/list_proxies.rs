//! List Proxies: a page of the proxies that match a filter; and one proxy, by its id.

use std::sync::Arc;

use crate::{
    Error, Vault,
    listing::{Page, PageRequest},
    policy::{
        PolicyPermit,
        proxy::{ProxyDetails, ProxyRecord},
    },
    types::{Operation, id::ProxyId},
};

/// A filter of proxies. An empty filter matches all.
#[derive(Debug, Default)]
pub struct ProxyFilter {
    pub ids: Vec<ProxyId>,
    /// A name in any case, with `*` for any characters.
    pub name: Option<String>,
}

/// Lists proxies, newest first.
/// Errors: a row cannot be opened, or the read cannot be recorded.
pub async fn list_proxies(
    vault: &Vault,
    permit: &PolicyPermit,
    filter: &ProxyFilter,
    page: PageRequest,
) -> Result<Page<ProxyDetails>, Error> {
    let name_pattern = filter.name.as_ref().map(|it| it.to_lowercase());
    let is_included = |it: &&Arc<ProxyRecord>| {
        let matches_name =
            |pattern: &String| matches_wildcard(pattern, &it.name.as_str().to_lowercase());
        (filter.ids.is_empty() || filter.ids.contains(&it.id))
            && name_pattern.as_ref().is_none_or(matches_name)
    };
    let mut proxies: Vec<_> = permit.tenant().proxies.values().filter(is_included).collect();
    proxies.sort_by_key(|it| std::cmp::Reverse((it.created.at, it.id)));
    let Page { items, request, total } = Page::from_all(&proxies, page);
    let keys = &permit.tenant().keys;
    let open = |it: &Arc<ProxyRecord>| ProxyDetails::open(keys, it.as_ref().clone());
    let items = items.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    vault.record_policy_read(permit, Operation::ListProxies, "").await?;
    Ok(Page { items, request, total })
}

/// Errors: there is no such proxy, its row cannot be opened, or the read cannot be recorded.
pub async fn get_proxy(
    vault: &Vault,
    permit: &PolicyPermit,
    id: ProxyId,
) -> Result<ProxyDetails, Error> {
    let tenant = permit.tenant();
    let record = tenant.proxies.get(&id).ok_or(Error::NotFound)?;
    let details = ProxyDetails::open(&tenant.keys, record.as_ref().clone())?;
    vault.record_policy_read(permit, Operation::GetProxy, id.to_string()).await?;
    Ok(details)
}

/// Matches in linear time: the part before the last `*` needs the earliest match only.
fn matches_wildcard(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut remaining) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<_> = parts.collect();
    let Some(last) = parts.pop() else { return remaining.is_empty() };
    for part in parts {
        match remaining.split_once(part) {
            Some((_, tail)) => remaining = tail,
            None => return false,
        }
    }
    remaining.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcard_matches_whole_names() {
        for (pattern, name, is_match) in [
            ("stripe", "stripe", true),
            ("stripe", "stripe live", false),
            ("stripe*", "stripe live", true),
            ("*live", "stripe live", true),
            ("*live", "stripe live 2", false),
            ("*ripe*", "stripe live", true),
            ("s*l*e", "stripe live", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("*", "", true),
            ("", "a", false),
            ("*aab", "aaab", true),
            ("**a", "ba", true),
        ] {
            assert_eq!(matches_wildcard(pattern, name), is_match, "{pattern} and {name}");
        }
    }
}
