//! Lower-case hexadecimal text.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

pub fn encode_hex(bytes: &[u8]) -> String {
    let digit = |it: u8| DIGITS.get(usize::from(it)).copied().map_or('0', char::from);
    bytes.iter().flat_map(|it| [digit(it >> 4), digit(it & 0xf)]).collect()
}

/// Returns `None` unless the text has the form that [`encode_hex`] writes, of `N` bytes.
pub fn decode_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let value = |it: u8| DIGITS.iter().position(|digit| *digit == it);
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let decode = |[high, low]: &[u8; 2]| u8::try_from((value(*high)? << 4) | value(*low)?).ok();
    pairs.iter().map(decode).collect::<Option<Vec<_>>>()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lower_case_text_of_the_right_length_is_decoded() {
        let bytes = [0x00, 0x1f, 0xa9, 0xff];
        assert_eq!(encode_hex(&bytes), "001fa9ff");
        assert_eq!(decode_hex("001fa9ff"), Some(bytes));
        for text in ["", "001fa9f", "001fa9ff00", "001FA9FF", "001fa9fg", "001fa9f\u{e9}"] {
            assert_eq!(decode_hex::<4>(text), None, "{text}");
        }
    }
}
