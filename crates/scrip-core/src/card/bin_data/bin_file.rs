//! A table as bytes: what an import writes and a server reads.
//!
//! ```text
//! "SCRIPBIN"  version u32  rows u32  facts u32  stretches u32        all numbers big endian
//! facts:      brand, funding, digits: one byte each, 0 for none; country: two letters or two zeros;
//!             four times brand, funding
//! stretches:  from u32  to u32  facts u32
//! CRC-32 of all that u32
//! ```

use thiserror::Error;

use super::{
    BinDetails, BinDigits, BinTable, Brand, Country, Funding,
    details::{AdditionalBrand, AdditionalBrands},
    table::BinRange,
};

const MAGIC: &[u8; 8] = b"SCRIPBIN";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 24;
const DETAILS_BYTES: usize = 13;
const RANGE_BYTES: usize = 12;
const CHECKSUM_BYTES: usize = 4;

/// Why bytes are not a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BinFileError {
    #[error("it is not BIN data")]
    NotBinData,
    /// Of another version of the program.
    #[error("its version {0} is not known here")]
    UnknownVersion(u32),
    /// Cut short, or longer than it says.
    #[error("it is cut short or too long")]
    Length,
    #[error("its checksum fails")]
    Checksum,
    /// Whole, and yet not one that we would write.
    #[error("it is not as this program writes it")]
    Content,
}

impl BinTable {
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
        let len = encoded_len(self.details.len(), self.ranges.len()).unwrap_or(HEADER_BYTES);
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.extend_from_slice(&self.row_count.to_be_bytes());
        bytes.extend_from_slice(&count(self.details.len()));
        bytes.extend_from_slice(&count(self.ranges.len()));
        for facts in &self.details {
            bytes.extend_from_slice(&encode_details(facts));
        }
        for stretch in &self.ranges {
            bytes.extend_from_slice(&stretch.from.to_be_bytes());
            bytes.extend_from_slice(&stretch.to.to_be_bytes());
            bytes.extend_from_slice(&stretch.details_index.to_be_bytes());
        }
        let checksum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// # Errors
    /// The bytes are not what [`BinTable::to_bytes`] gave.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BinFileError> {
        let after = bytes.strip_prefix(MAGIC).ok_or(BinFileError::NotBinData)?;
        let (version, after) = read_u32(after)?;
        if version != VERSION {
            return Err(BinFileError::UnknownVersion(version));
        }
        let (rows, after) = read_u32(after)?;
        let (facts_count, after) = read_u32(after)?;
        let (stretches_count, after) = read_u32(after)?;
        let facts_count = usize::try_from(facts_count).map_err(|_| BinFileError::Length)?;
        let stretches_count = usize::try_from(stretches_count).map_err(|_| BinFileError::Length)?;
        if encoded_len(facts_count, stretches_count) != Some(bytes.len()) {
            return Err(BinFileError::Length);
        }
        let (covered, checksum) = bytes.split_last_chunk().ok_or(BinFileError::Length)?;
        if crc32fast::hash(covered) != u32::from_be_bytes(*checksum) {
            return Err(BinFileError::Checksum);
        }
        let facts_bytes = facts_count.checked_mul(DETAILS_BYTES).ok_or(BinFileError::Length)?;
        let (facts, after) = after.split_at_checked(facts_bytes).ok_or(BinFileError::Length)?;
        let (stretches, _) =
            after.split_last_chunk::<CHECKSUM_BYTES>().ok_or(BinFileError::Length)?;
        let (facts, _) = facts.as_chunks::<DETAILS_BYTES>();
        let (stretches, _) = stretches.as_chunks::<RANGE_BYTES>();
        let facts: Option<Vec<_>> = facts.iter().map(decode_details).collect();
        let mut table = Self {
            details: facts.ok_or(BinFileError::Content)?,
            row_count: rows,
            ..Self::default()
        };
        table.ranges.reserve_exact(stretches.len());
        table.ranges.extend(stretches.iter().map(decode_range));
        if table.is_valid() { Ok(table) } else { Err(BinFileError::Content) }
    }

    /// Stretches in order, apart from each other, with facts that are there.
    fn is_valid(&self) -> bool {
        let known = |it: &BinRange| {
            usize::try_from(it.details_index).is_ok_and(|it| it < self.details.len())
        };
        let possible = |it: &BinRange| it.from <= it.to && it.to <= 99_999_999;
        self.ranges.iter().all(|it| known(it) && possible(it))
            && self.ranges.is_sorted_by(|one, next| one.to < next.from)
    }
}

