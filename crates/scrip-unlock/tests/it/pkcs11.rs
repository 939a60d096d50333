//! PKCS#11 devices: `SoftHSM`, and a library that hangs.

mod hanging_device;
mod soft_hsm;

use scrip_seal::Secret;
use scrip_testing::process::unlock_sources::{
    observed_library::ObservedLibrary,
    soft_hsm::{KEY_LABEL, PIN, SoftHsm},
};
use scrip_unlock::{PinAttempts, Pkcs11, Pkcs11Settings, TokenSelector, UnlockSource};

use self::soft_hsm::{in_soft_hsm, settings};
use crate::support::{
    assert_error, assert_other_contexts_are_rejected, assert_round_trip, context, describe,
    vault_key,
};

fn source(settings: Pkcs11Settings) -> Pkcs11 {
    Pkcs11::new(settings).unwrap()
}

async fn wrap(settings: Pkcs11Settings) -> Result<Vec<u8>, scrip_unlock::UnlockError> {
    source(settings).wrap(&context(Pkcs11::KIND), &vault_key()).await
}

#[tokio::test]
async fn key_round_trips_through_the_token() {
    in_soft_hsm("pkcs11::key_round_trips_through_the_token", async |_: SoftHsm| {
        let source = source(settings());
        let first = assert_round_trip(&source, Pkcs11::KIND).await;
        let second = assert_round_trip(&source, Pkcs11::KIND).await;
        assert_ne!(first, second, "each wrapped key has its own nonce");
    })
    .await;
}

#[tokio::test]
async fn wrapped_key_of_another_context_is_rejected_by_the_token() {
    let name = "pkcs11::wrapped_key_of_another_context_is_rejected_by_the_token";
    in_soft_hsm(name, async |_: SoftHsm| {
        let source = source(settings());
        let wrapped = assert_round_trip(&source, Pkcs11::KIND).await;
        assert_other_contexts_are_rejected(&source, Pkcs11::KIND, &wrapped).await;
    })
    .await;
}

#[tokio::test]
async fn altered_wrapped_key_is_rejected() {
    in_soft_hsm("pkcs11::altered_wrapped_key_is_rejected", async |_: SoftHsm| {
        let source = source(settings());
        let wrapped = assert_round_trip(&source, Pkcs11::KIND).await;
        for index in 0..wrapped.len() {
            let mut altered = wrapped.clone();
            altered[index] ^= 1;
            assert_error(source.unwrap(&context(Pkcs11::KIND), &altered).await, "Rejected", &[]);
        }
        for length in 0..wrapped.len() {
            let result = source.unwrap(&context(Pkcs11::KIND), &wrapped[..length]).await;
            assert_error(result, "Rejected", &[]);
        }
    })
    .await;
}

#[tokio::test]
async fn token_is_found_by_its_slot() {
    in_soft_hsm("pkcs11::token_is_found_by_its_slot", async |hsm: SoftHsm| {
        let token = TokenSelector::Slot(hsm.slot());
        let by_slot = source(Pkcs11Settings { token, ..settings() });
        let wrapped = assert_round_trip(&by_slot, Pkcs11::KIND).await;
        let by_label = source(settings());
        assert!(by_label.unwrap(&context(Pkcs11::KIND), &wrapped).await.is_ok());
        let missing = Pkcs11Settings { token: TokenSelector::Slot(99_999), ..settings() };
        assert_error(wrap(missing).await, "Unavailable", &["no token in slot 99999"]);
    })
    .await;
}

/// A token locks itself after some wrong PINs.
#[tokio::test]
async fn wrong_pin_is_denied_and_not_tried_again() {
    in_soft_hsm("pkcs11::wrong_pin_is_denied_and_not_tried_again", async |hsm: SoftHsm| {
        let observed = ObservedLibrary::build(&hsm);
        let with_pin = |pin: &str| Pkcs11Settings {
            library: observed.library.clone(),
            pin: Secret::new(pin.as_bytes().to_vec()),
            ..settings()
        };
        let source = source(with_pin("9999"));
        let wrap_with_wrong_pin = async || source.wrap(&context(Pkcs11::KIND), &vault_key()).await;
        assert_error(wrap_with_wrong_pin().await, "Denied", &["rejects the PIN"]);
        for _ in 0..20 {
            assert_error(wrap_with_wrong_pin().await, "Denied", &["not tried again"]);
        }
        assert_eq!(observed.login_count(), 1);
        // A command does not try any PIN: the one of this token may be wrong, too.
        let command = |pin: &str| {
            let pin_attempts = PinAttempts::WithoutEarlierFailure;
            wrap(Pkcs11Settings { pin_attempts, ..with_pin(pin) })
        };
        assert_error(command(PIN).await, "Denied", &["this command does not try"]);
        assert_eq!(observed.login_count(), 1);
        // A source of a server with another PIN tries it.
        assert!(wrap(with_pin(PIN)).await.is_ok());
        assert_eq!(observed.login_count(), 2);
        assert!(command(PIN).await.is_ok());
    })
    .await;
}

