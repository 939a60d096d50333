//! What the columns of a list mean, by its header.

use anyhow::bail;
use csv::ByteRecord;
use scrip_core::card::bin_data::{BinDetails, BinDigits, BinRow, Country, Funding, PrefixRange};

use super::names::{is_yes, normalize, parse_additional_brand, parse_brand, parse_funding};

/// Names as [`plain`] leaves them; the first that a header has is the one.
const FIRST: &[&str] =
    &["binstart", "iinstart", "rangestart", "start", "low", "bin", "iin", "prefix"];
const LAST: &[&str] = &["binend", "iinend", "rangeend", "end", "high"];
/// Where a list has both, the scheme is the brand, and the brand a product.
const BRAND: &[&str] = &["scheme", "cardscheme", "cardbrand", "brand", "network"];
const FUNDING: &[&str] = &["funding", "fundingtype", "type", "cardtype"];
const PREPAID: &[&str] = &["prepaid"];
const CATEGORY: &[&str] = &["category", "cardcategory", "level", "cardlevel"];
/// Codes before names, which some lists have under `country`.
const COUNTRY: &[&str] =
    &["alpha2", "isocode2", "countryalpha2", "countrycode", "alpha3", "isocode3", "country"];
const ADDITIONAL: &[&str] = &["additional"];

/// Where the columns are.
#[derive(Debug)]
pub(super) struct Columns {
    first: usize,
    last: Option<usize>,
    brand: Option<usize>,
    funding: Option<usize>,
    prepaid: Option<usize>,
    category: Option<usize>,
    country: Vec<usize>,
    additional: Option<usize>,
}

impl Columns {
    /// # Errors
    /// The header does not name what a list must have.
    pub(super) fn from_header(header: &ByteRecord) -> anyhow::Result<Self> {
        let names: Vec<_> =
            header.iter().map(|it| normalize(&String::from_utf8_lossy(it))).collect();
        let place = |known: &str| names.iter().position(|it| it == known);
        let column = |known: &[&str]| known.iter().find_map(|it| place(it));
        let Some(first) = column(FIRST) else {
            bail!("its header has no column for the BIN, such as bin, bin_start or iin_start");
        };
        let columns = Self {
            first,
            last: column(LAST),
            brand: column(BRAND),
            funding: column(FUNDING),
            prepaid: column(PREPAID),
            category: column(CATEGORY),
            country: COUNTRY.iter().filter_map(|it| place(it)).collect(),
            additional: column(ADDITIONAL),
        };
        if columns.brand.is_none() && columns.funding.is_none() && columns.country.is_empty() {
            bail!("its header has no column for brand, funding or country");
        }
        Ok(columns)
    }

    /// The row, with what of it is not understood and left out.
    ///
    /// # Errors
    /// It has no range, or nothing to say of one.
    pub(super) fn read_row(
        &self,
        record: &ByteRecord,
    ) -> Result<(BinRow, Vec<&'static str>), &'static str> {
        let field = |at: usize| record.get(at).and_then(|it| str::from_utf8(it).ok()).unwrap_or("");
        let chosen = |at: Option<usize>| at.map_or("", field);
        let (range, bin_digits) = parse_range(field(self.first), chosen(self.last))?;
        let mut unknown = Vec::new();
        let mut request = BinDetails { bin_digits: Some(bin_digits), ..BinDetails::default() };

        let text = chosen(self.brand);
        request.brand = parse_brand(text);
        note_unknown(&mut unknown, text, request.brand.is_some(), "a brand that is not known");
        let text = chosen(self.funding);
        request.funding = parse_funding(text);
        note_unknown(
            &mut unknown,
            text,
            request.funding.is_some(),
            "a kind of funding that is not known",
        );
        if is_yes(chosen(self.prepaid)) || normalize(chosen(self.category)).contains("prepaid") {
            request.funding = Some(Funding::Prepaid);
        }
        request.country = self.country.iter().find_map(|it| Country::parse(field(*it)));
        let text = self.country.iter().map(|it| field(*it)).find(|it| !it.is_empty());
        let text = text.unwrap_or_default();
        note_unknown(&mut unknown, text, request.country.is_some(), "a country that is not known");
        let others = chosen(self.additional).split([';', '|', ' ']).filter(|it| !it.is_empty());
        for other in others {
            let (name, kind) = other.split_once(':').unwrap_or((other, ""));
            match parse_additional_brand(name) {
                Some(brand) => request = request.with_network(brand, parse_funding(kind)),
                None => unknown.push("an additional brand that is not known"),
            }
        }
        if request.is_empty() {
            Err("it says nothing of its range")
        } else {
            Ok((BinRow { range, details: request }, unknown))
        }
    }
}

fn note_unknown(
    unknown: &mut Vec<&'static str>,
    text: &str,
    is_known: bool,
    attribute: &'static str,
) {
    if !text.is_empty() && !is_known {
        unknown.push(attribute);
    }
}

/// The range, and how many digits its BIN has. What is longer than eight digits must be about whole
/// BINs of eight: nothing here looks at the ninth digit of a number.
fn parse_range(first: &str, last: &str) -> Result<(PrefixRange, BinDigits), &'static str> {
    let last = if last.is_empty() { first } else { last };
    if first.is_empty() {
        return Err("it has no BIN");
    }
    let digits = |it: &str| it.len() <= 19 && it.bytes().all(|it| it.is_ascii_digit());
    if !digits(first) || !digits(last) {
        return Err("its BIN is not made of digits");
    }
    let (first, zeros) = first.split_at_checked(8).unwrap_or((first, ""));
    let (last, nines) = last.split_at_checked(8).unwrap_or((last, ""));
    if zeros.bytes().any(|it| it != b'0') || nines.bytes().any(|it| it != b'9') {
        return Err("its range is finer than eight digits");
    }
    let range = PrefixRange::from_prefix(first).zip(PrefixRange::from_prefix(last));
    let range = range.and_then(|(first, last)| first.through(last));
    Ok((range.ok_or("its range ends before it begins")?, BinDigits::from_len(first.len())))
}

