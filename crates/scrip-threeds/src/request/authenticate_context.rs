//! A request with the properties of its session.

use crate::{
    authentication::AuthenticationParameters,
    code::{
        AuthenticationCategory, AuthenticationType, ChallengePreference, Device, Scheme,
        ThreeDsSessionType,
    },
    format::Version,
    request::{AuthenticateRequest, DeviceInfo, MerchantInfo, PurchaseInfo},
};

/// The inputs of the rules.
#[derive(Debug, Clone, Copy)]
pub struct AuthenticateContext<'a> {
    pub request: &'a AuthenticateRequest,
    pub device_info: &'a DeviceInfo,
    pub session: ThreeDsSessionType,
    pub device: Device,
    pub version: Version,
}

impl<'a> AuthenticateContext<'a> {
    pub(crate) fn category(&self) -> Option<AuthenticationCategory> {
        let name = self.request.authentication_category.as_deref();
        name.and_then(AuthenticationCategory::from_name)
    }

    pub(crate) fn authentication_type(&self) -> Option<AuthenticationType> {
        self.request.authentication_type.as_deref().and_then(AuthenticationType::from_name)
    }

    pub(crate) fn is_payment(&self) -> bool {
        self.category() == Some(AuthenticationCategory::Payment)
    }

    pub(crate) fn is_merchant(&self) -> bool {
        self.session == ThreeDsSessionType::Merchant
    }

    /// Rule 6: merchant sessions request a decoupled challenge by default.
    pub fn requests_decoupled(&self) -> bool {
        self.request.request_decoupled_challenge.unwrap_or(self.is_merchant())
    }

    /// The parameters that the interpretation of the outcome depends on. `None` if the category is
    /// invalid. 2.1.0 has no decoupled challenges, even if one is requested.
    pub fn authentication_parameters(&self, scheme: Scheme) -> Option<AuthenticationParameters> {
        let preference = self.request.challenge_preference.as_deref();
        let minutes = self.request.decoupled_challenge_max_time;
        let decoupled = self.requests_decoupled() && self.version >= Version::V220;
        let minutes = minutes.filter(|_| decoupled).and_then(|it| u16::try_from(it).ok());
        Some(AuthenticationParameters {
            version: self.version,
            scheme,
            category: self.category()?,
            challenge_preference: preference.and_then(ChallengePreference::from_name),
            decoupled_minutes: minutes,
        })
    }

    /// The condition of rules 9 to 13 and 37: also merchant-initiated types that involve money
    /// without a payment.
    pub(crate) fn requires_purchase(&self) -> bool {
        self.is_payment() || self.is_recurring() || self.is_installment()
    }

    pub(crate) fn is_recurring(&self) -> bool {
        self.authentication_type() == Some(AuthenticationType::RecurringTransaction)
    }

    pub(crate) fn is_installment(&self) -> bool {
        self.authentication_type() == Some(AuthenticationType::InstallmentTransaction)
    }

    pub(crate) fn requires_merchant_purchase(&self) -> bool {
        let kind = self.authentication_type().and_then(AuthenticationType::to_requestor_initiated);
        self.is_merchant() && kind.is_some_and(|it| it.requires_purchase())
    }

    pub(crate) fn purchase(&self) -> Option<&'a PurchaseInfo> {
        self.request.purchase_info.as_ref()
    }

    pub(crate) fn merchant(&self) -> Option<&'a MerchantInfo> {
        self.request.merchant_info.as_ref()
    }

    pub(crate) fn is_browser(&self) -> bool {
        !self.is_merchant() && self.device == Device::Browser
    }

    pub(crate) fn is_app(&self) -> bool {
        !self.is_merchant() && self.device == Device::Mobile
    }
}
