//! Answers that `moto` does not give: disabled and deleted keys, other keys, other plaintexts.

use base64::{Engine, engine::general_purpose::STANDARD};
use scrip_testing::process::unlock_sources::{
    fake_kms::{failure, play_kms},
    fake_peer::{FakePeer, Reply},
};
use scrip_unlock::{AwsKms, AwsKmsSettings, UnlockSource};
use serde_json::json;

use super::{KEY_ARN, KEY_ID, SECRET_ACCESS_KEY, settings, source};
use crate::support::{assert_error, assert_round_trip, context, describe, fixed_clock, vault_key};

async fn wrap_with_reply(reply: Reply) -> Result<Vec<u8>, scrip_unlock::UnlockError> {
    let peer = FakePeer::with_replies(vec![reply]).await;
    source(&peer.url()).wrap(&context(AwsKms::KIND), &vault_key()).await
}

async fn unwrap_with_reply(reply: Reply) -> Result<(), scrip_unlock::UnlockError> {
    let kms = FakePeer::start(|request| play_kms(request, KEY_ARN)).await;
    let wrapped = assert_round_trip(&source(&kms.url()), AwsKms::KIND).await;
    let peer = FakePeer::with_replies(vec![reply]).await;
    source(&peer.url()).unwrap(&context(AwsKms::KIND), &wrapped).await.map(drop)
}

#[tokio::test]
async fn requests_name_the_key_and_the_context() {
    let kms = FakePeer::start(|request| play_kms(request, KEY_ARN)).await;
    assert_round_trip(&source(&kms.url()), AwsKms::KIND).await;
    let expected_context = json!({
        "scrip-vault": "vault-1",
        "scrip-method": "method-1",
        "scrip-kind": "aws-kms",
        "scrip-key-version": "1",
    });
    let requests = kms.requests();
    let targets = ["TrentService.Encrypt", "TrentService.Decrypt"];
    assert_eq!(requests.len(), targets.len());
    for (request, target) in requests.iter().zip(targets) {
        assert_eq!(request.header("x-amz-target"), target);
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/"));
        assert_eq!(request.header("content-type"), "application/x-amz-json-1.1");
        assert_eq!(request.json()["KeyId"], KEY_ARN);
        assert_eq!(request.json()["EncryptionContext"], expected_context);
    }
}

#[tokio::test]
async fn disabled_and_deleted_keys_are_missing() {
    for (name, advice) in [
        ("DisabledException", "enable-key"),
        ("KMSInvalidStateException", "cancel-key-deletion"),
        ("NotFoundException", "check the key id"),
    ] {
        assert_error(wrap_with_reply(failure(name)).await, "KeyMissing", &[advice, KEY_ARN]);
        assert_error(unwrap_with_reply(failure(name)).await, "KeyMissing", &[advice, KEY_ARN]);
    }
}

#[tokio::test]
async fn denied_access_names_the_missing_permission() {
    let reply = || failure("AccessDeniedException");
    let grant = |action: &str| format!("grant kms:{action} on {KEY_ARN}");
    assert_error(wrap_with_reply(reply()).await, "Denied", &[&grant("Encrypt")]);
    assert_error(unwrap_with_reply(reply()).await, "Denied", &[&grant("Decrypt")]);
}

#[tokio::test]
async fn throttled_and_failing_service_is_unavailable() {
    assert_error(wrap_with_reply(failure("ThrottlingException")).await, "Unavailable", &[]);
    assert_error(wrap_with_reply((503, String::new())).await, "Unavailable", &["503"]);
}

#[tokio::test]
async fn answer_of_another_key_is_rejected() {
    let other_account = KEY_ARN.replace("111122223333", "444455556666");
    let other_key = KEY_ARN.replace(KEY_ID, "99999999-12ab-34cd-56ef-1234567890ab");
    for key_arn in [other_account, other_key, String::new()] {
        let peer = FakePeer::start(move |request| play_kms(request, &key_arn)).await;
        let result = source(&peer.url()).wrap(&context(AwsKms::KIND), &vault_key()).await;
        assert_error(result, "Rejected", &["used another key"]);
    }
    let plaintext = STANDARD.encode(vault_key().expose());
    let reply = json!({"KeyId": KEY_ARN.replace("1234abcd", "99999999"), "Plaintext": plaintext});
    let result = unwrap_with_reply((200, reply.to_string())).await;
    assert_error(result, "Rejected", &["used another key"]);
}

#[tokio::test]
async fn answer_with_another_plaintext_is_rejected() {
    for plaintext in [vec![0; 32], vec![7; 16], Vec::new()] {
        let reply = json!({"KeyId": KEY_ARN, "Plaintext": STANDARD.encode(plaintext)});
        let result = unwrap_with_reply((200, reply.to_string())).await;
        assert_error(result, "Rejected", &["returned another key"]);
    }
}

#[tokio::test]
async fn malformed_answer_is_unavailable() {
    for body in [
        String::new(),
        "{}".to_owned(),
        "[".repeat(10_000),
        json!({"KeyId": KEY_ARN}).to_string(),
        json!({"KeyId": KEY_ARN, "Plaintext": 5, "CiphertextBlob": 5}).to_string(),
        json!({"KeyId": KEY_ARN, "Plaintext": "%", "CiphertextBlob": "%"}).to_string(),
    ] {
        let advice = ["check that the endpoint is AWS KMS"];
        assert_error(wrap_with_reply((200, body.clone())).await, "Unavailable", &advice);
        assert_error(unwrap_with_reply((200, body)).await, "Unavailable", &advice);
    }
}

#[tokio::test]
async fn escaped_base64_of_an_answer_is_decoded() {
    let kms = FakePeer::start(|request| {
        let (status, body) = play_kms(request, KEY_ARN);
        (status, body.replace('/', "\\/").replace('A', "\\u0041"))
    });
    assert_round_trip(&source(&kms.await.url()), AwsKms::KIND).await;
}

#[tokio::test]
async fn secrets_are_in_no_debug_output_and_no_error() {
    for reply in [failure("AccessDeniedException"), failure("SignatureDoesNotMatch")] {
        let (_, text) = describe(wrap_with_reply(reply).await);
        assert!(!text.contains(SECRET_ACCESS_KEY) && !text.contains("text of the service"));
    }
    let settings = settings("http://127.0.0.1:1");
    assert!(!format!("{settings:?}").contains(SECRET_ACCESS_KEY));
    let source = AwsKms::new(settings, fixed_clock()).unwrap();
    assert!(!format!("{source:?}").contains(SECRET_ACCESS_KEY));
}

#[tokio::test]
async fn invalid_settings_are_rejected() {
    let key_id = |text: &str| text.to_owned();
    for (settings, reason) in [
        (AwsKmsSettings { key_id: key_id("alias/vault"), ..settings("http://127.0.0.1") }, "alias"),
        (AwsKmsSettings { region: "eu-west-2".to_owned(), ..settings("http://[::1]") }, "region"),
        (AwsKmsSettings { region: "a/b".to_owned(), ..settings("http://[::1]") }, "region"),
        (settings("http://10.0.0.1"), "https"),
        (
            AwsKmsSettings { ca_file: Some("/missing.pem".into()), ..settings("http://[::1]") },
            "CA file /missing.pem",
        ),
    ] {
        assert_error(AwsKms::new(settings, fixed_clock()), "Settings", &[reason]);
    }
}
