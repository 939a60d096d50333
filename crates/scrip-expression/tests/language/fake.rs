//! Reproducible random bytes, and a hash that contains its inputs.

use std::cell::Cell;

use scrip_expression::{HmacAlgorithm, HostFunctions};

pub(crate) struct FakeHost {
    state: Cell<u64>,
}

impl FakeHost {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: Cell::new(seed) }
    }

    /// `SplitMix64`.
    pub(crate) fn next(&self) -> u64 {
        let state = self.state.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.state.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn number_below(&self, count: usize) -> usize {
        usize::try_from(self.next()).unwrap() % count
    }

    pub(crate) fn pick<'t, T: ?Sized>(&self, choices: &[&'t T]) -> &'t T {
        choices[self.number_below(choices.len())]
    }
}

impl HostFunctions for FakeHost {
    fn hmac(&self, algorithm: HmacAlgorithm, key: &[u8], message: &[u8]) -> Vec<u8> {
        [format!("{algorithm:?}").as_bytes(), key, message].join(&b'>')
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill_with(|| self.next().to_le_bytes()[0]);
    }
}
