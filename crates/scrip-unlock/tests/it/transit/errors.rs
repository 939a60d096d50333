//! Errors of the server, in the forms that OpenBao documents.

use base64::{Engine, engine::general_purpose::STANDARD};
use scrip_testing::process::unlock_sources::transit_server::{FakeServer, ROOT_TOKEN};
use scrip_unlock::{Transit, TransitSettings};
use serde_json::json;

use super::{settings, source, token, unwrap, wrap, wrap_with_server};
use crate::support::{assert_error, assert_round_trip, describe};

#[tokio::test]
async fn missing_key_and_missing_mount_are_explained() {
    let (server, source, wrapped) = wrap_with_server().await;
    server.change(|it| it.keys.clear());
    let result = wrap(&source).await;
    assert_error(result, "KeyMissing", &["transit/encrypt/vault-key", "create or restore it"]);
    let result = unwrap(&source, &wrapped).await;
    assert_error(result, "KeyMissing", &["transit/decrypt/vault-key", "create or restore it"]);
    server.change(|it| it.mount = "moved".to_owned());
    let result = unwrap(&source, &wrapped).await;
    assert_error(result, "KeyMissing", &["check the mount and the namespace"]);
}

#[tokio::test]
async fn token_without_permission_is_denied() {
    let server = FakeServer::start().await;
    let wrapped = assert_round_trip(&source(&server.url()), Transit::KIND).await;
    let settings = TransitSettings { auth: token("hvs.other"), ..settings(&server.url()) };
    let source = Transit::new(settings).unwrap();
    let result = wrap(&source).await;
    assert_error(result, "Denied", &["capability update on transit/encrypt/vault-key"]);
    let result = unwrap(&source, &wrapped).await;
    assert_error(result, "Denied", &["capability update on transit/decrypt/vault-key"]);
}

#[tokio::test]
async fn sealed_limited_and_failing_servers_are_unavailable() {
    let (server, source, wrapped) = wrap_with_server().await;
    for (status, text, advice) in [
        (503, "Vault is sealed", "unseal it"),
        (429, "request path \"transit/decrypt/vault-key\": rate limit quota exceeded", "rate"),
        (500, "internal error", "500"),
        (502, "upstream rate limited", "502"),
        (473, "", "active node"),
    ] {
        server.change(|it| {
            it.fixed_reply = Some((status, json!({"errors": [text]}).to_string()));
        });
        assert_error(unwrap(&source, &wrapped).await, "Unavailable", &[advice]);
        assert_error(wrap(&source).await, "Unavailable", &[advice]);
    }
    server.change(|it| it.fixed_reply = None);
    assert!(unwrap(&source, &wrapped).await.is_ok());
}

#[tokio::test]
async fn standby_that_redirects_is_not_followed() {
    let server = FakeServer::start().await;
    server.change(|it| it.fixed_reply = Some((307, String::new())));
    assert_error(wrap(&source(&server.url())).await, "Unavailable", &["redirects", "307"]);
}

#[tokio::test]
async fn key_without_associated_data_is_rejected_by_the_settings() {
    let server = FakeServer::start().await;
    server.change(|it| it.key_type = "rsa-4096");
    assert_error(wrap(&source(&server.url())).await, "Settings", &["aes256-gcm96"]);
}

/// Without the check, such a server would accept a wrapped key in every context.
#[tokio::test]
async fn server_that_ignores_associated_data_is_rejected_at_wrap() {
    let server = FakeServer::start().await;
    server.change(|it| it.ignores_associated_data = true);
    let result = wrap(&source(&server.url())).await;
    assert_error(result, "Settings", &["does not authenticate associated data"]);
}

#[tokio::test]
async fn wrapped_key_below_the_minimal_version_is_rejected() {
    let (server, source, wrapped) = wrap_with_server().await;
    server.change(|it| (it.latest_version, it.min_decryption_version) = (2, 2));
    assert_error(unwrap(&source, &wrapped).await, "Rejected", &["min_decryption_version"]);
}

#[tokio::test]
async fn answer_with_another_plaintext_is_rejected() {
    let (server, source, wrapped) = wrap_with_server().await;
    for plaintext in [vec![0; 32], vec![7; 16], Vec::new()] {
        let body = json!({"data": {"plaintext": STANDARD.encode(plaintext)}});
        server.change(|it| it.fixed_reply = Some((200, body.to_string())));
        assert_error(unwrap(&source, &wrapped).await, "Rejected", &["returned another key"]);
    }
}

#[tokio::test]
async fn malformed_answer_is_unavailable() {
    let (server, source, wrapped) = wrap_with_server().await;
    for body in [
        String::new(),
        "<html>".to_owned(),
        "[".repeat(10_000),
        json!({"data": null}).to_string(),
        json!({"data": {}}).to_string(),
        json!({"data": {"plaintext": "%", "ciphertext": "vault:v1:%"}}).to_string(),
        json!({"data": {"plaintext": 5, "ciphertext": "other:v1:AAAA"}}).to_string(),
    ] {
        server.change(|it| it.fixed_reply = Some((200, body)));
        let advice = ["check the address and the mount"];
        assert_error(unwrap(&source, &wrapped).await, "Unavailable", &advice);
        assert_error(wrap(&source).await, "Unavailable", &advice);
    }
}

#[tokio::test]
async fn token_is_in_no_debug_output_and_no_error() {
    let settings = settings("http://127.0.0.1:1");
    assert!(!format!("{settings:?}").contains(ROOT_TOKEN));
    let source = Transit::new(settings).unwrap();
    assert!(!format!("{source:?}").contains(ROOT_TOKEN));
    let (variant, text) = describe(wrap(&source).await);
    assert_eq!(variant, "Unavailable");
    assert!(text.contains("cannot connect to 127.0.0.1:1") && !text.contains(ROOT_TOKEN), "{text}");
}

#[tokio::test]
async fn invalid_settings_are_rejected() {
    let address = "http://127.0.0.1:1";
    for settings in [
        settings("http://bao.example:8200"),
        settings("bao.example"),
        TransitSettings { mount: "../sys".to_owned(), ..settings(address) },
        TransitSettings { key: "a?b".to_owned(), ..settings(address) },
        TransitSettings { namespace: Some("a\nb".to_owned()), ..settings(address) },
        TransitSettings { ca_file: Some("/missing.pem".into()), ..settings(address) },
    ] {
        assert_error(Transit::new(settings), "Settings", &[]);
    }
    let line_break = TransitSettings { auth: token("a\nb"), ..settings(address) };
    let source = Transit::new(line_break).unwrap();
    assert_error(wrap(&source).await, "Settings", &["line break"]);
}
