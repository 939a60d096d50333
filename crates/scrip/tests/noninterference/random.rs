//! The randomness of the vaults: both vaults of a pair draw the same values for one step.

use std::cell::Cell;

use scrip_testing::random::SeededRandom;

thread_local! {
    static VAULT_SEED: Cell<u64> = const { Cell::new(0) };
}

/// Restarts the randomness of the vaults of this thread. Both vaults draw the same values for one
/// step.
pub(crate) fn restart(seed: u64) {
    VAULT_SEED.set(seed);
}

/// Fills the bytes with seeded random values. The vaults use this function as their source of
/// randomness.
pub(crate) fn fill(bytes: &mut [u8]) {
    let mut random = SeededRandom::new(VAULT_SEED.get());
    for chunk in bytes.chunks_mut(8) {
        let random_bytes = random.next_u64().to_be_bytes();
        chunk.copy_from_slice(&random_bytes[..chunk.len()]);
    }
    VAULT_SEED.set(random.next_u64());
}