/// How long it is with so many of each.
fn encoded_len(facts: usize, stretches: usize) -> Option<usize> {
    let facts = facts.checked_mul(DETAILS_BYTES)?;
    let stretches = stretches.checked_mul(RANGE_BYTES)?;
    facts.checked_add(stretches)?.checked_add(HEADER_BYTES + CHECKSUM_BYTES)
}

fn read_u32(bytes: &[u8]) -> Result<(u32, &[u8]), BinFileError> {
    let (first, rest) = bytes.split_first_chunk().ok_or(BinFileError::Length)?;
    Ok((u32::from_be_bytes(*first), rest))
}

fn decode_range(bytes: &[u8; RANGE_BYTES]) -> BinRange {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *bytes;
    BinRange {
        from: u32::from_be_bytes([a, b, c, d]),
        to: u32::from_be_bytes([e, f, g, h]),
        details_index: u32::from_be_bytes([i, j, k, l]),
    }
}

fn encode_details(facts: &BinDetails) -> [u8; DETAILS_BYTES] {
    let BinDetails { brand, funding, country, bin_digits, additional } = facts;
    let country = country.and_then(|it| it.alpha2.as_bytes().first_chunk::<2>().copied());
    let [first, second] = country.unwrap_or_default();
    let [one, two, three, four] = additional.0.map(|it| {
        let brand = encode_index(&Brand::ALL, it.map(|it| it.brand));
        (brand, encode_index(&Funding::ALL, it.and_then(|it| it.funding)))
    });
    let brand = encode_index(&Brand::ALL, *brand);
    let funding = encode_index(&Funding::ALL, *funding);
    let digits = encode_index(&BinDigits::ALL, *bin_digits);
    [
        brand, funding, digits, first, second, one.0, one.1, two.0, two.1, three.0, three.1,
        four.0, four.1,
    ]
}

/// Nothing when one of the bytes has no meaning.
fn decode_details(bytes: &[u8; DETAILS_BYTES]) -> Option<BinDetails> {
    let [brand, funding, digits, first, second, additional @ ..] = bytes;
    let country = match [*first, *second] {
        [0, 0] => None,
        letters => {
            let found = Country::parse(str::from_utf8(&letters).ok()?)?;
            // As we write it: not in lower case.
            (found.alpha2.as_bytes() == letters).then_some(Some(found))?
        }
    };
    let (pairs, _) = additional.as_chunks::<2>();
    let mut read = AdditionalBrands::default();
    for (room, [brand, funding]) in read.0.iter_mut().zip(pairs) {
        *room = match (decode_index(&Brand::ALL, *brand)?, decode_index(&Funding::ALL, *funding)?) {
            (Some(brand), funding) => Some(AdditionalBrand { brand, funding }),
            (None, None) => None,
            (None, Some(_)) => return None,
        };
    }
    Some(BinDetails {
        brand: decode_index(&Brand::ALL, *brand)?,
        funding: decode_index(&Funding::ALL, *funding)?,
        country,
        bin_digits: decode_index(&BinDigits::ALL, *digits)?,
        additional: read,
    })
}

