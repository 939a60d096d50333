//! Randomness from the cryptographic library's generator.

use aws_lc_rs::rand;

/// # Panics
/// The operating system has no randomness to give. Nothing safe can be done without it.
#[expect(clippy::expect_used, reason = "a vault without randomness must stop, not go on")]
pub fn fill_random(bytes: &mut [u8]) {
    rand::fill(bytes).expect("the system's random generator answers");
}

pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    fill_random(&mut bytes);
    bytes
}
