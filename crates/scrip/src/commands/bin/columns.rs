//! Maps the header of a list to columns.

use anyhow::bail;
use csv::ByteRecord;
use scrip_core::card::bin_data::{BinDetails, BinDigits, BinRow, Country, Funding, PrefixRange};

use super::names::{is_yes, normalize, parse_additional_brand, parse_brand, parse_funding};

/// Names as [`normalize`] returns them; the first match in the header is used.
const FIRST: &[&str] =
    &["binstart", "iinstart", "rangestart", "start", "low", "bin", "iin", "prefix"];
const LAST: &[&str] = &["binend", "iinend", "rangeend", "end", "high"];
/// If a list has both columns, the scheme is the brand, and the brand is a product.
const BRAND: &[&str] = &["scheme", "cardscheme", "cardbrand", "brand", "network"];
const FUNDING: &[&str] = &["funding", "fundingtype", "type", "cardtype"];
const PREPAID: &[&str] = &["prepaid"];
const CATEGORY: &[&str] = &["category", "cardcategory", "level", "cardlevel"];
/// Codes come before names, because some lists have names under `country`.
const COUNTRY: &[&str] =
    &["alpha2", "isocode2", "countryalpha2", "countrycode", "alpha3", "isocode3", "country"];
const ADDITIONAL: &[&str] = &["additional"];

/// Positions of the columns.
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
    /// Errors: the header lacks a required column.
    pub(super) fn from_header(header: &ByteRecord) -> anyhow::Result<Self> {
        let names: Vec<_> =
            header.iter().map(|it| normalize(&String::from_utf8_lossy(it))).collect();
        let position_of = |name: &str| names.iter().position(|it| it == name);
        let find_column = |aliases: &[&str]| aliases.iter().find_map(|it| position_of(it));
        let Some(first) = find_column(FIRST) else {
            bail!("its header has no column for the BIN, such as bin, bin_start or iin_start");
        };
        let columns = Self {
            first,
            last: find_column(LAST),
            brand: find_column(BRAND),
            funding: find_column(FUNDING),
            prepaid: find_column(PREPAID),
            category: find_column(CATEGORY),
            country: COUNTRY.iter().filter_map(|it| position_of(it)).collect(),
            additional: find_column(ADDITIONAL),
        };
        if columns.brand.is_none() && columns.funding.is_none() && columns.country.is_empty() {
            bail!("its header has no column for brand, funding or country");
        }
        Ok(columns)
    }

    /// Returns the row, and a description of each unknown value that the row omits.
    /// Errors: the row has no range, or no details for its range.
    pub(super) fn read_row(
        &self,
        record: &ByteRecord,
    ) -> Result<(BinRow, Vec<&'static str>), &'static str> {
        let text_at =
            |index: usize| record.get(index).and_then(|it| str::from_utf8(it).ok()).unwrap_or("");
        let optional_text = |index: Option<usize>| index.map_or("", text_at);
        let (range, bin_digits) = parse_range(text_at(self.first), optional_text(self.last))?;
        let mut unknown = Vec::new();
        let mut details = BinDetails { bin_digits: Some(bin_digits), ..BinDetails::default() };

        let text = optional_text(self.brand);
        details.brand = parse_brand(text);
        report_unknown(&mut unknown, text, details.brand.is_some(), "an unknown brand");
        let text = optional_text(self.funding);
        details.funding = parse_funding(text);
        report_unknown(&mut unknown, text, details.funding.is_some(), "an unknown kind of funding");
        if is_yes(optional_text(self.prepaid))
            || normalize(optional_text(self.category)).contains("prepaid")
        {
            details.funding = Some(Funding::Prepaid);
        }
        details.country = self.country.iter().find_map(|it| Country::parse(text_at(*it)));
        let text = self.country.iter().map(|it| text_at(*it)).find(|it| !it.is_empty());
        let text = text.unwrap_or_default();
        report_unknown(&mut unknown, text, details.country.is_some(), "an unknown country");
        let additional_brands =
            optional_text(self.additional).split([';', '|', ' ']).filter(|it| !it.is_empty());
        for entry in additional_brands {
            let (name, kind) = entry.split_once(':').unwrap_or((entry, ""));
            match parse_additional_brand(name) {
                Some(brand) => details = details.with_network(brand, parse_funding(kind)),
                None => unknown.push("an unknown additional brand"),
            }
        }
        if details.is_empty() {
            Err("it has no details for its range")
        } else {
            Ok((BinRow { range, details }, unknown))
        }
    }
}

fn report_unknown(
    unknown: &mut Vec<&'static str>,
    text: &str,
    is_known: bool,
    attribute: &'static str,
) {
    if !text.is_empty() && !is_known {
        unknown.push(attribute);
    }
}

/// Returns the range and the number of digits of its BIN. A range with more than eight digits must
/// cover whole eight-digit BINs: lookups never use the ninth digit of a card number.
fn parse_range(first: &str, last: &str) -> Result<(PrefixRange, BinDigits), &'static str> {
    let last = if last.is_empty() { first } else { last };
    if first.is_empty() {
        return Err("it has no BIN");
    }
    let is_number = |it: &str| it.len() <= 19 && it.bytes().all(|it| it.is_ascii_digit());
    if !is_number(first) || !is_number(last) {
        return Err("its BIN contains characters other than digits");
    }
    let (first, zeros) = first.split_at_checked(8).unwrap_or((first, ""));
    let (last, nines) = last.split_at_checked(8).unwrap_or((last, ""));
    if zeros.bytes().any(|it| it != b'0') || nines.bytes().any(|it| it != b'9') {
        return Err("its range is more specific than eight digits");
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
        let co_branded = debit.with_network(Brand::CartesBancaires, Some(Funding::Debit));
        let co_branded = co_branded.with_network(Brand::Dankort, None);
        for (header, line, range, details) in [
            (OWN_HEADER, "415058,415059,visa,debit,FR,", block("415058", "415059"), debit),
            (
                OWN_HEADER,
                "415058,,visa,debit,250,cartes-bancaires:debit dankort",
                block("415058", "415058"),
                co_branded,
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
        let known_details = BinDetails {
            brand: Some(Brand::Visa),
            bin_digits: Some(BinDigits::Six),
            ..BinDetails::default()
        };
        assert_eq!(row.details, known_details);
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
            ("41505X", "", Err("its BIN contains characters other than digits")),
            ("４15058", "", Err("its BIN contains characters other than digits")),
            ("415058", "-", Err("its BIN contains characters other than digits")),
            ("00000000000000000000", "", Err("its BIN contains characters other than digits")),
            ("415058001", "415058999", Err("its range is more specific than eight digits")),
            ("415058000", "", Err("its range is more specific than eight digits")),
            ("415059", "415058", Err("its range ends before it begins")),
        ] {
            assert_eq!(parse_range(first, last), expected, "range from {first} to {last}");
        }
    }

    #[test]
    fn rows_and_headers_without_data_are_rejected() {
        assert_eq!(parse_line(OWN_HEADER, "415058,,,,,"), Err("it has no details for its range"));
        assert_eq!(parse_line(OWN_HEADER, "415058"), Err("it has no details for its range"));
        assert!(Columns::from_header(&record("brand,type,country")).is_err());
        assert!(Columns::from_header(&record("bin,issuer")).is_err());
    }
}
