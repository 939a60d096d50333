//! `AReq`: the request to authenticate a cardholder or a card.

use crate::{
    code::{
        AccountType, AuthenticationCategory, ChallengePreference, ColorDepth, DeviceChannel,
        MethodCompletion, PayTokenSource, RequestorAuthentication, RequestorInitiated,
        TransactionType, WhitelistSource, WhitelistStatus, YesNo,
    },
    fault::ErrorCode,
    format::{
        CardExpiry, CardNumber, Country, Currency, DateTimeSeconds, Day, DecoupledMinutes, Digits,
        Email, Installments, Ip, JoseCompact, Object, SdkTimeout, Text, TransId, TrueFlag, Url,
        Version, ZoneOffset,
    },
    message::{
        AccountInfo, AuthenticationInfo, DeviceRendering, ElementPresence, EphemeralKey,
        Extensions, MerchantRisk, Message, MessageElements, MessageType, Phone,
        PriorAuthenticationInfo, TransactionContext,
        record::{
            presence::{
                app, browser, cardholder, cardholder_optional, payment, requestor, since_220,
                whitelist_source,
            },
            record,
        },
    },
};

record! {
    /// The request of a 3DS server, including the elements that a directory server adds for the
    /// ACS.
    pub struct AReq {
        must message_version: Version = "messageVersion";
        must server_trans_id: TransId = "threeDSServerTransID";
        must server_ref_number: Text<1, 32> = "threeDSServerRefNumber";
        may server_operator_id: Text<1, 32> = "threeDSServerOperatorID";
        must server_url: Url<2048> = "threeDSServerURL";
        must requestor_id: Text<1, 35> = "threeDSRequestorID";
        must requestor_name: Text<1, 40> = "threeDSRequestorName";
        must requestor_url: Url<2048> = "threeDSRequestorURL";
        must channel: DeviceChannel = "deviceChannel";
        must category: AuthenticationCategory = "messageCategory";

        may method_completion: MethodCompletion = "threeDSCompInd" if browser;
        may authentication: RequestorAuthentication = "threeDSRequestorAuthenticationInd" if cardholder;
        may requestor_initiated: RequestorInitiated = "threeRIInd" if requestor;
        may authentication_info: AuthenticationInfo = "threeDSRequestorAuthenticationInfo";
        may prior_authentication_info: PriorAuthenticationInfo = "threeDSRequestorPriorAuthenticationInfo";
        may challenge_preference: ChallengePreference = "threeDSRequestorChallengeInd";
        may decoupled: YesNo = "threeDSRequestorDecReqInd" if since_220;
        may decoupled_max_time: DecoupledMinutes = "threeDSRequestorDecMaxTime" if decoupled_max_time;
        may notification_url: Url<256> = "notificationURL" if browser;

        must card_number: CardNumber = "acctNumber";
        may card_expiry: CardExpiry = "cardExpiryDate";
        may account_type: AccountType = "acctType";
        may account_id: Text<1, 64> = "acctID";
        may account_info: AccountInfo = "acctInfo";
        may pay_token: TrueFlag = "payTokenInd";
        may pay_token_source: PayTokenSource = "payTokenSource" if since_220;

        may acquirer_bin: Digits<1, 11> = "acquirerBIN" if payment;
        may acquirer_merchant_id: Text<1, 35> = "acquirerMerchantID" if payment;
        may merchant_name: Text<1, 40> = "merchantName" if payment;
        may merchant_country: Country = "merchantCountryCode" if payment;
        may merchant_category_code: Digits<4, 4> = "mcc" if payment;
        may merchant_risk: MerchantRisk = "merchantRiskIndicator" if cardholder_optional;

        may purchase_amount: Digits<1, 48> = "purchaseAmount" if purchase;
        may purchase_currency: Currency = "purchaseCurrency" if purchase;
        may purchase_exponent: Digits<1, 1> = "purchaseExponent" if purchase;
        may purchase_date: DateTimeSeconds = "purchaseDate" if purchase;
        may transaction_type: TransactionType = "transType";
        may installments: Installments = "purchaseInstalData" if installments;
        may recurring_expiry: Day = "recurringExpiry" if recurring;
        may recurring_frequency: Digits<1, 4> = "recurringFrequency" if recurring;

        may cardholder_name: Text<2, 45> = "cardholderName";
        may email: Email = "email";
        may home_phone: Phone = "homePhone";
        may mobile_phone: Phone = "mobilePhone";
        may work_phone: Phone = "workPhone";
        may address_match: YesNo = "addrMatch" if cardholder_optional;
        may billing_line1: Text<1, 50> = "billAddrLine1";
        may billing_line2: Text<1, 50> = "billAddrLine2";
        may billing_line3: Text<1, 50> = "billAddrLine3";
        may billing_city: Text<1, 50> = "billAddrCity";
        may billing_post_code: Text<1, 16> = "billAddrPostCode";
        may billing_state: Text<1, 3> = "billAddrState";
        may billing_country: Country = "billAddrCountry" if |it| ElementPresence::required_if(it.has("billAddrState"));
        may shipping_line1: Text<1, 50> = "shipAddrLine1";
        may shipping_line2: Text<1, 50> = "shipAddrLine2";
        may shipping_line3: Text<1, 50> = "shipAddrLine3";
        may shipping_city: Text<1, 50> = "shipAddrCity";
        may shipping_post_code: Text<1, 16> = "shipAddrPostCode";
        may shipping_state: Text<1, 3> = "shipAddrState";
        may shipping_country: Country = "shipAddrCountry" if |it| ElementPresence::required_if(it.has("shipAddrState"));

