//! What can be known of a card by its first digits.

use super::{AuthenticationRequirement, Brand, Country, Funding};

/// Small and copied: finding it allocates nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BinDetails {
    pub brand: Option<Brand>,
    pub funding: Option<Funding>,
    pub country: Option<&'static Country>,
    /// How long the issuer's number is, where the data says so.
    pub bin_digits: Option<BinDigits>,
    pub additional: AdditionalBrands,
}

/// How many of the first digits name the issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BinDigits {
    Six,
    Seven,
    Eight,
}

impl BinDigits {
    pub(crate) const ALL: [Self; 3] = [Self::Six, Self::Seven, Self::Eight];

    /// Of a prefix that long: never fewer than six, never more than eight.
    #[must_use]
    pub fn from_len(len: usize) -> Self {
        match len {
            0..=6 => Self::Six,
            7 => Self::Seven,
            8.. => Self::Eight,
        }
    }

    #[must_use]
    pub fn count(self) -> usize {
        match self {
            Self::Six => 6,
            Self::Seven => 7,
            Self::Eight => 8,
        }
    }
}

impl BinDetails {
    /// Everybody who pays online with a card that was issued there has to be authenticated. Nothing
    /// when the country is not known, or has no such rule.
    #[must_use]
    pub fn authentication(&self) -> Option<AuthenticationRequirement> {
        let required = self.country.is_some_and(|it| it.requires_sca);
        required.then_some(AuthenticationRequirement::ScaRequired)
    }

    /// Whether there is anything to tell of the card.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { brand, funding, country, bin_digits: _, additional } = self;
        brand.is_none() && funding.is_none() && country.is_none() && additional.is_empty()
    }

    /// These, and what they leave open from the others. What is known of another brand's cards is
    /// not said of these.
    pub(crate) fn fill_from(self, others: Self) -> Self {
        let others = match self.brand {
            Some(brand) if others.brand != Some(brand) => Self::default(),
            Some(_) | None => others,
        };
        Self {
            brand: self.brand.or(others.brand),
            funding: self.funding.or(others.funding),
            country: self.country.or(others.country),
            bin_digits: self.bin_digits.or(others.bin_digits),
            additional: if self.additional.is_empty() {
                others.additional
            } else {
                self.additional
            },
        }
    }

    /// What holds for both.
    pub(crate) fn intersect(self, other: Self) -> Self {
        fn same<T: PartialEq>(one: Option<T>, other: Option<T>) -> Option<T> {
            if one == other { one } else { None }
        }
        let same_additional = self.additional == other.additional;
        Self {
            brand: same(self.brand, other.brand),
            funding: same(self.funding, other.funding),
            country: same(self.country, other.country),
            bin_digits: self.bin_digits.min(other.bin_digits),
            additional: if same_additional { self.additional } else { AdditionalBrands::default() },
        }
    }

    /// The same card on another network too. Nothing happens when it is known already, or when there
    /// is no room for more.
    #[must_use]
    pub fn with_network(mut self, brand: Brand, funding: Option<Funding>) -> Self {
        let known = self.brand == Some(brand) || self.additional.iter().any(|it| it.brand == brand);
        if !known && let Some(free) = self.additional.0.iter_mut().find(|it| it.is_none()) {
            *free = Some(AdditionalBrand { brand, funding });
        }
        self
    }
}

/// The other networks of a card: more than these no card has.
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

    #[must_use]
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
        let known = visa().with_network(Brand::Dankort, None);
        assert_eq!(credit.fill_from(known), BinDetails { funding: Some(Funding::Credit), ..known });
        let elo = BinDetails { brand: Some(Brand::Elo), ..BinDetails::default() };
        assert_eq!(elo.fill_from(known), elo);
        let own = visa().with_network(Brand::CartesBancaires, Some(Funding::Debit));
        assert_eq!(own.fill_from(known), own);
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
        let twice = visa()
            .with_network(Brand::Dankort, None)
            .with_network(Brand::Dankort, Some(Funding::Debit));
        assert_eq!(twice.additional.iter().count(), 1);
        assert!(visa().with_network(Brand::Visa, None).additional.is_empty());
        let all = Brand::ALL.iter().fold(visa(), |facts, it| facts.with_network(*it, None));
        assert_eq!(all.additional.iter().count(), AdditionalBrands::MAX);
    }

    #[test]
    fn authentication_requirement_follows_the_country() {
        let of =
            |country| BinDetails { country: Country::parse(country), ..visa() }.authentication();
        assert_eq!(of("FR"), Some(AuthenticationRequirement::ScaRequired));
        assert_eq!(of("US"), None);
        assert_eq!(visa().authentication(), None);
    }
}
