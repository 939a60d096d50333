//! A hardware module as an unlock method, with `SoftHSM` in its place.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use scrip_testing::process::{
    harness::{ProcessHarness, becomes_true},
    unlock_sources::{
        observed_library::ObservedLibrary,
        soft_hsm::{CONFIGURATION, KEY_LABEL, PIN, SoftHsm, TOKEN_LABEL, soft_hsm_library},
    },
};

use crate::{
    SCRIP,
    keys::{
        add_method, assert_readable, assert_sealed, create_token, is_open, is_recorded, keep_only,
        methods, open_database, stderr,
    },
    operator::commands::{doctor_report, run_json, run_text},
    process::verification_codes::serve_ready,
    telemetry::metrics::scrape,
};

/// A token with the folder of its vault.
pub(super) struct Device {
    pub(super) hsm: SoftHsm,
    pub(super) pin_file: PathBuf,
}

impl Device {
    pub(super) fn create(process: &ProcessHarness) -> Self {
        let folder = process.path("token");
        fs::create_dir(&folder).unwrap();
        let device = Self { hsm: SoftHsm::create(&folder), pin_file: process.path("pin") };
        device.write_pin(PIN);
        device
    }

    fn write_pin(&self, pin: &str) {
        fs::write(&self.pin_file, format!("{pin}\n")).unwrap();
        fs::set_permissions(&self.pin_file, Permissions::from_mode(0o600)).unwrap();
    }

    pub(super) fn parameters(&self, library: &Path) -> Vec<String> {
        vec![
            format!("library={}", library.display()),
            format!("token_label={TOKEN_LABEL}"),
            format!("key_label={KEY_LABEL}"),
            format!("pin_file={}", self.pin_file.display()),
        ]
    }
}

/// Lets the server of this vault use a library.
pub(super) fn allow(process: ProcessHarness, device: &Device, library: &Path) -> ProcessHarness {
    let sources = format!("{}, {}", library.display(), device.pin_file.display());
    process
        .with_variable(CONFIGURATION, &device.hsm.configuration().display().to_string())
        .with_variable("SCRIP_KEYS_UNLOCK_SOURCES", &sources)
}

#[test]
fn device_opens_the_vault_after_a_restart_without_the_root_key() {
    let (process, key) = ProcessHarness::with_api_key(SCRIP);
    let (device, library) = (Device::create(&process), soft_hsm_library());
    let process = allow(process, &device, &library);
    let server = process.serve();
    let token = create_token(&server, &key);
    let id = add_method(&process, "pkcs11", &device.parameters(&library));
    keep_only(&process, &id);
    let server = process.restart(server);
    assert_readable(&server, &key, &token);
    assert!(is_recorded(&process, &format!("unlock by pkcs11 pkcs11 ({id})"), "completed", 1));
    // A command opens the vault by the device, too.
    assert!(run_text(&process, &["tenant", "list"]).contains("Development"));
    assert!(process.run(&["keys", "rotate", "vault"]).status.success());
    drop(server);
    assert_readable(&process.serve(), &key, &token);
}

#[test]
fn wrong_pin_keeps_the_vault_sealed_and_is_tried_once() {
    let process = ProcessHarness::initialized(SCRIP);
    let device = Device::create(&process);
    let observed = ObservedLibrary::build(&device.hsm);
    let process = allow(process, &device, &observed.library);
    let server = serve_ready(&process);
    let id = add_method(&process, "pkcs11", &device.parameters(&observed.library));
    keep_only(&process, &id);
    drop(server);

    device.write_pin("9999");
    let logins = observed.login_count();
    let server = process.serve();
    assert_sealed(&process, &server, "the token rejects the PIN: correct it");
    // The server tries again every few seconds, but not with this PIN.
    assert_sealed(&process, &server, "not tried again");
    for _ in 0..2 {
        let status = run_text(&process, &["status"]);
        let advice = "correct the PIN in pin_file; the server tries the new one by itself";
        assert!(status.contains(advice), "{status}");
        let list = run_text(&process, &["keys", "list"]);
        assert!(list.contains(" unknown ") && !list.contains(" active "), "{list}");
        let report = doctor_report(&process);
        assert!(report.contains("this command does not try"), "{report}");
        assert!(report.contains(advice), "{report}");
        process.assert_fails(&["tenant", "list"], "this command does not try");
    }
    assert_eq!(observed.login_count(), logins + 1, "a wrong PIN locks a token");
    assert!(!process.log().contains("9999"), "the log contains the PIN");
    device.write_pin(PIN);
    assert!(is_open(&server), "the right PIN opens the vault: {}", process.log());
}

