//! A token of `SoftHSM` for one test.
//!
//! The library reads the path of its configuration from the environment of the process. So the test
//! program starts itself again for one test, with the environment of that test.

use std::{
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use scrip_seal::Secret;
use scrip_unlock::{Pkcs11Settings, TokenSelector};

pub(crate) const PIN: &str = "4321";
pub(crate) const KEY_LABEL: &str = "vault-key";
const TOKEN_LABEL: &str = "vault";
const CONFIGURATION: &str = "SOFTHSM2_CONF";
/// Set in the second process.
const FOLDER: &str = "SCRIP_TEST_SOFTHSM";

/// A folder with one token, which has one key.
#[derive(Debug)]
pub(crate) struct SoftHsm {
    folder: PathBuf,
}

/// Runs a test in a process with a token of its own. `test_name` is the path of the test.
pub(crate) async fn in_soft_hsm(test_name: &str, test: impl AsyncFnOnce(SoftHsm)) {
    if let Some(folder) = env::var_os(FOLDER) {
        return test(SoftHsm { folder: folder.into() }).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let hsm = SoftHsm { folder: folder.path().to_owned() };
    hsm.create_token();
    hsm.create_key(KEY_LABEL, "AES:32");
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test_name, "--nocapture"]).env(FOLDER, folder.path());
    let output = hsm.with_configuration(&mut command).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
}

/// The library, in the folders of Debian.
pub(crate) fn soft_hsm_library() -> PathBuf {
    let folders = ["/usr/lib/softhsm", "/usr/lib/x86_64-linux-gnu/softhsm"];
    let mut paths = folders.iter().map(|it| Path::new(it).join("libsofthsm2.so"));
    paths.find(|it| it.exists()).expect("SoftHSM is not installed: ./test installs it")
}

impl SoftHsm {
    pub(crate) fn settings(&self) -> Pkcs11Settings {
        Pkcs11Settings {
            library: soft_hsm_library(),
            token: TokenSelector::Label(TOKEN_LABEL.to_owned()),
            pin: Secret::new(PIN.as_bytes().to_vec()),
            key_label: KEY_LABEL.to_owned(),
            deadline: Duration::from_secs(60),
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn create_token(&self) {
        fs::create_dir(self.folder.join("tokens")).unwrap();
        let tokens = self.folder.join("tokens");
        let text = format!("directories.tokendir = {}\n", tokens.display());
        fs::write(self.folder.join("softhsm2.conf"), text).unwrap();
        let arguments = ["--init-token", "--free", "--label", TOKEN_LABEL, "--pin", PIN];
        let mut command = Command::new("softhsm2-util");
        self.run(command.args(arguments).args(["--so-pin", "12345678"]));
    }

    pub(crate) fn create_key(&self, label: &str, key_type: &str) {
        let mut command = Command::new("pkcs11-tool");
        command.arg("--module").arg(soft_hsm_library());
        command.args(["--token-label", TOKEN_LABEL, "--login", "--pin", PIN, "--keygen"]);
        self.run(command.args(["--key-type", key_type, "--label", label, "--sensitive"]));
    }

    /// The number that `SoftHSM` gave to the slot of the token.
    pub(crate) fn slot(&self) -> u64 {
        let output = self.run(Command::new("softhsm2-util").arg("--show-slots"));
        let line = output.lines().find(|it| it.starts_with("Slot ")).unwrap();
        line.trim_start_matches("Slot ").trim().parse().unwrap()
    }

    fn run(&self, command: &mut Command) -> String {
        let output = self.with_configuration(command).output();
        let output = output.expect("start softhsm2-util and pkcs11-tool (./test installs them)");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn with_configuration<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env(CONFIGURATION, self.folder.join::<&OsStr>("softhsm2.conf".as_ref()))
    }
}
