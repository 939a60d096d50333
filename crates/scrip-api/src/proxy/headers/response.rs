//! The headers of a destination's response, on their way to the client.

use hyper::{
    HeaderMap, StatusCode,
    header::{CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS},
};

use super::HopByHopHeaders;
use crate::proxy::error::DESTINATION_STATUS;

/// The host of the response as the browser of a client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseOrigin {
    /// The host of the vault. A destination must not get power over it.
    Vault,
    /// A host that serves only this proxy.
    CustomHost,
}

/// Headers by which an application controls the server in front of it: a reverse proxy would send a
/// file or another internal page to the client, a gateway would regard the vault as broken, and a
/// cache would store the answer although the vault says `no-store`. The server in front of the vault
/// cannot see that the destination wrote them.
const FRONT_SERVER: [&str; 4] =
    ["cdn-cache-control", "edge-control", "expires", "surrogate-control"];
const FRONT_SERVER_PREFIXES: [&str; 7] = [
    "x-accel-",
    "x-appengine-",
    "x-envoy-",
    "x-lighttpd-",
    "x-litespeed-",
    "x-reproxy-",
    "x-sendfile",
];
/// The caches of single vendors have their own names for `cdn-cache-control`.
const CACHE_SUFFIX: &str = "-cdn-cache-control";

/// Headers that change how a browser treats other pages or later requests of the same host, or that
/// let it load or open something although the answer is sandboxed.
const HOST_STATE: [&str; 31] = [
    "accept-ch",
    "accept-ch-lifetime",
    "activate-storage-access",
    "alt-svc",
    "clear-site-data",
    "critical-ch",
    "expect-ct",
    "nel",
    "observe-browsing-topics",
    "origin-agent-cluster",
    "origin-trial",
    "public-key-pins",
    "public-key-pins-report-only",
    "refresh",
    "report-to",
    "reporting-endpoints",
    "sec-session-challenge",
    "sec-session-registration",
    "secure-session-challenge",
    "secure-session-registration",
    "service-worker-allowed",
    "set-cookie",
    "set-cookie2",
    "set-login",
    "shared-storage-write",
    "sourcemap",
    "speculation-rules",
    "strict-transport-security",
    "supports-loading-mode",
    "use-as-dictionary",
    "x-sourcemap",
];

/// Foreign content must not run script on the origin of the vault. A browser enforces all policies
/// of a response, so this one is added to those of the destination.
const SANDBOX: HeaderValue = HeaderValue::from_static("sandbox; default-src 'none'");
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// The forwarded headers, the status of the destination, and the headers against foreign script.
/// Call this after the response transforms, so that they are subject to the same rules.
pub fn forward_response_headers(
    headers: &HeaderMap,
    destination_status: StatusCode,
    origin: ResponseOrigin,
) -> HeaderMap {
    const ADDED_HEADERS: usize = 3;
    let hop_by_hop = HopByHopHeaders::of(headers);
    let mut forwarded = HeaderMap::with_capacity(headers.len().saturating_add(ADDED_HEADERS));
    // First, because browsers read only the first value.
    forwarded.insert(X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    forwarded.insert(CONTENT_SECURITY_POLICY, SANDBOX);
    for (name, value) in headers {
        if is_forwarded(name, origin) && !hop_by_hop.contains(name) {
            forwarded.append(name, value.clone());
        }
    }
    forwarded.insert(DESTINATION_STATUS, HeaderValue::from(destination_status.as_u16()));
    forwarded
}

/// Drops headers of a stored answer. The first call may have come from another host than its
/// repetition.
pub fn filter_replayed_headers(headers: &mut HeaderMap, origin: ResponseOrigin) {
    let names: Vec<_> = headers.keys().filter(|it| !is_forwarded(it, origin)).cloned().collect();
    for name in names.into_iter().filter(|it| it != DESTINATION_STATUS) {
        headers.remove(name);
    }
}

/// The vault itself writes its own headers, which begin with `bt-`, and those of CORS.
fn is_forwarded(name: &HeaderName, origin: ResponseOrigin) -> bool {
    let name = name.as_str();
    let is_host_state = origin == ResponseOrigin::Vault && HOST_STATE.contains(&name);
    let is_for_front_server = FRONT_SERVER.contains(&name)
        || FRONT_SERVER_PREFIXES.iter().any(|it| name.starts_with(it))
        || name.ends_with(CACHE_SUFFIX);
    let is_for_vault = name.starts_with("bt-") || name.starts_with("access-control-");
    !is_for_vault && !is_for_front_server && !is_host_state
}
