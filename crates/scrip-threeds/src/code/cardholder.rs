//! The merchant's data about the cardholder.

use crate::code::{codes, open_codes};

open_codes! {
    /// The type of the account behind the card.
    pub enum AccountType {
        NotApplicable = "01" "not-applicable",
        Credit = "02" "credit",
        Debit = "03" "debit",
    }
}

codes! {
    /// How old the account is.
    pub enum AccountAge {
        NoAccount = "01" "no-account",
        ThisTransaction = "02" "created-this-transaction",
        LessThan30Days = "03" "less-than-30-days",
        From30To60Days = "04" "30-to-60-days",
        MoreThan60Days = "05" "more-than-60-days",
    }

    /// When the account was changed.
    pub enum AccountChange {
        ThisTransaction = "01" "changed-this-transaction",
        LessThan30Days = "02" "less-than-30-days",
        From30To60Days = "03" "30-to-60-days",
        MoreThan60Days = "04" "more-than-60-days",
    }

    /// When the password was changed.
    pub enum PasswordChange {
        NoChange = "01" "no-change",
        ThisTransaction = "02" "changed-this-transaction",
        LessThan30Days = "03" "less-than-30-days",
        From30To60Days = "04" "30-to-60-days",
        MoreThan60Days = "05" "more-than-60-days",
    }

    /// How long the merchant has known the card for this account.
    pub enum PaymentAccountAge {
        NoAccount = "01" "no-account",
        ThisTransaction = "02" "created-this-transaction",
        LessThan30Days = "03" "less-than-30-days",
        From30To60Days = "04" "30-to-60-days",
        MoreThan60Days = "05" "more-than-60-days",
    }

    /// When the shipping address was first used.
    pub enum ShippingAddressUse {
        ThisTransaction = "01" "this-transaction",
        LessThan30Days = "02" "less-than-30-days",
        From30To60Days = "03" "30-to-60-days",
        MoreThan60Days = "04" "more-than-60-days",
    }
}

/// Values of the API for which EMV has no code. They are omitted from the message.
pub const CHANGE_WITHOUT_CODE: &[&str] = &["no-change"];

/// The same for the use of the shipping address.
pub const SHIPPING_WITHOUT_CODE: &[&str] = &["no-address"];

impl ShippingAddressUse {
    /// Accepts the API names and `address-first-used`, an alternative name of the first.
    pub fn from_request(name: &str) -> Option<Self> {
        let name = if name == "address-first-used" { "this-transaction" } else { name };
        Self::from_name(name)
    }
}

open_codes! {
    /// How the cardholder signed in.
    pub enum LoginMethod {
        NoLogin = "01" "no-login",
        UsernamePassword = "02" "username-password",
        FederatedId = "03" "federated-id",
        IssuerCredentials = "04" "issuer-credentials",
        ThirdParty = "05" "third-party",
        Fido = "06" "fido",
        FidoDataSigned = "07" "fido-data-signed",
        SrcAssuranceData = "08" "src-assurance-data",
    }

    /// How the cardholder was authenticated before.
    pub enum PriorMethod {
        Frictionless = "01" "frictionless",
        Challenged = "02" "challenged",
        AvsVerified = "03" "avs-verified",
        Other = "04" "other",
    }
}

codes! {
    /// The type of a payment.
    pub enum TransactionType {
        Purchase = "01" "purchase",
        CheckAcceptance = "03" "check-acceptance",
        AccountFunding = "10" "account-funding",
        QuasiCash = "11" "quasi-cash",
        PrepaidActivationLoad = "28" "prepaid-activation-load",
    }

    /// When the goods are delivered.
    pub enum DeliveryTimeFrame {
        Electronic = "01" "electronic-delivery",
        SameDay = "02" "same-day-shipping",
        Overnight = "03" "overnight-shipping",
        TwoOrMoreDays = "04" "two-or-more-day-shipping",
    }

    /// Where the goods are shipped.
    pub enum ShippingMethod {
        Billing = "01" "ship-to-billing-address",
        Verified = "02" "ship-to-verified-address",
        Different = "03" "ship-to-different-address",
        Store = "04" "ship-to-store",
        Digital = "05" "digital-goods",
        Tickets = "06" "travel-and-event-tickets",
        Other = "07" "other",
    }
}

/// Enums for boolean elements. EMV does not use the same codes for all of them: `01` is false in
/// most, but true in `ShippingNameMatch`.
macro_rules! yes_no_codes {
    ($($(#[$meta:meta])* $Name:ident: false $no:literal true $yes:literal;)*) => { $(
        codes! {
            $(#[$meta])*
            pub enum $Name { No = $no "false", Yes = $yes "true", }
        }

        impl From<bool> for $Name {
            fn from(yes: bool) -> Self {
                if yes { Self::Yes } else { Self::No }
            }
        }
    )* };
}

yes_no_codes! {
    /// Whether the goods become available only in the future.
    PreOrder: false "01" true "02";
    /// Whether the goods were bought before.
    Reorder: false "01" true "02";
    /// Whether the merchant has seen suspicious activity on the account.
    SuspiciousActivity: false "01" true "02";
    /// Whether the recipient is the owner of the account.
    ShippingNameMatch: false "02" true "01";
}
