//! The public key of the vault, with which receivers verify deliveries.

use std::{collections::BTreeSet, thread};

use tokio::sync::SetOnce;

use crate::harness::server::TestServer;

const PATH: &str = "/.well-known/webhooks.v1.key";

#[test]
fn public_key_needs_no_api_key_and_can_be_cached() {
    let server = TestServer::start();
    let response = server.request("GET", PATH).send();
    assert_eq!(response.status, 200);
    assert_eq!(response.headers["content-type"], "application/x-pem-file");
    assert_eq!(response.headers["cache-control"], "public, max-age=3600");
    assert!(response.text.starts_with("-----BEGIN PUBLIC KEY-----\n"), "{}", response.text);
    assert!(response.text.ends_with("\n-----END PUBLIC KEY-----\n"), "{}", response.text);
    assert_eq!(server.request("POST", PATH).send().status, 405);
    // Another node of the same vault has the same key.
    let second = server.start_second_node(|_| ());
    assert_eq!(second.request("GET", PATH).send().text, response.text);
}

#[test]
fn concurrent_first_requests_make_one_key_pair() {
    let server = TestServer::start();
    let get = || server.request("GET", PATH).send().text;
    let keys: BTreeSet<String> = thread::scope(|scope| {
        let requests: Vec<_> = (0..8).map(|_| scope.spawn(get)).collect();
        requests.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert_eq!(keys.len(), 1);
}

#[test]
fn sealed_vault_has_no_public_key() {
    let server = TestServer::start_with(|setup| {
        setup.directory.store(None);
        setup.key_source = SetOnce::new();
    });
    assert_eq!(server.request("GET", PATH).send().status, 503);
}
