//! AWS KMS as an unlock method, with `moto` and a fake in its place.

use std::sync::{Arc, Mutex, OnceLock};

use base64::{Engine, engine::general_purpose::STANDARD};
use scrip_testing::process::{
    harness::ProcessHarness,
    unlock_sources::{
        fake_kms::{failure, play_kms},
        fake_peer::{FakePeer, Reply},
        moto_server::{MotoServer, REGION},
    },
};
use serde_json::json;

use crate::{
    SCRIP,
    keys::{
        add_method, assert_readable, assert_sealed, create_token, is_open, is_recorded, keep_only,
    },
};

const KEY_ARN: &str = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";
const SECRET_KEY: &str = "the-secret-access-key";

fn with_credentials(process: ProcessHarness) -> ProcessHarness {
    process
        .with_variable("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        .with_variable("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
}

fn parameters(key: &str, endpoint: &str) -> [String; 3] {
    [format!("key={key}"), format!("region={REGION}"), format!("endpoint={endpoint}")]
}

/// One server for all tests. It checks no signatures.
fn moto() -> &'static MotoServer {
    static SERVER: OnceLock<MotoServer> = OnceLock::new();
    SERVER.get_or_init(|| MotoServer::start(usize::MAX))
}

#[test]
fn kms_opens_the_vault_after_a_restart_without_the_root_key() {
    let (process, key) = ProcessHarness::with_api_key(SCRIP);
    let (process, kms_key) = (with_credentials(process), moto().create_key());
    let server = process.serve();
    let token = create_token(&server, &key);
    let id = add_method(&process, "aws-kms", &parameters(&kms_key, &moto().url()));
    keep_only(&process, &id);
    drop(server);
    let server = process.serve();
    assert_readable(&server, &key, &token);
    assert!(is_recorded(&process, &format!("unlock by aws-kms aws-kms ({id})"), "completed", 1));
    assert!(process.run(&["keys", "rotate", "vault"]).status.success());
    drop(server);
    assert_readable(&process.serve(), &key, &token);
    assert!(!process.log().contains(SECRET_KEY), "the log contains the secret");
}

/// Each failure keeps the vault sealed with advice. The vault opens when KMS works again.
#[test]
fn failing_kms_keeps_the_vault_sealed_until_it_works_again() {
    let process = with_credentials(ProcessHarness::initialized(SCRIP));
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().unwrap();
    let reply: Arc<Mutex<Option<Reply>>> = Arc::default();
    let shared = Arc::clone(&reply);
    let kms = runtime.block_on(FakePeer::start(move |request| {
        let reply = shared.lock().unwrap().clone();
        reply.unwrap_or_else(|| play_kms(request, KEY_ARN))
    }));
    let server = process.serve();
    assert!(is_open(&server));
    let id = add_method(&process, "aws-kms", &parameters(KEY_ARN, &kms.url()));
    keep_only(&process, &id);
    drop(server);
    let other_plaintext = STANDARD.encode([7; 32]);
    let answer = |key_arn: &str| {
        (200, json!({ "KeyId": key_arn, "Plaintext": other_plaintext }).to_string())
    };
    let other_key = KEY_ARN.replace("1234abcd", "99999999");
    for (failure, advice) in [
        (failure("AccessDeniedException"), "grant kms:Decrypt on arn:aws:kms:"),
        (failure("DisabledException"), "enable-key"),
        (answer(KEY_ARN), "returned another key"),
        (answer(&other_key), "used another key"),
    ] {
        *reply.lock().unwrap() = Some(failure);
        let server = process.serve();
        assert_sealed(&process, &server, advice);
        *reply.lock().unwrap() = None;
        assert!(is_open(&server), "{advice}: {}", process.log());
    }
    assert!(!process.log().contains(SECRET_KEY), "the log contains the secret");
}
