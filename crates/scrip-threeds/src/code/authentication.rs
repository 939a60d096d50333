//! Types of authentication and challenge preferences.

use crate::code::{ThreeDsSessionType, codes, open_codes};

open_codes! {
    /// Why a cardholder is authenticated (`threeDSRequestorAuthenticationInd`).
    pub enum RequestorAuthentication {
        Payment = "01" "payment-transaction",
        Recurring = "02" "recurring-transaction",
        Installment = "03" "installment-transaction",
        AddCard = "04" "add-card",
        MaintainCard = "05" "maintain-card",
        EmvVerification = "06" "cardholder-emv-verification",
        /// Not in the base text of 2.2.0; added by a later bulletin.
        BillingAgreement = "07" "billing-agreement",
    }

    /// Why a merchant authenticates without the cardholder (`threeRIInd`).
    pub enum RequestorInitiated {
        Recurring = "01" "recurring-transaction",
        Installment = "02" "installment-transaction",
        AddCard = "03" "add-card",
        MaintainCard = "04" "maintain-card",
        AccountVerification = "05" "account-verification",
        SplitOrDelayedShipment = "06" "split-or-delayed-shipment",
        TopUp = "07" "top-up",
        MailOrder = "08" "mail-order",
        TelephoneOrder = "09" "telephone-order",
        WhitelistStatusCheck = "10" "whitelist-status-check",
        OtherPayment = "11" "other-payment",
        /// From 2.3; directory servers of 2.2.0 accept it.
        BillingAgreement = "12" "billing-agreement",
    }
}

impl RequestorInitiated {
    /// The list of 2.1.0 ends at account verification.
    pub fn exists_in_2_1_0(self) -> bool {
        self <= Self::AccountVerification || matches!(self, Self::Scheme(_))
    }

    /// Types for which EMV requires purchase data even in a non-payment authentication.
    pub fn requires_purchase(self) -> bool {
        match self {
            Self::Recurring
            | Self::Installment
            | Self::SplitOrDelayedShipment
            | Self::TopUp
            | Self::MailOrder
            | Self::TelephoneOrder
            | Self::OtherPayment => true,
            Self::AddCard
            | Self::MaintainCard
            | Self::AccountVerification
            | Self::WhitelistStatusCheck
            | Self::BillingAgreement
            | Self::Scheme(_) => false,
        }
    }
}

codes! {
    /// The `authentication_type` of the API. EMV has two lists for it, one for each session type.
    pub enum AuthenticationType {
        PaymentTransaction = "payment-transaction" "payment-transaction",
        CardholderEmvVerification = "cardholder-emv-verification" "cardholder-emv-verification",
        SplitOrDelayedShipment = "split-or-delayed-shipment" "split-or-delayed-shipment",
        TopUp = "top-up" "top-up",
        MailOrder = "mail-order" "mail-order",
        TelephoneOrder = "telephone-order" "telephone-order",
        WhitelistStatusCheck = "whitelist-status-check" "whitelist-status-check",
        OtherPayment = "other-payment" "other-payment",
        BillingAgreement = "billing-agreement" "billing-agreement",
        RecurringTransaction = "recurring-transaction" "recurring-transaction",
        InstallmentTransaction = "installment-transaction" "installment-transaction",
        AddCard = "add-card" "add-card",
        MaintainCard = "maintain-card" "maintain-card",
        AccountVerification = "account-verification" "account-verification",
    }
}

impl AuthenticationType {
    /// The code in a customer session, if the type is allowed there.
    pub fn to_requestor_authentication(self) -> Option<RequestorAuthentication> {
        match self {
            // EMV's list for customers has no account verification; maintain-card is the closest
            // code.
            Self::AccountVerification => Some(RequestorAuthentication::MaintainCard),
            // The API allows this type only in merchant sessions, although a bulletin assigned a
            // code.
            Self::BillingAgreement => None,
            Self::PaymentTransaction
            | Self::CardholderEmvVerification
            | Self::SplitOrDelayedShipment
            | Self::TopUp
            | Self::MailOrder
            | Self::TelephoneOrder
            | Self::WhitelistStatusCheck
            | Self::OtherPayment
            | Self::RecurringTransaction
            | Self::InstallmentTransaction
            | Self::AddCard
            | Self::MaintainCard => RequestorAuthentication::from_name(self.name()),
        }
    }

    /// The code in a merchant session, if the type is allowed there.
    pub fn to_requestor_initiated(self) -> Option<RequestorInitiated> {
        RequestorInitiated::from_name(self.name())
    }

    pub fn is_allowed_in(self, session: ThreeDsSessionType) -> bool {
        match session {
            ThreeDsSessionType::Customer => self.to_requestor_authentication().is_some(),
            ThreeDsSessionType::Merchant => self.to_requestor_initiated().is_some(),
        }
    }
}

open_codes! {
    /// The merchant's challenge preference (`threeDSRequestorChallengeInd`).
    pub enum ChallengePreference {
        NoPreference = "01" "no-preference",
        NoChallenge = "02" "no-challenge",
        Requested = "03" "challenge-requested",
        Mandated = "04" "challenge-mandated",
        RiskAnalysisPerformed = "05" "no-challenge-risk-analysis-performed",
        DataSharingOnly = "06" "no-challenge-data-sharing-only",
        StrongConsumerAuth = "07" "no-challenge-strong-consumer-auth",
        WhitelistExemption = "08" "no-challenge-whitelist-exemption",
        WhitelistPrompt = "09" "challenge-requested-whitelist-prompt",
        /// The only scheme-specific code that has a name here.
        CartesBancaires = "90" "cartes-bancaires",
    }
}

impl ChallengePreference {
    /// The list of 2.1.0 ends at the mandated challenge. Scheme-specific codes exist in every
    /// version.
    pub fn exists_in_2_1_0(self) -> bool {
        self <= Self::Mandated || matches!(self, Self::CartesBancaires | Self::Scheme(_))
    }
}
