//! Neither the vault key nor a share is on disk in clear text, in any encoding.

use std::{fs, path::Path, time::Duration};

use aho_corasick::AhoCorasick;
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use scrip_testing::process::{harness::ProcessHarness, terminate, unlock_sources, wait};

use crate::{
    SCRIP,
    keys::{
        add_method, assert_readable, create_token, methods, pkcs11, read_vault_key,
        shares::{run_ceremony, unseal},
        text, transit,
    },
    operator::commands::run_json,
};

fn encoded_forms(secret: &[u8]) -> Vec<Vec<u8>> {
    let hex: String = secret.iter().map(|it| format!("{it:02x}")).collect();
    // Without the characters that depend on the bytes before and after.
    let base64_at = |offset: usize| {
        let text = STANDARD.encode([&vec![0; offset], secret].concat());
        text.as_bytes()[(offset * 8).div_ceil(6)..(offset + secret.len()) * 8 / 6].to_vec()
    };
    let mut forms = vec![secret.to_vec(), hex.to_uppercase().into_bytes(), hex.into_bytes()];
    forms.push(URL_SAFE_NO_PAD.encode(secret).into_bytes());
    forms.extend([base64_at(0), base64_at(1), base64_at(2)]);
    forms
}

/// The paths of the files that contain one of the patterns.
fn find_files(folder: &Path, finder: &AhoCorasick) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(find_files(&path, finder));
        } else if path.is_file() && finder.is_match(&fs::read(&path).unwrap()) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn vault_keys_and_shares_are_in_no_file_and_no_log() {
    let (process, key) = ProcessHarness::with_api_key(SCRIP);
    let (service, device) = (transit::TransitService::start(), pkcs11::Device::create(&process));
    let library = unlock_sources::soft_hsm::soft_hsm_library();
    let pin_file = device.pin_file.display();
    let sources = format!("{}, {}, {pin_file}", service.server.url(), library.display());
    let process = pkcs11::allow(transit::allow(process, &service), &device, &library)
        .with_variable("SCRIP_KEYS_UNLOCK_SOURCES", &sources)
        .with_variable("SCRIP_UNLOCK_KEY", "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=");
    let mut server = process.serve();
    let token = create_token(&server, &key);
    add_method(&process, "transit", &service.parameters());
    add_method(&process, "pkcs11", &device.parameters(&library));
    let file = process.path("unlock.key").display().to_string();
    run_json(&process, &["keys", "add", "file", &file]);
    run_json(&process, &["keys", "add", "env", "SCRIP_UNLOCK_KEY"]);
    let add = ["keys", "add", "shamir", "--shares", "3", "--threshold", "2"];
    let mut shares = run_ceremony(&process, &add, 3, &[0, 1]);
    let (first_key, first_version) = read_vault_key(&process);
    shares.extend(run_ceremony(&process, &["keys", "rotate", "vault"], 3, &[2, 1]));
    let (second_key, second_version) = read_vault_key(&process);
    assert_eq!((first_version, second_version), (1, 2));
    assert_ne!(first_key, second_key);

    // Shares alone open the vault.
    for method in methods(&process).iter().filter(|it| it["kind"] != "shamir") {
        run_json(&process, &["keys", "remove", &text(&method["id"])]);
    }
    server = process.restart(server);
    for share in &shares[4..6] {
        assert!(unseal(&process, share).status.success());
    }
    assert_readable(&server, &key, &token);
    terminate(&server.child);
    assert!(wait(&mut server.child, Duration::from_secs(15)).is_some());
    drop(server);

    let mut patterns = [first_key, second_key].map(|it| encoded_forms(&it)).concat();
    for share in &shares {
        let value = share.rsplit('-').next().unwrap();
        patterns.extend([value.as_bytes().to_vec(), value.to_lowercase().into_bytes()]);
    }
    let finder = AhoCorasick::new(&patterns).unwrap();
    let folder = process.path("");
    assert!(process.path("log").exists() && process.data().join("scrip.db").exists());
    assert_eq!(find_files(&folder, &finder), Vec::<String>::new());
    // The control: every form is found in the log and in the data directory.
    for pattern in &patterns {
        let planted = process.data().join("planted");
        fs::write(&planted, [b"x", pattern.as_slice(), b"x"].concat()).unwrap();
        assert_eq!(find_files(&folder, &finder), [planted.display().to_string()]);
    }
}
