//! The headers of a request to a destination.

use hyper::{
    HeaderMap,
    header::{ACCEPT_ENCODING, CONNECTION, HeaderName, HeaderValue},
};

use super::{HopByHopHeaders, fold_header_name};
use crate::proxy::error::ProxyError;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const CLIENT_KEEP_ALIVE: &str = "bt-proxy-keep-alive";
const CLIENT_CONNECTION: &str = "bt-proxy-connection";

/// Load balancers in front of the vault add these. A payment provider must not see the addresses of
/// the vault's clients.
///
/// Some servers take the path from `x-original-url`, `x-rewrite-url` or similar headers: with these, a
/// call could leave the base path of the proxy. A server that runs CGI programs passes `proxy` to them as a setting.
const FORWARDING: [&str; 28] = [
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-pseudo-ipv4",
    "client-ip",
    "fastly-client-ip",
    "fly-client-ip",
    "forwarded",
    "forwarded-for",
    "proxy",
    "true-client-ip",
    "via",
    "x-azure-clientip",
    "x-azure-socketip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-envoy-original-path",
    "x-http-destinationurl",
    "x-originating-ip",
    "x-override-url",
    "x-real-ip",
    "x-remote-ip",
    "x-replaced-path",
    "x-request-uri",
    "x-rewrite-path",
    "x-rewrite-url",
    "x-script-name",
    "x-waws-unencoded-url",
];
const FORWARDING_PREFIXES: [&str; 2] = ["x-forwarded", "x-original-"];
/// Headers that ask for a part of an answer, or for a difference. Some servers honor `request-range`,
/// an old name of `range`.
const PARTIAL: [&str; 4] = ["range", "if-range", "request-range", "a-im"];

/// Selects the headers to forward. No header with the prefix `BT-` or `Scrip-Field-` is forwarded.
pub fn forward_request_headers(headers: &HeaderMap, has_response_transforms: bool) -> HeaderMap {
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
        for name in PARTIAL {
            forwarded.remove(name);
        }
    }
    forwarded
}

const CONNECTION_RULE: &str = "must be close or keep-alive";

/// Checks the connection header for the destination. A list of names would make the next server drop
/// headers, such as the one with the key of the provider.
///
/// Errors: a value is neither `close` nor `keep-alive`.
pub fn check_connection_header(headers: &HeaderMap) -> Result<(), ProxyError> {
    let is_allowed = |it: &HeaderValue| {
        let allowed: [&[u8]; 2] = [b"close", b"keep-alive"];
        allowed.iter().any(|allowed| it.as_bytes().eq_ignore_ascii_case(allowed))
    };
    if headers.get_all(CLIENT_CONNECTION).iter().all(is_allowed) {
        return Ok(());
    }
    Err(ProxyError::invalid("headers.BT-PROXY-CONNECTION", CONNECTION_RULE))
}

/// Names with other characters are dropped silently.
fn is_forwarded(name: &HeaderName) -> bool {
    let name = name.as_str();
    let is_name_byte = |it: u8| it.is_ascii_alphanumeric() || it == b'-' || it == b'_';
    let dashed = fold_header_name(name);
    // Some servers read such a content type, which would avoid the checks of the other one.
    let is_second_content_header = name.contains('_') && dashed.starts_with("content-");
    name.bytes().all(is_name_byte)
        && !dashed.starts_with("bt-")
        && !is_second_content_header
        // Headers of the hosted fields for the vault.
        && !dashed.starts_with("scrip-field-")
        && !FORWARDING_PREFIXES.iter().any(|it| dashed.starts_with(it))
        && !FORWARDING.contains(&&*dashed)
}
