//! Countries of issuers, by ISO 3166-1. The table is the file `data/countries.csv`.

use std::sync::LazyLock;

/// Sorted by two-letter code. Built once; the entries borrow from the embedded file.
static COUNTRIES: LazyLock<Vec<Country>> = LazyLock::new(|| read_table(COUNTRIES_CSV));

const COUNTRIES_CSV: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/countries.csv"));

/// A country with an ISO code.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Country {
    pub alpha2: &'static str,
    alpha3: &'static str,
    pub numeric: &'static str,
    /// Whether its issuers must authenticate online payments. The second payment services directive
    /// applies in the European Economic Area, including parts of member states with their own code.
    /// The United Kingdom has retained the rule.
    pub requires_sca: bool,
    pub name: &'static str,
}

impl Country {
    fn read(line: &'static str) -> Option<Self> {
        let columns: Vec<_> = line.split(',').collect();
        let &[alpha2, alpha3, numeric, requires_sca, name] = columns.as_slice() else {
            return None;
        };
        let requires_sca = match requires_sca {
            "yes" => true,
            "no" => false,
            _ => return None,
        };
        Some(Self { alpha2, alpha3, numeric, requires_sca, name })
    }

    /// Finds a country by one of its three codes, ignoring case.
    pub fn parse(text: &str) -> Option<&'static Self> {
        // The two-letter code is the usual one: binary search.
        if let Ok(&[first, second]) = <&[u8; 2]>::try_from(text.as_bytes()) {
            let code = [first.to_ascii_uppercase(), second.to_ascii_uppercase()];
            let index = COUNTRIES.binary_search_by(|it| it.alpha2.as_bytes().cmp(&code)).ok()?;
            return COUNTRIES.get(index);
        }
        let is_code = |code: &str| code.eq_ignore_ascii_case(text);
        COUNTRIES.iter().find(|it| is_code(it.alpha3) || is_code(it.numeric))
    }
}

/// Reads the embedded table. Invalid rows are skipped; the tests count the rows.
fn read_table(text: &'static str) -> Vec<Country> {
    text.lines().skip(1).filter_map(Country::read).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn country_file_rows_all_parse() {
        assert_eq!(COUNTRIES_CSV.lines().next(), Some("alpha2,alpha3,numeric,requires_sca,name"));
        assert_eq!((COUNTRIES_CSV.lines().count(), COUNTRIES.len()), (1 + 249, 249));
        for line in ["", "FR,FRA,250,yes", "FR,FRA,250,maybe,France", "FR,FRA,250,no,a,b"] {
            assert!(Country::read(line).is_none(), "{line:?} is accepted");
        }
    }

    #[test]
    fn country_codes_have_their_length_and_are_unique() {
        let is_upper = |code: &str, length| {
            code.len() == length && code.bytes().all(|it| it.is_ascii_uppercase())
        };
        let mut codes = BTreeSet::new();
        for entry in COUNTRIES.iter() {
            assert!(is_upper(entry.alpha2, 2) && is_upper(entry.alpha3, 3), "{entry:?}");
            assert!(entry.name.trim() == entry.name, "{entry:?}");
            codes.extend([entry.alpha2, entry.alpha3, entry.numeric]);
        }
        assert_eq!(codes.len(), 3 * COUNTRIES.len());
    }

    #[test]
    fn country_codes_are_sorted_and_parse_back() {
        assert!(COUNTRIES.is_sorted_by(|first, second| first.alpha2 < second.alpha2));
        for entry in COUNTRIES.iter() {
            for code in [entry.alpha2, entry.alpha3, entry.numeric] {
                assert_eq!(Country::parse(code).unwrap().alpha2, entry.alpha2, "{code}");
            }
            assert!(entry.numeric.len() == 3 && entry.numeric.parse::<u16>().is_ok());
            assert!(!entry.name.is_empty());
        }
        let france = Country::parse("fr").unwrap();
        assert_eq!((france.alpha2, france.numeric, france.name), ("FR", "250", "France"));
        assert_eq!(Country::parse("XX"), None);
        assert_eq!(Country::parse(""), None);
    }

    #[track_caller]
    fn check(code: &str, expected: bool) {
        assert_eq!(Country::parse(code).unwrap().requires_sca, expected, "{code}");
    }

    #[test]
    fn sca_is_required_in_eea_and_united_kingdom() {
        for code in ["FR", "DE", "NO", "IS", "LI", "GB", "RE"] {
            check(code, true);
        }
        for code in ["US", "CH", "TR", "RU", "BR", "JE"] {
            check(code, false);
        }
        // Checks for misspelt codes: 27 members, 7 parts, 3 others, and the United Kingdom.
        assert_eq!(COUNTRIES.iter().filter(|it| it.requires_sca).count(), 38);
    }
}
