//! A text is rejected as a JWE, or is not opened by a key pair that did not receive it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrip_seal::{ClientKeyPair, Jwe, Secret};

fuzz_target!(|text: &str| {
    let Ok(jwe) = Jwe::parse(text) else { return };
    let key_pair = ClientKeyPair::from_private_key(Secret::new(vec![7; 32])).unwrap();
    assert!(key_pair.open(&jwe).is_err());
});
