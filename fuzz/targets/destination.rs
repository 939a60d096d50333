//! Any text is rejected, or is a destination that is read the same again from its parts.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrip_egress::Destination;

fuzz_target!(|text: &str| {
    let Ok(destination) = Destination::parse(text) else { return };
    assert!(text.bytes().all(|it| it.is_ascii_graphic() && !b"#\\\"<>^`{}".contains(&it)));
    let scheme = if destination.is_https() { "https" } else { "http" };
    let (host, port) = (destination.host(), destination.port());
    assert!(text.to_ascii_lowercase().contains(host));
    let again = format!("{scheme}://{host}:{port}{}", destination.path_and_query());
    assert_eq!(Destination::parse(&again).as_ref(), Ok(&destination));
    // A host is a name or a loopback address, never a number that a resolver converts.
    let last_label = host.rsplit('.').next().unwrap_or_default();
    let is_name = last_label.starts_with(|it: char| it.is_ascii_lowercase());
    let address = host.trim_start_matches('[').trim_end_matches(']').parse();
    assert!(is_name || address.is_ok_and(|it: std::net::IpAddr| it.is_loopback()));
});
