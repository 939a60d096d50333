//! AWS KMS played by `moto`, which checks signatures, permissions and the encryption context.

use scrip_seal::Secret;
use scrip_testing::process::unlock_sources::moto_server::{
    AccessKeyText, EnforcingServer, MotoServer, REGION,
};
use scrip_unlock::{AwsCredentialSource, AwsKms, AwsKmsSettings, UnlockSource};

use super::settings;
use crate::support::{
    assert_error, assert_other_contexts_are_rejected, assert_round_trip, context, fixed_clock,
    vault_key,
};

fn credentials(key: &AccessKeyText) -> AwsCredentialSource {
    let secret = Secret::new(key.secret.as_bytes().to_vec());
    AwsCredentialSource::AccessKey { id: key.id.clone(), secret, session_token: None }
}

/// The access key of the allowed user with another secret.
fn forged_credentials(moto: &EnforcingServer) -> AwsCredentialSource {
    let id = moto.allowed_user.id.clone();
    credentials(&AccessKeyText { id, secret: "another secret".to_owned() })
}

fn source_with(key_arn: &str, credentials: AwsCredentialSource) -> AwsKms {
    let moto = EnforcingServer::shared();
    let settings =
        AwsKmsSettings { key_id: key_arn.to_owned(), credentials, ..settings(&moto.server.url()) };
    AwsKms::new(settings, fixed_clock()).unwrap()
}

fn allowed_source() -> AwsKms {
    let moto = EnforcingServer::shared();
    source_with(&moto.key_arn, credentials(&moto.allowed_user))
}

#[tokio::test]
async fn key_round_trips_with_a_verified_signature() {
    assert_round_trip(&allowed_source(), AwsKms::KIND).await;
}

#[tokio::test]
async fn key_id_without_arn_names_the_same_key() {
    let moto = EnforcingServer::shared();
    let (_, key_id) = moto.key_arn.split_once(":key/").unwrap();
    let source = source_with(key_id, credentials(&moto.allowed_user));
    let wrapped = assert_round_trip(&source, AwsKms::KIND).await;
    let key = allowed_source().unwrap(&context(AwsKms::KIND), &wrapped).await.unwrap();
    assert_eq!(key.expose(), vault_key().expose());
}

#[tokio::test]
async fn wrapped_key_of_another_context_is_rejected_by_kms() {
    let source = allowed_source();
    let wrapped = assert_round_trip(&source, AwsKms::KIND).await;
    assert_other_contexts_are_rejected(&source, AwsKms::KIND, &wrapped).await;
}

#[tokio::test]
async fn altered_wrapped_key_is_rejected_by_kms() {
    let source = allowed_source();
    let mut wrapped = assert_round_trip(&source, AwsKms::KIND).await;
    *wrapped.last_mut().unwrap() ^= 1;
    assert_error(source.unwrap(&context(AwsKms::KIND), &wrapped).await, "Rejected", &["altered"]);
}

#[tokio::test]
async fn wrong_secret_access_key_is_denied() {
    let moto = EnforcingServer::shared();
    let source = source_with(&moto.key_arn, forged_credentials(moto));
    let result = source.wrap(&context(AwsKms::KIND), &vault_key()).await;
    assert_error(result, "Denied", &["check the credentials of the access key AKIA"]);
}

#[tokio::test]
async fn identity_without_permission_is_denied() {
    let moto = EnforcingServer::shared();
    let source = source_with(&moto.key_arn, credentials(&moto.denied_user));
    let result = source.wrap(&context(AwsKms::KIND), &vault_key()).await;
    assert_error(result, "Denied", &["grant kms:Encrypt on arn:aws:kms:"]);
    let wrapped = assert_round_trip(&allowed_source(), AwsKms::KIND).await;
    let result = source.unwrap(&context(AwsKms::KIND), &wrapped).await;
    assert_error(result, "Denied", &["grant kms:Decrypt on arn:aws:kms:"]);
}

/// KMS answers as if the identity had no permission for the key in the ciphertext.
#[tokio::test]
async fn wrapped_key_of_another_kms_key_is_denied() {
    let moto = EnforcingServer::shared();
    let wrapped = assert_round_trip(&allowed_source(), AwsKms::KIND).await;
    let other_source = source_with(&moto.other_key_arn, credentials(&moto.allowed_user));
    let result = other_source.unwrap(&context(AwsKms::KIND), &wrapped).await;
    assert_error(result, "Denied", &["grant kms:Decrypt on"]);
}

#[tokio::test]
async fn unknown_key_is_missing() {
    let moto = EnforcingServer::shared();
    let unknown_key = format!("arn:aws:kms:{REGION}:123456789012:key/{}", super::KEY_ID);
    let source = source_with(&unknown_key, credentials(&moto.allowed_user));
    let result = source.wrap(&context(AwsKms::KIND), &vault_key()).await;
    assert_error(result, "KeyMissing", &["AWS KMS has no key", "check the key id"]);
}

#[tokio::test]
async fn web_identity_token_is_exchanged_for_credentials_of_the_role() {
    let moto = MotoServer::start(usize::MAX);
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    std::fs::write(&token_file, "header.payload.signature\n").unwrap();
    let settings = AwsKmsSettings {
        key_id: moto.create_key(),
        credentials: AwsCredentialSource::WebIdentity {
            role_arn: "arn:aws:iam::123456789012:role/vault".to_owned(),
            token_file,
            session_name: "scrip".to_owned(),
            sts_endpoint: Some(moto.url()),
        },
        ..settings(&moto.url())
    };
    let source = AwsKms::new(settings, fixed_clock()).unwrap();
    assert_round_trip(&source, AwsKms::KIND).await;
}
