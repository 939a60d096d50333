//! A token of `SoftHSM` for one test. The library reads the path of its configuration from the
//! environment of the process.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

pub const PIN: &str = "4321";
pub const KEY_LABEL: &str = "vault-key";
pub const TOKEN_LABEL: &str = "vault";
/// The variable with the path of the configuration.
pub const CONFIGURATION: &str = "SOFTHSM2_CONF";

/// A folder with one token, which has one key.
#[derive(Debug)]
pub struct SoftHsm {
    folder: PathBuf,
}

/// The library, in the folders of Debian.
pub fn soft_hsm_library() -> PathBuf {
    let folders = ["/usr/lib/softhsm", "/usr/lib/x86_64-linux-gnu/softhsm"];
    let mut paths = folders.iter().map(|it| Path::new(it).join("libsofthsm2.so"));
    paths.find(|it| it.exists()).expect("SoftHSM is not installed: ./test installs it")
}

impl SoftHsm {
    /// A new token with one key in this folder.
    pub fn create(folder: &Path) -> Self {
        let hsm = Self { folder: folder.to_owned() };
        hsm.create_token();
        hsm.create_key(KEY_LABEL, "AES:32");
        hsm
    }

    /// The token that [`SoftHsm::create`] made in this folder.
    pub fn open(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The value of the variable [`CONFIGURATION`].
    pub fn configuration(&self) -> PathBuf {
        self.folder.join("softhsm2.conf")
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn create_token(&self) {
        fs::create_dir(self.folder.join("tokens")).unwrap();
        let tokens = self.folder.join("tokens");
        let text = format!("directories.tokendir = {}\n", tokens.display());
        fs::write(self.configuration(), text).unwrap();
        let arguments = ["--init-token", "--free", "--label", TOKEN_LABEL, "--pin", PIN];
        let mut command = Command::new("softhsm2-util");
        self.run(command.args(arguments).args(["--so-pin", "12345678"]));
    }

    pub fn create_key(&self, label: &str, key_type: &str) {
        let mut command = Command::new("pkcs11-tool");
        command.arg("--module").arg(soft_hsm_library());
        command.args(["--token-label", TOKEN_LABEL, "--login", "--pin", PIN, "--keygen"]);
        self.run(command.args(["--key-type", key_type, "--label", label, "--sensitive"]));
    }

    pub fn delete_key(&self, label: &str) {
        let mut command = Command::new("pkcs11-tool");
        command.arg("--module").arg(soft_hsm_library());
        command.args(["--token-label", TOKEN_LABEL, "--login", "--pin", PIN, "--delete-object"]);
        self.run(command.args(["--type", "secrkey", "--label", label]));
    }

    /// The number that `SoftHSM` gave to the slot of the token.
    pub fn slot(&self) -> u64 {
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

    pub fn with_configuration<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env(CONFIGURATION, self.configuration())
    }
}
