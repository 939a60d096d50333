//! Properties of the URL parser.

use proptest::prelude::*;
use scrip_egress::{Destination, DestinationError};

/// Splits an accepted URL with simple rules that share no code with the parser.
fn split_simply(url: &str) -> (String, Option<String>, String) {
    let rest = &url[url.find("//").unwrap() + 2..];
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let authority = rest[..end].rsplit('@').next().unwrap().to_owned();
    let (host, port) = match authority.rfind(':').filter(|_| !authority.ends_with(']')) {
        Some(colon) => (authority[..colon].to_owned(), Some(authority[colon + 1..].to_owned())),
        None => (authority.clone(), None),
    };
    (host.to_lowercase(), port, rest[end..].to_owned())
}

fn assert_consistent(url: &str, destination: &Destination) {
    let (host, port, rest) = split_simply(url);
    assert_eq!(destination.host(), host, "{url:?}");
    let default_port = if destination.is_https() { 443 } else { 80 };
    assert_eq!(destination.port(), port.map_or(default_port, |it| it.parse().unwrap()), "{url:?}");
    let expected = match rest.chars().next() {
        None => "/".to_owned(),
        Some('?') => format!("/{rest}"),
        Some(_) => rest,
    };
    assert_eq!(destination.path_and_query(), expected, "{url:?}");
    assert!(url.bytes().all(|it| it.is_ascii_graphic()), "{url:?}");
    // The same destination again from its parts.
    let scheme = if destination.is_https() { "https" } else { "http" };
    let again = format!("{scheme}://{host}:{}{expected}", destination.port());
    assert_eq!(Destination::parse(&again).as_ref(), Ok(destination), "{url:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text_is_rejected_or_read_consistently(text in ".*") {
        if let Ok(destination) = Destination::parse(&text) {
            assert_consistent(&text, &destination);
        }
    }

    #[test]
    fn texts_similar_to_urls_are_rejected_or_read_consistently(
        url in r"(https|http|HTTPS)://([a-z0-9.@:\[\]%\\#?/-]{0,30}|[a-z]{1,5}\.[a-z]{2,4})(:[0-9]{0,6})?([/?][a-zA-Z0-9%/?#&=@:\\{}.|\[\] -]{0,30})?"
    ) {
        if let Ok(destination) = Destination::parse(&url) {
            assert_consistent(&url, &destination);
            let has_invalid = url.contains(['\\', '#', ' ', '{', '}']);
            prop_assert!(!has_invalid);
        }
    }

    #[test]
    fn regular_urls_are_accepted(
        url in r"https://([a-z0-9]{1,10}\.){1,3}[a-z]{2,6}(:[1-9][0-9]{0,3})?(/[a-zA-Z0-9._~!$&'()*+,;=:@-]{0,10}){0,4}(\?[a-zA-Z0-9=&+\[\]/?|-]{0,10})?"
    ) {
        let destination = Destination::parse(&url).unwrap();
        assert_consistent(&url, &destination);
    }

    #[test]
    fn hosts_of_https_names_never_parse_as_an_address(
        host in r"[0-9a-fx.]{1,20}"
    ) {
        if let Ok(destination) = Destination::parse(&format!("https://{host}/")) {
            let is_loopback = host.parse::<std::net::Ipv4Addr>().is_ok_and(|it| it.is_loopback());
            let last_label = host.rsplit('.').next().unwrap();
            prop_assert!(is_loopback || last_label.starts_with(|it: char| it.is_ascii_alphabetic()));
            prop_assert_eq!(destination.host(), host);
        }
    }
}

#[test]
fn lengths_are_limited() {
    let label = "a".repeat(63);
    let name = |labels: usize| format!("https://{}.com/", vec![label.as_str(); labels].join("."));
    assert!(Destination::parse(&name(3)).is_ok());
    assert_eq!(Destination::parse(&name(4)), Err(DestinationError::Host));
    let long_label = format!("https://{label}a.com/");
    assert_eq!(Destination::parse(&long_label), Err(DestinationError::Host));
    let long_path = format!("https://a.example/{}", "a".repeat(20_000));
    assert_eq!(Destination::parse(&long_path), Err(DestinationError::TooLong));
}

#[test]
fn debug_output_has_no_path_and_no_query() {
    let destination = Destination::parse("https://a.example/secret?key=secret").unwrap();
    assert_eq!(format!("{destination:?}"), "https://a.example");
    let error = Destination::parse("https://user:secret@a.example/").unwrap_err();
    assert!(!format!("{error:?} {error}").contains("secret"));
}