/// A wrong PIN counts towards the lock of the token, so each one is tried once, by one process.
#[test]
fn wrong_pin_of_a_command_causes_no_login_of_the_server() {
    let (process, key) = ProcessHarness::with_api_key(SCRIP);
    let device = Device::create(&process);
    let observed = ObservedLibrary::build(&device.hsm);
    let process = allow(process, &device, &observed.library);
    let server = process.serve();
    let token = create_token(&server, &key);
    let id = add_method(&process, "pkcs11", &device.parameters(&observed.library));
    keep_only(&process, &id);
    let server = process.restart(server);
    assert_readable(&server, &key, &token);
    // The check after the start reads the right PIN; the next one is in ten minutes.
    let is_checked = || methods(&process).iter().all(|it| it["is_working"] == true);
    assert!(becomes_true(is_checked), "{:?}", methods(&process));

    device.write_pin("9999");
    let logins = observed.login_count();
    // The server runs other commands, and needs no login for them.
    run_json(&process, &["tenant", "list"]);
    assert_eq!(observed.login_count(), logins);
    process.assert_fails(&["audit", "verify"], "the token rejects the PIN: correct it");
    assert_eq!(observed.login_count(), logins + 1, "the command tries the PIN once");
    for arguments in [["audit", "verify"], ["keys", "list"], ["doctor", "--json"]] {
        let output = process.run(&arguments);
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(!text.contains("9999"), "{text}");
    }
    process.assert_fails(&["audit", "verify"], "so this command does not try one");
    process.run(&["status"]);
    assert_readable(&server, &key, &token);
    assert_eq!(observed.login_count(), logins + 1, "the server or a command tried a wrong PIN");
    assert!(!process.log().contains("9999"), "the log contains the PIN");
}

#[test]
fn deleted_key_of_the_device_is_reported_and_the_server_keeps_serving() {
    let (process, key) = ProcessHarness::with_api_key(SCRIP);
    let (device, library) = (Device::create(&process), soft_hsm_library());
    let process = allow(process, &device, &library)
        .with_variable("SCRIP_KEYS_CHECK_EVERY", "1s")
        .with_variable("SCRIP_METRICS_LISTEN", "127.0.0.1:0");
    let server = process.serve();
    let token = create_token(&server, &key);
    let id = add_method(&process, "pkcs11", &device.parameters(&library));
    keep_only(&process, &id);
    let metric = || scrape(&server).find("scrip_unlock_ok", &[("method", &id)]);
    assert!(becomes_true(|| metric() == Some(1.0)));
    device.hsm.delete_key(KEY_LABEL);
    assert!(becomes_true(|| metric() == Some(0.0)));
    assert_readable(&server, &key, &token);
    let cause = "the token has no AES key with the label vault-key";
    let report = doctor_report(&process);
    assert!(report.contains(cause), "{report}");
    let server = process.restart(server);
    assert_sealed(&process, &server, cause);
}

/// A library that writes a file when a process loads it.
fn build_marker_library(process: &ProcessHarness) -> (PathBuf, PathBuf) {
    let (library, marker) = (process.path("libmarker.so"), process.path("marker"));
    let source = process.path("marker.c");
    let code = "#include <stdio.h>\n__attribute__((constructor)) static void start(void) \
                { FILE *file = fopen(MARKER, \"w\"); fclose(file); }\n";
    fs::write(&source, code).unwrap();
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    command.arg(format!("-DMARKER=\"{}\"", marker.display()));
    assert!(command.status().expect("start cc (./test installs it)").success());
    (library, marker)
}

#[test]
fn library_outside_of_the_allowed_sources_is_never_loaded() {
    let process = ProcessHarness::initialized(SCRIP);
    let (device, allowed) = (Device::create(&process), soft_hsm_library());
    let (library, marker) = build_marker_library(&process);
    let process = allow(process, &device, &allowed);
    let server = serve_ready(&process);
    let mut arguments = vec!["keys".to_owned(), "add".to_owned(), "pkcs11".to_owned()];
    let parameters = device.parameters(&library);
    arguments.extend(parameters.into_iter().flat_map(|it| ["--set".to_owned(), it]));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    process.assert_fails(&arguments, "is not in keys.unlock_sources");
    let id = add_method(&process, "pkcs11", &device.parameters(&allowed));
    keep_only(&process, &id);
    drop(server);

    let sql = "UPDATE unlocks SET parameters = json_set(parameters, '$.library', ?1)";
    let changed = open_database(&process).execute(sql, [library.display().to_string()]).unwrap();
    assert_eq!((changed, methods(&process).len()), (1, 1));
    let server = process.serve();
    assert_sealed(&process, &server, "libmarker.so is not in keys.unlock_sources");
    let output = process.run(&["doctor"]);
    assert!(!output.status.success(), "{}", stderr(&output));
    assert!(!marker.exists(), "the library was loaded");
    drop(server);

    // The control: the settings allow this library.
    let process = allow(process, &device, &library);
    let server = process.serve();
    assert!(becomes_true(|| marker.exists()));
    assert_eq!(server.status("/readyz"), 503);
}
