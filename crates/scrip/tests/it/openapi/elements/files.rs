//! The files of the hosted fields: caching, policies and methods.

use super::{FIELD_HOST, FIELD_KEYS, FIELDS, PAGES, SCRIPTS, release_path, request};

const YEAR: &str = "public, max-age=31536000, immutable";

#[test]
fn every_file_has_its_type_caching_and_isolation_headers() {
    let module = release_path("field.js");
    let style = release_path("field.css");
    let pinned_script = release_path("client.js");
    let mut cases = vec![
        (module.as_str(), "text/javascript; charset=utf-8", YEAR),
        (style.as_str(), "text/css; charset=utf-8", YEAR),
        (pinned_script.as_str(), "text/javascript; charset=utf-8", YEAR),
    ];
    cases.extend(SCRIPTS.map(|it| (it, "text/javascript; charset=utf-8", "no-cache")));
    cases.extend(PAGES.map(|it| (it, "text/html; charset=utf-8", "no-cache")));
    for (path, content_type, caching) in cases {
        let response = request("GET", path).send();
        assert_eq!(response.status, 200, "{path}");
        for (name, value) in [
            ("content-type", content_type),
            ("cache-control", caching),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "cross-origin"),
            // A script tag with `integrity` needs it.
            ("access-control-allow-origin", "*"),
        ] {
            assert_eq!(response.headers.get(name).map(String::as_str), Some(value), "{path}");
        }
        assert!(!response.text.is_empty(), "{path}");
    }
}

#[test]
fn known_entity_tag_responds_with_304_without_a_body() {
    let module = release_path("field.js");
    for path in [SCRIPTS[0], PAGES[0], PAGES[1], module.as_str()] {
        let response = request("GET", path).send();
        let tag = response.headers["etag"].clone();
        for known in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".to_owned()] {
            let cached = request("GET", path).header("If-None-Match", &known).send();
            assert_eq!((cached.status, cached.text.as_str()), (304, ""), "{path} {known}");
            for name in ["etag", "cache-control", "content-security-policy"] {
                assert_eq!(cached.headers.get(name), response.headers.get(name), "{path} {name}");
            }
        }
        for unknown in ["\"x\"", "", "x"] {
            let full = request("GET", path).header("If-None-Match", unknown).send();
            assert_eq!((full.status, full.text), (200, response.text.clone()), "{path} {unknown}");
        }
    }
}

#[test]
fn head_has_the_headers_of_get_without_a_body() {
    for path in [SCRIPTS[0], PAGES[1]] {
        let length = request("GET", path).send().text.len();
        let head =
            format!("HEAD {path} HTTP/1.1\r\nHost: {FIELD_HOST}\r\nConnection: close\r\n\r\n");
        let response = FIELDS.send_raw(head.as_bytes());
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
        assert!(response.contains(&format!("\r\ncontent-length: {length}\r\n")), "{response}");
        assert!(response.ends_with("\r\n\r\n"), "{response}");
    }
}

#[test]
fn other_methods_are_rejected() {
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        assert_eq!(request(method, SCRIPTS[0]).send().status, 405, "{method}");
        assert_eq!(request(method, PAGES[0]).send().status, 405, "{method}");
    }
}

#[test]
fn unknown_files_and_other_releases_are_not_found() {
    let page_in_release = release_path("field.html");
    let missing = release_path("missing.js");
    let nested = release_path("x/field.js");
    for path in [
        "/elements",
        "/elements/",
        "/elements/0000000000000000/field.js",
        "/elements/..%2f..%2fCargo.toml",
        "/web-elements/2.17.0/hosted-elements/",
        "/web-elements/2.17.0/hosted-elements/client.js",
        "/web-elements/2.17.0/hosted-elements/other.html",
        &page_in_release,
        &missing,
        &nested,
    ] {
        let response = request("GET", path).send();
        response.expect_problem(404, "Not found.");
        assert_eq!(response.headers["cache-control"], "no-store", "{path}");
    }
}

#[test]
fn only_the_controller_may_connect_and_no_page_has_inline_code() {
    let policies = PAGES.map(|path| {
        let response = request("GET", path).send();
        for word in ["<style", " style=", " onload=", "javascript:"] {
            assert!(!response.text.contains(word), "{path} has {word}");
        }
        let scripts = response.text.matches("<script").count();
        let with_source = response.text.matches(" src=\"/elements/").count();
        assert_eq!(scripts, with_source, "{path}");
        assert!(response.headers["permissions-policy"].contains("clipboard-write=(self)"));
        response.headers["content-security-policy"].clone()
    });
    let common = "default-src 'none'; script-src 'self'; style-src 'self';";
    let end = "frame-ancestors *; base-uri 'none'; form-action 'none'";
    assert_eq!(policies[0], format!("{common} worker-src 'self'; {end}"));
    assert_eq!(policies[1], format!("{common} worker-src 'none'; connect-src 'self'; {end}"));
}

#[test]
fn pages_can_be_framed_only_for_a_known_public_key() {
    for path in PAGES {
        let ancestors = |query: &str| {
            let response = request("GET", &format!("{path}{query}")).send();
            assert_eq!(response.status, 200, "{path}{query}");
            let policy = response.headers["content-security-policy"].clone();
            policy
                .split("frame-ancestors ")
                .nth(1)
                .and_then(|it| it.split(';').next())
                .unwrap()
                .to_owned()
        };
        let keys = &*FIELD_KEYS;
        assert_eq!(ancestors(""), "*");
        assert_eq!(ancestors("?other=1"), "*");
        assert_eq!(ancestors(&format!("?application={}", keys.public)), "*");
        for rejected in [
            "?application=".to_owned(),
            "?application=key_test_us_pub_0000000000000000000000".to_owned(),
            format!("?application={}", keys.private),
            format!("?application={}", keys.management),
            format!("?application={0}&application={0}", keys.public),
        ] {
            assert_eq!(ancestors(&rejected), "'none'", "{rejected}");
        }
    }
}
