//! Valid and hostile URLs, and appended paths and queries.

use super::*;

fn parse(text: &str) -> Result<DestinationUrl, FieldError> {
    DestinationUrl::parse(text, LoopbackDestinations::Rejected)
}

#[track_caller]
fn check_join(base: &str, path: &str, query: Option<&str>, expected: &str) {
    let url = parse(base).unwrap();
    assert_eq!(url.join(path, query).as_deref(), Ok(expected), "{base} with {path} and {query:?}");
}

#[test]
fn path_and_query_are_appended_to_the_base_url() {
    check_join(
        "https://example.com/api",
        "/foo/bar",
        Some("p=v"),
        "https://example.com/api/foo/bar?p=v",
    );
    check_join("https://example.com/api//", "/foo", None, "https://example.com/api/foo");
    check_join("https://example.com", "", None, "https://example.com/");
    check_join("https://example.com/", "", Some("a=1"), "https://example.com/?a=1");
    check_join("https://example.com/api/", "", None, "https://example.com/api");
    check_join("https://example.com/api", "/", None, "https://example.com/api/");
    check_join("https://example.com?m=1", "", None, "https://example.com/?m=1");
    check_join("HTTPS://Example.COM:8443/A", "/b", None, "https://example.com:8443/A/b");
    let base = "https://example.com/v1/tokenize?mid=7&environment=test";
    let joined = "https://example.com/v1/tokenize/card?mid=7&environment=test&a=b";
    check_join(base, "/card", Some("a=b"), joined);
    check_join(base, "", Some(""), base);
    check_join(
        "https://example.com/a",
        "/x%2Fy",
        Some("q=%7B%7B"),
        "https://example.com/a/x%2Fy?q=%7B%7B",
    );
    check_join("https://example.com/a", "/v1.2/...", None, "https://example.com/a/v1.2/...");
}

#[test]
fn proxy_key_is_dropped_from_the_forwarded_query() {
    let base = "https://example.com/a";
    check_join(base, "", Some("bt-proxy-key=abc"), "https://example.com/a");
    check_join(base, "", Some("x=1&bt-proxy-key=abc&y=2"), "https://example.com/a?x=1&y=2");
    check_join(base, "", Some("BT-Proxy-Key=abc&y=2"), "https://example.com/a?y=2");
    check_join(base, "", Some("bt%2dproxy%2Dkey=abc&y=2"), "https://example.com/a?y=2");
    check_join(base, "", Some("bt-proxy-key"), "https://example.com/a");
    check_join(base, "", Some("bt-proxy-keys=1"), "https://example.com/a?bt-proxy-keys=1");
}

#[test]
fn path_cannot_leave_the_base_path() {
    let url = parse("https://example.com/api").unwrap();
    for path in [
        "/..",
        "/../admin",
        "/a/../../admin",
        "/%2e%2e/admin",
        "/%2E./admin",
        "/.%2e/admin",
        "/..%2fadmin",
        "/a%2f..%2f..%2fadmin",
        "/..%5cadmin",
        "/..\\admin",
        "/..;/admin",
        "/..;a=b/admin",
        "/%252e%252e/admin",
        "/%25252e%25252e%252fadmin",
        "/a/..",
        "/..%00/a",
    ] {
        assert_eq!(url.join(path, None), Err(PathError::LeavesBasePath), "{path}");
    }
    for path in ["/a b", "/a#b", "/a\u{e9}", "/a?b", "/a\r\nHost: x"] {
        assert_eq!(url.join(path, None), Err(PathError::InvalidCharacter), "{path}");
    }
    assert_eq!(url.join("/a", Some("b#c")), Err(PathError::InvalidCharacter));
    assert!(url.join("/a", Some("b=..")).is_ok(), "a query has no segments");
}

#[test]
fn malformed_and_internal_urls_are_rejected() {
    let long_url = format!("https://example.com/{}", "a".repeat(2048));
    for text in [
        "",
        "example.com",
        "http://example.com",
        "ftp://example.com",
        "https:/example.com",
        "https:example.com",
        "//example.com",
        "https://",
        "https:///path",
        "https://localhost",
        "https://127.0.0.1",
        "https://[::1]/",
        "https://[::ffff:7f00:1]",
        "https://0x7f.1",
        "https://2130706433",
        "https://10.1",
        "https://user@example.com",
        "https://a:b@example.com",
        "https://example.com:0",
        "https://example.com:99999",
        "https://example.com:",
        "https://example.com:+443",
        "https://example.com/a/../b",
        "https://example.com/%2e%2e/b",
        "https://example.com/#x",
        "https://example.com\\@evil.com",
        "https://exa mple.com",
        "https://example.com/{{ a }}",
        "https://exämple.com",
        "https://example.com/\n",
        " https://example.com",
        "https://intranet/",
        "http://localhost:1080",
        "https://example.com./",
        long_url.as_str(),
    ] {
        assert!(parse(text).is_err(), "{text} is accepted");
    }
    for text in
        ["https://example.com", "https://example.com:8443/a?b=c", "https://a.example.com/v1/"]
    {
        assert_eq!(parse(text).unwrap().as_str(), text);
    }
}

#[test]
fn loopback_url_is_accepted_only_for_development() {
    for text in [
        "http://localhost:1080/a",
        "http://127.0.0.1:1080",
        "https://[::1]:8443/",
        "https://localhost",
    ] {
        assert!(
            DestinationUrl::parse(text, LoopbackDestinations::Allowed).is_ok(),
            "{text} is rejected"
        );
        assert!(parse(text).is_err(), "{text} is accepted");
    }
    for text in [
        "http://example.com",
        "http://10.0.0.1",
        "https://10.0.0.1",
        "http://127.1",
        "http://localhost.:80",
    ] {
        assert!(
            DestinationUrl::parse(text, LoopbackDestinations::Allowed).is_err(),
            "{text} is accepted"
        );
    }
    let url =
        DestinationUrl::parse("http://LOCALHOST:1080/a", LoopbackDestinations::Allowed).unwrap();
    assert_eq!(url.join("/b", None).as_deref(), Ok("http://localhost:1080/a/b"));
    assert_eq!(url.host(), "localhost");
}
