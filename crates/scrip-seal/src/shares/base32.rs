//! Base 32 with Crockford's alphabet, which people can copy by hand: it has no I, L, O and U.
//!
//! A share passes through here, so no table is indexed by its bytes: each symbol is compared with
//! the whole alphabet.

use std::hint::black_box;

use zeroize::Zeroizing;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Letters that readers take for a digit.
const SIMILAR_LETTERS: [(u8, u8); 3] = [(b'i', 1), (b'l', 1), (b'o', 0)];

const GROUP_BYTES: usize = 5;
const GROUP_SYMBOLS: usize = 8;
/// How far the bits of each symbol are shifted in the number that a group of bytes is.
const SYMBOL_SHIFTS: [u32; GROUP_SYMBOLS] = [35, 30, 25, 20, 15, 10, 5, 0];
const BYTE_SHIFTS: [u32; GROUP_BYTES] = [32, 24, 16, 8, 0];

/// The number of symbols for this number of bytes.
pub(super) const fn encoded_length(byte_count: usize) -> usize {
    byte_count.saturating_mul(8).div_ceil(5)
}

/// Lower-case symbols. Unused bits of the last one are zero.
pub(super) fn encode(bytes: &[u8]) -> Zeroizing<Vec<u8>> {
    // With enough space: a list that grows leaves copies of itself in memory.
    let mut symbols = Zeroizing::new(Vec::with_capacity(encoded_length(bytes.len())));
    for group in bytes.chunks(GROUP_BYTES) {
        let number = group
            .iter()
            .zip(BYTE_SHIFTS)
            .fold(0, |number, (byte, shift)| number | u64::from(*byte).wrapping_shl(shift));
        let shifts = SYMBOL_SHIFTS.iter().take(encoded_length(group.len()));
        symbols.extend(shifts.map(|shift| encode_symbol(number.wrapping_shr(*shift) & 31)));
    }
    symbols
}

/// Accepts both cases. Returns `None` for other symbols, for a length that no bytes have, and if an
/// unused bit is not zero: bytes have one spelling, except for case and similar letters.
pub(super) fn decode(symbols: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let byte_count = symbols.len().checked_mul(5)?.checked_div(8)?;
    if encoded_length(byte_count) != symbols.len() {
        return None;
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(byte_count));
    let mut is_valid = true;
    for group in symbols.chunks(GROUP_SYMBOLS) {
        let mut number = 0;
        for (symbol, shift) in group.iter().zip(SYMBOL_SHIFTS) {
            let value = decode_symbol(*symbol);
            is_valid &= value.is_some();
            number |= u64::from(value.unwrap_or_default()).wrapping_shl(shift);
        }
        let (big_endian, used) =
            (number.to_be_bytes(), group.len().checked_mul(5)?.checked_div(8)?);
        let (group_bytes, unused_bits) = big_endian.get(3..)?.split_at_checked(used)?;
        is_valid &= unused_bits.iter().all(|it| *it == 0);
        bytes.extend_from_slice(group_bytes);
    }
    is_valid.then_some(bytes)
}

/// The symbol of a number below 32.
fn encode_symbol(number: u64) -> u8 {
    let candidates = (0..).zip(ALPHABET);
    candidates
        .fold(0, |symbol, (value, candidate)| symbol | candidate & equality_mask(value, number))
}

fn decode_symbol(symbol: u8) -> Option<u8> {
    let symbol = u64::from(symbol.to_ascii_lowercase());
    let alphabet = (0..).zip(ALPHABET).map(|(value, it)| (*it, value));
    let (mut value, mut is_known) = (0, 0);
    for (candidate, candidate_value) in alphabet.chain(SIMILAR_LETTERS) {
        let mask = equality_mask(candidate.into(), symbol);
        value |= candidate_value & mask;
        is_known |= mask;
    }
    (is_known != 0).then_some(value)
}

/// All ones if two numbers below 256 are equal, otherwise zero, without a branch.
fn equality_mask(left: u64, right: u64) -> u8 {
    let [.., mask] = black_box((left ^ right).wrapping_sub(1) >> 8).to_be_bytes();
    mask
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn encode_text(bytes: &[u8]) -> String {
        String::from_utf8(encode(bytes).to_vec()).unwrap()
    }

    #[test]
    fn known_bytes_have_known_symbols() {
        let cases: [(&[u8], &str); 7] = [
            (b"", ""),
            (&[0], "00"),
            (&[0xff], "zw"),
            (b"f", "cr"),
            (b"foobar", "csqpyrk1e8"),
            (&[0xff; 5], "zzzzzzzz"),
            (&[0x00, 0x44, 0x32, 0x14, 0xc7, 0x42, 0x54, 0xb6, 0x35, 0xcf], "0123456789abcdef"),
        ];
        for (bytes, symbols) in cases {
            assert_eq!(encode_text(bytes), symbols);
            assert_eq!(decode(symbols.as_bytes()).unwrap().to_vec(), bytes);
        }
    }

    #[test]
    fn each_symbol_of_both_cases_is_decoded() {
        for (value, symbol) in (0..).zip(ALPHABET) {
            assert_eq!(encode_symbol(value), *symbol);
            assert_eq!(decode_symbol(*symbol).map(u64::from), Some(value));
            assert_eq!(decode_symbol(symbol.to_ascii_uppercase()).map(u64::from), Some(value));
        }
        let known = (0..=255).filter(|it| decode_symbol(*it).is_some()).count();
        assert_eq!(known, 10 + 25 * 2, "ten digits, and every letter except U in both cases");
    }

    #[test]
    fn similar_letters_are_decoded_as_digits() {
        assert_eq!(decode(b"OoIiLl11").unwrap().to_vec(), decode(b"00111111").unwrap().to_vec());
    }

    #[test]
    fn unused_bits_and_impossible_lengths_are_rejected() {
        for symbols in ["0", "000", "000000", "zz", "01", "000001", "u0", "0-", "000000000"] {
            assert!(decode(symbols.as_bytes()).is_none(), "{symbols}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_unchanged(bytes in vec(any::<u8>(), 0..100)) {
            let symbols = encode(&bytes);
            prop_assert_eq!(symbols.len(), encoded_length(bytes.len()));
            prop_assert_eq!(decode(&symbols).unwrap().to_vec(), bytes);
        }

        /// Bytes have one spelling.
        #[test]
        fn any_symbols_are_rejected_or_encoded_unchanged(symbols in "[0-9a-hjkmnp-tv-z]{0,20}") {
            if let Some(bytes) = decode(symbols.as_bytes()) {
                prop_assert_eq!(encode_text(&bytes), symbols);
            }
        }
    }
}
