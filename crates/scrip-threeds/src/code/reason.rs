//! Status reasons. The meaning of codes from 80 depends on the scheme.

use crate::code::{Scheme, SchemeCode, open_codes};

open_codes! {
    /// EMV's `transStatusReason`.
    pub enum StatusReason {
        CardAuthenticationFailed = "01" "card-authentication-failed",
        UnknownDevice = "02" "unknown-device",
        UnsupportedDevice = "03" "unsupported-device",
        TooManyAttempts = "04" "too-many-authentication-attempts",
        CardExpired = "05" "card-expired",
        InvalidCardNumber = "06" "invalid-card-number",
        InvalidTransaction = "07" "invalid-transaction",
        NoCardRecord = "08" "no-card-record",
        SecurityFailure = "09" "security-failure",
        StolenCard = "10" "stolen-card",
        SuspectedFraud = "11" "suspected-fraud",
        NotPermitted = "12" "transaction-not-permitted",
        NotEnrolled = "13" "cardholder-not-enrolled",
        TimeoutAtAcs = "14" "timeout-at-acs",
        LowConfidence = "15" "low-confidence",
        MediumConfidence = "16" "medium-confidence",
        HighConfidence = "17" "high-confidence",
        VeryHighConfidence = "18" "very-high-confidence",
        MaxChallengesExceeded = "19" "max-challenges-exceeded",
        NonPaymentNotSupported = "20" "non-payment-transaction-not-supported",
        RequestorInitiatedNotSupported = "21" "3ri-not-supported",
        AcsTechnicalIssue = "22" "acs-technical-issue",
        DecoupledRequired = "23" "decoupled-authentication-required",
        DecoupledTimeout = "24" "decoupled-authentication-timeout",
        DecoupledTimeInsufficient = "25" "insufficient-decoupled-authentication-time",
        AttemptedNotPerformed = "26" "authentication-attempted-but-not-performed",
    }
}

/// The public names of scheme-specific codes.
const SCHEME_REASON_NAMES: &[(Scheme, &str, &str)] = &[
    (Scheme::Visa, "80", "error-connecting-to-acs"),
    (Scheme::Visa, "81", "acs-timed-out"),
    (Scheme::Visa, "82", "invalid-response-from-acs"),
    (Scheme::Visa, "83", "system-error-response-from-acs"),
    (Scheme::Visa, "84", "internal-error-while-generating-cavv"),
    (Scheme::Visa, "85", "vmid-not-eligible-for-requested-program"),
    (Scheme::Visa, "86", "protocol-version-not-supported-by-acs"),
    (Scheme::Visa, "87", "transaction-excluded-from-attempts-processing"),
    (Scheme::Mastercard, "80", "identity-check-insights"),
    (Scheme::Mastercard, "87", "device-3ri-not-routed-to-smart-authentication-stand-in"),
];

impl StatusReason {
    /// 22 to 26 exist since 2.2.0.
    pub fn exists_in_2_1_0(self) -> bool {
        self <= Self::RequestorInitiatedNotSupported || matches!(self, Self::Scheme(_))
    }

    /// The name of the code, including scheme-specific codes. `None` if no meaning is published.
    pub fn name_for_scheme(self, scheme: Scheme) -> Option<&'static str> {
        let find_name = |code: SchemeCode| {
            let code = code.to_string();
            let entry = SCHEME_REASON_NAMES
                .iter()
                .find(|(entry_scheme, it, _)| *entry_scheme == scheme && *it == code);
            entry.map(|(_, _, name)| *name)
        };
        if let Self::Scheme(code) = self { find_name(code) } else { self.name() }
    }
}
