//! Brands, kinds of funding, and what a payment asks of its cardholder.

/// A card brand. The first thirteen can be a card's own; the others only stand beside one of these
/// on the same card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Brand {
    AmericanExpress,
    DinersClub,
    Discover,
    Ebt,
    Elo,
    Hipercard,
    Jcb,
    Mastercard,
    Mir,
    PrivateLabel,
    Proprietary,
    Unionpay,
    Visa,
    Bancontact,
    CartesBancaires,
    Dankort,
    EftposAustralia,
    Girocard,
    Interac,
    Mada,
    Maestro,
    Rupay,
    Troy,
    Verve,
}

impl Brand {
    /// New ones go to the end: a place in this list is what BIN files say.
    pub const ALL: [Self; 24] = [
        Self::AmericanExpress,
        Self::DinersClub,
        Self::Discover,
        Self::Ebt,
        Self::Elo,
        Self::Hipercard,
        Self::Jcb,
        Self::Mastercard,
        Self::Mir,
        Self::PrivateLabel,
        Self::Proprietary,
        Self::Unionpay,
        Self::Visa,
        Self::Bancontact,
        Self::CartesBancaires,
        Self::Dankort,
        Self::EftposAustralia,
        Self::Girocard,
        Self::Interac,
        Self::Mada,
        Self::Maestro,
        Self::Rupay,
        Self::Troy,
        Self::Verve,
    ];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AmericanExpress => "american-express",
            Self::DinersClub => "diners-club",
            Self::Discover => "discover",
            Self::Ebt => "ebt",
            Self::Elo => "elo",
            Self::Hipercard => "hipercard",
            Self::Jcb => "jcb",
            Self::Mastercard => "mastercard",
            Self::Mir => "mir",
            Self::PrivateLabel => "private-label",
            Self::Proprietary => "proprietary",
            Self::Unionpay => "unionpay",
            Self::Visa => "visa",
            Self::Bancontact => "bancontact",
            Self::CartesBancaires => "cartes-bancaires",
            Self::Dankort => "dankort",
            Self::EftposAustralia => "eftpos-australia",
            Self::Girocard => "girocard",
            Self::Interac => "interac",
            Self::Mada => "mada",
            Self::Maestro => "maestro",
            Self::Rupay => "rupay",
            Self::Troy => "troy",
            Self::Verve => "verve",
        }
    }

    /// Whether it can be a card's own brand.
    #[must_use]
    pub fn is_primary(self) -> bool {
        self <= Self::Visa
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Funding {
    Credit,
    Debit,
    Prepaid,
}

impl Funding {
    /// New ones go to the end: a place in this list is what BIN files say.
    pub const ALL: [Self; 3] = [Self::Credit, Self::Debit, Self::Prepaid];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Credit => "credit",
            Self::Debit => "debit",
            Self::Prepaid => "prepaid",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
    }
}

/// What a payment with the card asks of its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authentication {
    /// Strong customer authentication, such as 3-D Secure.
    ScaRequired,
}

impl Authentication {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ScaRequired => "sca_required",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_brands_of_cards_are_the_thirteen_of_the_interface() {
        let primary = Brand::ALL.iter().filter(|it| it.is_primary()).map(|it| it.as_str());
        let expected = [
            "american-express",
            "diners-club",
            "discover",
            "ebt",
            "elo",
            "hipercard",
            "jcb",
            "mastercard",
            "mir",
            "private-label",
            "proprietary",
            "unionpay",
            "visa",
        ];
        assert_eq!(primary.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn names_lead_back() {
        assert!(Brand::ALL.iter().all(|it| Brand::parse(it.as_str()) == Some(*it)));
        assert!(Funding::ALL.iter().all(|it| Funding::parse(it.as_str()) == Some(*it)));
        assert_eq!(Brand::parse("Visa"), None);
    }
}
