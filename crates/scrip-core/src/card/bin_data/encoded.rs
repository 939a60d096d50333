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
    BinDigits, BinTable, Brand, Country, Facts, Funding,
    facts::{Additional, AdditionalBrand},
    table::Stretch,
};

const MAGIC: &[u8; 8] = b"SCRIPBIN";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 24;
const FACTS_BYTES: usize = 13;
const STRETCH_BYTES: usize = 12;
const CHECKSUM_BYTES: usize = 4;

/// Why bytes are not a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Damage {
    #[error("it is not BIN data")]
    NotBinData,
    /// Of another version of the program.
    #[error("its version {0} is not known here")]
    Version(u32),
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
        let len = sized(self.facts.len(), self.stretches.len()).unwrap_or(HEAD_BYTES);
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.extend_from_slice(&self.rows.to_be_bytes());
        bytes.extend_from_slice(&count(self.facts.len()));
        bytes.extend_from_slice(&count(self.stretches.len()));
        for facts in &self.facts {
            bytes.extend_from_slice(&write_facts(facts));
        }
        for stretch in &self.stretches {
            bytes.extend_from_slice(&stretch.from.to_be_bytes());
            bytes.extend_from_slice(&stretch.to.to_be_bytes());
            bytes.extend_from_slice(&stretch.facts.to_be_bytes());
        }
        let checksum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// # Errors
    /// The bytes are not what [`BinTable::to_bytes`] gave.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Damage> {
        let after = bytes.strip_prefix(MAGIC).ok_or(Damage::NotBinData)?;
        let (version, after) = number(after)?;
        if version != VERSION {
            return Err(Damage::Version(version));
        }
        let (rows, after) = number(after)?;
        let (facts_count, after) = number(after)?;
        let (stretches_count, after) = number(after)?;
        let facts_count = usize::try_from(facts_count).map_err(|_| Damage::Length)?;
        let stretches_count = usize::try_from(stretches_count).map_err(|_| Damage::Length)?;
        if sized(facts_count, stretches_count) != Some(bytes.len()) {
            return Err(Damage::Length);
        }
        let (covered, checksum) = bytes.split_last_chunk().ok_or(Damage::Length)?;
        if crc32fast::hash(covered) != u32::from_be_bytes(*checksum) {
            return Err(Damage::Checksum);
        }
        let facts_bytes = facts_count.checked_mul(FACTS_BYTES).ok_or(Damage::Length)?;
        let (facts, after) = after.split_at_checked(facts_bytes).ok_or(Damage::Length)?;
        let (stretches, _) = after.split_last_chunk::<CHECKSUM_BYTES>().ok_or(Damage::Length)?;
        let (facts, _) = facts.as_chunks::<FACTS_BYTES>();
        let (stretches, _) = stretches.as_chunks::<STRETCH_BYTES>();
        let facts: Option<Vec<_>> = facts.iter().map(read_facts).collect();
        let mut table = Self { facts: facts.ok_or(Damage::Content)?, rows, ..Self::default() };
        table.stretches.reserve_exact(stretches.len());
        table.stretches.extend(stretches.iter().map(read_stretch));
        if table.is_whole() { Ok(table) } else { Err(Damage::Content) }
    }

    /// Stretches in order, apart from each other, with facts that are there.
    fn is_whole(&self) -> bool {
        let known = |it: &Stretch| usize::try_from(it.facts).is_ok_and(|it| it < self.facts.len());
        let possible = |it: &Stretch| it.from <= it.to && it.to <= 99_999_999;
        self.stretches.iter().all(|it| known(it) && possible(it))
            && self.stretches.is_sorted_by(|one, next| one.to < next.from)
    }
}

/// How long it is with so many of each.
fn sized(facts: usize, stretches: usize) -> Option<usize> {
    let facts = facts.checked_mul(FACTS_BYTES)?;
    let stretches = stretches.checked_mul(STRETCH_BYTES)?;
    facts.checked_add(stretches)?.checked_add(HEAD_BYTES + CHECKSUM_BYTES)
}

fn number(bytes: &[u8]) -> Result<(u32, &[u8]), Damage> {
    let (first, rest) = bytes.split_first_chunk().ok_or(Damage::Length)?;
    Ok((u32::from_be_bytes(*first), rest))
}

fn read_stretch(bytes: &[u8; STRETCH_BYTES]) -> Stretch {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *bytes;
    Stretch {
        from: u32::from_be_bytes([a, b, c, d]),
        to: u32::from_be_bytes([e, f, g, h]),
        facts: u32::from_be_bytes([i, j, k, l]),
    }
}

