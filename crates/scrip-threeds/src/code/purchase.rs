//! What is bought, and how it gets there.

use crate::code::codes;

codes! {
    /// What a payment is for.
    pub enum TransactionType {
        Purchase = "01" "purchase",
        CheckAcceptance = "03" "check-acceptance",
        AccountFunding = "10" "account-funding",
        QuasiCash = "11" "quasi-cash",
        PrepaidActivationLoad = "28" "prepaid-activation-load",
    }
}

codes! {
    /// When the goods arrive.
    pub enum DeliveryTimeFrame {
        Electronic = "01" "electronic-delivery",
        SameDay = "02" "same-day-shipping",
        Overnight = "03" "overnight-shipping",
        TwoOrMoreDays = "04" "two-or-more-day-shipping",
    }
}

codes! {
    /// Where the goods go.
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

/// EMV has a pair of codes for each yes and no.
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
    /// Whether the goods are not there yet.
    PreOrder: false "01" true "02";
    /// Whether the goods were bought before.
    Reorder: false "01" true "02";
    /// Whether something odd was seen on the account.
    SuspiciousActivity: false "01" true "02";
    /// Whether the goods go to the account's owner.
    ShippingNameMatch: false "02" true "01";
}
