//! Random bytes from the generator of the cryptographic library.

use aws_lc_rs::rand;

/// # Panics
/// The operating system provides no randomness. The vault cannot continue safely without it.
#[expect(clippy::expect_used, reason = "a vault without randomness must stop")]
pub fn fill_random(bytes: &mut [u8]) {
    rand::fill(bytes).expect("the system's random generator works");
}

pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    fill_random(&mut bytes);
    bytes
}
