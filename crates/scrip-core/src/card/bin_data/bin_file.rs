//! The BIN file: an import writes it and a server reads it.
//!
//! ```text
//! "SCRIPBIN"  version u32  rows u32  details u32  ranges u32         all numbers big endian
//! details:    brand, funding, digits: one byte each, 0 for none; country: two letters or zeros;
//!             four times brand, funding
//! ranges:     from u32  to u32  details index u32
//! CRC-32 of all bytes before u32
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

/// The reason for which bytes are not a valid BIN file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BinFileError {
    #[error("not a BIN data file")]
    NotBinData,
    /// Written by another version of the program.
    #[error("unsupported file version {0}")]
    UnknownVersion(u32),
    /// Truncated, or longer than the header states.
    #[error("the file is truncated or too long")]
    Length,
    #[error("the checksum does not match")]
    Checksum,
    /// The checksum is valid, but this program does not write such content.
    #[error("the content is not valid")]
    Content,
}

impl BinTable {
    pub fn to_bytes(&self) -> Vec<u8> {
        let encode_count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
        let len = encoded_len(self.details.len(), self.ranges.len()).unwrap_or(HEADER_BYTES);
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.extend_from_slice(&self.row_count.to_be_bytes());
        bytes.extend_from_slice(&encode_count(self.details.len()));
        bytes.extend_from_slice(&encode_count(self.ranges.len()));
        for details in &self.details {
            bytes.extend_from_slice(&encode_details(details));
        }
        for range in &self.ranges {
            bytes.extend_from_slice(&range.from.to_be_bytes());
            bytes.extend_from_slice(&range.to.to_be_bytes());
            bytes.extend_from_slice(&range.details_index.to_be_bytes());
        }
        let checksum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// Errors: the bytes are not the output of [`BinTable::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BinFileError> {
        let remaining = bytes.strip_prefix(MAGIC).ok_or(BinFileError::NotBinData)?;
        let (version, remaining) = read_u32(remaining)?;
        if version != VERSION {
            return Err(BinFileError::UnknownVersion(version));
        }
        let (row_count, remaining) = read_u32(remaining)?;
        let (details_count, remaining) = read_u32(remaining)?;
        let (range_count, remaining) = read_u32(remaining)?;
        let details_count = usize::try_from(details_count).map_err(|_| BinFileError::Length)?;
        let range_count = usize::try_from(range_count).map_err(|_| BinFileError::Length)?;
        if encoded_len(details_count, range_count) != Some(bytes.len()) {
            return Err(BinFileError::Length);
        }
        let (covered, checksum) = bytes.split_last_chunk().ok_or(BinFileError::Length)?;
        if crc32fast::hash(covered) != u32::from_be_bytes(*checksum) {
            return Err(BinFileError::Checksum);
        }
        let details_len = details_count.checked_mul(DETAILS_BYTES).ok_or(BinFileError::Length)?;
        let (details_bytes, remaining) =
            remaining.split_at_checked(details_len).ok_or(BinFileError::Length)?;
        let (range_bytes, _) =
            remaining.split_last_chunk::<CHECKSUM_BYTES>().ok_or(BinFileError::Length)?;
        let (details_chunks, _) = details_bytes.as_chunks::<DETAILS_BYTES>();
        let (range_chunks, _) = range_bytes.as_chunks::<RANGE_BYTES>();
        let details: Option<Vec<_>> = details_chunks.iter().map(decode_details).collect();
        let mut table =
            Self { details: details.ok_or(BinFileError::Content)?, row_count, ..Self::default() };
        table.ranges.reserve_exact(range_chunks.len());
        table.ranges.extend(range_chunks.iter().map(decode_range));
        if table.is_valid() { Ok(table) } else { Err(BinFileError::Content) }
    }

    /// Ranges are sorted and disjoint, and their details exist.
    fn is_valid(&self) -> bool {
        let has_details = |it: &BinRange| {
            usize::try_from(it.details_index).is_ok_and(|it| it < self.details.len())
        };
        let is_prefix_range = |it: &BinRange| it.from <= it.to && it.to <= 99_999_999;
        self.ranges.iter().all(|it| has_details(it) && is_prefix_range(it))
            && self.ranges.is_sorted_by(|first, second| first.to < second.from)
    }
}

/// The length of a file with this many details and ranges.
fn encoded_len(details_count: usize, range_count: usize) -> Option<usize> {
    let details_len = details_count.checked_mul(DETAILS_BYTES)?;
    let ranges_len = range_count.checked_mul(RANGE_BYTES)?;
    details_len.checked_add(ranges_len)?.checked_add(HEADER_BYTES + CHECKSUM_BYTES)
}

