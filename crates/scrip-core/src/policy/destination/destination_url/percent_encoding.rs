//! Percent-decoding, once or completely.

/// Decodes once. `None` if no character was encoded. The result is shorter than the input.
pub(super) fn percent_decode(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut remaining = bytes;
    while let [first, tail @ ..] = remaining {
        match (decode_triple(remaining), tail) {
            (Some(byte), [_, _, tail @ ..]) => {
                decoded.push(byte);
                remaining = tail;
            }
            (Some(_) | None, _) => {
                decoded.push(*first);
                remaining = tail;
            }
        }
    }
    (decoded.len() < bytes.len()).then_some(decoded)
}

/// Decodes until nothing is encoded, in one pass: a chain such as `%252525…` must not cost a pass
/// for each link.
pub(super) fn decode_completely(bytes: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(bytes.len());
    for byte in bytes {
        decoded.push(*byte);
        // Each replacement removes two bytes, so their number is limited by the input.
        while let Some(start) = decoded.len().checked_sub(3) {
            let Some(byte) = decoded.get(start..).and_then(decode_triple) else { break };
            decoded.truncate(start);
            decoded.push(byte);
        }
    }
    decoded
}

pub(super) fn is_encoded(bytes: &[u8]) -> bool {
    bytes.windows(3).any(|it| decode_triple(it).is_some())
}

/// Decodes the first three bytes, if they are an encoded byte.
fn decode_triple(bytes: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = bytes else { return None };
    Some((hex_digit(*high)? << 4) | hex_digit(*low)?)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|it| u8::try_from(it).ok())
}
