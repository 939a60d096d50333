//! The headers of a destination's response, on their way to the client.

use hyper::{
    HeaderMap, StatusCode,
    header::{CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS},
};

use super::hop_by_hop::HopByHopHeaders;
use crate::proxy::error::DESTINATION_STATUS;

/// The host of the response as the browser of a client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseOrigin {
    /// The host of the vault. A destination must not get power over it.
    Vault,
    /// A host that serves only this proxy.
    CustomHost,
}

/// Headers that change how a browser treats later requests to the same host.
const HOST_STATE: [&str; 9] = [
    "alt-svc",
    "clear-site-data",
    "nel",
    "public-key-pins",
    "report-to",
    "reporting-endpoints",
    "service-worker-allowed",
    "set-cookie",
    "strict-transport-security",
];

/// Foreign content must not run script on the origin of the vault. A browser enforces all policies
/// of a response, so this one is added to those of the destination.
const SANDBOX: HeaderValue = HeaderValue::from_static("sandbox; default-src 'none'");
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// The forwarded headers, the status of the destination, and the headers against foreign script.
/// Call this after the response transforms, so that they are subject to the same rules.
#[must_use]
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

/// The vault itself writes its own headers, which begin with `bt-`, and those of CORS.
fn is_forwarded(name: &HeaderName, origin: ResponseOrigin) -> bool {
    let name = name.as_str();
    let is_host_state = origin == ResponseOrigin::Vault && HOST_STATE.contains(&name);
    !name.starts_with("bt-") && !name.starts_with("access-control-") && !is_host_state
}