/// The place in a list, counted from one; zero for nothing.
fn encode_index<T: PartialEq + Copy>(list: &[T], value: Option<T>) -> u8 {
    let found = value.and_then(|value| list.iter().position(|it| *it == value));
    found.and_then(|it| u8::try_from(it).ok()?.checked_add(1)).unwrap_or(0)
}

/// What has that place; nothing at all when none does.
fn decode_index<T: Copy>(list: &[T], place: u8) -> Option<Option<T>> {
    match usize::from(place).checked_sub(1) {
        None => Some(None),
        Some(place) => list.get(place).copied().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{BinRow, PrefixRange},
        *,
    };

    fn sample() -> BinTable {
        let details = BinDetails {
            brand: Some(Brand::Visa),
            funding: Some(Funding::Prepaid),
            country: Country::parse("FR"),
            bin_digits: Some(BinDigits::Seven),
            additional: AdditionalBrands::default(),
        };
        let details = details.with_network(Brand::CartesBancaires, Some(Funding::Debit));
        let range = PrefixRange::from_prefix("4150580").unwrap();
        BinTable::build(vec![BinRow { range, details }])
    }

    /// The bytes of version 1, as files out there have them.
    const SAMPLE: &[u8] = b"SCRIPBIN\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01\
        \x0d\x03\x02FR\x0f\x02\0\0\0\0\0\0\
        \x02\x79\x54\x08\x02\x79\x54\x11\0\0\0\0";

    #[test]
    fn bin_file_version_one_keeps_its_byte_layout() {
        let bytes = sample().to_bytes();
        let (covered, checksum) = bytes.split_last_chunk::<4>().unwrap();
        assert_eq!(covered, SAMPLE);
        assert_eq!(u32::from_be_bytes(*checksum), crc32fast::hash(SAMPLE));
        assert_eq!(BinTable::from_bytes(&bytes), Ok(sample()));
    }

    /// CRC-32 as of IEEE 802.3, with the check value of the standard.
    #[test]
    fn bin_file_checksum_is_ieee_crc32() {
        assert_eq!(crc32fast::hash(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32fast::hash(b""), 0);
    }

    /// With a checksum that is right.
    fn decode_with_checksum(mut bytes: Vec<u8>) -> Result<BinTable, BinFileError> {
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        BinTable::from_bytes(&bytes)
    }

    #[test]
    fn damaged_bin_file_is_rejected_with_the_cause() {
        let whole = sample().to_bytes();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            let damage = BinTable::from_bytes(&bytes).unwrap_err();
            match at {
                0..8 => assert_eq!(damage, BinFileError::NotBinData),
                8..12 => assert!(matches!(damage, BinFileError::UnknownVersion(_))),
                16..24 => assert_eq!(damage, BinFileError::Length),
                _ => assert_eq!(damage, BinFileError::Checksum, "{at}"),
            }
            assert!(BinTable::from_bytes(&whole[..at]).is_err());
        }
        let longer = [whole.as_slice(), &[0]].concat();
        assert_eq!(BinTable::from_bytes(&longer), Err(BinFileError::Length));
        assert_eq!(BinTable::from_bytes(&BinTable::default().to_bytes()), Ok(BinTable::default()));
    }

    #[test]
    fn bin_file_with_invalid_content_is_rejected_despite_valid_checksum() {
        // Brand, funding, digits, country, second brand, its funding, from > to, to, facts.
        for (at, value) in
            [(24, 99), (25, 4), (26, 4), (27, b'X'), (29, 99), (30, 9), (37, 3), (41, 99), (48, 1)]
        {
            let mut bytes = SAMPLE.to_vec();
            bytes[at] = value;
            assert_eq!(decode_with_checksum(bytes), Err(BinFileError::Content), "{at}");
        }
        // The same stretch twice.
        let mut bytes = SAMPLE.to_vec();
        bytes[23] = 2;
        bytes.extend_from_slice(&SAMPLE[37..]);
        assert_eq!(decode_with_checksum(bytes), Err(BinFileError::Content));
    }
}
