//! Runs a test with a token of `SoftHSM`.
//!
//! The library reads the path of its configuration from the environment of the process. So the test
//! program starts itself again for one test, with the environment of that test.

use std::{env, path::Path, process::Command, time::Duration};

use scrip_seal::Secret;
use scrip_testing::process::unlock_sources::soft_hsm::{
    KEY_LABEL, PIN, SoftHsm, TOKEN_LABEL, soft_hsm_library,
};
use scrip_unlock::{PinAttempts, Pkcs11Settings, TokenSelector};

/// Set in the second process.
const FOLDER: &str = "SCRIP_TEST_SOFTHSM";

/// Runs a test in a process with a token of its own. `test_name` is the path of the test.
pub(crate) async fn in_soft_hsm(test_name: &str, test: impl AsyncFnOnce(SoftHsm)) {
    if let Some(folder) = env::var_os(FOLDER) {
        return test(SoftHsm::open(Path::new(&folder))).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let hsm = SoftHsm::create(folder.path());
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test_name, "--nocapture"]).env(FOLDER, folder.path());
    let output = hsm.with_configuration(&mut command).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{}\n{text}\n{errors}",
        output.status
    );
}

pub(crate) fn settings() -> Pkcs11Settings {
    Pkcs11Settings {
        library: soft_hsm_library(),
        token: TokenSelector::Label(TOKEN_LABEL.to_owned()),
        pin: Secret::new(PIN.as_bytes().to_vec()),
        pin_attempts: PinAttempts::OncePerSource,
        key_label: KEY_LABEL.to_owned(),
        deadline: Duration::from_secs(60),
    }
}
