//! The URL of the destination: how path and query are appended, and paths that must not leave the
//! base path.

use serde_json::json;

use crate::proxy::harness::PROXY;

#[test]
fn path_and_query_are_appended_to_the_base_url() {
    let host = PROXY.destinations.host(&[]);
    for (base, path, expected) in [
        ("", "", "/"),
        ("", "/", "/"),
        ("/", "/foo", "/foo"),
        ("/api", "", "/api"),
        ("/api/", "/foo/bar?p=v", "/api/foo/bar?p=v"),
        ("/api//", "/foo/", "/api/foo/"),
        ("/v1?mid=7&e=test", "", "/v1?mid=7&e=test"),
        ("/v1?mid=7", "/x?a=b", "/v1/x?mid=7&a=b"),
        ("/v1", "/a%20b/%C3%A9?q=%7Ex+y&q=2", "/v1/a%20b/%C3%A9?q=%7Ex+y&q=2"),
        ("/v1", "/x?bt-proxy-key=no&a=1", "/v1/x?a=1"),
        ("/v1", "/a.b/..c/...", "/v1/a.b/..c/..."),
        ("/v1", "/x?path=../y&u=https://a.example/", "/v1/x?path=../y&u=https://a.example/"),
    ] {
        let request = PROXY.request("GET", path).api_key(&PROXY.keys.private);
        if path.contains("bt-proxy-key") {
            let proxy = PROXY.create_proxy(&host.url(base), json!({}));
            let path = path.replace("=no", &format!("={}", proxy.key));
            let request = PROXY.request("GET", &path).api_key(&PROXY.keys.private);
            request.send().expect_answer(200);
        } else {
            request.url(&host.url(base)).send().expect_answer(200);
        }
        assert_eq!(host.last_request().target, expected, "{base} {path}");
    }
}

/// A pre-configured destination is a permission boundary.
#[test]
fn path_cannot_climb_above_the_base_path() {
    let host = PROXY.destinations.host(&[]);
    let proxy = PROXY.create_proxy(&host.url("/merchants/7"), json!({}));
    for path in [
        "/..",
        "/../8",
        "/a/../../8",
        "/./../8",
        "/%2e%2e/8",
        "/%2E%2e/8",
        "/.%2e/8",
        "/%2e./8",
        "/..%2f8",
        "/..%2F8",
        "/%2e%2e%2f8",
        "/a%2f..%2f..%2f8",
        "/..%5c8",
        "/..\\8",
        "/..;/8",
        "/..;x=1/8",
        "/%252e%252e/8",
        "/%252e%252e%252f8",
    ] {
        let bytes = format!(
            "GET /proxy{path} HTTP/1.1\r\nHost: x\r\nBT-API-KEY: {}\r\nBT-PROXY-KEY: {}\r\n\
             Connection: close\r\n\r\n",
            PROXY.keys.private, proxy.key
        );
        let response = PROXY.server.send_raw(bytes.as_bytes());
        let is_rejected = response.starts_with("HTTP/1.1 400");
        // A double encoding is one segment for every correct destination, so it may be forwarded
        // unchanged.
        let is_unchanged = path.contains("%25")
            && host.requests().last().is_some_and(|it| it.target == format!("/merchants/7{path}"));
        assert!(is_rejected || is_unchanged, "{path}: {response}");
    }
    let climbed = host.requests().into_iter().find(|it| !it.target.starts_with("/merchants/7"));
    assert!(climbed.is_none(), "{climbed:?}");
}

/// URLs are logged by every server on the way, so token data must never be in one.
#[test]
fn expression_in_the_path_or_query_is_rejected() {
    let card = PROXY.create_card();
    let host = PROXY.destinations.host(&[]);
    let id = &card.id;
    for path in [
        format!("/{{{{{id}}}}}"),
        format!("/%7B%7B{id}%7D%7D"),
        format!("/%7b%7B%20{id}%20%7D%7D"),
        format!("/a?q={{{{{id}}}}}"),
        format!("/a?q=%7B%7B%20{id}%20%7D%7D"),
        "/a?%7b%7b=1".to_owned(),
    ] {
        let request = PROXY.request("GET", &path).api_key(&PROXY.keys.private);
        let detail = request.url(&host.url("")).send().expect_not_sent(400).to_string();
        assert!(detail.contains("path") || detail.contains("query"), "{detail}");
    }
    assert_eq!(host.request_count(), 0);
}

#[test]
fn malformed_destination_urls_are_rejected() {
    for url in [
        "",
        "x",
        "/relative",
        "//host.destination.test/",
        "http://host.destination.test/",
        "ftp://host.destination.test/",
        "file:///etc/passwd",
        "https://",
        "https:///path",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://localhost/",
        "https://single-label/",
        "https://user:password@host.destination.test/",
        "https://user@host.destination.test/",
        "https://host.destination.test@127.0.0.1/",
        "https://host.destination.test\\@127.0.0.1/",
        "https://host.destination.test:0/",
        "https://host.destination.test:99999/",
        "https://host.destination.test:x/",
        "https://host.destination.test/#fragment",
        "https://host.destination.test/ space",
        "https://host.destination.test./..",
        "https://{{ host }}.destination.test/",
        "https://host.destination.test/{{ x }}",
        "https://höst.destination.test/",
    ] {
        let value = url.as_bytes();
        let mut bytes = format!(
            "POST /proxy HTTP/1.1\r\nHost: x\r\nBT-API-KEY: {}\r\nConnection: close\r\n\
             Content-Length: 0\r\nBT-PROXY-URL: ",
            PROXY.keys.private
        )
        .into_bytes();
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(b"\r\n\r\n");
        let response = PROXY.server.send_raw(&bytes);
        let is_rejected =
            response.starts_with("HTTP/1.1 400") || response.starts_with("HTTP/1.1 403");
        assert!(is_rejected, "{url}: {response}");
        assert!(response.contains("not_sent"), "{url}: {response}");
        let has_status = response.to_ascii_lowercase().contains("\nbt-proxy-destination-status:");
        assert!(!has_status, "{url}: {response}");
    }
    PROXY.request("POST", "").api_key(&PROXY.keys.private).send().expect_not_sent(400);
    let two_urls = PROXY.post("https://a.destination.test").url("https://b.destination.test");
    two_urls.send().expect_not_sent(400);
}

#[test]
fn unknown_proxy_key_is_not_found() {
    let host = PROXY.destinations.host(&[]);
    let proxy = PROXY.create_proxy_to(&host, json!({}));
    let shortened = &proxy.key[..proxy.key.len() - 1];
    for key in ["unknown", shortened, &format!("{}x", proxy.key), &proxy.id] {
        let request = PROXY.request("POST", "").api_key(&PROXY.keys.private).proxy_key(key);
        request.send().expect_not_sent(404);
        let path = format!("?bt-proxy-key={key}");
        PROXY.request("POST", &path).api_key(&PROXY.keys.private).send().expect_not_sent(404);
    }
    PROXY.server.delete(&PROXY.keys.management, &format!("/proxies/{}", proxy.id));
    PROXY.post_to(&proxy).send().expect_not_sent(404);
    assert_eq!(host.request_count(), 0);
}
