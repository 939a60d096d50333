//! The Transit engine of Vault or OpenBao as an unlock method, with a fake in its place.

use std::time::Duration;

use scrip_testing::process::{
    harness::ProcessHarness,
    unlock_sources::transit_server::{FakeServer, ROOT_TOKEN, TransitState},
};
use tokio::runtime::Runtime;

use crate::{
    SCRIP,
    keys::{
        add_method, assert_readable, assert_sealed, create_token, is_open, is_recorded, keep_only,
        open_database,
    },
    process::verification_codes::serve_ready,
};

/// A fake server with the runtime that serves it.
pub(super) struct TransitService {
    pub(super) server: FakeServer,
    _runtime: Runtime,
}

impl TransitService {
    pub(super) fn start() -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        let server = runtime.block_on(FakeServer::start());
        Self { server, _runtime: runtime }
    }

    pub(super) fn parameters(&self) -> Vec<String> {
        let address = self.server.url();
        let token = "token_variable=SCRIP_UNLOCK_TRANSIT_TOKEN";
        vec![format!("address={address}"), "key=vault-key".to_owned(), token.to_owned()]
    }
}

/// Lets the server of this vault use a Transit server.
pub(super) fn allow(process: ProcessHarness, service: &TransitService) -> ProcessHarness {
    process
        .with_variable("SCRIP_KEYS_UNLOCK_SOURCES", &service.server.url())
        .with_variable("SCRIP_UNLOCK_TRANSIT_TOKEN", ROOT_TOKEN)
}

#[test]
fn transit_opens_the_vault_after_a_restart_without_the_root_key() {
    let (process, key) = ProcessHarness::with_api_key(SCRIP);
    let service = TransitService::start();
    let process = allow(process, &service);
    let server = process.serve();
    let token = create_token(&server, &key);
    let id = add_method(&process, "transit", &service.parameters());
    keep_only(&process, &id);
    let server = process.restart(server);
    assert_readable(&server, &key, &token);
    assert!(is_recorded(&process, &format!("unlock by transit transit ({id})"), "completed", 1));
    assert!(process.run(&["keys", "rotate", "vault"]).status.success());
    drop(server);
    assert_readable(&process.serve(), &key, &token);
    assert!(!process.log().contains(ROOT_TOKEN), "the log contains the token");
}

/// Each failure keeps the vault sealed with advice. The vault opens when the server works again.
#[test]
fn failing_transit_server_keeps_the_vault_sealed_until_it_works_again() {
    let process = ProcessHarness::initialized(SCRIP);
    let service = TransitService::start();
    let process = allow(process, &service);
    let server = serve_ready(&process);
    let id = add_method(&process, "transit", &service.parameters());
    keep_only(&process, &id);
    drop(server);
    let sealed_reply = || (503, r#"{"errors":["Vault is sealed"]}"#.to_owned());
    type Change = Box<dyn Fn(&mut TransitState)>;
    let failures: [(Change, &str); 4] = [
        (Box::new(|it| it.tokens.clear()), "update on transit/decrypt/vault-key"),
        (Box::new(move |it| it.fixed_reply = Some(sealed_reply())), "sealed"),
        (Box::new(|it| it.keys.clear()), "create or restore it"),
        (Box::new(|it| it.other_plaintext = Some(vec![7; 32])), "returned another key"),
    ];
    for (change, advice) in failures {
        service.server.change(change);
        let server = process.serve();
        assert_sealed(&process, &server, advice);
        service.server.change(|it| {
            it.tokens = vec![ROOT_TOKEN.to_owned()];
            it.keys = vec!["vault-key", "other-key"];
            (it.fixed_reply, it.other_plaintext) = (None, None);
        });
        assert!(is_open(&server), "{advice}: {}", process.log());
    }
}

#[test]
fn slow_transit_server_does_not_keep_another_method_from_opening_the_vault() {
    let process = ProcessHarness::initialized(SCRIP);
    let service = TransitService::start();
    let process =
        allow(process, &service).with_variable("SCRIP_KEYS_UNLOCK_ORDER", "transit, file");
    let server = serve_ready(&process);
    add_method(&process, "transit", &service.parameters());
    drop(server);
    service.server.change(|it| it.delay = Duration::from_secs(60));
    let requests = service.server.request_count();
    let server = process.serve();
    assert_eq!(server.status("/readyz"), 503, "the first method has not answered yet");
    assert!(is_open(&server), "{}", process.log());
    assert!(service.server.request_count() > requests, "the server was not asked");
    assert!(is_recorded(&process, "unlock by file root key", "completed", 2));
}

#[test]
fn address_outside_of_the_allowed_sources_gets_no_request() {
    let process = ProcessHarness::initialized(SCRIP);
    let (service, other) = (TransitService::start(), TransitService::start());
    let process = allow(process, &service);
    let server = serve_ready(&process);
    let address = format!("address={}", other.server.url());
    let token = "token_variable=SCRIP_UNLOCK_TRANSIT_TOKEN";
    let add = ["keys", "add", "transit", "--set", &address, "--set", "key=vault-key", "--set"];
    let refused = "is not in keys.unlock_sources";
    process.assert_fails(&[&add[..], &[token]].concat(), refused);
    let id = add_method(&process, "transit", &service.parameters());
    keep_only(&process, &id);
    drop(server);
    let sql = "UPDATE unlocks SET parameters = json_set(parameters, '$.address', ?1)";
    open_database(&process).execute(sql, [other.server.url()]).unwrap();
    let server = process.serve();
    assert_sealed(&process, &server, refused);
    assert_eq!(other.server.request_count(), 0, "the other server got the token");
}
