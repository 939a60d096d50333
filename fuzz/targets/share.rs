//! A text is rejected as a share, or its share is written and parsed again unchanged.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrip_seal::{Share, ShareCollection};

fuzz_target!(|text: &str| {
    let Ok(share) = Share::parse(text) else { return };
    let written = share.to_text();
    let copy = Share::parse(str::from_utf8(written.expose()).unwrap()).unwrap();
    assert!(copy.to_text().constant_time_eq(written.expose()));
    let mut collection = ShareCollection::new(share.label(), share.threshold());
    collection.add(share).unwrap();
    assert!(collection.add(copy).is_err());
    assert!(collection.combine().is_err());
});
