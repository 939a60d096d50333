//! The card schemes, and the rules that differ between them.

use crate::code::{AuthenticationCategory, Status, codes};

codes! {
    /// Who runs a directory server. The first column is its id (an application provider's).
    pub enum Scheme {
        Visa = "A000000003" "Visa",
        Mastercard = "A000000004" "Mastercard",
        AmericanExpress = "A000000025" "American Express",
        Discover = "A000000152" "Discover",
        /// From its chip cards; no public 3-D Secure source names it.
        Jcb = "A000000065" "JCB",
        CartesBancaires = "A000000042" "Cartes Bancaires",
        /// From its chip cards, as well.
        UnionPay = "A000000333" "UPI",
    }
}

impl Scheme {
    #[must_use]
    pub fn directory_server_id(self) -> &'static str {
        self.code()
    }

    /// The scheme in settings, labels, paths of the simulator and brands of cards.
    #[must_use]
    pub const fn slug(self) -> &'static str {
        match self {
            Self::Visa => "visa",
            Self::Mastercard => "mastercard",
            Self::AmericanExpress => "american-express",
            Self::Discover => "discover",
            Self::Jcb => "jcb",
            Self::CartesBancaires => "cartes-bancaires",
            Self::UnionPay => "unionpay",
        }
    }

    #[must_use]
    pub fn from_slug(slug: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.slug() == slug)
    }

    /// The indicator that belongs to a status: Mastercard counts from below, all others from above.
    /// Cartes Bancaires follows the other brand of the card, which is mostly not Mastercard.
    #[must_use]
    pub fn eci(self, status: Status, category: AuthenticationCategory) -> &'static str {
        let is_mastercard = self == Self::Mastercard;
        match (status, category) {
            (Status::Successful, AuthenticationCategory::NonPayment) if is_mastercard => "N2",
            (Status::Successful, _) if is_mastercard => "02",
            (Status::Successful, _) => "05",
            (Status::Attempted, _) if is_mastercard => "01",
            (Status::Attempted, _) => "06",
            (Status::Informational, _) if is_mastercard => "04",
            (_, _) if is_mastercard => "00",
            (_, _) => "07",
        }
    }
}
