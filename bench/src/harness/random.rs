//! Random bytes for ids and rows: cheap, and equal in every run.

/// A xorshift generator. Its values are not secret.
#[derive(Debug)]
pub(crate) struct XorshiftRandom(u64);

impl XorshiftRandom {
    /// Each seed gives a different sequence. Zero is replaced, because xorshift would stay at zero.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        for piece in out.chunks_mut(8) {
            for (to, from) in piece.iter_mut().zip(self.next().to_le_bytes()) {
                *to = from;
            }
        }
        out
    }

    pub(crate) fn uuid(&mut self) -> uuid::Uuid {
        uuid::Builder::from_random_bytes(self.bytes()).into_uuid()
    }

    /// A random item, or `None` if the list is empty.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(items.len()).unwrap_or(u64::MAX);
        let index = self.next().checked_rem(count)?;
        items.get(usize::try_from(index).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::XorshiftRandom;

    #[test]
    fn random_sequences_repeat_by_seed_and_differ_between_seeds() {
        assert_eq!(XorshiftRandom::new(1).uuid(), XorshiftRandom::new(1).uuid());
        assert_ne!(XorshiftRandom::new(1).uuid(), XorshiftRandom::new(2).uuid());
        assert_eq!(XorshiftRandom::new(1).pick::<u8>(&[]), None);
    }
}
