//! An unkeyed checksum. It detects changed bytes, but does not prove who wrote them.

use std::fmt;

use aws_lc_rs::digest;

/// Incremental SHA-256.
#[derive(Clone)]
pub struct Checksum(digest::Context);

impl Checksum {
    pub fn new() -> Self {
        Self(digest::Context::new(&digest::SHA256))
    }

    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(self) -> [u8; 32] {
        let mut sum = [0; 32];
        for (to, from) in sum.iter_mut().zip(self.0.finish().as_ref()) {
            *to = *from;
        }
        sum
    }
}

impl Default for Checksum {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Checksum")
    }
}

/// SHA-384 of some bytes. Browsers compare it with the attribute `integrity` of a script.
pub fn sha384_checksum(bytes: &[u8]) -> [u8; 48] {
    let mut sum = [0; 48];
    for (to, from) in sum.iter_mut().zip(digest::digest(&digest::SHA384, bytes).as_ref()) {
        *to = *from;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of FIPS 180-2, added in two parts.
    #[test]
    fn checksum_matches_fips_180_2_example() {
        let mut sum = Checksum::new();
        sum.add(b"a");
        sum.add(b"bc");
        let sum = sum.finish();
        assert_eq!((sum[..4].to_vec(), sum[31]), (vec![0xba, 0x78, 0x16, 0xbf], 0xad));
    }

    /// The example of FIPS 180-2.
    #[test]
    fn sha384_checksum_matches_fips_180_2_example() {
        let sum = sha384_checksum(b"abc");
        assert_eq!((sum[..4].to_vec(), sum[47]), (vec![0xcb, 0x00, 0x75, 0x3f], 0xa7));
    }
}
