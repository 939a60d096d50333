//! A library in front of `SoftHSM` that counts logins, and hangs on request.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::soft_hsm::{SoftHsm, soft_hsm_library};

#[derive(Debug)]
pub(crate) struct ObservedLibrary {
    pub(crate) library: PathBuf,
    /// Decryptions wait while this file exists.
    pub(crate) hang_file: PathBuf,
    login_file: PathBuf,
}

impl ObservedLibrary {
    /// Compiles the library into the folder of the token.
    pub(crate) fn build(hsm: &SoftHsm) -> Self {
        let path = |name: &str| hsm.folder().join(name);
        let observed = Self {
            library: path("libobserved.so"),
            hang_file: path("hang"),
            login_file: path("logins"),
        };
        let manifest_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let define = |name: &str, path: &Path| format!("-D{name}=\"{}\"", path.display());
        let status = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(&observed.library)
            .arg(define("LIBRARY", &soft_hsm_library()))
            .arg(define("HANG_FILE", &observed.hang_file))
            .arg(define("LOGIN_FILE", &observed.login_file))
            .arg(manifest_folder.join("tests/it/pkcs11/observed_library.c"))
            .arg("-ldl")
            .status()
            .expect("start cc (./test installs it)");
        assert!(status.success());
        observed
    }

    pub(crate) fn login_count(&self) -> u64 {
        std::fs::metadata(&self.login_file).map_or(0, |it| it.len())
    }
}
