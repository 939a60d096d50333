//! Requests that arrive before the vault is unsealed for the first time.

use std::{sync::Arc, thread, time::Duration};

use scrip_core::store::open_directory;
use scrip_seal::RootKey;
use scrip_server::node::SealedStart;
use tokio::sync::SetOnce;

use crate::harness::server::TestServer;

fn start_sealed(sealed_start: SealedStart) -> TestServer {
    TestServer::start_with(|setup| {
        setup.directory.store(None);
        setup.key_source = SetOnce::new();
        setup.node.sealed_start = sealed_start;
    })
}

fn unseal(server: &TestServer) {
    let (app, root) = (&server.app, Arc::<RootKey>::clone(&server.root));
    let load = open_directory(&*app.vault.store, &*root, None);
    app.unseal(server.runtime.block_on(load).unwrap(), root);
}

#[test]
fn waiting_requests_are_served_after_the_first_unseal_and_probes_respond_before() {
    let server = start_sealed(SealedStart::Wait);
    let status = |path: &str| server.request("GET", path).send().status;
    thread::scope(|scope| {
        let (unknown_path, keyed_route) =
            (scope.spawn(|| status("/no/such/path")), scope.spawn(|| status("/tokens/1")));
        assert_eq!(status("/healthz"), 200);
        assert_eq!(status("/healthz/"), 200);
        assert_eq!(status("/readyz"), 503);
        thread::sleep(Duration::from_millis(100));
        assert!(!unknown_path.is_finished() && !keyed_route.is_finished(), "requests must wait");
        unseal(&server);
        assert_eq!(unknown_path.join().unwrap(), 404);
        assert_eq!(keyed_route.join().unwrap(), 401);
    });
    assert_eq!(status("/readyz"), 200);
}

#[test]
fn vault_that_becomes_sealed_later_rejects_requests_immediately() {
    let server = start_sealed(SealedStart::Wait);
    unseal(&server);
    server.app.directory.store(None);
    assert_eq!(server.request("GET", "/tokens/1").send().status, 503);
}

#[test]
fn requests_are_rejected_by_default_until_the_first_unseal() {
    let server = start_sealed(SealedStart::Reject);
    assert_eq!(server.request("GET", "/healthz").send().status, 200);
    assert_eq!(server.request("GET", "/tokens/1").send().status, 503);
}
