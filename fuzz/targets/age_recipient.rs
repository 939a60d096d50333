//! A text is rejected as an age recipient, or can be encrypted for.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrip_seal::{AgeRecipient, Secret};

fuzz_target!(|text: &str| {
    let Ok(recipient) = AgeRecipient::parse(text) else { return };
    let file = recipient.encrypt(&Secret::new(b"share".to_vec()));
    assert!(file.starts_with("-----BEGIN AGE ENCRYPTED FILE-----\n"));
});
