//! The pages that the browser SDK puts into frames, and the redirect to the API reference.
//! `tests/browser` tests the behavior of the pages.

use crate::harness::server::SERVER;

#[test]
fn sdk_pages_can_be_framed_and_run_only_their_own_script() {
    for (path, start, event) in [
        ("/pages/method.html", "startMethod", "method"),
        ("/pages/challenge.html", "startChallenge", "challenge"),
    ] {
        let page = SERVER.request("GET", path).send();
        assert_eq!(page.status, 200, "{path}");
        let header = |name: &str| page.headers.get(name).map(String::as_str);
        assert_eq!(header("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(header("cache-control"), Some("no-store"));
        assert_eq!(header("x-content-type-options"), Some("nosniff"));
        assert_eq!(header("x-frame-options"), None);
        let policy = header("content-security-policy").unwrap();
        for directive in ["frame-ancestors", "form-action", "unsafe"] {
            assert!(!policy.contains(directive), "{policy}");
        }
        let nonce = policy.split("script-src 'nonce-").nth(1).and_then(|it| it.split('\'').next());
        let nonce = nonce.filter(|it| it.len() == 32).unwrap();
        assert_eq!(page.text.matches(&format!("nonce=\"{nonce}\"")).count(), 2, "{path}");
        assert_eq!(page.text.matches("<script").count(), 1, "{path}");
        assert!(!page.text.contains("{{"), "{path}");
        for word in [format!("data-start=\"{start}\""), format!("data-reply=\"{event}\"")] {
            assert!(page.text.contains(&word), "{path}");
        }
        let second_response = SERVER.request("GET", path).send();
        assert_ne!(second_response.headers["content-security-policy"], policy, "{path}");
    }
}

#[test]
fn root_redirects_to_the_api_reference() {
    for method in ["GET", "HEAD"] {
        let response = SERVER.request(method, "/").send();
        let location = response.headers.get("location").map(String::as_str);
        assert_eq!((response.status, location), (302, Some("/docs")), "{method}");
        assert_eq!(response.text, "");
    }
    assert_eq!(SERVER.request("GET", "/docs").send().status, 200);
    assert_eq!(SERVER.request("POST", "/").send().status, 405);
}
