//! The network of the vault through the API: its own listener, private networks and metadata
//! services. The table of hostile destinations is in the tests of the guard; these tests show that
//! every way into the proxy passes the guard.

use scrip_egress::AllowList;
use serde_json::json;

use crate::proxy::harness::ProxyHarness;

/// Addresses that no tenant may reach.
const INNER: &[(&str, &str)] = &[
    ("loopback", "127.0.0.1"),
    ("other-loopback", "127.8.8.8"),
    ("private", "10.0.0.1"),
    ("router", "192.168.0.1"),
    ("metadata", "169.254.169.254"),
    ("loopback6", "::1"),
    ("mapped", "::ffff:127.0.0.1"),
    ("nat64", "64:ff9b::7f00:1"),
    ("unique-local", "fd00::1"),
    ("unspecified", "0.0.0.0"),
];

/// A server with the default allow-list, except for the port of the destination.
fn guarded() -> ProxyHarness {
    ProxyHarness::start_with(|_, egress| egress.allow_list = AllowList::default())
}

#[test]
fn names_of_inner_addresses_are_denied_and_never_contacted() {
    let harness = guarded();
    let port = harness.destinations.address.port();
    for (label, address) in INNER {
        let name = format!("{label}.attacker.test");
        harness.resolver.set(&name, &[address]);
        // A public address besides does not help.
        let mixed = format!("{label}-mixed.attacker.test");
        harness.resolver.set(&mixed, &["93.184.216.34", address]);
        for name in [name, mixed] {
            let url = format!("https://{name}:{port}/");
            harness.post(&url).json(&json!({})).send().expect_not_sent(502);
            let proxy = harness.create_proxy(&url, json!({}));
            let response = harness.post_to(&proxy).json(&json!({})).send();
            response.expect_not_sent(502);
            assert!(!response.text().contains(address), "{}", response.text());
        }
    }
    assert_eq!(harness.destinations.connections(), 0);
}

/// Otherwise a caller could list the names of the inner network.
#[test]
fn inner_name_and_unknown_name_get_the_same_error() {
    let harness = guarded();
    harness.resolver.set("database.corp.test", &["10.0.0.7"]);
    let port = harness.destinations.address.port();
    let errors = ["database.corp.test", "unknown.corp.test"].map(|name| {
        let response = harness.post(&format!("https://{name}:{port}/")).json(&json!({})).send();
        response.expect_not_sent(502)
    });
    assert_eq!(errors[0], errors[1]);
}

/// Positive control: with the operator's permission, the same name reaches the destination.
#[test]
fn allowed_network_reaches_the_same_destination() {
    let guarded = guarded();
    let open = ProxyHarness::start();
    for (harness, is_reached) in [(guarded, false), (open, true)] {
        let host = harness.destinations.host(&[]);
        let response = harness.post(&host.url("")).json(&json!({})).send();
        if is_reached {
            response.expect_answer(200);
        } else {
            response.expect_not_sent(502);
        }
        assert_eq!(host.request_count(), usize::from(is_reached));
    }
}

/// The address changes after the check: the second answer of the resolver is never used.
#[test]
fn name_that_moves_to_loopback_is_denied() {
    let harness = guarded();
    let name = "moving.attacker.test";
    let url = format!("https://{name}:{}/", harness.destinations.address.port());
    let proxy = harness.create_proxy(&url, json!({"timeout": 1}));
    harness.resolver.set(name, &["127.0.0.1"]);
    for _ in 0..3 {
        harness.post_to(&proxy).json(&json!({})).send().expect_not_sent(502);
    }
    assert_eq!(harness.destinations.connections(), 0);
}

/// Even if the operator permits the loopback network, the vault is not a destination of itself: a
/// request from its own address could pass rules for addresses.
#[test]
fn vault_itself_is_never_a_destination() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let own_address = listener.local_addr().unwrap();
    let harness = ProxyHarness::start_with(|_, egress| {
        egress.allowed_ports.push(own_address.port());
        egress.own_addresses = vec![own_address];
    });
    harness.resolver.set("vault.attacker.test", &["127.0.0.1"]);
    let url = format!("https://vault.attacker.test:{}/", own_address.port());
    harness.post(&url).json(&json!({})).send().expect_not_sent(502);
    listener.set_nonblocking(true).unwrap();
    let is_untouched = listener.accept().is_err();
    assert!(is_untouched, "the guard connected to the listener of the vault");
}

#[test]
fn operator_list_denies_other_names() {
    let harness = ProxyHarness::start_with(|_, egress| {
        egress.allow_list = AllowList::parse(["host-0.destination.test"]).unwrap();
    });
    let (listed, other) = (harness.destinations.host(&[]), harness.destinations.host(&[]));
    // The name is listed, but its address is an inner one and needs its own entry.
    for (host, status) in [(&listed, 502), (&other, 403)] {
        harness.post(&host.url("")).json(&json!({})).send().expect_not_sent(status);
    }
    assert_eq!(harness.destinations.connections(), 0);
}