#[tokio::test]
async fn last_attempt_of_a_token_is_not_used() {
    in_soft_hsm("pkcs11::last_attempt_of_a_token_is_not_used", async |hsm: SoftHsm| {
        let observed = ObservedLibrary::build(&hsm);
        let library = observed.library.clone();
        std::fs::write(&observed.final_try_file, "").unwrap();
        let result = wrap(Pkcs11Settings { library, ..settings() }).await;
        assert_error(result, "Denied", &["one more attempt to log in, which is not used"]);
        assert_eq!(observed.login_count(), 0);
    })
    .await;
}

#[tokio::test]
async fn missing_token_is_unavailable() {
    in_soft_hsm("pkcs11::missing_token_is_unavailable", async |_: SoftHsm| {
        let token = TokenSelector::Label("another token".to_owned());
        let result = wrap(Pkcs11Settings { token, ..settings() }).await;
        let advice = "restart the server if the token is new";
        assert_error(result, "Unavailable", &["no token with the label another token", advice]);
    })
    .await;
}

#[tokio::test]
async fn missing_ambiguous_and_short_keys_are_explained() {
    let name = "pkcs11::missing_ambiguous_and_short_keys_are_explained";
    in_soft_hsm(name, async |hsm: SoftHsm| {
        hsm.create_key("short", "AES:16");
        hsm.create_key("double", "AES:32");
        hsm.create_key("double", "AES:32");
        for (label, variant, advice) in [
            ("missing", "KeyMissing", "no AES key with the label missing"),
            ("short", "Settings", "fewer than 256 bits"),
            ("double", "Settings", "several AES keys"),
        ] {
            let key_label = label.to_owned();
            let result = wrap(Pkcs11Settings { key_label, ..settings() }).await;
            assert_error(result, variant, &[advice]);
        }
    })
    .await;
}

#[tokio::test]
async fn wrapped_key_of_another_key_of_the_token_is_rejected() {
    let name = "pkcs11::wrapped_key_of_another_key_of_the_token_is_rejected";
    in_soft_hsm(name, async |hsm: SoftHsm| {
        hsm.create_key("other-key", "AES:32");
        let wrapped = assert_round_trip(&source(settings()), Pkcs11::KIND).await;
        let key_label = "other-key".to_owned();
        let other = source(Pkcs11Settings { key_label, ..settings() });
        let result = other.unwrap(&context(Pkcs11::KIND), &wrapped).await;
        assert_error(result, "Rejected", &["another vault, unlock method, version or key"]);
    })
    .await;
}

#[tokio::test]
async fn concurrent_operations_share_one_login() {
    in_soft_hsm("pkcs11::concurrent_operations_share_one_login", async |_: SoftHsm| {
        let source = std::sync::Arc::new(source(settings()));
        let operations: Vec<_> = (0..16)
            .map(|_| {
                let source = std::sync::Arc::clone(&source);
                tokio::spawn(async move { assert_round_trip(&*source, Pkcs11::KIND).await })
            })
            .collect();
        for operation in operations {
            operation.await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn missing_library_and_another_library_are_rejected() {
    let no_library = |path: &str| Pkcs11Settings {
        library: path.into(),
        token: TokenSelector::Slot(0),
        pin: Secret::new(PIN.as_bytes().to_vec()),
        pin_attempts: PinAttempts::OncePerSource,
        key_label: KEY_LABEL.to_owned(),
        deadline: scrip_unlock::DEFAULT_DEADLINE,
    };
    let result = wrap(no_library("/missing/library.so")).await;
    assert_error(result, "Settings", &["cannot load the library /missing/library.so"]);
    let folder = tempfile::tempdir().unwrap();
    let text_file = folder.path().join("library.so");
    std::fs::write(&text_file, "text").unwrap();
    let result = wrap(no_library(text_file.to_str().unwrap())).await;
    assert_error(result, "Settings", &["cannot load the library"]);
    assert_error(Pkcs11::new(no_library("library.so")), "Settings", &["absolute path"]);
}

#[tokio::test]
async fn pin_is_in_no_debug_output_and_no_error() {
    let pin = "secret-pin";
    let settings = Pkcs11Settings {
        library: "/missing/library.so".into(),
        token: TokenSelector::Slot(0),
        pin: Secret::new(pin.as_bytes().to_vec()),
        pin_attempts: PinAttempts::OncePerSource,
        key_label: KEY_LABEL.to_owned(),
        deadline: scrip_unlock::DEFAULT_DEADLINE,
    };
    assert!(!format!("{settings:?}").contains(pin));
    let source = source(settings);
    assert!(!format!("{source:?}").contains(pin));
    let (_, text) = describe(source.wrap(&context(Pkcs11::KIND), &vault_key()).await);
    assert!(!text.contains(pin));
}
