//! The Transit engine of Vault and OpenBao.

mod errors;
mod logins;

use std::time::Duration;

use scrip_seal::Secret;
use scrip_testing::process::unlock_sources::transit_server::{FakeServer, ROOT_TOKEN};
use scrip_unlock::{Transit, TransitAuth, TransitSettings, UnlockError, UnlockSource};

use crate::support::{
    assert_error, assert_other_contexts_are_rejected, assert_round_trip, context, vault_key,
};

pub(crate) fn token(text: &str) -> TransitAuth {
    TransitAuth::Token(Secret::new(text.as_bytes().to_vec()))
}

pub(crate) fn settings(address: &str) -> TransitSettings {
    TransitSettings {
        address: address.to_owned(),
        mount: "transit".to_owned(),
        key: "vault-key".to_owned(),
        namespace: None,
        auth: token(ROOT_TOKEN),
        ca_file: None,
        deadline: Duration::from_secs(60),
    }
}

pub(crate) fn source(address: &str) -> Transit {
    Transit::new(settings(address)).unwrap()
}

/// Starts a server and wraps a key with it.
async fn wrap_with_server() -> (FakeServer, Transit, Vec<u8>) {
    let server = FakeServer::start().await;
    let source = source(&server.url());
    let wrapped = assert_round_trip(&source, Transit::KIND).await;
    (server, source, wrapped)
}

async fn wrap(source: &Transit) -> Result<Vec<u8>, UnlockError> {
    source.wrap(&context(Transit::KIND), &vault_key()).await
}

async fn unwrap(source: &Transit, wrapped: &[u8]) -> Result<Secret, UnlockError> {
    source.unwrap(&context(Transit::KIND), wrapped).await
}

#[tokio::test]
async fn key_round_trips_through_the_engine() {
    let server = FakeServer::start().await;
    assert_round_trip(&source(&server.url()), Transit::KIND).await;
}

#[tokio::test]
async fn wrapped_key_of_another_context_is_rejected_by_the_engine() {
    let (_server, source, wrapped) = wrap_with_server().await;
    assert_other_contexts_are_rejected(&source, Transit::KIND, &wrapped).await;
}

#[tokio::test]
async fn wrapped_key_of_another_transit_key_is_rejected() {
    let server = FakeServer::start().await;
    let wrapped = assert_round_trip(&source(&server.url()), Transit::KIND).await;
    let other_key = TransitSettings { key: "other-key".to_owned(), ..settings(&server.url()) };
    let source = Transit::new(other_key).unwrap();
    let result = unwrap(&source, &wrapped).await;
    assert_error(result, "Rejected", &["another vault, unlock method, version or key"]);
}

#[tokio::test]
async fn wrapped_key_opens_after_the_transit_key_is_rotated() {
    let (server, source, wrapped) = wrap_with_server().await;
    server.change(|it| it.latest_version = 2);
    assert!(unwrap(&source, &wrapped).await.is_ok());
    let wrapped = wrap(&source).await.unwrap();
    assert!(String::from_utf8_lossy(&wrapped).contains("vault:v2:"));
}

#[tokio::test]
async fn altered_wrapped_key_is_rejected() {
    let (_server, source, wrapped) = wrap_with_server().await;
    for index in 0..wrapped.len() {
        let mut altered = wrapped.clone();
        altered[index] ^= 1;
        assert_error(unwrap(&source, &altered).await, "Rejected", &[]);
    }
}

#[tokio::test]
async fn namespace_and_mounts_are_part_of_the_request() {
    let server = FakeServer::start().await;
    server.change(|it| {
        it.namespace = "team-a/".to_owned();
        it.mount = "keys/transit".to_owned();
    });
    let settings = TransitSettings {
        namespace: Some("team-a/".to_owned()),
        mount: "keys/transit".to_owned(),
        ..settings(&server.url())
    };
    assert_round_trip(&Transit::new(settings).unwrap(), Transit::KIND).await;
    let result = wrap(&source(&server.url())).await;
    assert_error(result, "KeyMissing", &["check the mount and the namespace"]);
}
