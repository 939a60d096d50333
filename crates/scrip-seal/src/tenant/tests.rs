//! Properties of every sealed value, whatever its bytes.

use base64::{Engine, engine::general_purpose::STANDARD};
use proptest::prelude::*;

use super::*;
use crate::RootKey;

fn keys_for_tenant(tenant: &str) -> TenantKeys {
    let root = RootKey::from_text(&STANDARD.encode((9..41).collect::<Vec<u8>>())).unwrap();
    let wrapped = TenantKeys::create(&root, tenant).unwrap();
    TenantKeys::unwrap(&root, tenant, &wrapped).unwrap()
}

fn place() -> Place {
    Place::new("token.body").text("acme").text("a-token")
}

fn secret(bytes: &[u8]) -> Secret {
    Secret::new(bytes.to_vec())
}

#[test]
fn sealed_value_with_any_altered_byte_is_rejected() {
    let keys = keys_for_tenant("acme");
    let sealed = keys.seal(Purpose::Data, &place(), &secret(b"4242424242424242"));
    for index in 0..sealed.as_bytes().len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = sealed.as_bytes().to_vec();
            bytes[index] ^= flip;
            let opened = keys.open(Purpose::Data, &place(), &Sealed::from_stored(bytes));
            assert!(opened.is_err(), "byte {index} ^ {flip:#x}");
        }
    }
}

#[test]
fn truncated_sealed_value_is_rejected() {
    let keys = keys_for_tenant("acme");
    let sealed = keys.seal(Purpose::Data, &place(), &secret(b"4242"));
    for length in 0..sealed.as_bytes().len() {
        let truncated = Sealed::from_stored(sealed.as_bytes()[..length].to_vec());
        assert!(keys.open(Purpose::Data, &place(), &truncated).is_err(), "{length} bytes");
    }
}

#[test]
fn sealed_value_does_not_open_with_other_place_purpose_or_keys() {
    let keys = keys_for_tenant("acme");
    let sealed = keys.seal(Purpose::Data, &place(), &secret(b"4242"));
    let other_place = Place::new("token.body").text("acme").text("b-token");
    assert_eq!(keys.open(Purpose::Data, &other_place, &sealed).err(), Some(OpenError::Altered));
    assert_eq!(keys.open(Purpose::Response, &place(), &sealed).err(), Some(OpenError::Altered));
    let other_keys = keys_for_tenant("acme");
    assert_eq!(other_keys.open(Purpose::Data, &place(), &sealed).err(), Some(OpenError::Altered));
}

#[test]
fn tenant_keys_do_not_unwrap_for_another_tenant() {
    let root = RootKey::from_text(&STANDARD.encode((9..41).collect::<Vec<u8>>())).unwrap();
    let wrapped = TenantKeys::create(&root, "acme").unwrap();
    assert!(TenantKeys::unwrap(&root, "globex", &wrapped).is_err());
}

#[test]
fn digests_differ_between_tenants_and_token_types() {
    let (acme, globex) = (keys_for_tenant("acme"), keys_for_tenant("globex"));
    assert_eq!(acme.fingerprint("card", b"4242"), acme.fingerprint("card", b"4242"));
    assert_ne!(acme.fingerprint("card", b"4242"), acme.fingerprint("token", b"4242"));
    assert_ne!(acme.fingerprint("card", b"4242"), globex.fingerprint("card", b"4242"));
    assert_ne!(acme.index_digest(b"4242"), globex.index_digest(b"4242"));
    assert_ne!(acme.idempotency_digest(b"ab", b"c"), acme.idempotency_digest(b"a", b"bc"));
}

/// Adds a version to the keys and unwraps them again.
fn add_version(root: &RootKey, wrapped: &mut WrappedTenantKeys) -> TenantKeys {
    let keys = TenantKeys::unwrap(root, "acme", wrapped).unwrap();
    let (version, key) = keys.create_version(root, "acme").unwrap();
    wrapped.add_version(version, key);
    TenantKeys::unwrap(root, "acme", wrapped).unwrap()
}

#[test]
fn added_version_opens_and_seals_only_after_its_promotion() {
    let root = RootKey::from_text(&STANDARD.encode((9..41).collect::<Vec<u8>>())).unwrap();
    let mut wrapped = TenantKeys::create(&root, "acme").unwrap();
    let first = TenantKeys::unwrap(&root, "acme", &wrapped).unwrap();
    let added = add_version(&root, &mut wrapped);
    assert_eq!((added.versions(), added.current_version()), (vec![1, 2], 1));
    let sealed = added.seal(Purpose::Data, &place(), &secret(b"4242"));
    assert_eq!(sealed.key_version(), Ok(1));
    wrapped.promote_newest();
    let promoted = TenantKeys::unwrap(&root, "acme", &wrapped).unwrap();
    let resealed = promoted.reseal(2, Purpose::Data, &place(), &sealed).unwrap().unwrap();
    assert_eq!(resealed.key_version(), Ok(2));
    assert_eq!(promoted.reseal(2, Purpose::Data, &place(), &resealed), Ok(None));
    let mut hidden = sealed.as_bytes().to_vec();
    hidden[5] = 2;
    let hidden = Sealed::from_stored(hidden);
    assert_eq!(hidden.key_version(), Ok(2));
    assert!(promoted.reseal(2, Purpose::Data, &place(), &hidden).is_err());
    for keys in [&added, &promoted] {
        assert_eq!(keys.open(Purpose::Data, &place(), &resealed).unwrap().expose(), b"4242");
    }
    // A node without the next version can repeat the request after a reload.
    let opened = first.open(Purpose::Data, &place(), &resealed);
    assert_eq!(opened.err(), Some(OpenError::KeyNotLoaded));
    wrapped.remove_old_versions();
    let last = TenantKeys::unwrap(&root, "acme", &wrapped).unwrap();
    assert_eq!(last.versions(), [2]);
    assert_eq!(last.open(Purpose::Data, &place(), &sealed).err(), Some(OpenError::KeyMissing));
    assert_eq!(last.fingerprint("card", b"4242"), first.fingerprint("card", b"4242"));
    assert_eq!(last.index_digest(b"4242"), first.index_digest(b"4242"));
}