fn read_u32(bytes: &[u8]) -> Result<(u32, &[u8]), BinFileError> {
    let (first, remaining) = bytes.split_first_chunk().ok_or(BinFileError::Length)?;
    Ok((u32::from_be_bytes(*first), remaining))
}

fn decode_range(bytes: &[u8; RANGE_BYTES]) -> BinRange {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *bytes;
    BinRange {
        from: u32::from_be_bytes([a, b, c, d]),
        to: u32::from_be_bytes([e, f, g, h]),
        details_index: u32::from_be_bytes([i, j, k, l]),
    }
}

fn encode_details(details: &BinDetails) -> [u8; DETAILS_BYTES] {
    let BinDetails { brand, funding, country, bin_digits, additional } = details;
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

/// `None` when a byte has no meaning.
fn decode_details(bytes: &[u8; DETAILS_BYTES]) -> Option<BinDetails> {
    let [brand, funding, digits, first, second, additional @ ..] = bytes;
    let country = match [*first, *second] {
        [0, 0] => None,
        letters => {
            let country = Country::parse(str::from_utf8(&letters).ok()?)?;
            // Only upper case is written.
            (country.alpha2.as_bytes() == letters).then_some(Some(country))?
        }
    };
    let (pairs, _) = additional.as_chunks::<2>();
    let mut additional_brands = AdditionalBrands::default();
    for (slot, [brand, funding]) in additional_brands.0.iter_mut().zip(pairs) {
        *slot = match (decode_index(&Brand::ALL, *brand)?, decode_index(&Funding::ALL, *funding)?) {
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
        additional: additional_brands,
    })
}

/// The index in a list, counted from one; zero for `None`.
fn encode_index<T: PartialEq + Copy>(list: &[T], value: Option<T>) -> u8 {
    let index = value.and_then(|value| list.iter().position(|it| *it == value));
    index.and_then(|it| u8::try_from(it).ok()?.checked_add(1)).unwrap_or(0)
}

/// The entry at the index. Outer `None` when there is no such entry.
fn decode_index<T: Copy>(list: &[T], index: u8) -> Option<Option<T>> {
    match usize::from(index).checked_sub(1) {
        None => Some(None),
        Some(index) => list.get(index).copied().map(Some),
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

    /// The bytes of version 1. Existing files have this layout.
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

    /// CRC-32 of IEEE 802.3, with the check value of the standard.
    #[test]
    fn bin_file_checksum_is_ieee_crc32() {
        assert_eq!(crc32fast::hash(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32fast::hash(b""), 0);
    }

    /// Decodes with a correct checksum.
    fn decode_with_checksum(mut bytes: Vec<u8>) -> Result<BinTable, BinFileError> {
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        BinTable::from_bytes(&bytes)
    }

    #[test]
    fn damaged_bin_file_is_rejected_with_the_cause() {
        let valid_bytes = sample().to_bytes();
        for index in 0..valid_bytes.len() {
            let mut bytes = valid_bytes.clone();
            bytes[index] ^= 1;
            let error = BinTable::from_bytes(&bytes).unwrap_err();
            match index {
                0..8 => assert_eq!(error, BinFileError::NotBinData),
                8..12 => assert!(matches!(error, BinFileError::UnknownVersion(_))),
                16..24 => assert_eq!(error, BinFileError::Length),
                _ => assert_eq!(error, BinFileError::Checksum, "changed byte {index}"),
            }
            assert!(BinTable::from_bytes(&valid_bytes[..index]).is_err());
        }
        let longer_bytes = [valid_bytes.as_slice(), &[0]].concat();
        assert_eq!(BinTable::from_bytes(&longer_bytes), Err(BinFileError::Length));
        assert_eq!(BinTable::from_bytes(&BinTable::default().to_bytes()), Ok(BinTable::default()));
    }

    #[test]
    fn bin_file_with_invalid_content_is_rejected_despite_valid_checksum() {
        // Brand, funding, digits, country, second brand, its funding, from > to, to, details index.
        for (index, value) in
            [(24, 99), (25, 4), (26, 4), (27, b'X'), (29, 99), (30, 9), (37, 3), (41, 99), (48, 1)]
        {
            let mut bytes = SAMPLE.to_vec();
            bytes[index] = value;
            let result = decode_with_checksum(bytes);
            assert_eq!(result, Err(BinFileError::Content), "changed byte {index}");
        }
        // The same range twice.
        let mut bytes = SAMPLE.to_vec();
        bytes[23] = 2;
        bytes.extend_from_slice(&SAMPLE[37..]);
        assert_eq!(decode_with_checksum(bytes), Err(BinFileError::Content));
    }
}
