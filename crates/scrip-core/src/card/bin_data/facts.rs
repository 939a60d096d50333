//! What can be known of a card by its first digits.

use super::{Authentication, Brand, Country, Funding};

/// Small and copied: finding it allocates nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Facts {
    pub brand: Option<Brand>,
    pub funding: Option<Funding>,
    pub country: Option<&'static Country>,
    /// How long the issuer's number is, where the data says so.
    pub bin_digits: Option<BinDigits>,
    pub additional: Additional,
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
    pub fn of_len(len: usize) -> Self {
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

impl Facts {
    /// Everybody who pays online with a card that was issued there has to be authenticated. Nothing
    /// when the country is not known, or has no such rule.
    #[must_use]
    pub fn authentication(&self) -> Option<Authentication> {
        let required = self.country.is_some_and(|it| it.requires_sca);
        required.then_some(Authentication::ScaRequired)
    }

    /// Whether there is anything to tell of the card.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { brand, funding, country, bin_digits: _, additional } = self;
        brand.is_none() && funding.is_none() && country.is_none() && additional.is_empty()
    }

    /// These, and what they leave open from the others. What is known of another brand's cards is
    /// not said of these.
    pub(crate) fn over(self, others: Self) -> Self {
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
    pub(crate) fn common(self, other: Self) -> Self {
        fn same<T: PartialEq>(one: Option<T>, other: Option<T>) -> Option<T> {
            if one == other { one } else { None }
        }
        let same_additional = self.additional == other.additional;
        Self {
            brand: same(self.brand, other.brand),
            funding: same(self.funding, other.funding),
            country: same(self.country, other.country),
            bin_digits: self.bin_digits.min(other.bin_digits),
            additional: if same_additional { self.additional } else { Additional::default() },
        }
    }

    /// The same card on another network too. Nothing happens when it is known already, or when there
    /// is no room for more.
    #[must_use]
    pub fn with(mut self, brand: Brand, funding: Option<Funding>) -> Self {
        let known = self.brand == Some(brand) || self.additional.iter().any(|it| it.brand == brand);
        if !known && let Some(free) = self.additional.0.iter_mut().find(|it| it.is_none()) {
            *free = Some(AdditionalBrand { brand, funding });
        }
        self
    }
}

/// The other networks of a card: more than these no card has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Additional(pub(super) [Option<AdditionalBrand>; Additional::MAX]);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AdditionalBrand {
    pub brand: Brand,
    pub funding: Option<Funding>,
}

impl Additional {
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

    fn visa() -> Facts {
        Facts { brand: Some(Brand::Visa), ..Facts::default() }
    }

    #[test]
    fn facts_are_completed_by_those_of_the_same_brand() {
        let credit = Facts { funding: Some(Funding::Credit), ..Facts::default() };
        let known = visa().with(Brand::Dankort, None);
        assert_eq!(credit.over(known), Facts { funding: Some(Funding::Credit), ..known });
        let elo = Facts { brand: Some(Brand::Elo), ..Facts::default() };
        assert_eq!(elo.over(known), elo);
        let own = visa().with(Brand::CartesBancaires, Some(Funding::Debit));
        assert_eq!(own.over(known), own);
    }

    #[test]
    fn what_is_common_is_what_both_say() {
        let french = Facts { country: Country::parse("FR"), ..visa() };
        let debit = Facts { funding: Some(Funding::Debit), ..french };
        assert_eq!(debit.common(french), french);
        assert_eq!(debit.common(Facts::default()), Facts::default());
        let co_badged = french.with(Brand::CartesBancaires, None);
        assert_eq!(co_badged.common(french), french);
    }

    #[test]
    fn networks_are_noted_once_and_only_so_many() {
        let twice = visa().with(Brand::Dankort, None).with(Brand::Dankort, Some(Funding::Debit));
        assert_eq!(twice.additional.iter().count(), 1);
        assert!(visa().with(Brand::Visa, None).additional.is_empty());
        let all = Brand::ALL.iter().fold(visa(), |facts, it| facts.with(*it, None));
        assert_eq!(all.additional.iter().count(), Additional::MAX);
    }

    #[test]
    fn authentication_follows_the_country() {
        let of = |country| Facts { country: Country::parse(country), ..visa() }.authentication();
        assert_eq!(of("FR"), Some(Authentication::ScaRequired));
        assert_eq!(of("US"), None);
        assert_eq!(visa().authentication(), None);
    }
}
