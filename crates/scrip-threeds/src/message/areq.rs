//! `AReq`: a cardholder, or a card, is to be authenticated.

use crate::{
    code::{
        AccountType, AuthenticationCategory, ChallengePreference, ColorDepth, DeviceChannel,
        MethodCompletion, PayTokenSource, RequestorAuthentication, RequestorInitiated,
        TransactionType, WhitelistSource, WhitelistStatus, YesNo,
    },
    fault::ErrorCode,
    format::{
        CardExpiry, CardNumber, Compact, Country, Currency, Day, DecoupledMinutes, Digits, Email,
        Installments, Ip, Object, SdkTimeout, Second, Text, TransId, True, Url, Version,
        ZoneOffset,
    },
    message::{
        AccountInfo, Authentication, DeviceRendering, EphemeralKey, Extensions, Facts,
        MerchantRisk, Message, MessageType, Need, Phone, PriorAuthentication, Scene,
        need::{
            app, browser, cardholder, cardholder_optional, payment, requestor, since_220,
            whitelist_source,
        },
        record::record,
    },
};

record! {
    /// The request of a 3DS server; what a directory server adds for the ACS is in it as well.
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
        may authentication_info: Authentication = "threeDSRequestorAuthenticationInfo";
        may prior_authentication_info: PriorAuthentication = "threeDSRequestorPriorAuthenticationInfo";
        may challenge_preference: ChallengePreference = "threeDSRequestorChallengeInd";
        may decoupled: YesNo = "threeDSRequestorDecReqInd" if since_220;
        may decoupled_max_time: DecoupledMinutes = "threeDSRequestorDecMaxTime" if decoupled_time;
        may notification_url: Url<256> = "notificationURL" if browser;

        must card_number: CardNumber = "acctNumber";
        may card_expiry: CardExpiry = "cardExpiryDate";
        may account_type: AccountType = "acctType";
        may account_id: Text<1, 64> = "acctID";
        may account_info: AccountInfo = "acctInfo";
        may pay_token: True = "payTokenInd";
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
        may purchase_date: Second = "purchaseDate" if purchase;
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
        may billing_country: Country = "billAddrCountry" if |it| Need::required_if(it.has("billAddrState"));
        may shipping_line1: Text<1, 50> = "shipAddrLine1";
        may shipping_line2: Text<1, 50> = "shipAddrLine2";
        may shipping_line3: Text<1, 50> = "shipAddrLine3";
        may shipping_city: Text<1, 50> = "shipAddrCity";
        may shipping_post_code: Text<1, 16> = "shipAddrPostCode";
        may shipping_state: Text<1, 3> = "shipAddrState";
        may shipping_country: Country = "shipAddrCountry" if |it| Need::required_if(it.has("shipAddrState"));

        may browser_accept_header: Text<1, 2048> = "browserAcceptHeader" if browser;
        may browser_ip: Ip = "browserIP" if browser_optional;
        may browser_javascript: bool = "browserJavascriptEnabled" if |it| browser(it).since_220(it);
        may browser_java: bool = "browserJavaEnabled" if scripted_browser;
        may browser_language: Text<1, 8> = "browserLanguage" if browser;
        may browser_color_depth: ColorDepth = "browserColorDepth" if scripted_browser;
        may browser_screen_height: Digits<1, 6> = "browserScreenHeight" if scripted_browser;
        may browser_screen_width: Digits<1, 6> = "browserScreenWidth" if scripted_browser;
        may browser_tz: ZoneOffset = "browserTZ" if scripted_browser;
        may browser_user_agent: Text<1, 2048> = "browserUserAgent" if browser;

        may sdk_app_id: TransId = "sdkAppID" if app;
        may sdk_encrypted_data: Compact<5, 64_000> = "sdkEncData" if sdk_encrypted_data;
        may sdk_ephemeral_key: EphemeralKey = "sdkEphemPubKey" if app;
        may sdk_max_timeout: SdkTimeout = "sdkMaxTimeout" if app;
        may sdk_reference_number: Text<1, 32> = "sdkReferenceNumber" if app;
        may sdk_trans_id: TransId = "sdkTransID" if app;
        may device_rendering: DeviceRendering = "deviceRenderOptions" if app;
        /// From the directory server, in place of `sdkEncData`.
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

fn decoupled_time(facts: &Facts<'_>) -> Need {
    Need::required_if(facts.is("threeDSRequestorDecReqInd", &["Y"])).since_220(facts)
}

/// Which kind of authentication it is, by the list of its channel.
fn is_kind(facts: &Facts<'_>, cardholder: &[&str], alone: &[&str]) -> bool {
    match facts.channel() {
        Some(DeviceChannel::Requestor) => facts.is("threeRIInd", alone),
        Some(DeviceChannel::App | DeviceChannel::Browser) | None => {
            facts.is("threeDSRequestorAuthenticationInd", cardholder)
        }
    }
}

/// With payments, and where a kind of authentication is about money anyway.
fn purchase(facts: &Facts<'_>) -> Need {
    let alone = ["01", "02", "06", "07", "08", "09", "11"];
    Need::required_if(facts.is_payment() || is_kind(facts, &["02", "03"], &alone))
}

fn installments(facts: &Facts<'_>) -> Need {
    Need::required_if(is_kind(facts, &["03"], &["02"]))
}

/// EMV also wants them with instalments. Our interface does not ask for them there, so a message
/// without them must be one that we can send.
fn recurring(facts: &Facts<'_>) -> Need {
    Need::required_if(is_kind(facts, &["02"], &["01"]))
}

fn browser_optional(facts: &Facts<'_>) -> Need {
    browser(facts).not_required()
}

fn app_optional(facts: &Facts<'_>) -> Need {
    app(facts).not_required()
}

/// 2.1.0 takes scripts for granted.
fn scripted_browser(facts: &Facts<'_>) -> Need {
    let enabled = facts.object.get("browserJavascriptEnabled").and_then(serde_json::Value::as_bool);
    let scripted = facts.scene.version < Version::V220 || enabled != Some(false);
    if scripted { browser(facts) } else { browser_optional(facts) }
}

/// Until a directory server has put the device's information in its place.
fn sdk_encrypted_data(facts: &Facts<'_>) -> Need {
    if facts.has("deviceInfo") { app_optional(facts) } else { app(facts) }
}

impl Message for AReq {
    const TYPE: MessageType = MessageType::AReq;

    fn contradictions(&self, scene: &Scene) -> Vec<(ErrorCode, &'static str)> {
        let invalid = |name| (ErrorCode::FormatInvalid, name);
        let old = scene.version < Version::V220;
        let mut found = Vec::new();
        let payment = self.category == AuthenticationCategory::Payment;
        if old && self.channel == DeviceChannel::Requestor && payment {
            // 2.1.0 has no payments that nobody is there for.
            found.push(invalid("messageCategory"));
        }
        if old && self.requestor_initiated.is_some_and(|it| !it.is_of_2_1_0()) {
            found.push(invalid("threeRIInd"));
        }
        if old && self.challenge_preference.is_some_and(|it| !it.is_of_2_1_0()) {
            found.push(invalid("threeDSRequestorChallengeInd"));
        }
        let data = self.authentication_info.as_ref().and_then(|it| it.data.as_ref());
        if old && data.is_some_and(|it| it.expose().chars().count() > 2048) {
            found.push(invalid("threeDSRequestorAuthenticationInfo.threeDSReqAuthData"));
        }
        found
    }
}
