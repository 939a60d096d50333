//! Bech32 (BIP 173), the encoding of age keys. They are public, so nothing here is constant time.

/// Between the prefix and the data.
pub(super) const SEPARATOR: char = '1';
const ALPHABET: &str = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const CHECKSUM_SYMBOLS: usize = 6;
/// The coefficients of the code.
const GENERATOR: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];

/// The five bits of each lower-case symbol. Returns `None` if there is another character.
pub(super) fn parse_symbols(text: &str) -> Option<Vec<u8>> {
    let parse = |symbol| ALPHABET.find(symbol).and_then(|it| u8::try_from(it).ok());
    text.chars().map(parse).collect()
}

/// The data without its checksum. Returns `None` if the checksum is wrong.
pub(super) fn verify<'a>(prefix: &str, data: &'a [u8]) -> Option<&'a [u8]> {
    let (data_without_checksum, _) = data.split_last_chunk::<CHECKSUM_SYMBOLS>()?;
    (remainder(prefix, data) == 1).then_some(data_without_checksum)
}

/// Joins groups of five bits to bytes. Returns `None` if an unused bit is not zero.
pub(super) fn to_bytes(groups: &[u8]) -> Option<Vec<u8>> {
    let bits: Vec<u8> = groups
        .iter()
        .flat_map(|it| [4, 3, 2, 1, 0].map(|shift: u32| it.wrapping_shr(shift) & 1))
        .collect();
    let bytes = bits.chunks_exact(8);
    let unused_bits = bytes.remainder();
    if unused_bits.len() >= 5 || unused_bits.contains(&1) {
        return None;
    }
    Some(bytes.map(|it| it.iter().fold(0, |byte, bit| byte << 1 | bit)).collect())
}

/// The remainder of the code. It is 1 if the data ends with the correct checksum.
pub(super) fn remainder(prefix: &str, data: &[u8]) -> u32 {
    let high_bits = prefix.bytes().map(|it| it >> 5);
    let low_bits = prefix.bytes().map(|it| it & 31);
    let symbols = high_bits.chain([0]).chain(low_bits).chain(data.iter().copied());
    symbols.fold(1, |sum, symbol| {
        let highest = sum >> 25;
        let shifted = (sum & 0x01ff_ffff) << 5 ^ u32::from(symbol);
        (0..).zip(GENERATOR).fold(shifted, |sum, (bit, coefficient)| {
            if highest.wrapping_shr(bit) & 1 == 1 { sum ^ coefficient } else { sum }
        })
    })
}
