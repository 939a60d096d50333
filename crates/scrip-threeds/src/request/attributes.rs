//! The attributes of the client's request.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::request::attribute_reader::{AttributeReader, AttributeShape, AttributeValue};

/// Structs of optional attributes and their readers. They cannot be printed, because they contain
/// personal data.
macro_rules! request_structs {
    ($($(#[$meta:meta])* pub struct $Name:ident { $($field:ident: $Type:ty,)* })*) => { $(
        $(#[$meta])*
        #[derive(Clone, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $Name { $(
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub $field: Option<$Type>,
        )* }

        impl fmt::Debug for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($Name))
            }
        }

        impl AttributeValue for $Name {
            fn shape() -> AttributeShape {
                AttributeShape::Object(vec![$((stringify!($field), <$Type>::shape()),)*])
            }

            fn read(value: Value, reader: &mut AttributeReader) -> Option<Self> {
                let mut object = reader.object(value)?;
                Some(Self { $($field: reader.attribute(&mut object, stringify!($field)),)* })
            }
        }
    )* };
}

request_structs! {
    /// The body of the request to authenticate a 3DS session.
    pub struct AuthenticateRequest {
        authentication_category: String,
        authentication_type: String,
        request_decoupled_challenge: bool,
        decoupled_challenge_max_time: i64,
        challenge_preference: String,
        purchase_info: PurchaseInfo,
        merchant_info: MerchantInfo,
        requestor_info: RequestorInfo,
        cardholder_info: CardholderInfo,
        broadcast_info: Value,
        message_extensions: Vec<MessageExtension>,
    }

    /// The purchase.
    pub struct PurchaseInfo {
        amount: String,
        currency: String,
        exponent: String,
        date: String,
        transaction_type: String,
        installment_count: String,
        recurring_expiration: String,
        recurring_frequency: String,
    }

    /// The merchant.
    pub struct MerchantInfo {
        mid: String,
        acquirer_bin: String,
        name: String,
        country_code: String,
        category_code: String,
        url: String,
        risk_info: RiskInfo,
    }

    /// The delivery and its risk.
    pub struct RiskInfo {
        delivery_email: String,
        delivery_time_frame: String,
        gift_card_amount: String,
        gift_card_count: String,
        gift_card_currency: String,
        pre_order_purchase: bool,
        pre_order_date: String,
        reordered_purchase: bool,
        shipping_method: String,
    }

    /// The 3DS requestor, with attributes that single schemes need.
    pub struct RequestorInfo {
        id: String,
        name: String,
        url: String,
        amex_requestor_type: String,
        cb_siret_number: String,
        discover_client_id: String,
        discover_requestor_id: String,
    }

    /// The cardholder.
    pub struct CardholderInfo {
        name: String,
        email: String,
        account_id: String,
        account_type: String,
        account_info: CardholderAccount,
        authentication_info: CardholderAuthentication,
        prior_authentication_info: CardholderPriorAuthentication,
        phone_number: PhoneNumber,
        mobile_phone_number: PhoneNumber,
        work_phone_number: PhoneNumber,
        billing_shipping_address_match: String,
        billing_address: Address,
        shipping_address: Address,
    }

    /// A telephone number.
    pub struct PhoneNumber {
        country_code: String,
        number: String,
    }

    /// A postal address.
    pub struct Address {
        line1: String,
        line2: String,
        line3: String,
        postal_code: String,
        city: String,
        state_code: String,
        country_code: String,
    }

    /// The cardholder's account with the merchant.
    pub struct CardholderAccount {
        account_age: String,
        account_last_changed: String,
        account_change_date: String,
        account_created_date: String,
        account_pwd_last_changed: String,
        account_pwd_change_date: String,
        purchase_count_half_year: String,
        transaction_count_day: String,
        payment_account_age: String,
        transaction_count_year: String,
        payment_account_created: String,
        shipping_address_first_used: String,
        shipping_address_usage_date: String,
        shipping_account_name_match: bool,
        suspicious_activity_observed: bool,
    }

    /// How the cardholder signed in.
    pub struct CardholderAuthentication {
        method: String,
        timestamp: String,
        data: String,
    }

    /// How the cardholder was authenticated before.
    pub struct CardholderPriorAuthentication {
        method: String,
        timestamp: String,
        reference_id: String,
        data: String,
    }

    /// A message extension. EMV requires an object as data; text that contains a JSON object is
    /// accepted too.
    pub struct MessageExtension {
        id: String,
        name: String,
        critical: bool,
        data: Value,
    }

    /// The data that the SDKs collect, and what the server knows about a browser.
    pub struct DeviceInfo {
        browser_accept_header: String,
        browser_ip: String,
        browser_javascript_enabled: bool,
        browser_java_enabled: bool,
        browser_language: String,
        browser_color_depth: String,
        browser_screen_height: String,
        browser_screen_width: String,
        browser_tz: String,
        browser_user_agent: String,
        sdk_transaction_id: String,
        sdk_application_id: String,
        sdk_encryption_data: String,
        sdk_ephemeral_public_key: Value,
        sdk_max_timeout: String,
        sdk_reference_number: String,
        sdk_render_options: SdkRenderOptions,
    }

    /// The interfaces that an SDK supports.
    pub struct SdkRenderOptions {
        sdk_interface: String,
        sdk_ui_type: Vec<String>,
    }
}
