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
}

codes! {
    /// When the account was changed.
    pub enum AccountChange {
        ThisTransaction = "01" "changed-this-transaction",
        LessThan30Days = "02" "less-than-30-days",
        From30To60Days = "03" "30-to-60-days",
        MoreThan60Days = "04" "more-than-60-days",
    }
}

codes! {
    /// When the password was changed.
    pub enum PasswordChange {
        NoChange = "01" "no-change",
        ThisTransaction = "02" "changed-this-transaction",
        LessThan30Days = "03" "less-than-30-days",
        From30To60Days = "04" "30-to-60-days",
        MoreThan60Days = "05" "more-than-60-days",
    }
}

codes! {
    /// How long the merchant has known the card for this account.
    pub enum PaymentAccountAge {
        NoAccount = "01" "no-account",
        ThisTransaction = "02" "created-this-transaction",
        LessThan30Days = "03" "less-than-30-days",
        From30To60Days = "04" "30-to-60-days",
        MoreThan60Days = "05" "more-than-60-days",
    }
}

codes! {
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
}

open_codes! {
    /// How the cardholder was authenticated before.
    pub enum PriorMethod {
        Frictionless = "01" "frictionless",
        Challenged = "02" "challenged",
        AvsVerified = "03" "avs-verified",
        Other = "04" "other",
    }
}