fn write_facts(facts: &Facts) -> [u8; FACTS_BYTES] {
    let Facts { brand, funding, country, bin_digits, additional } = facts;
    let country = country.and_then(|it| it.alpha2.as_bytes().first_chunk::<2>().copied());
    let [first, second] = country.unwrap_or_default();
    let [one, two, three, four] = additional.0.map(|it| {
        let brand = place(&Brand::ALL, it.map(|it| it.brand));
        (brand, place(&Funding::ALL, it.and_then(|it| it.funding)))
    });
    let brand = place(&Brand::ALL, *brand);
    let funding = place(&Funding::ALL, *funding);
    let digits = place(&BinDigits::ALL, *bin_digits);
    [
        brand, funding, digits, first, second, one.0, one.1, two.0, two.1, three.0, three.1,
        four.0, four.1,
    ]
}

/// Nothing when one of the bytes has no meaning.
fn read_facts(bytes: &[u8; FACTS_BYTES]) -> Option<Facts> {
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
    let mut read = Additional::default();
    for (room, [brand, funding]) in read.0.iter_mut().zip(pairs) {
        *room = match (at(&Brand::ALL, *brand)?, at(&Funding::ALL, *funding)?) {
            (Some(brand), funding) => Some(AdditionalBrand { brand, funding }),
            (None, None) => None,
            (None, Some(_)) => return None,
        };
    }
    Some(Facts {
        brand: at(&Brand::ALL, *brand)?,
        funding: at(&Funding::ALL, *funding)?,
        country,
        bin_digits: at(&BinDigits::ALL, *digits)?,
        additional: read,
    })
}

/// The place in a list, counted from one; zero for nothing.
fn place<T: PartialEq + Copy>(list: &[T], value: Option<T>) -> u8 {
    let found = value.and_then(|value| list.iter().position(|it| *it == value));
    found.and_then(|it| u8::try_from(it).ok()?.checked_add(1)).unwrap_or(0)
}

/// What has that place; nothing at all when none does.
fn at<T: Copy>(list: &[T], place: u8) -> Option<Option<T>> {
    match usize::from(place).checked_sub(1) {
        None => Some(None),
        Some(place) => list.get(place).copied().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Block, Row},
        *,
    };

    fn sample() -> BinTable {
        let facts = Facts {
            brand: Some(Brand::Visa),
            funding: Some(Funding::Prepaid),
            country: Country::parse("FR"),
            bin_digits: Some(BinDigits::Seven),
            additional: Additional::default(),
        };
        let facts = facts.with(Brand::CartesBancaires, Some(Funding::Debit));
        let range = Block::of_prefix("4150580").unwrap();
        BinTable::build(vec![Row { range, facts }])
    }

    /// The bytes of version 1, as files out there have them.
    const SAMPLE: &[u8] = b"SCRIPBIN\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01\
        \x0d\x03\x02FR\x0f\x02\0\0\0\0\0\0\
        \x02\x79\x54\x08\x02\x79\x54\x11\0\0\0\0";

    #[test]
    fn version_one_stays_as_it_is() {
        let bytes = sample().to_bytes();
        let (covered, checksum) = bytes.split_last_chunk::<4>().unwrap();
        assert_eq!(covered, SAMPLE);
        assert_eq!(u32::from_be_bytes(*checksum), crc32fast::hash(SAMPLE));
        assert_eq!(BinTable::from_bytes(&bytes), Ok(sample()));
    }

    /// CRC-32 as of IEEE 802.3, with the check value of the standard.
    #[test]
    fn checksums_are_crc32_of_ieee() {
        assert_eq!(crc32fast::hash(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32fast::hash(b""), 0);
    }

    /// With a checksum that is right.
    fn checked(mut bytes: Vec<u8>) -> Result<BinTable, Damage> {
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        BinTable::from_bytes(&bytes)
    }

    #[test]
    fn damage_is_told() {
        let whole = sample().to_bytes();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            let damage = BinTable::from_bytes(&bytes).unwrap_err();
            match at {
                0..8 => assert_eq!(damage, Damage::NotBinData),
                8..12 => assert!(matches!(damage, Damage::Version(_))),
                16..24 => assert_eq!(damage, Damage::Length),
                _ => assert_eq!(damage, Damage::Checksum, "{at}"),
            }
            assert!(BinTable::from_bytes(&whole[..at]).is_err());
        }
        let longer = [whole.as_slice(), &[0]].concat();
        assert_eq!(BinTable::from_bytes(&longer), Err(Damage::Length));
        assert_eq!(BinTable::from_bytes(&BinTable::default().to_bytes()), Ok(BinTable::default()));
    }

    #[test]
    fn what_nobody_would_write_is_refused_even_with_its_checksum() {
        // Brand, funding, digits, country, second brand, its funding, from > to, to, facts.
        for (at, value) in
            [(24, 99), (25, 4), (26, 4), (27, b'X'), (29, 99), (30, 9), (37, 3), (41, 99), (48, 1)]
        {
            let mut bytes = SAMPLE.to_vec();
            bytes[at] = value;
            assert_eq!(checked(bytes), Err(Damage::Content), "{at}");
        }
        // The same stretch twice.
        let mut bytes = SAMPLE.to_vec();
        bytes[23] = 2;
        bytes.extend_from_slice(&SAMPLE[37..]);
        assert_eq!(checked(bytes), Err(Damage::Content));
    }
}
