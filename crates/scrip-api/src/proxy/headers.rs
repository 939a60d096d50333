//! Headers of proxied messages: which ones are forwarded, and expressions in their values.

pub mod encrypted;
pub mod expression;
pub mod request;
pub mod response;

use std::borrow::Cow;

pub use self::{
    encrypted::parse_encrypted_header,
    expression::{
        ComputedHeaders, HeaderInputs, evaluate_headers, find_computed_headers,
        has_header_expressions, reads_hidden_values,
    },
    request::{check_connection_header, forward_request_headers},
    response::{ResponseOrigin, filter_replayed_headers, forward_response_headers},
};
use hyper::{
    HeaderMap,
    header::{CONNECTION, HeaderName},
};

#[cfg(test)]
mod tests;

/// Also the headers that the HTTP library writes: the length, the host and the expectation belong
/// to the message that is sent, not to the one that was received.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The name of a header as servers read it that do not distinguish `-` and `_`, or that ignore one at
/// the end. In lower case.
fn fold_header_name(name: &str) -> Cow<'_, str> {
    match name.contains('_') || name.starts_with('-') || name.ends_with('-') {
        true => Cow::Owned(name.replace('_', "-").trim_matches('-').to_owned()),
        false => Cow::Borrowed(name),
    }
}

/// The headers that one message must not forward.
struct HopByHopHeaders {
    /// The names in the `Connection` header.
    listed: Vec<String>,
}

impl HopByHopHeaders {
    fn of(headers: &HeaderMap) -> Self {
        let values = headers.get_all(CONNECTION).iter().filter_map(|it| it.to_str().ok());
        let listed = values.flat_map(|it| it.split(',')).map(str::trim).filter(|it| !it.is_empty());
        let listed = listed.map(|it| fold_header_name(&it.to_ascii_lowercase()).into_owned());
        Self { listed: listed.collect() }
    }

    fn contains(&self, name: &HeaderName) -> bool {
        let name = fold_header_name(name.as_str());
        HOP_BY_HOP.contains(&&*name)
            || name.starts_with("proxy-")
            || self.listed.iter().any(|it| **it == *name)
    }
}
