//! A device that does not return from a call.

use std::{fs, time::Duration};

use scrip_unlock::{Pkcs11, Pkcs11Settings, UnlockSource};

use super::{
    observed_library::ObservedLibrary,
    soft_hsm::{SoftHsm, in_soft_hsm},
};
use crate::support::{assert_error, assert_round_trip, context};

#[tokio::test]
async fn device_that_hangs_ends_at_the_deadline_and_works_again_later() {
    let name =
        "pkcs11::hanging_device::device_that_hangs_ends_at_the_deadline_and_works_again_later";
    in_soft_hsm(name, async |hsm: SoftHsm| {
        let ObservedLibrary { library, hang_file, .. } = ObservedLibrary::build(&hsm);
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
        assert_error(result, "Unavailable", &["4 calls into libobserved.so have not returned"]);
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
        let ObservedLibrary { library, hang_file, .. } = ObservedLibrary::build(&hsm);
        let deadline = Duration::from_millis(300);
        let source = Pkcs11::new(Pkcs11Settings { library, deadline, ..hsm.settings() }).unwrap();
        let wrapped = assert_round_trip(&source, Pkcs11::KIND).await;
        fs::write(&hang_file, "").unwrap();
        let result = source.unwrap(&context(Pkcs11::KIND), &wrapped).await;
        assert_error(result, "Unavailable", &["has not answered"]);
    })
    .await;
}
