//! The path of proxied calls.

use hyper::Uri;

/// Every path below this one is a call.
pub(crate) const PROXY_PATH: &str = "/proxy";

/// The URI as the client sent it, if the pipeline changed it.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedUri(pub(crate) Uri);

/// Whether the path is the one of calls, or below it.
pub(crate) fn is_proxy_path(path: &str) -> bool {
    strip_proxy_path(path).is_some()
}

pub(crate) fn strip_proxy_path(path: &str) -> Option<&str> {
    path.strip_prefix(PROXY_PATH).filter(|it| it.is_empty() || it.starts_with('/'))
}
