//! The randomness of the vaults: both vaults of a pair draw the same for one step.

use std::cell::Cell;

use scrip_testing::random::SeededRandom;

thread_local! {
    static VAULT_SEED: Cell<u64> = const { Cell::new(0) };
}

/// Restarts the randomness of the vaults of this thread. Both vaults draw the same for one step.
pub(crate) fn restart(seed: u64) {
    VAULT_SEED.set(seed);
}

/// The vault's source of randomness. A vault of this test runs on the thread that drives it.
pub(crate) fn fill(bytes: &mut [u8]) {
    let mut random = SeededRandom::new(VAULT_SEED.get());
    for chunk in bytes.chunks_mut(8) {
        let drawn = random.next_u64().to_be_bytes();
        chunk.copy_from_slice(&drawn[..chunk.len()]);
    }
    VAULT_SEED.set(random.next_u64());
}
