//! The card schemes, and the rules that differ between them.

use crate::code::{AuthenticationCategory, Status, codes};

codes! {
    /// A card scheme with a directory server. The code is the RID of the scheme: the registered
    /// application provider identifier (ISO 7816-5), which EMV also uses as the directory server
    /// id.
    pub enum Scheme {
        Visa = "A000000003" "Visa",
        Mastercard = "A000000004" "Mastercard",
        AmericanExpress = "A000000025" "American Express",
        Discover = "A000000152" "Discover",
        /// This is the RID of JCB chip cards: no public 3-D Secure document names the directory
        /// server id of JCB.
        Jcb = "A000000065" "JCB",
        CartesBancaires = "A000000042" "Cartes Bancaires",
        /// Also the RID of its chip cards, for the same reason as `Jcb`.
        UnionPay = "A000000333" "UPI",
    }
}

impl Scheme {
    /// The id of the directory server: the RID.
    pub fn directory_server_id(self) -> &'static str {
        self.code()
    }

    /// The scheme's name in settings, labels, simulator paths and card brands.
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

    pub fn from_slug(slug: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.slug() == slug)
    }

    /// The ECI (electronic commerce indicator) that results from a status. Mastercard has its own
    /// values; all other schemes share theirs. A Cartes Bancaires card usually has a second brand
    /// and uses its values. The second brand is mostly not Mastercard, so Cartes Bancaires has the
    /// shared values here.
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
