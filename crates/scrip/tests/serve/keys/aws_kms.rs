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
        open_database,
    },
    process::verification_codes::serve_ready,
};

const KEY_ARN: &str = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";
const SECRET_KEY: &str = "the-secret-access-key";

/// Gives the server credentials, and lets it use a key at an endpoint.
fn allow(process: ProcessHarness, key: &str, endpoint: &str) -> ProcessHarness {
    process
        .with_variable("SCRIP_KEYS_UNLOCK_SOURCES", &format!("{key}, {endpoint}"))
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
    let kms_key = moto().create_key();
    let process = allow(process, &kms_key, &moto().url());
    let server = process.serve();
    let token = create_token(&server, &key);
    let id = add_method(&process, "aws-kms", &parameters(&kms_key, &moto().url()));
    keep_only(&process, &id);
    let server = process.restart(server);
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
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().unwrap();
    let reply: Arc<Mutex<Option<Reply>>> = Arc::default();
    let shared = Arc::clone(&reply);
    let kms = runtime.block_on(FakePeer::start(move |request| {
        let reply = shared.lock().unwrap().clone();
        reply.unwrap_or_else(|| play_kms(request, KEY_ARN))
    }));
    let process = allow(ProcessHarness::initialized(SCRIP), KEY_ARN, &kms.url());
    let server = serve_ready(&process);
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

/// A writer of the database must not choose the service that opens the vault.
#[test]
fn key_and_endpoint_outside_of_the_allowed_sources_are_never_asked() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().unwrap();
    let requests: Arc<Mutex<usize>> = Arc::default();
    let counted = Arc::clone(&requests);
    let kms = runtime.block_on(FakePeer::start(move |request| {
        *counted.lock().unwrap() += 1;
        play_kms(request, KEY_ARN)
    }));
    let process = ProcessHarness::initialized(SCRIP);
    let process = allow(process, KEY_ARN, "https://kms.example");
    let server = serve_ready(&process);
    let other_key = KEY_ARN.replace("1234abcd", "99999999");
    for (parameters, refused) in [
        (parameters(KEY_ARN, &kms.url()), kms.url()),
        (parameters(&other_key, "https://kms.example"), other_key.clone()),
    ] {
        let mut arguments = vec!["keys", "add", "aws-kms"];
        arguments.extend(parameters.iter().flat_map(|it| ["--set", it.as_str()]));
        process.assert_fails(&arguments, &format!("{refused} is not in keys.unlock_sources"));
    }
    // The same by SQL: the start asks no other service.
    drop(server);
    let row = json!({ "key": KEY_ARN, "region": REGION, "endpoint": kms.url() }).to_string();
    let sql = "UPDATE unlocks SET kind = 'aws-kms', parameters = ?1";
    open_database(&process).execute(sql, [row]).unwrap();
    let server = process.serve();
    assert_sealed(&process, &server, "is not in keys.unlock_sources");
    assert_eq!(*requests.lock().unwrap(), 0);
}
