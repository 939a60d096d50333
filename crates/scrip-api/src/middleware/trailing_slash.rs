//! Removes trailing slashes from paths.

use axum::extract::Request;
use hyper::Uri;

use crate::route::proxy_path::{ReceivedUri, is_proxy_path};

/// Some clients append a slash to every path. The path of a proxied call is not changed.
pub(crate) fn strip_trailing_slash(request: &mut Request) {
    let uri = request.uri();
    let path = uri.path();
    let trimmed = path.trim_end_matches('/');
    if trimmed.len() == path.len() || trimmed.is_empty() || is_proxy_path(path) {
        return;
    }
    let rest = uri.query().map(|it| format!("{trimmed}?{it}"));
    let rest = rest.unwrap_or_else(|| trimmed.to_owned());
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = rest.parse().ok();
    if let Ok(changed) = Uri::from_parts(parts) {
        let changed = std::mem::replace(request.uri_mut(), changed);
        let received: Option<ReceivedUri> = request.extensions_mut().remove();
        request.extensions_mut().insert(received.unwrap_or(ReceivedUri(changed)));
    }
}
