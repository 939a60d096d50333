//! A device that does not return from a call.

use std::{fs, time::Duration};

use scrip_testing::process::unlock_sources::{
    observed_library::ObservedLibrary, soft_hsm::SoftHsm,
};
use scrip_unlock::{Pkcs11, Pkcs11Settings, UnlockSource};
use tokio::time::sleep;

use super::soft_hsm::{in_soft_hsm, settings};
use crate::support::{assert_error, assert_round_trip, context};

#[tokio::test]
async fn device_that_hangs_ends_at_the_deadline_and_works_again_later() {
    let name =
        "pkcs11::hanging_device::device_that_hangs_ends_at_the_deadline_and_works_again_later";
    in_soft_hsm(name, async |hsm: SoftHsm| {
        let ObservedLibrary { library, hang_file, .. } = ObservedLibrary::build(&hsm);
        let with_deadline = |deadline| {
            let library = library.clone();
            Pkcs11::new(Pkcs11Settings { library, deadline, ..settings() }).unwrap()
        };
        let patient_source = with_deadline(Duration::from_secs(60));
        let wrapped = assert_round_trip(&patient_source, Pkcs11::KIND).await;
        let source = with_deadline(Duration::from_millis(500));
        fs::write(&hang_file, "").unwrap();
        for _ in 0..4 {
            let result = source.unwrap(&context(Pkcs11::KIND), &wrapped).await;
            assert_error(result, "Unavailable", &["has not answered", "within 500 ms"]);
        }
        // No fifth thread is started.
        let result = source.unwrap(&context(Pkcs11::KIND), &wrapped).await;
        assert_error(result, "Unavailable", &["4 calls into libobserved.so have not returned"]);
        fs::remove_file(&hang_file).unwrap();
        // The calls return, their threads end, and a machine under load gets some time.
        let mut result = source.unwrap(&context(Pkcs11::KIND), &wrapped).await;
        for _ in 0..100 {
            if result.is_ok() {
                break;
            }
            result = source.unwrap(&context(Pkcs11::KIND), &wrapped).await;
        }
        result.unwrap();
        wait_for_calls_to_return().await;
    })
    .await;
}

/// A process that ends while a thread runs inside of the library can crash, because the library
/// frees its memory at the end of the process.
async fn wait_for_calls_to_return() {
    let is_call = |task: fs::DirEntry| {
        // The file of a thread that has ended is missing.
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name == "pkcs11\n")
    };
    let has_call = || fs::read_dir("/proc/self/task").unwrap().flatten().any(is_call);
    for _ in 0..6_000 {
        if !has_call() {
            break;
        }
        sleep(Duration::from_millis(10)).await;
    }
    assert!(!has_call(), "a call into the library has not returned");
}

/// The process must end although a call has not returned.
#[tokio::test]
async fn call_that_hangs_does_not_keep_the_runtime_from_ending() {
    let name = "pkcs11::hanging_device::call_that_hangs_does_not_keep_the_runtime_from_ending";
    in_soft_hsm(name, async |hsm: SoftHsm| {
        let ObservedLibrary { library, hang_file, .. } = ObservedLibrary::build(&hsm);
        let with_deadline = |deadline| {
            let library = library.clone();
            Pkcs11::new(Pkcs11Settings { library, deadline, ..settings() }).unwrap()
        };
        let patient_source = with_deadline(Duration::from_secs(60));
        let wrapped = assert_round_trip(&patient_source, Pkcs11::KIND).await;
        fs::write(&hang_file, "").unwrap();
        let source = with_deadline(Duration::from_millis(300));
        let result = source.unwrap(&context(Pkcs11::KIND), &wrapped).await;
        assert_error(result, "Unavailable", &["has not answered"]);
    })
    .await;
}
