//! The API below `/api`: scripts that were written for a vault of another origin use this path.

use axum::extract::Request;
use hyper::Uri;

use crate::route::proxy_path::ReceivedUri;

const API_PATH: &str = "/api";

/// Marks a request with a path below `/api`, which was removed.
#[derive(Debug, Clone, Copy)]
pub(super) struct BelowApiPath;

/// Removes `/api` from the path once, so that routes, metrics and records have one path for an
/// operation.
pub(crate) fn strip_api_path(request: &mut Request) {
    let uri = request.uri();
    let Some(rest) = uri.path().strip_prefix(API_PATH) else { return };
    let path = match rest {
        "" => "/",
        _ if rest.starts_with('/') => rest,
        _ => return,
    };
    let rest = uri.query().map(|it| format!("{path}?{it}")).unwrap_or_else(|| path.to_owned());
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = rest.parse().ok();
    if let Ok(changed) = Uri::from_parts(parts) {
        let received = std::mem::replace(request.uri_mut(), changed);
        request.extensions_mut().insert(ReceivedUri(received));
        request.extensions_mut().insert(BelowApiPath);
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn api_path_is_removed_once_and_as_a_whole_segment() {
        let cases = [
            ("/api", "/"),
            ("/api/", "/"),
            ("/api?x=/api", "/?x=/api"),
            ("/api/tokens", "/tokens"),
            ("/api/tokens/?start=a%2Fb", "/tokens/?start=a%2Fb"),
            ("/api/api/tokens", "/api/tokens"),
            ("/apis/tokens", "/apis/tokens"),
            ("/tokens/api", "/tokens/api"),
            ("/API/tokens", "/API/tokens"),
            ("/", "/"),
        ];
        for (uri, expected) in cases {
            let mut request = Request::builder().uri(uri).body(Body::empty()).unwrap();
            strip_api_path(&mut request);
            assert_eq!(request.uri().to_string(), expected, "{uri}");
            let is_marked = request.extensions().get::<BelowApiPath>().is_some();
            assert_eq!(is_marked, uri != expected, "{uri}");
        }
    }
}
