//! Headers that belong to one connection (RFC 9110, section 7.6.1), in both directions.

use hyper::{
    HeaderMap,
    header::{CONNECTION, HeaderName},
};

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

/// The headers that one message must not forward.
pub(super) struct HopByHopHeaders<'h> {
    /// The names in the `Connection` header.
    listed: Vec<&'h str>,
}

impl<'h> HopByHopHeaders<'h> {
    pub(super) fn of(headers: &'h HeaderMap) -> Self {
        let values = headers.get_all(CONNECTION).iter().filter_map(|it| it.to_str().ok());
        let listed = values.flat_map(|it| it.split(',')).map(str::trim).filter(|it| !it.is_empty());
        Self { listed: listed.collect() }
    }

    pub(super) fn contains(&self, name: &HeaderName) -> bool {
        let name = name.as_str();
        HOP_BY_HOP.contains(&name)
            || name.starts_with("proxy-")
            || self.listed.iter().any(|it| it.eq_ignore_ascii_case(name))
    }
}
