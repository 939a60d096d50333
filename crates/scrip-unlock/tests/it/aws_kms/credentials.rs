//! Credentials that come from a file or a service, expire, and are renewed.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
};

use base64::{Engine, engine::general_purpose::STANDARD};
use scrip_testing::process::unlock_sources::fake_peer::{FakePeer, PeerRequest, Reply};
use scrip_unlock::{AwsCredentialSource, AwsKms, AwsKmsSettings, UnlockSource};
use serde_json::json;

use super::{KEY_ARN, settings};
use crate::support::{NOW, assert_error, context, fixed_clock, vault_key};

const ROLE_PATH: &str = "/latest/meta-data/iam/security-credentials/";

fn encrypted() -> Reply {
    let body = json!({"KeyId": KEY_ARN, "CiphertextBlob": STANDARD.encode("ciphertext")});
    (200, body.to_string())
}

/// A KMS that records the access keys of requests.
async fn start_kms() -> FakePeer {
    FakePeer::with_replies(vec![encrypted()]).await
}

fn access_keys(kms: &FakePeer) -> Vec<String> {
    let find = |request: PeerRequest| {
        let header = request.header("authorization").to_owned();
        let (_, rest) = header.split_once("Credential=").unwrap();
        rest.split_once('/').unwrap().0.to_owned()
    };
    kms.requests().into_iter().map(find).collect()
}

/// A metadata service: each request for credentials returns a new access key that expires in an
/// hour.
async fn start_metadata_service() -> FakePeer {
    let count = AtomicUsize::new(0);
    FakePeer::start(move |request| {
        let token = request.header("x-aws-ec2-metadata-token");
        match (request.method.as_str(), request.path.as_str()) {
            ("PUT", "/latest/api/token") => {
                let lifetime = request.header("x-aws-ec2-metadata-token-ttl-seconds");
                assert!((1..=21_600).contains(&lifetime.parse::<u32>().unwrap()));
                (200, "metadata-token".to_owned())
            }
            _ if token != "metadata-token" => (401, String::new()),
            ("GET", ROLE_PATH) => (200, "vault-role".to_owned()),
            ("GET", path) if path == format!("{ROLE_PATH}vault-role") => {
                let number = count.fetch_add(1, Ordering::Relaxed) + 1;
                let body = json!({
                    "Code": "Success",
                    "LastUpdated": "2026-09-21T14:13:20Z",
                    "Type": "AWS-HMAC",
                    "AccessKeyId": format!("ASIA{number}"),
                    "SecretAccessKey": "secret",
                    "Token": format!("session-token-{number}"),
                    // One hour after `NOW`.
                    "Expiration": "2026-09-21T15:13:20Z",
                });
                (200, body.to_string())
            }
            _ => (404, String::new()),
        }
    })
    .await
}

fn instance_credentials(metadata: &FakePeer) -> AwsCredentialSource {
    AwsCredentialSource::InstanceMetadata { endpoint: Some(metadata.url()) }
}

async fn wrap(source: &AwsKms) -> Result<Vec<u8>, scrip_unlock::UnlockError> {
    source.wrap(&context(AwsKms::KIND), &vault_key()).await
}

#[tokio::test]
async fn instance_credentials_are_cached_and_renewed_before_they_expire() {
    let (kms, metadata) = (start_kms().await, start_metadata_service().await);
    let time = Arc::new(AtomicI64::new(NOW));
    let clock = Arc::clone(&time);
    let settings =
        AwsKmsSettings { credentials: instance_credentials(&metadata), ..settings(&kms.url()) };
    let source = AwsKms::new(settings, Arc::new(move || clock.load(Ordering::Relaxed))).unwrap();
    for seconds in [0, 3000, 3299, 3301] {
        time.store(NOW + seconds, Ordering::Relaxed);
        wrap(&source).await.unwrap();
    }
    assert_eq!(access_keys(&kms), ["ASIA1", "ASIA1", "ASIA1", "ASIA2"]);
    let session_tokens: Vec<_> =
        kms.requests().iter().map(|it| it.header("x-amz-security-token").to_owned()).collect();
    assert_eq!(session_tokens[0], "session-token-1");
    assert_eq!(session_tokens[3], "session-token-2");
}

#[tokio::test]
async fn valid_credentials_are_used_while_the_metadata_service_fails() {
    let kms = start_kms().await;
    let is_failing = Arc::new(AtomicUsize::new(0));
    let flag = Arc::clone(&is_failing);
    let body = json!({
        "AccessKeyId": "ASIA1", "SecretAccessKey": "secret", "Token": "token",
        "Expiration": "2026-09-21T15:13:20Z",
    });
    let metadata = FakePeer::start(move |request| match request.path.as_str() {
        _ if flag.load(Ordering::Relaxed) == 1 => (500, String::new()),
        "/latest/api/token" => (200, "token".to_owned()),
        ROLE_PATH => (200, "role".to_owned()),
        _ => (200, body.to_string()),
    })
    .await;
    let time = Arc::new(AtomicI64::new(NOW));
    let clock = Arc::clone(&time);
    let settings =
        AwsKmsSettings { credentials: instance_credentials(&metadata), ..settings(&kms.url()) };
    let source = AwsKms::new(settings, Arc::new(move || clock.load(Ordering::Relaxed))).unwrap();
    wrap(&source).await.unwrap();
    is_failing.store(1, Ordering::Relaxed);
    time.store(NOW + 3500, Ordering::Relaxed);
    wrap(&source).await.unwrap();
    time.store(NOW + 3601, Ordering::Relaxed);
    assert_error(wrap(&source).await, "Unavailable", &["metadata service answered 500"]);
}