        may browser_accept_header: Text<1, 2048> = "browserAcceptHeader" if browser;
        may browser_ip: Ip = "browserIP" if browser_optional;
        may browser_javascript: bool = "browserJavascriptEnabled" if |it| browser(it).since_220(it);
        may browser_java: bool = "browserJavaEnabled" if browser_with_scripts;
        may browser_language: Text<1, 8> = "browserLanguage" if browser;
        may browser_color_depth: ColorDepth = "browserColorDepth" if browser_with_scripts;
        may browser_screen_height: Digits<1, 6> = "browserScreenHeight" if browser_with_scripts;
        may browser_screen_width: Digits<1, 6> = "browserScreenWidth" if browser_with_scripts;
        may browser_tz: ZoneOffset = "browserTZ" if browser_with_scripts;
        may browser_user_agent: Text<1, 2048> = "browserUserAgent" if browser;

        may sdk_app_id: TransId = "sdkAppID" if app;
        may sdk_encrypted_data: JoseCompact<5, 64_000> = "sdkEncData" if sdk_encrypted_data;
        may sdk_ephemeral_key: EphemeralKey = "sdkEphemPubKey" if app;
        may sdk_max_timeout: SdkTimeout = "sdkMaxTimeout" if app;
        may sdk_reference_number: Text<1, 32> = "sdkReferenceNumber" if app;
        may sdk_trans_id: TransId = "sdkTransID" if app;
        may device_rendering: DeviceRendering = "deviceRenderOptions" if app;
        /// Set by the directory server as a replacement for `sdkEncData`.
        may device_info: Text<1, 64_000> = "deviceInfo" if app_optional;

        may ds_reference_number: Text<1, 32> = "dsReferenceNumber";
        may ds_trans_id: TransId = "dsTransID";
        may ds_url: Url<2048> = "dsURL";
        may whitelist_status: WhitelistStatus = "whiteListStatus" if since_220;
        may whitelist_source: WhitelistSource = "whiteListStatusSource" if whitelist_source;
        may broadcast_info: Object<4096> = "broadInfo";
        may extensions: Extensions = "messageExtension";
    }
}

fn decoupled_max_time(elements: &MessageElements<'_>) -> ElementPresence {
    ElementPresence::required_if(elements.has_code("threeDSRequestorDecReqInd", &["Y"]))
        .since_220(elements)
}

/// Whether the authentication type is in the list of its channel.
fn is_authentication_type(
    elements: &MessageElements<'_>,
    cardholder: &[&str],
    requestor_initiated: &[&str],
) -> bool {
    match elements.channel() {
        Some(DeviceChannel::Requestor) => elements.has_code("threeRIInd", requestor_initiated),
        Some(DeviceChannel::App | DeviceChannel::Browser) | None => {
            elements.has_code("threeDSRequestorAuthenticationInd", cardholder)
        }
    }
}

/// Required in payments, and for other authentication types that involve money.
fn purchase(elements: &MessageElements<'_>) -> ElementPresence {
    let requestor_initiated = ["01", "02", "06", "07", "08", "09", "11"];
    ElementPresence::required_if(
        elements.is_payment()
            || is_authentication_type(elements, &["02", "03"], &requestor_initiated),
    )
}

fn installments(elements: &MessageElements<'_>) -> ElementPresence {
    ElementPresence::required_if(is_authentication_type(elements, &["03"], &["02"]))
}

/// EMV also requires these elements for instalments. The API does not, so a message without them
/// must be valid.
fn recurring(elements: &MessageElements<'_>) -> ElementPresence {
    ElementPresence::required_if(is_authentication_type(elements, &["02"], &["01"]))
}

fn browser_optional(elements: &MessageElements<'_>) -> ElementPresence {
    browser(elements).not_required()
}

fn app_optional(elements: &MessageElements<'_>) -> ElementPresence {
    app(elements).not_required()
}

/// 2.1.0 assumes that scripts are enabled.
fn browser_with_scripts(elements: &MessageElements<'_>) -> ElementPresence {
    let enabled =
        elements.object.get("browserJavascriptEnabled").and_then(serde_json::Value::as_bool);
    let has_scripts = elements.transaction.version < Version::V220 || enabled != Some(false);
    if has_scripts { browser(elements) } else { browser_optional(elements) }
}

/// Required until a directory server has replaced it with `deviceInfo`.
fn sdk_encrypted_data(elements: &MessageElements<'_>) -> ElementPresence {
    if elements.has("deviceInfo") { app_optional(elements) } else { app(elements) }
}

impl Message for AReq {
    const TYPE: MessageType = MessageType::AReq;

    fn contradictions(&self, transaction: &TransactionContext) -> Vec<(ErrorCode, &'static str)> {
        let invalid = |name| (ErrorCode::FormatInvalid, name);
        let is_v210 = transaction.version < Version::V220;
        let mut contradictions = Vec::new();
        let is_payment = self.category == AuthenticationCategory::Payment;
        if is_v210 && self.channel == DeviceChannel::Requestor && is_payment {
            // 2.1.0 has no payments without a cardholder (3RI).
            contradictions.push(invalid("messageCategory"));
        }
        if is_v210 && self.requestor_initiated.is_some_and(|it| !it.exists_in_2_1_0()) {
            contradictions.push(invalid("threeRIInd"));
        }
        if is_v210 && self.challenge_preference.is_some_and(|it| !it.exists_in_2_1_0()) {
            contradictions.push(invalid("threeDSRequestorChallengeInd"));
        }
        let data = self.authentication_info.as_ref().and_then(|it| it.data.as_ref());
        if is_v210 && data.is_some_and(|it| it.expose().chars().count() > 2048) {
            contradictions.push(invalid("threeDSRequestorAuthenticationInfo.threeDSReqAuthData"));
        }
        contradictions
    }
}
