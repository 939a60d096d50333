//! Seeded random numbers: a run is reproduced by its seed.

use std::cell::Cell;

/// The generator `SplitMix64`.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap();
        usize::try_from(self.next() % bound).unwrap()
    }

    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// An item with a probability in proportion to its weight.
    pub(crate) fn weighted<T: Copy>(&mut self, items: &[(usize, T)]) -> T {
        let mut at = self.below(items.iter().map(|it| it.0).sum());
        for (weight, item) in items {
            match at.checked_sub(*weight) {
                None => return *item,
                Some(rest) => at = rest,
            }
        }
        unreachable!("the weights add up to the bound")
    }
}

thread_local! {
    static VAULT: Cell<u64> = const { Cell::new(0) };
}

/// Restarts the randomness of the vaults of this thread. Both vaults draw the same for one step.
pub(crate) fn restart(seed: u64) {
    VAULT.set(seed);
}

/// The vault's source of randomness. A vault of this test runs on the thread that drives it.
pub(crate) fn fill(bytes: &mut [u8]) {
    let mut random = Random::new(VAULT.get());
    for chunk in bytes.chunks_mut(8) {
        let drawn = random.next().to_be_bytes();
        chunk.copy_from_slice(&drawn[..chunk.len()]);
    }
    VAULT.set(random.next());
}
