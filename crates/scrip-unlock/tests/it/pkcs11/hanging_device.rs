//! A device that does not return from a call.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use scrip_unlock::{Pkcs11, Pkcs11Settings, UnlockSource};

use super::soft_hsm::{SoftHsm, in_soft_hsm, soft_hsm_library};
use crate::support::{assert_error, assert_round_trip, context};

/// Compiles a library that forwards all calls, except that a decryption waits while a file exists.
fn build_hanging_library(hang_file: &Path, folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/pkcs11/hanging_library.c");
    let library = folder.join("libhanging.so");
    let define = |name: &str, path: &Path| format!("-D{name}=\"{}\"", path.display());
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(define("LIBRARY", &soft_hsm_library()))
        .arg(define("HANG_FILE", hang_file))
        .arg(source)
        .arg("-ldl")
        .status()
        .expect("start cc (./test installs it)");
    assert!(status.success());
    library
}

#[tokio::test]
async fn device_that_hangs_ends_at_the_deadline_and_works_again_later() {
    let name =
        "pkcs11::hanging_device::device_that_hangs_ends_at_the_deadline_and_works_again_later";
    in_soft_hsm(name, async |hsm: SoftHsm| {
        let hang_file = hsm.folder().join("hang");
        let library = build_hanging_library(&hang_file, hsm.folder());
        let deadline = Duration::from_millis(500);
        let settings = Pkcs11Settings { library, deadline, ..hsm.settings() };
        let source = Pkcs11::new(settings).unwrap();
        let wrapped = assert_round_trip(&source, Pkcs11::KIND).await;
        fs::write(&hang_file, "").unwrap();
        for _ in 0..4 {
            let result = source.unwrap(&context(Pkcs11::KIND), &wrapped).await;
            assert_error(result, "Unavailable", &["has not answered", "within 500 ms"]);
        }
        // No fifth thread is started.
        let result = source.unwrap(&context(Pkcs11::KIND), &wrapped).await;
        assert_error(result, "Unavailable", &["4 calls into libhanging.so have not returned"]);
        fs::remove_file(&hang_file).unwrap();
        // The calls return, and their threads end.
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(source.unwrap(&context(Pkcs11::KIND), &wrapped).await.is_ok());
    })
    .await;
}

/// The process must end although a call has not returned.
#[tokio::test]
async fn call_that_hangs_does_not_keep_the_runtime_from_ending() {
    let name = "pkcs11::hanging_device::call_that_hangs_does_not_keep_the_runtime_from_ending";
    in_soft_hsm(name, async |hsm: SoftHsm| {
        let hang_file = hsm.folder().join("hang");
        let library = build_hanging_library(&hang_file, hsm.folder());
        let deadline = Duration::from_millis(300);
        let source = Pkcs11::new(Pkcs11Settings { library, deadline, ..hsm.settings() }).unwrap();
        let wrapped = assert_round_trip(&source, Pkcs11::KIND).await;
        fs::write(&hang_file, "").unwrap();
        let result = source.unwrap(&context(Pkcs11::KIND), &wrapped).await;
        assert_error(result, "Unavailable", &["has not answered"]);
    })
    .await;
}
