//! The purchase and its delivery.

use crate::code::codes;

codes! {
    /// The type of a payment.
    pub enum TransactionType {
        Purchase = "01" "purchase",
        CheckAcceptance = "03" "check-acceptance",
        AccountFunding = "10" "account-funding",
        QuasiCash = "11" "quasi-cash",
        PrepaidActivationLoad = "28" "prepaid-activation-load",
    }
}

codes! {
    /// When the goods are delivered.
    pub enum DeliveryTimeFrame {
        Electronic = "01" "electronic-delivery",
        SameDay = "02" "same-day-shipping",
        Overnight = "03" "overnight-shipping",
        TwoOrMoreDays = "04" "two-or-more-day-shipping",
    }
}

codes! {
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
