//! CRC-32 as of IEEE 802.3: it finds damage, and is no proof of who wrote something.

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    let mut remainder: u32 = 0;
    while byte < 256 {
        let mut bits = 0;
        let mut value = remainder;
        while bits < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ 0xEDB8_8320 } else { value >> 1 };
            bits += 1;
        }
        #[expect(clippy::indexing_slicing, reason = "a constant: out of range does not compile")]
        {
            table[byte] = value;
        }
        byte += 1;
        remainder += 1;
    }
    table
}

pub(super) fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        let [low, ..] = crc.to_le_bytes();
        let place = usize::from(low ^ byte);
        (crc >> 8) ^ TABLE.get(place).copied().unwrap_or_default()
    };
    !bytes.iter().fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
