//! What comes of it: status, kind of challenge, why it ended, whether the merchant is trusted.

use crate::code::{codes, open_codes};

codes! {
    /// EMV's `transStatus`, our `authentication_status`.
    pub enum Status {
        Successful = "Y" "successful",
        Attempted = "A" "attempted",
        Failed = "N" "failed",
        Unavailable = "U" "unavailable",
        Challenge = "C" "challenge",
        DecoupledChallenge = "D" "decoupled_challenge",
        Rejected = "R" "rejected",
        Informational = "I" "informational",
    }
}

impl Status {
    /// Nothing comes after it.
    #[must_use]
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Challenge | Self::DecoupledChallenge)
    }

    /// What an `RReq` may tell.
    #[must_use]
    pub fn is_result_status(self) -> bool {
        self.is_final() && self != Self::Informational
    }
}

open_codes! {
    /// How the cardholder was challenged (`authenticationType`).
    pub enum ChallengeType {
        Static = "01" "static",
        Dynamic = "02" "dynamic",
        OutOfBand = "03" "out-of-band",
        Decoupled = "04" "decoupled",
    }
}

open_codes! {
    /// Why a challenge ended early. The names are those of 2.1.0; 2.2.0 means by 03 that time for a
    /// decoupled authentication was over.
    pub enum ChallengeCancel {
        CardholderCanceled = "01" "cardholder-canceled",
        RequestorCanceled = "02" "requestor-canceled",
        TransactionAbandoned = "03" "transaction-abandoned",
        AcsTimeout = "04" "acs-timeout",
        RequestNotReceived = "05" "acs-timeout-request-not-received",
        Error = "06" "error",
        Unknown = "07" "unknown",
        /// An SDK's timeout, of 2.2.0. Our interface has no name for it.
        SdkTimeout = "08" "unknown",
    }
}

codes! {
    /// Whether the cardholder trusts the merchant.
    pub enum WhitelistStatus {
        MerchantTrusted = "Y" "merchant-trusted",
        MerchantNotTrusted = "N" "merchant-not-trusted",
        NotEligible = "E" "not-eligible",
        PendingConfirmation = "P" "pending-confirmation",
        RequestToTrustRejected = "R" "request-to-trust-rejected",
        Unknown = "U" "unknown",
    }
}

open_codes! {
    /// Who says so.
    pub enum WhitelistSource {
        Server = "01" "3ds-server",
        DirectoryServer = "02" "directory-server",
        AccessControlServer = "03" "acs",
    }
}

open_codes! {
    /// What the ACS of a card range can do.
    pub enum AcsInformation {
        Authentication = "01" "threeds-auth-available",
        Attempts = "02" "threeds-attempts-supported",
        /// No public name: ours.
        Decoupled = "03" "threeds-decoupled-authentication-supported",
        Whitelisting = "04" "threeds-whitelisting-supported",
    }
}

open_codes! {
    /// How a result was received.
    pub enum ResultsStatus {
        Received = "01" "received",
        ChallengeNotSent = "02" "challenge-request-not-sent",
        ResponseNotDelivered = "03" "response-not-delivered",
    }
}

codes! {
    /// Where a network token comes from.
    pub enum PayTokenSource {
        Server = "01" "3ds-server",
        DirectoryServer = "02" "directory-server",
    }
}
