//! What must hold of every sealed value, whatever its bytes.

use base64::{Engine, engine::general_purpose::STANDARD};
use proptest::prelude::*;

use super::*;
use crate::RootKey;

fn keys_of(tenant: &str) -> TenantKeys {
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
fn every_altered_byte_is_noticed() {
    let keys = keys_of("acme");
    let sealed = keys.seal(Purpose::Data, &place(), &secret(b"4242424242424242"));
    for at in 0..sealed.as_bytes().len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = sealed.as_bytes().to_vec();
            bytes[at] ^= flip;
            let opened = keys.open(Purpose::Data, &place(), &Sealed::from_stored(bytes));
            assert!(opened.is_err(), "byte {at} ^ {flip:#x}");
        }
    }
}

#[test]
fn every_truncation_is_noticed() {
    let keys = keys_of("acme");
    let sealed = keys.seal(Purpose::Data, &place(), &secret(b"4242"));
    for length in 0..sealed.as_bytes().len() {
        let short = Sealed::from_stored(sealed.as_bytes()[..length].to_vec());
        assert!(keys.open(Purpose::Data, &place(), &short).is_err(), "{length} bytes");
    }
}

#[test]
fn nothing_opens_elsewhere() {
    let keys = keys_of("acme");
    let sealed = keys.seal(Purpose::Data, &place(), &secret(b"4242"));
    let elsewhere = Place::new("token.body").text("acme").text("b-token");
    assert_eq!(keys.open(Purpose::Data, &elsewhere, &sealed).err(), Some(CannotOpen::Altered));
    assert_eq!(keys.open(Purpose::Answer, &place(), &sealed).err(), Some(CannotOpen::Altered));
    let other = keys_of("acme");
    assert_eq!(other.open(Purpose::Data, &place(), &sealed).err(), Some(CannotOpen::Altered));
}

#[test]
fn a_tenants_keys_are_bound_to_it() {
    let root = RootKey::from_text(&STANDARD.encode((9..41).collect::<Vec<u8>>())).unwrap();
    let wrapped = TenantKeys::create(&root, "acme").unwrap();
    assert!(TenantKeys::unwrap(&root, "globex", &wrapped).is_err());
}

#[test]
fn digests_are_keyed_and_typed() {
    let (one, two) = (keys_of("acme"), keys_of("globex"));
    assert_eq!(one.fingerprint("card", b"4242"), one.fingerprint("card", b"4242"));
    assert_ne!(one.fingerprint("card", b"4242"), one.fingerprint("token", b"4242"));
    assert_ne!(one.fingerprint("card", b"4242"), two.fingerprint("card", b"4242"));
    assert_ne!(one.index(b"4242"), two.index(b"4242"));
    assert_ne!(one.idempotency(b"ab", b"c"), one.idempotency(b"a", b"bc"));
}

proptest! {
    #[test]
    fn what_was_sealed_opens(plaintext: Vec<u8>, row: String) {
        let keys = keys_of("acme");
        let place = Place::new("token.body").text("acme").text(&row);
        let sealed = keys.seal(Purpose::Data, &place, &secret(&plaintext));
        let opened = keys.open(Purpose::Data, &place, &sealed).unwrap();
        prop_assert_eq!(opened.expose(), plaintext);
    }

    #[test]
    fn any_bytes_give_a_value_or_an_error(bytes: Vec<u8>, version in 0_u32..3) {
        let keys = keys_of("acme");
        prop_assert!(keys.open(Purpose::Data, &place(), &Sealed::from_stored(bytes.clone())).is_err());
        let mut framed = vec![1, 1];
        framed.extend_from_slice(&version.to_be_bytes());
        framed.extend_from_slice(&bytes);
        prop_assert!(keys.open(Purpose::Data, &place(), &Sealed::from_stored(framed)).is_err());
    }
}
