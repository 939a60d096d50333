//! Details of a card, by its first digits.

use super::{AuthenticationRequirement, Brand, Country, Funding};

/// The known details of a card. The type is `Copy`, so that a lookup allocates nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BinDetails {
    pub brand: Option<Brand>,
    pub funding: Option<Funding>,
    pub country: Option<&'static Country>,
    /// The length of the issuer's BIN, if the data contains it.
    pub bin_digits: Option<BinDigits>,
    pub additional: AdditionalBrands,
}

/// The number of first digits that identify the issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BinDigits {
    Six,
    Seven,
    Eight,
}

impl BinDigits {
    pub(crate) const ALL: [Self; 3] = [Self::Six, Self::Seven, Self::Eight];

    /// The number of digits for a prefix of this length: at least six, at most eight.
    pub fn from_len(len: usize) -> Self {
        match len {
            0..=6 => Self::Six,
            7 => Self::Seven,
            8.. => Self::Eight,
        }
    }

    pub fn count(self) -> usize {
        match self {
            Self::Six => 6,
            Self::Seven => 7,
            Self::Eight => 8,
        }
    }
}

impl BinDetails {
    /// The authentication requirement of the issuer's country. `None` when the country is unknown
    /// or has no such rule.
    pub fn authentication(&self) -> Option<AuthenticationRequirement> {
        let required = self.country.is_some_and(|it| it.requires_sca);
        required.then_some(AuthenticationRequirement::ScaRequired)
    }

    /// Whether all details of the card are unknown.
    pub fn is_empty(&self) -> bool {
        let Self { brand, funding, country, bin_digits: _, additional } = self;
        brand.is_none() && funding.is_none() && country.is_none() && additional.is_empty()
    }

    /// Fills missing details from a second source. Details of another brand are not used.
    pub(crate) fn fill_from(self, fallback: Self) -> Self {
        let fallback = match self.brand {
            Some(brand) if fallback.brand != Some(brand) => Self::default(),
            Some(_) | None => fallback,
        };
        Self {
            brand: self.brand.or(fallback.brand),
            funding: self.funding.or(fallback.funding),
            country: self.country.or(fallback.country),
            bin_digits: self.bin_digits.or(fallback.bin_digits),
            additional: if self.additional.is_empty() {
                fallback.additional
            } else {
                self.additional
            },
        }
    }

    /// The details that both have in common.
    pub(crate) fn intersect(self, other: Self) -> Self {
        fn keep_equal<T: PartialEq>(first: Option<T>, second: Option<T>) -> Option<T> {
            if first == second { first } else { None }
        }
        let same_additional = self.additional == other.additional;
        Self {
            brand: keep_equal(self.brand, other.brand),
            funding: keep_equal(self.funding, other.funding),
            country: keep_equal(self.country, other.country),
            bin_digits: self.bin_digits.min(other.bin_digits),
            additional: if same_additional { self.additional } else { AdditionalBrands::default() },
        }
    }

    /// Adds another network of the card. Does nothing if the network is already known or if the
    /// list is full.
    #[must_use]
    pub fn with_network(mut self, brand: Brand, funding: Option<Funding>) -> Self {
        let is_included =
            self.brand == Some(brand) || self.additional.iter().any(|it| it.brand == brand);
        if !is_included
            && let Some(free_slot) = self.additional.0.iter_mut().find(|it| it.is_none())
        {
            *free_slot = Some(AdditionalBrand { brand, funding });
        }
        self
    }
}

/// The other networks of a card. No card has more than four.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AdditionalBrands(pub(super) [Option<AdditionalBrand>; AdditionalBrands::MAX]);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AdditionalBrand {
    pub brand: Brand,
    pub funding: Option<Funding>,
}

impl AdditionalBrands {
    pub const MAX: usize = 4;

    pub fn iter(&self) -> impl Iterator<Item = &AdditionalBrand> {
        self.0.iter().flatten()
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visa() -> BinDetails {
        BinDetails { brand: Some(Brand::Visa), ..BinDetails::default() }
    }

    #[test]
    fn bin_details_are_filled_only_from_the_same_brand() {
        let credit = BinDetails { funding: Some(Funding::Credit), ..BinDetails::default() };
        let built_in = visa().with_network(Brand::Dankort, None);
        assert_eq!(
            credit.fill_from(built_in),
            BinDetails { funding: Some(Funding::Credit), ..built_in }
        );
        let elo = BinDetails { brand: Some(Brand::Elo), ..BinDetails::default() };
        assert_eq!(elo.fill_from(built_in), elo);
        let imported = visa().with_network(Brand::CartesBancaires, Some(Funding::Debit));
        assert_eq!(imported.fill_from(built_in), imported);
    }

    #[test]
    fn intersected_bin_details_keep_only_equal_values() {
        let french = BinDetails { country: Country::parse("FR"), ..visa() };
        let debit = BinDetails { funding: Some(Funding::Debit), ..french };
        assert_eq!(debit.intersect(french), french);
        assert_eq!(debit.intersect(BinDetails::default()), BinDetails::default());
        let co_badged = french.with_network(Brand::CartesBancaires, None);
        assert_eq!(co_badged.intersect(french), french);
    }

    #[test]
    fn additional_networks_are_unique_and_at_most_four() {
        let details = visa()
            .with_network(Brand::Dankort, None)
            .with_network(Brand::Dankort, Some(Funding::Debit));
        assert_eq!(details.additional.iter().count(), 1);
        assert!(visa().with_network(Brand::Visa, None).additional.is_empty());
        let with_all_brands =
            Brand::ALL.iter().fold(visa(), |details, it| details.with_network(*it, None));
        assert_eq!(with_all_brands.additional.iter().count(), AdditionalBrands::MAX);
    }

    #[test]
    fn authentication_requirement_follows_the_country() {
        let requirement_in =
            |country| BinDetails { country: Country::parse(country), ..visa() }.authentication();
        assert_eq!(requirement_in("FR"), Some(AuthenticationRequirement::ScaRequired));
        assert_eq!(requirement_in("US"), None);
        assert_eq!(visa().authentication(), None);
    }
}
