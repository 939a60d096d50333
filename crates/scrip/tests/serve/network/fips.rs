//! The cryptographic module of the program: the usual one, or the FIPS module if the program and
//! this test are built with `--features fips`.

use std::process::{Command, Stdio};

use scrip_testing::process::harness::{ProcessHarness, RunningServer};

use crate::{
    SCRIP,
    keys::{assert_readable, create_token},
    network::tls_client::{create_certificate, with_tls},
    operator::commands::run_json,
};

const HAS_FIPS_MODULE: bool = cfg!(feature = "fips");

/// Whether a TLS client that offers only this cipher suite connects.
fn connects_with(server: &RunningServer, suite: &str) -> bool {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-tls1_3", "-ciphersuites", suite]);
    command.args(["-connect", &server.address.to_string()]).stdin(Stdio::null());
    let output = command.output().expect("run openssl");
    String::from_utf8_lossy(&output.stdout).contains(&format!("Cipher is {suite}"))
}

#[test]
fn fips_module_is_in_force_if_it_is_built_in() {
    let (process, key) = ProcessHarness::with_api_key(SCRIP);
    let report = run_json(&process, &["doctor"]);
    let checks = report["checks"].as_array().expect("checks").iter();
    let module = checks.clone().find(|it| it["check"] == "cryptography").expect("the module");
    assert_eq!(module["message"].as_str().unwrap().contains("FIPS"), HAS_FIPS_MODULE, "{module}");

    let process = process.with_variable("SCRIP_KEYS_REQUIRE_FIPS", "true");
    if HAS_FIPS_MODULE {
        let server = process.serve();
        let token = create_token(&server, &key);
        assert_readable(&server, &key, &token);
    } else {
        process.assert_fails(&["serve"], "keys.require_fips: this program has no FIPS module");
    }
}

#[test]
fn fips_build_rejects_cipher_suites_that_are_not_approved() {
    let process = with_tls(ProcessHarness::initialized(SCRIP));
    create_certificate(&process);
    let server = process.serve();
    assert!(connects_with(&server, "TLS_AES_256_GCM_SHA384"));
    assert_eq!(connects_with(&server, "TLS_CHACHA20_POLY1305_SHA256"), !HAS_FIPS_MODULE);
}
