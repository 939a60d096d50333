//! The outcome: status, challenge type, cancellation and whitelist status.

use crate::code::{codes, open_codes};

codes! {
    /// EMV's `transStatus`, the `authentication_status` of the API.
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
    /// Whether no later message changes this status.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Challenge | Self::DecoupledChallenge)
    }

    /// Whether an `RReq` may contain this status.
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

    /// Why a challenge ended early. The names are those of 2.1.0; in 2.2.0, code 03 is the timeout
    /// of a decoupled authentication.
    pub enum ChallengeCancel {
        CardholderCanceled = "01" "cardholder-canceled",
        RequestorCanceled = "02" "requestor-canceled",
        TransactionAbandoned = "03" "transaction-abandoned",
        AcsTimeout = "04" "acs-timeout",
        RequestNotReceived = "05" "acs-timeout-request-not-received",
        Error = "06" "error",
        Unknown = "07" "unknown",
        /// The timeout of an SDK, since 2.2.0. The API has no name for it.
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
    /// Which component determined the whitelist status.
    pub enum WhitelistSource {
        Server = "01" "3ds-server",
        DirectoryServer = "02" "directory-server",
        AccessControlServer = "03" "acs",
    }

    /// The capabilities of the ACS of a card range.
    pub enum AcsInformation {
        Authentication = "01" "threeds-auth-available",
        Attempts = "02" "threeds-attempts-supported",
        /// EMV defines no public name; this name is our choice.
        Decoupled = "03" "threeds-decoupled-authentication-supported",
        Whitelisting = "04" "threeds-whitelisting-supported",
    }

    /// How the 3DS server received a result.
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