#[cfg(test)]
mod tests {
    use scrip_core::card::bin_data::Brand;

    use super::*;

    fn record(line: &str) -> ByteRecord {
        ByteRecord::from(line.split(',').collect::<Vec<_>>())
    }

    fn parse_line(header: &str, line: &str) -> Result<(BinRow, Vec<&'static str>), &'static str> {
        Columns::from_header(&record(header)).unwrap().read_row(&record(line))
    }

    fn block(first: &str, last: &str) -> PrefixRange {
        PrefixRange::from_prefix(first)
            .unwrap()
            .through(PrefixRange::from_prefix(last).unwrap())
            .unwrap()
    }

    fn french_visa(funding: Funding, bin_digits: BinDigits) -> BinDetails {
        BinDetails {
            brand: Some(Brand::Visa),
            funding: Some(funding),
            country: Country::parse("FR"),
            bin_digits: Some(bin_digits),
            ..BinDetails::default()
        }
    }

    const OWN_HEADER: &str = "bin_start,bin_end,brand,funding,country,additional";

    #[test]
    fn known_list_layouts_are_read() {
        let debit = french_visa(Funding::Debit, BinDigits::Six);
        let prepaid = french_visa(Funding::Prepaid, BinDigits::Eight);
        let second = debit.with_network(Brand::CartesBancaires, Some(Funding::Debit));
        let second = second.with_network(Brand::Dankort, None);
        for (header, line, range, details) in [
            (OWN_HEADER, "415058,415059,visa,debit,FR,", block("415058", "415059"), debit),
            (
                OWN_HEADER,
                "415058,,visa,debit,250,cartes-bancaires:debit dankort",
                block("415058", "415058"),
                second,
            ),
            (
                "bin,brand,type,category,issuer,alpha_2,alpha_3,country,latitude,longitude,bank_phone,bank_url",
                "41505801,VISA,DEBIT,PREPAID BUSINESS,SOME BANK,FR,FRA,France,1,2,,",
                block("41505801", "41505801"),
                prepaid,
            ),
            (
                "BIN,Brand,Type,Category,Issuer,IssuerPhone,IssuerUrl,isoCode2,isoCode3,CountryName",
                "415058,VISA,DEBIT,CLASSIC,SOME BANK,,,,FRA,FRANCE",
                block("415058", "415058"),
                debit,
            ),
            (
                "iin_start,iin_end,number_length,number_luhn,scheme,brand,type,prepaid,country,bank_name",
                "41505801,41505804,16,,visa,Visa Classic,debit,Yes,FR,Some Bank",
                block("41505801", "41505804"),
                prepaid,
            ),
        ] {
            assert_eq!(parse_line(header, line), Ok((BinRow { range, details }, vec![])), "{line}");
        }
    }

    #[test]
    fn unknown_values_are_left_out_and_reported() {
        let (row, unknown) = parse_line(OWN_HEADER, "415058,,visa,gift,XX,carta-si").unwrap();
        let left = BinDetails {
            brand: Some(Brand::Visa),
            bin_digits: Some(BinDigits::Six),
            ..BinDetails::default()
        };
        assert_eq!(row.details, left);
        assert_eq!(unknown.len(), 3, "{unknown:?}");
        let (row, unknown) = parse_line(OWN_HEADER, "508500,,rupay,debit,IN,").unwrap();
        assert_eq!((row.details.brand, unknown.len()), (None, 1));
    }

    #[test]
    fn ranges_are_parsed_to_whole_bins() {
        for (first, last, expected) in [
            ("415058", "", Ok((block("415058", "415058"), BinDigits::Six))),
            ("4", "", Ok((block("4", "4"), BinDigits::Six))),
            ("4150580", "", Ok((block("4150580", "4150580"), BinDigits::Seven))),
            ("222100", "272099", Ok((block("222100", "272099"), BinDigits::Six))),
            ("415058000", "415058999", Ok((block("41505800", "41505899"), BinDigits::Eight))),
            (
                "4150580000000000",
                "4150580099999999",
                Ok((block("41505800", "41505800"), BinDigits::Eight)),
            ),
            ("", "415058", Err("it has no BIN")),
            ("41505X", "", Err("its BIN is not made of digits")),
            ("４15058", "", Err("its BIN is not made of digits")),
            ("415058", "-", Err("its BIN is not made of digits")),
            ("00000000000000000000", "", Err("its BIN is not made of digits")),
            ("415058001", "415058999", Err("its range is finer than eight digits")),
            ("415058000", "", Err("its range is finer than eight digits")),
            ("415059", "415058", Err("its range ends before it begins")),
        ] {
            assert_eq!(parse_range(first, last), expected, "{first} {last}");
        }
    }

    #[test]
    fn rows_and_headers_without_data_are_rejected() {
        assert_eq!(parse_line(OWN_HEADER, "415058,,,,,"), Err("it says nothing of its range"));
        assert_eq!(parse_line(OWN_HEADER, "415058"), Err("it says nothing of its range"));
        assert!(Columns::from_header(&record("brand,type,country")).is_err());
        assert!(Columns::from_header(&record("bin,issuer")).is_err());
    }
}