#[tokio::test]
async fn credentials_that_aws_rejects_are_requested_again_once() {
    let rejection = (400, json!({"__type": "ExpiredTokenException"}).to_string());
    let kms = FakePeer::with_replies(vec![rejection.clone(), encrypted()]).await;
    let metadata = start_metadata_service().await;
    let settings_for = |kms: &FakePeer| AwsKmsSettings {
        credentials: instance_credentials(&metadata),
        ..settings(&kms.url())
    };
    wrap(&AwsKms::new(settings_for(&kms), fixed_clock()).unwrap()).await.unwrap();
    assert_eq!(access_keys(&kms), ["ASIA1", "ASIA2"]);

    let kms = FakePeer::with_replies(vec![rejection]).await;
    let result = wrap(&AwsKms::new(settings_for(&kms), fixed_clock()).unwrap()).await;
    assert_error(result, "Denied", &["the role of the instance", "ExpiredTokenException"]);
    assert_eq!(kms.requests().len(), 2);
}

#[tokio::test]
async fn instance_without_role_or_metadata_service_is_explained() {
    let kms = start_kms().await;
    for (status, variant, advice) in [
        (404, "Settings", "attach an IAM role"),
        (403, "Denied", "hop limit"),
        (500, "Unavailable", "500"),
    ] {
        let metadata = FakePeer::start(move |request| match request.path.as_str() {
            "/latest/api/token" if status != 403 => (200, "token".to_owned()),
            _ => (status, String::new()),
        })
        .await;
        let settings =
            AwsKmsSettings { credentials: instance_credentials(&metadata), ..settings(&kms.url()) };
        let result = wrap(&AwsKms::new(settings, fixed_clock()).unwrap()).await;
        assert_error(result, variant, &[advice]);
    }
}

#[tokio::test]
async fn web_identity_token_that_sts_rejects_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    let kms = start_kms().await;
    let code =
        |name: &str| format!("<ErrorResponse><Error><Code>{name}</Code></Error></ErrorResponse>");
    let sts = FakePeer::with_replies(vec![
        (400, code("ExpiredTokenException")),
        (403, code("AccessDenied")),
        (400, code("IDPCommunicationError")),
        (503, String::new()),
        (200, "<html>".to_owned()),
    ])
    .await;
    let credentials = AwsCredentialSource::WebIdentity {
        role_arn: "arn:aws:iam::111122223333:role/vault".to_owned(),
        token_file: token_file.clone(),
        session_name: "scrip".to_owned(),
        sts_endpoint: Some(sts.url()),
    };
    let settings = AwsKmsSettings { credentials, ..settings(&kms.url()) };
    let source = AwsKms::new(settings, fixed_clock()).unwrap();
    assert_error(wrap(&source).await, "Unavailable", &["token does not exist"]);
    fs::write(&token_file, "a.b.c").unwrap();
    let role = "trust policy of arn:aws:iam::111122223333:role/vault";
    assert_error(wrap(&source).await, "Denied", &["ExpiredTokenException", role]);
    assert_error(wrap(&source).await, "Denied", &["AccessDenied", role]);
    assert_error(wrap(&source).await, "Unavailable", &["IDPCommunicationError"]);
    assert_error(wrap(&source).await, "Unavailable", &["503"]);
    assert_error(wrap(&source).await, "Unavailable", &["returned no credentials"]);
    assert!(kms.requests().is_empty());
    let body = String::from_utf8(sts.requests()[0].body.clone()).unwrap();
    assert_eq!(
        body,
        "Action=AssumeRoleWithWebIdentity&Version=2011-06-15\
         &RoleArn=arn%3Aaws%3Aiam%3A%3A111122223333%3Arole%2Fvault\
         &RoleSessionName=scrip&WebIdentityToken=a.b.c"
    );
}

#[tokio::test]
async fn profile_file_is_read_for_each_operation() {
    let kms = start_kms().await;
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("credentials");
    let write = |id: &str| {
        let text = format!("[vault]\naws_access_key_id={id}\naws_secret_access_key=secret\n");
        fs::write(&path, text).unwrap();
    };
    let profile = |name: &str| AwsKmsSettings {
        credentials: AwsCredentialSource::ProfileFile {
            path: path.clone(),
            profile: name.to_owned(),
        },
        ..settings(&kms.url())
    };
    let source = AwsKms::new(profile("vault"), fixed_clock()).unwrap();
    assert_error(wrap(&source).await, "Unavailable", &["credentials does not exist"]);
    write("AKID1");
    wrap(&source).await.unwrap();
    write("AKID2");
    wrap(&source).await.unwrap();
    assert_eq!(access_keys(&kms), ["AKID1", "AKID2"]);
    let source = AwsKms::new(profile("other"), fixed_clock()).unwrap();
    assert_error(wrap(&source).await, "Settings", &["there is no profile other"]);
}
