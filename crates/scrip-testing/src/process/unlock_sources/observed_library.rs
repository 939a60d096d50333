//! A library in front of `SoftHSM` that counts logins, and hangs on request.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::process::unlock_sources::soft_hsm::{SoftHsm, soft_hsm_library};

const SOURCE: &str = "src/process/unlock_sources/observed_library.c";

#[derive(Debug)]
pub struct ObservedLibrary {
    pub library: PathBuf,
    /// Decryptions wait while this file exists.
    pub hang_file: PathBuf,
    /// The token has one attempt to log in while this file exists.
    pub final_try_file: PathBuf,
    login_file: PathBuf,
}

impl ObservedLibrary {
    /// Compiles the library into the folder of the token.
    pub fn build(hsm: &SoftHsm) -> Self {
        let path = |name: &str| hsm.folder().join(name);
        let observed = Self {
            library: path("libobserved.so"),
            hang_file: path("hang"),
            final_try_file: path("final-try"),
            login_file: path("logins"),
        };
        let manifest_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let define = |name: &str, path: &Path| format!("-D{name}=\"{}\"", path.display());
        let status = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(&observed.library)
            .arg(define("LIBRARY", &soft_hsm_library()))
            .arg(define("HANG_FILE", &observed.hang_file))
            .arg(define("FINAL_TRY_FILE", &observed.final_try_file))
            .arg(define("LOGIN_FILE", &observed.login_file))
            .arg(manifest_folder.join(SOURCE))
            .arg("-ldl")
            .status()
            .expect("start cc (./test installs it)");
        assert!(status.success());
        observed
    }

    pub fn login_count(&self) -> u64 {
        std::fs::metadata(&self.login_file).map_or(0, |it| it.len())
    }
}
