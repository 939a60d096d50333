//! Valid and hostile URLs, and appended paths and queries.

use super::*;
use crate::policy::destination::destination_url::path::{decode_completely, percent_decode};

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
        // Servers that cut a segment at a delimiter, or trim it.
        "/..%3f/admin",
        "/..%23/admin",
        "/..%20/admin",
        "/%20../admin",
        "/..%0a/admin",
        "/..%253f/admin",
        "/..%2c/admin",
        // Servers that normalize Unicode text.
        "/%ef%bc%8e%ef%bc%8e/admin",
        "/.%ef%bc%8e/admin",
        "/%e2%80%a4%e2%80%a4/admin",
        "/%e2%80%a5/admin",
        "/%ef%b9%92%ef%b9%92/admin",
        "/%ef%b8%b0/admin",
        "/..%ef%bc%8fadmin",
        "/a%ef%bc%bc..%ef%bc%bcadmin",
        "/%2e%ef%bc%85%32%65/admin",
    ] {
        assert_eq!(url.join(path, None), Err(PathError::LeavesBasePath), "{path}");
    }
    for path in [
        "/a b",
        "/a#b",
        "/a\u{e9}",
        "/a?b",
        "/a\r\nHost: x",
        "/a%0ab",
        "/.%09./admin",
        // An overlong encoding of a dot, a part of a character, and a surrogate.
        "/%c0%ae%c0%ae/admin",
        "/%25c0%25ae/admin",
        "/%e0%80%ae/admin",
        "/%ff",
        "/%e2%80",
        "/%ed%a0%80",
    ] {
        assert_eq!(url.join(path, None), Err(PathError::InvalidCharacter), "{path}");
    }
    assert_eq!(url.join("/a", Some("b#c")), Err(PathError::InvalidCharacter));
    assert!(url.join("/a", Some("b=..")).is_ok(), "a query has no segments");
    for path in ["/a%20b", "/..a", "/a..", "/...", "/a..b/..-c", "/%C3%A9", "/100%25", "/%zz", "/%"]
    {
        assert!(url.join(path, None).is_ok(), "{path}");
    }
}

#[test]
fn long_path_and_query_are_rejected_before_they_are_decoded() {
    let url = parse("https://example.com/api").unwrap();
    let path = format!("/{}", "a".repeat(8 * 1024));
    let query = "b".repeat(8 * 1024 - 1);
    assert!(url.join(&path, Some(&query)).is_ok());
    let longer = format!("{query}b");
    assert_eq!(url.join(&path, Some(&longer)), Err(PathError::TooLong));
    // The path would be rejected for another reason if it were decoded.
    let encoded = format!("/..%{}2f", "25".repeat(32 * 1024));
    assert_eq!(url.join(&encoded, None), Err(PathError::TooLong));
    let encoded = format!("/..%{}2f", "25".repeat(7 * 1024));
    assert_eq!(url.join(&encoded, None), Err(PathError::LeavesBasePath));
}

/// Decodes in rounds until nothing is encoded.
fn decode_in_rounds(text: &[u8]) -> Vec<u8> {
    let mut decoded = text.to_vec();
    while let Some(bytes) = percent_decode(&decoded) {
        decoded = bytes;
    }
    decoded
}

#[test]
fn complete_decoding_equals_repeated_decoding() {
    let alphabet = b"%%%2235efE./";
    let mut state = 7_u64;
    for _ in 0..50_000 {
        let text: Vec<u8> = (0..14)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                alphabet[usize::try_from(state >> 33).unwrap() % alphabet.len()]
            })
            .collect();
        let shown = String::from_utf8_lossy(&text);
        assert_eq!(decode_completely(&text), decode_in_rounds(&text), "{shown}");
    }
}

#[test]
fn parameters_of_the_base_query_cannot_be_repeated() {
    let repeats = |base: &str, query: &str| {
        let url = parse(&format!("https://example.com/api?{base}")).unwrap();
        url.repeats_base_parameter(Some(query))
    };
    for (base, query) in [
        ("mid=7", "mid=8"),
        ("mid=7&env=test", "a=1&env=live"),
        ("mid=7", "%6Did=8"),
        ("mid=7", "%256did=8"),
        ("mid=7", "MID=8"),
        ("mid", "mid"),
        ("mid=7", "a=1;mid=8"),
        ("mid=7", "mid[]=8"),
        ("mid=7", "mid%5b%5d=8"),
        ("mid=7", "+mid=8"),
        ("mid[a]=7", "mid=8"),
        ("mid[a]=7", "mid[a][b]=8"),
        ("my_id=7", "my.id=8"),
        ("m%69d=7", "mid=8"),
        ("my_id=7", "my[id=8"),
        ("mid=7", "mid%00x=8"),
    ] {
        assert!(repeats(base, query), "{base} and {query}");
    }
    for (base, query) in
        [("mid=7", "midi=8"), ("mid=7", ""), ("page[size]=7", "page[number]=8"), ("a=1&&b=2", "&")]
    {
        assert!(!repeats(base, query), "{base} and {query}");
    }
    assert!(!parse("https://example.com/api").unwrap().repeats_base_parameter(Some("mid=8")));
    assert!(!parse("https://example.com/api?a=1").unwrap().repeats_base_parameter(None));
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

/// The test takes minutes if each comparison reads or copies the whole index.
#[test]
fn long_indexes_of_appended_fields_are_compared_with_a_long_form_in_linear_time() {
    let mut names = FieldNames::default();
    for first in 'a'..='h' {
        names.add(&format!("&meta[{first}{}]=1", "x".repeat(500_000)), |_| true);
    }
    let form = "meta[z]=1&".repeat(100_000);
    assert!(!form.split('&').any(|it| names.matches(it)));
    assert!(names.matches("meta[]=1") && names.matches("meta=1"));
}
