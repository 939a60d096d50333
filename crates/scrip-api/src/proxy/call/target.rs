//! The path and query of a call, which are appended to the base URL of the destination byte for byte.

use hyper::{Uri, http::request::Parts};

use crate::{
    proxy::{call::selection::CallEntry, error::ProxyError},
    route::{ReceivedUri, strip_proxy_path},
};

/// The appended part of the destination.
#[derive(Debug, Clone)]
pub(super) struct AppendedTarget(Uri);

const BRACES_RULE: &str =
    "must not contain {{: expressions are not evaluated here, because servers log URLs";

impl AppendedTarget {
    /// Errors: the path or the query contains an expression.
    pub(super) fn read(head: &Parts, entry: CallEntry) -> Result<Self, ProxyError> {
        // The host of a proxy has every path, also `/api`. On other hosts the pipeline has removed
        // `/api`, and has changed nothing else in the path of a call.
        let received: Option<&ReceivedUri> = match entry {
            CallEntry::Host => head.extensions.get(),
            CallEntry::Path => None,
        };
        let uri = received.map_or(&head.uri, |it| &it.0);
        let parts = [("path", uri.path()), ("query", uri.query().unwrap_or_default())];
        if let Some((name, _)) = parts.into_iter().find(|(_, text)| has_braces(text)) {
            return Err(ProxyError::invalid(name, BRACES_RULE));
        }
        Ok(Self(uri.clone()))
    }

    /// The path after `/proxy`. On the host of a proxy, the whole path if it is not below `/proxy`.
    pub(super) fn path(&self) -> &str {
        let path = self.0.path();
        strip_proxy_path(path).unwrap_or(path)
    }

    pub(super) fn query(&self) -> Option<&str> {
        self.0.query()
    }

    /// Path and query, for the comparison of repeated calls.
    pub(super) fn as_str(&self) -> &str {
        self.0.path_and_query().map_or("", |it| it.as_str())
    }
}

/// Whether a text contains `{{`. HTTP libraries encode braces.
fn has_braces(text: &str) -> bool {
    let (mut remaining, mut is_after_brace) = (text.as_bytes(), false);
    loop {
        let (is_brace, tail) = match remaining {
            [] => return false,
            [b'{', tail @ ..] | [b'%', b'7', b'b' | b'B', tail @ ..] => (true, tail),
            [_, tail @ ..] => (false, tail),
        };
        if is_brace && is_after_brace {
            return true;
        }
        (is_after_brace, remaining) = (is_brace, tail);
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn read(uri: &str) -> Result<AppendedTarget, ProxyError> {
        let request = Request::builder().uri(uri).body(()).unwrap();
        AppendedTarget::read(&request.into_parts().0, CallEntry::Path)
    }

    #[test]
    fn appended_path_and_query_keep_their_bytes() {
        let cases = [
            ("/proxy", "", None),
            ("/proxy/", "/", None),
            ("/proxy//a/%2F/b/?x=%20&y", "//a/%2F/b/", Some("x=%20&y")),
            ("/proxyx/a", "/proxyx/a", None),
            ("/a/", "/a/", None),
        ];
        for (uri, path, query) in cases {
            let target = read(uri).unwrap();
            assert_eq!((target.path(), target.query(), target.as_str()), (path, query, uri));
        }
    }

    #[test]
    fn expression_in_path_or_query_is_rejected_in_every_encoding() {
        for uri in [
            "/proxy/{{x}}",
            "/proxy/%7B%7bx%7D%7D",
            "/proxy/a?b={%7B",
            "/proxy?%7b{",
            "/proxy/a{{{",
        ] {
            assert!(read(uri).is_err(), "{uri}");
        }
        for uri in ["/proxy/{x}{y}", "/proxy/%7Bx%7B", "/proxy?a={", "/proxy/%7", "/proxy/%77b"] {
            assert!(read(uri).is_ok(), "{uri}");
        }
    }
}
