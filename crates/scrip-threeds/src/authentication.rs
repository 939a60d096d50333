//! The outcome of an authentication as the API returns it: built from an `ARes`, completed by an
//! `RReq`.

use serde::{Deserialize, Serialize};

use crate::{
    code::{
        AuthenticationCategory, ChallengeCancel, ChallengePreference, ChallengeType, Scheme,
        Status, StatusReason, WhitelistSource, WhitelistStatus, YesNo,
    },
    format::{Alphanumeric, AuthenticationValue, Digits, JoseCompact, Text, TransId, Url, Version},
    message::{ARes, AcsRendering, Extensions, RReq},
};

/// The parameters of the request that the interpretation of the outcome depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthenticationParameters {
    pub version: Version,
    pub scheme: Scheme,
    pub category: AuthenticationCategory,
    pub challenge_preference: Option<ChallengePreference>,
    /// The time limit of a decoupled authentication in minutes, if one was requested.
    pub decoupled_minutes: Option<u16>,
}

/// All attributes of an authentication in the API, except the ids of the session and the token. A
/// name and its code come from one value, so they cannot differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Authentication {
    pub parameters: AuthenticationParameters,
    pub acs_transaction_id: TransId,
    pub ds_transaction_id: TransId,
    pub sdk_transaction_id: Option<TransId>,
    pub acs_reference_number: Text<1, 32>,
    pub ds_reference_number: Text<1, 32>,
    pub acs_operator_id: Option<Text<1, 32>>,
    pub authentication_value: Option<AuthenticationValue>,
    pub status: Status,
    /// The status of the `ARes`, even after a later `RReq`.
    pub directory_status: Status,
    pub reason: Option<StatusReason>,
    pub eci: Option<Alphanumeric<2, 2>>,
    pub acs_challenge_mandated: Option<YesNo>,
    pub acs_decoupled_authentication: Option<YesNo>,
    pub challenge_type: Option<ChallengeType>,
    pub acs_challenge_url: Option<Url<2048>>,
    pub acs_signed_content: Option<JoseCompact<3, 65_536>>,
    pub acs_rendering: Option<AcsRendering>,
    pub challenge_attempts: Option<Digits<2, 2>>,
    pub challenge_cancel: Option<ChallengeCancel>,
    pub cardholder_info: Option<Text<1, 128>>,
    pub whitelist_status: Option<WhitelistStatus>,
    pub whitelist_source: Option<WhitelistSource>,
    pub message_extensions: Option<Extensions>,
}

impl Authentication {
    pub fn from_ares(ares: &ARes, parameters: AuthenticationParameters) -> Self {
        let mut authentication = Self {
            parameters,
            acs_transaction_id: ares.acs_trans_id.clone(),
            ds_transaction_id: ares.ds_trans_id.clone(),
            sdk_transaction_id: ares.sdk_trans_id.clone(),
            acs_reference_number: ares.acs_reference_number.clone(),
            ds_reference_number: ares.ds_reference_number.clone(),
            acs_operator_id: ares.acs_operator_id.clone(),
            authentication_value: ares.authentication_value.clone(),
            status: ares.status,
            directory_status: ares.status,
            reason: ares.status_reason,
            eci: ares.eci.clone(),
            acs_challenge_mandated: ares.challenge_mandated,
            acs_decoupled_authentication: ares.decoupled,
            challenge_type: ares.challenge_type,
            acs_challenge_url: ares.acs_url.clone(),
            acs_signed_content: ares.acs_signed_content.clone(),
            acs_rendering: ares.acs_rendering.clone(),
            challenge_attempts: None,
            challenge_cancel: None,
            cardholder_info: ares.cardholder_info.clone(),
            whitelist_status: ares.whitelist_status,
            whitelist_source: ares.whitelist_source,
            message_extensions: ares.extensions.clone(),
        };
        authentication.fill_missing_eci();
        authentication
    }

    /// The authentication after a challenge. Elements that only the `ARes` has stay. Status,
    /// reason, ECI, cryptogram, attempts and cancellation come from the result, even if the result
    /// lacks them.
    pub fn with_result(&self, result: &RReq) -> Self {
        let mut authentication = Self {
            authentication_value: result.authentication_value.clone(),
            status: result.status,
            reason: result.status_reason,
            eci: result.eci.clone(),
            challenge_type: result.challenge_type.or(self.challenge_type),
            challenge_attempts: result.attempts.clone(),
            challenge_cancel: result.challenge_cancel,
            whitelist_status: result.whitelist_status.or(self.whitelist_status),
            whitelist_source: result.whitelist_source.or(self.whitelist_source),
            message_extensions: result.extensions.clone().or(self.message_extensions.clone()),
            ..self.clone()
        };
        authentication.fill_missing_eci();
        authentication
    }

    /// Some directory servers omit the ECI. For statuses that shift liability, the scheme's rule
    /// supplies it; for other statuses it stays absent.
    fn fill_missing_eci(&mut self) {
        let is_authenticated = matches!(self.status, Status::Successful | Status::Attempted);
        if self.eci.is_none() && is_authenticated {
            let eci = self.parameters.scheme.eci(self.status, self.parameters.category);
            self.eci = Some(Alphanumeric::from_trusted(eci));
        }
    }

    /// Whether the issuer is liable for fraud: a payment with status successful or attempted,
    /// proven by an authentication value.
    pub fn liability_shifted(&self) -> bool {
        let is_proven = matches!(self.status, Status::Successful | Status::Attempted)
            && self.authentication_value.is_some();
        is_proven && self.parameters.category == AuthenticationCategory::Payment
    }

    /// `None` if a scheme's code has no public meaning; the code itself is still available.
    pub fn authentication_status_reason(&self) -> Option<&'static str> {
        self.reason.and_then(|it| it.name_for_scheme(self.parameters.scheme))
    }

    pub fn challenge_cancel_reason(&self) -> Option<&'static str> {
        self.challenge_cancel.map(|it| it.name().unwrap_or("unknown"))
    }
}

#[cfg(test)]
mod tests;
