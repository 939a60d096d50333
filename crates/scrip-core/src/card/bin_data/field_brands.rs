//! Compares the card brands of the hosted fields with the ranges of the vault: a field must not show
//! another brand than the vault stores.

use serde::Deserialize;

use super::{Brand, PrefixRange, built_in};

const SOURCE: &str = include_str!("../../../../scrip-elements/web/field/format/card-brands.js");

/// A row of the script.
#[derive(Debug, Deserialize)]
struct FieldBrand {
    r#type: String,
    patterns: Vec<Pattern>,
    gaps: Vec<usize>,
    lengths: Vec<usize>,
    code: SecurityCode,
}

/// One prefix, or the first and the last prefix of a range.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Pattern {
    Prefix(u32),
    Range([u32; 2]),
}

#[derive(Debug, Deserialize)]
struct SecurityCode {
    size: usize,
}

impl Pattern {
    /// The digits of the first and the last prefix.
    fn bounds(&self) -> [String; 2] {
        let [first, last] = match self {
            Self::Prefix(prefix) => [prefix, prefix],
            Self::Range([first, last]) => [first, last],
        };
        [first.to_string(), last.to_string()]
    }

    fn range(&self) -> PrefixRange {
        let [first, last] = self.bounds().map(|it| PrefixRange::from_prefix(&it).unwrap());
        first.through(last).unwrap()
    }

    fn digit_count(&self) -> usize {
        let [first, last] = self.bounds();
        assert_eq!(first.len(), last.len(), "{self:?}");
        first.len()
    }
}

impl FieldBrand {
    /// The brand of the vault. The fields have names of their own for two brands.
    fn vault_brand(&self) -> Brand {
        match self.r#type.as_str() {
            "maestro" => Brand::Mastercard,
            "hiper" => Brand::Hipercard,
            name => Brand::parse(name).unwrap(),
        }
    }
}

fn field_brands() -> Vec<FieldBrand> {
    let (_, list) = SOURCE.split_once("export const CARD_BRANDS = ").unwrap();
    let (list, _) = list.split_once(';').unwrap();
    serde_json::from_str(list).expect("the list of brands is JSON")
}

/// The brand with the longest pattern that matches, as the fields choose it.
fn find_field_brand(brands: &[FieldBrand], prefix: u32) -> Option<&FieldBrand> {
    let patterns = brands.iter().flat_map(|brand| brand.patterns.iter().map(move |it| (brand, it)));
    let matching = patterns.filter(|(_, pattern)| {
        let range = pattern.range();
        (range.from..=range.to).contains(&prefix)
    });
    matching.max_by_key(|(_, pattern)| pattern.digit_count()).map(|(brand, _)| brand)
}

#[test]
fn fields_and_vault_name_the_same_brand() {
    let brands = field_brands();
    let patterns = brands.iter().flat_map(|it| &it.patterns).map(Pattern::range);
    let bounds = patterns.flat_map(|it| [it.from, it.to]);
    let vault_bounds = built_in::table().ranges.iter().flat_map(|it| [it.from, it.to]);
    let mut count = 0;
    for bound in bounds.chain(vault_bounds) {
        for prefix in [bound.saturating_sub(1), bound, (bound + 1).min(99_999_999)] {
            let range = PrefixRange { from: prefix, to: prefix };
            let vault_brand = built_in::table().find(range).and_then(|it| it.brand);
            let field_brand = find_field_brand(&brands, prefix);
            match vault_brand {
                // A card for benefits has no brand in a field.
                Some(Brand::Ebt) => (),
                Some(brand) => {
                    let found = field_brand.map(FieldBrand::vault_brand);
                    assert_eq!(found, Some(brand), "{prefix:08}");
                }
                // The fields guess these brands for prefixes that no scheme has published.
                None => {
                    let name = field_brand.map(|it| it.r#type.as_str());
                    assert!(
                        matches!(name, None | Some("maestro" | "hiper")),
                        "{prefix:08}: {name:?}"
                    );
                }
            }
            count += 1;
        }
    }
    assert!(count > 500, "only {count} prefixes were compared");
}

#[test]
fn fields_accept_only_lengths_that_the_vault_accepts() {
    let brands = field_brands();
    assert_eq!(brands.len(), 12);
    for FieldBrand { r#type: name, gaps, lengths, code, .. } in &brands {
        assert!(lengths.iter().all(|it| (12..=19).contains(it)), "{name}");
        assert!(lengths.is_sorted() && gaps.is_sorted(), "{name}");
        let longest = *lengths.last().unwrap();
        assert!(gaps.iter().all(|it| (1..longest).contains(it)), "{name}");
        let expected = if name == "american-express" { 4 } else { 3 };
        assert_eq!(code.size, expected, "{name}");
    }
}
