//! Selects the proxy of a call: by the host, by the key of the proxy, or by the URL of the
//! destination.

use std::{borrow::Cow, sync::Arc};

use hyper::http::request::Parts;
use scrip_core::{
    Error, FieldError,
    policy::{
        Directory, Proxy, ProxyLookup,
        destination::{DestinationUrl, LoopbackDestinations, destination_url::PROXY_KEY_PARAMETER},
    },
};

use crate::{
    problem::Problem,
    proxy::{error::ProxyError, headers::ResponseOrigin},
    route::{request_host, single_header},
};

const KEY_HEADER: &str = "bt-proxy-key";
const URL_HEADER: &str = "bt-proxy-url";

/// How a request became a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallEntry {
    /// By its path, on any host.
    Path,
    /// By a host that belongs to a proxy.
    Host,
}

/// The selected proxy.
#[derive(Debug, Clone)]
pub(super) enum SelectedProxy {
    Ephemeral(DestinationUrl),
    PreConfigured(Arc<Proxy>),
}

impl CallEntry {
    pub(super) fn response_origin(self) -> ResponseOrigin {
        match self {
            Self::Path => ResponseOrigin::Vault,
            Self::Host => ResponseOrigin::CustomHost,
        }
    }

    /// The same for a proxy that does not exist, and for a proxy of another tenant.
    pub(super) fn unknown_proxy_error(self) -> Error {
        match self {
            Self::Path => Error::NotFoundBecause {
                reason: "Not found. No proxy has the key in BT-PROXY-KEY.",
            },
            Self::Host => Error::NotFound,
        }
    }
}

impl SelectedProxy {
    /// Finds the proxy. The host decides first: the host of one tenant must not serve the proxy of
    /// another one.
    /// Errors: the request names no proxy, an unknown one, or an invalid URL.
    pub(super) fn find(
        directory: &Directory,
        head: &Parts,
        entry: CallEntry,
        loopback: LoopbackDestinations,
    ) -> Result<Self, ProxyError> {
        if entry == CallEntry::Host {
            let host = request_host(head).unwrap_or_default();
            return found_proxy(directory.find_proxy_by_host(host), entry);
        }
        if let Some(key) = single_header(&head.headers, KEY_HEADER, "BT-PROXY-KEY")? {
            let key = key.to_str().map_err(|_| Problem::BadHeader("BT-PROXY-KEY"))?;
            return found_proxy(directory.find_proxy_by_key(key), entry);
        }
        if let Some(key) = find_query_key(head.uri.query().unwrap_or_default())? {
            return found_proxy(directory.find_proxy_by_key(&key), entry);
        }
        let Some(url) = single_header(&head.headers, URL_HEADER, "BT-PROXY-URL")? else {
            let rule = "is required, unless BT-PROXY-KEY names a proxy";
            return Err(FieldError::new("BT-PROXY-URL", rule).into());
        };
        let url = url.to_str().map_err(|_| Problem::BadHeader("BT-PROXY-URL"))?;
        let url = DestinationUrl::parse(url, loopback);
        let url = url.map_err(|error| FieldError { field: "BT-PROXY-URL".into(), ..error })?;
        Ok(Self::Ephemeral(url))
    }

    pub(super) fn proxy(&self) -> Option<&Arc<Proxy>> {
        match self {
            Self::Ephemeral(_) => None,
            Self::PreConfigured(proxy) => Some(proxy),
        }
    }
}

fn found_proxy(
    lookup: Option<&ProxyLookup>,
    entry: CallEntry,
) -> Result<SelectedProxy, ProxyError> {
    match lookup {
        Some(ProxyLookup::Found(proxy)) => Ok(SelectedProxy::PreConfigured(Arc::clone(proxy))),
        Some(ProxyLookup::PolicyAltered) => Err(Problem::TenantPolicyAltered.into()),
        None => Err(entry.unknown_proxy_error().into()),
    }
}

/// The key of a proxy in the query. Repeated keys are rejected: other programs could use another one
/// of them than this server.
fn find_query_key(query: &str) -> Result<Option<Cow<'_, str>>, ProxyError> {
    // Most queries cannot contain the parameter, in no encoding.
    if !query.contains(['b', 'B', '%']) {
        return Ok(None);
    }
    let is_key = |name: &str| name.eq_ignore_ascii_case(PROXY_KEY_PARAMETER);
    let mut keys = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| is_key(name));
    match (keys.next(), keys.next()) {
        (first, None) => Ok(first.map(|(_, key)| key)),
        (_, Some(_)) => Err(ProxyError::invalid("bt-proxy-key", "must be sent once")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_key_is_read_from_the_query_once() {
        let find = |query| find_query_key(query).ok().map(|it| it.map(Cow::into_owned));
        assert_eq!(find(""), Some(None));
        assert_eq!(find("a=b&c"), Some(None));
        assert_eq!(find("a=b&bt-proxy-key=x%79"), Some(Some("xy".to_owned())));
        assert_eq!(find("BT-Proxy%2Dkey=x"), Some(Some("x".to_owned())));
        assert_eq!(find("bt-proxy-key=x&bt-proxy-key=x"), None);
    }
}
