//! Card brands, funding types, and authentication requirements.

use scrip_threeds::code::Scheme;

words! {
    /// A card brand. The first thirteen can be the own brand of a card; the others occur only as an
    /// additional network.
    pub enum Brand {
        AmericanExpress = Scheme::AmericanExpress.slug(),
        DinersClub = "diners-club",
        Discover = Scheme::Discover.slug(),
        Ebt = "ebt",
        Elo = "elo",
        Hipercard = "hipercard",
        Jcb = Scheme::Jcb.slug(),
        Mastercard = Scheme::Mastercard.slug(),
        Mir = "mir",
        PrivateLabel = "private-label",
        Proprietary = "proprietary",
        Unionpay = Scheme::UnionPay.slug(),
        Visa = Scheme::Visa.slug(),
        Bancontact = "bancontact",
        CartesBancaires = Scheme::CartesBancaires.slug(),
        Dankort = "dankort",
        EftposAustralia = "eftpos-australia",
        Girocard = "girocard",
        Interac = "interac",
        Mada = "mada",
        Maestro = "maestro",
        Rupay = "rupay",
        Troy = "troy",
        Verve = "verve",
    }
}

words! {
    /// The funding of a card.
    pub enum Funding {
        Credit = "credit",
        Debit = "debit",
        Prepaid = "prepaid",
    }
}

impl Brand {
    /// Whether the brand can be the own brand of a card.
    pub fn is_primary(self) -> bool {
        self <= Self::Visa
    }
}

words! {
    /// The authentication that a payment with the card requires.
    pub enum AuthenticationRequirement {
        /// Strong customer authentication, such as 3-D Secure.
        ScaRequired = "sca_required",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primary_brands_are_the_thirteen_of_the_api() {
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
    fn every_threeds_scheme_has_a_brand() {
        for scheme in Scheme::ALL {
            assert!(Brand::parse(scheme.slug()).is_some(), "{scheme:?}");
        }
    }

    #[test]
    fn brand_and_funding_names_parse_back() {
        assert!(Brand::ALL.iter().all(|it| Brand::parse(it.as_str()) == Some(*it)));
        assert!(Funding::ALL.iter().all(|it| Funding::parse(it.as_str()) == Some(*it)));
        assert_eq!(Brand::parse("Visa"), None);
    }
}