#[test]
fn compromise_renews_policy_and_idempotency_keys_only() {
    let root = RootKey::from_text(&STANDARD.encode((9..41).collect::<Vec<u8>>())).unwrap();
    let mut wrapped = TenantKeys::create(&root, "acme").unwrap();
    let before = TenantKeys::unwrap(&root, "acme", &wrapped).unwrap();
    let renewed = TenantKeys::renew_permanent_key(&root, &root, "acme", &wrapped.permanent);
    wrapped.permanent = renewed.unwrap();
    let after = TenantKeys::unwrap(&root, "acme", &wrapped).unwrap();
    assert_eq!(after.fingerprint("card", b"4242"), before.fingerprint("card", b"4242"));
    assert_eq!(after.index_digest(b"4242"), before.index_digest(b"4242"));
    assert_eq!(after.card_number_digest(b"4242"), before.card_number_digest(b"4242"));
    assert_ne!(after.policy_mac(&place()), before.policy_mac(&place()));
    assert_ne!(after.idempotency_digest(b"a", b"b"), before.idempotency_digest(b"a", b"b"));
    assert_ne!(after.request_digest(&[b"a"]), before.request_digest(&[b"a"]));
    assert_ne!(after.guess_digest(&[b"a"]), before.guess_digest(&[b"a"]));
}

#[test]
fn fingerprint_renewal_changes_fingerprints_and_indexes_only() {
    let root = RootKey::from_text(&STANDARD.encode((9..41).collect::<Vec<u8>>())).unwrap();
    let mut wrapped = TenantKeys::create(&root, "acme").unwrap();
    let before = TenantKeys::unwrap(&root, "acme", &wrapped).unwrap();
    let begun = TenantKeys::begin_fingerprint_renewal(&root, "acme", &wrapped.permanent);
    wrapped.permanent = begun.unwrap();
    let current = TenantKeys::unwrap(&root, "acme", &wrapped).unwrap();
    let renewed = TenantKeys::unwrap_renewed(&root, "acme", &wrapped).unwrap();
    assert!(current.is_renewing_fingerprints() && !before.is_renewing_fingerprints());
    assert_eq!(current.fingerprint("card", b"4242"), before.fingerprint("card", b"4242"));
    // A second start continues with the same keys.
    let again = TenantKeys::begin_fingerprint_renewal(&root, "acme", &wrapped.permanent).unwrap();
    wrapped.permanent = again;
    let finished = TenantKeys::finish_fingerprint_renewal(&root, "acme", &wrapped.permanent);
    wrapped.permanent = finished.unwrap();
    let after = TenantKeys::unwrap(&root, "acme", &wrapped).unwrap();
    assert!(!after.is_renewing_fingerprints());
    assert_eq!(after.fingerprint("card", b"4242"), renewed.fingerprint("card", b"4242"));
    assert_ne!(after.fingerprint("card", b"4242"), before.fingerprint("card", b"4242"));
    assert_ne!(after.index_digest(b"4242"), before.index_digest(b"4242"));
    assert_eq!(after.policy_mac(&place()), before.policy_mac(&place()));
    assert_eq!(after.card_number_digest(b"4242"), before.card_number_digest(b"4242"));
    assert_eq!(after.idempotency_digest(b"a", b"b"), before.idempotency_digest(b"a", b"b"));
}

#[test]
fn unknown_promoted_version_does_not_make_the_keys_unusable() {
    let root = RootKey::from_text(&STANDARD.encode((9..41).collect::<Vec<u8>>())).unwrap();
    let mut wrapped = TenantKeys::create(&root, "acme").unwrap();
    wrapped.promoted = Some(7);
    assert_eq!(TenantKeys::unwrap(&root, "acme", &wrapped).unwrap().current_version(), 1);
}

proptest! {
    #[test]
    fn sealed_value_opens_to_its_plaintext(plaintext: Vec<u8>, row: String) {
        let keys = keys_for_tenant("acme");
        let place = Place::new("token.body").text("acme").text(&row);
        let sealed = keys.seal(Purpose::Data, &place, &secret(&plaintext));
        let opened = keys.open(Purpose::Data, &place, &sealed).unwrap();
        prop_assert_eq!(opened.expose(), plaintext);
    }

    #[test]
    fn arbitrary_bytes_are_rejected_without_panic(bytes: Vec<u8>, version in 0_u32..3) {
        let keys = keys_for_tenant("acme");
        prop_assert!(keys.open(Purpose::Data, &place(), &Sealed::from_stored(bytes.clone())).is_err());
        let mut framed = vec![1, 1];
        framed.extend_from_slice(&version.to_be_bytes());
        framed.extend_from_slice(&bytes);
        prop_assert!(keys.open(Purpose::Data, &place(), &Sealed::from_stored(framed)).is_err());
    }
}
