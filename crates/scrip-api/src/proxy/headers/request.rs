//! The headers of a request to a destination.

use hyper::{
    HeaderMap,
    header::{ACCEPT_ENCODING, CONNECTION, HeaderName, HeaderValue, IF_RANGE, RANGE},
};

use super::hop_by_hop::HopByHopHeaders;
use crate::proxy::error::ProxyError;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const CLIENT_KEEP_ALIVE: &str = "bt-proxy-keep-alive";
const CLIENT_CONNECTION: &str = "bt-proxy-connection";
const ENCRYPTED: &str = "bt-encrypted";

/// Load balancers in front of the vault add these. A payment provider must not see the addresses of
/// the vault's clients.
const FORWARDING: [&str; 3] = ["forwarded", "via", "x-real-ip"];
const FORWARDING_PREFIX: &str = "x-forwarded-";

/// # Errors
/// The request has a header that the vault cannot honour yet.
pub fn forward_request_headers(
    headers: &HeaderMap,
    has_response_transforms: bool,
) -> Result<HeaderMap, ProxyError> {
    if headers.contains_key(ENCRYPTED) {
        return Err(ProxyError::invalid(
            "headers.BT-ENCRYPTED",
            "is not supported: this server has no client encryption keys",
        ));
    }
    let hop_by_hop = HopByHopHeaders::of(headers);
    let mut forwarded = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        if is_forwarded(name) && !hop_by_hop.contains(name) {
            forwarded.append(name, value.clone());
        }
    }
    for (client_name, name) in [(CLIENT_KEEP_ALIVE, KEEP_ALIVE), (CLIENT_CONNECTION, CONNECTION)] {
        if let Some(value) = headers.get(client_name) {
            forwarded.insert(name, value.clone());
        }
    }
    if has_response_transforms {
        // A transform reads the response as text. An encoded response would be rejected.
        forwarded.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        // A client could read a masked value in parts that the mask does not match.
        forwarded.remove(RANGE);
        forwarded.remove(IF_RANGE);
    }
    Ok(forwarded)
}

/// Names with other characters are dropped silently.
fn is_forwarded(name: &HeaderName) -> bool {
    let name = name.as_str();
    let is_name_byte = |it: u8| it.is_ascii_alphanumeric() || it == b'-' || it == b'_';
    name.bytes().all(is_name_byte)
        && !name.starts_with("bt-")
        && !name.starts_with(FORWARDING_PREFIX)
        && !FORWARDING.contains(&name)
}
