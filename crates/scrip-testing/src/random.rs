//! Random numbers from a seed, to reproduce a run, and random durations without a seed.

use std::{
    hash::{BuildHasher, RandomState},
    ops::Range,
    time::Duration,
};

/// The generator `SplitMix64`.
#[derive(Debug, Clone)]
pub struct SeededRandom(u64);

impl SeededRandom {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A random number from `min` to `max`, both included.
    pub fn in_inclusive_range(&mut self, min: i64, max: i64) -> i64 {
        min + i64::try_from(self.next_u64() % u64::try_from(max - min + 1).unwrap()).unwrap()
    }

    /// A random number less than the bound.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap();
        usize::try_from(self.next_u64() % bound).unwrap()
    }

    /// Draws a random number and returns `true` with this probability.
    pub fn chance_in_percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// A random item. Its probability is proportional to its weight, the first part of the pair.
    pub fn pick_weighted<T: Copy>(&mut self, items: &[(usize, T)]) -> T {
        let mut remaining = self.below(items.iter().map(|it| it.0).sum());
        for (weight, item) in items {
            match remaining.checked_sub(*weight) {
                None => return *item,
                Some(difference) => remaining = difference,
            }
        }
        unreachable!("the weights add up to the bound")
    }
}

/// A random duration in this range of milliseconds.
pub fn random_duration(range_ms: Range<u64>) -> Duration {
    let random = RandomState::new().hash_one(0_u8);
    Duration::from_millis(range_ms.start + random % (range_ms.end - range_ms.start))
}
