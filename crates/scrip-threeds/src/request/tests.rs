//! Requests: a valid one, and every violation of a rule.

mod areq_mapping;
mod defaults;
mod rule_violations;

use serde_json::json;

use super::*;
use crate::{
    code::{Device, MethodCompletion, ThreeDsSessionType},
    format::{CardNumber, TransId, Version},
    message::AReq,
};

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// A request with its context, which tests change.
#[derive(Clone)]
pub(super) struct RequestFixture {
    pub(super) request: AuthenticateRequest,
    pub(super) device_info: DeviceInfo,
    pub(super) session: ThreeDsSessionType,
    pub(super) device: Device,
    pub(super) version: Version,
}

impl RequestFixture {
    fn context(&self) -> AuthenticateContext<'_> {
        AuthenticateContext {
            request: &self.request,
            device_info: &self.device_info,
            session: self.session,
            device: self.device,
            version: self.version,
        }
    }

    fn violations(&self) -> Vec<Violation> {
        violations(&self.context())
    }

    fn build_areq(&self) -> Result<AReq, Vec<Violation>> {
        let session = AReqSession {
            id: TransId::parse("8a880dc0-d2d2-4067-bcb1-b08d1690b26e").unwrap(),
            method_completion: MethodCompletion::Completed,
        };
        let server = ServerIdentity {
            reference_number: "3DS_LOA_SER_SCRP_020200_00001".to_owned(),
            operator_id: some("10001"),
            results_url: "https://vault.example/3ds/results/secret".to_owned(),
            notification_url: "https://vault.example/3ds/n".to_owned(),
        };
        let card = AReqCard {
            number: CardNumber::parse("4000020000000000").unwrap(),
            expiry: some("3012"),
        };
        let context = self.context();
        build_areq(&AReqInput { context, session: &session, server: &server, card: &card })
    }

    fn purchase(&mut self) -> &mut PurchaseInfo {
        self.request.purchase_info.as_mut().unwrap()
    }

    fn merchant(&mut self) -> &mut MerchantInfo {
        self.request.merchant_info.as_mut().unwrap()
    }

    fn risk(&mut self) -> &mut RiskInfo {
        self.merchant().risk_info.as_mut().unwrap()
    }

    fn cardholder(&mut self) -> &mut CardholderInfo {
        self.request.cardholder_info.as_mut().unwrap()
    }

    fn account(&mut self) -> &mut CardholderAccount {
        self.cardholder().account_info.as_mut().unwrap()
    }
}

/// A payment in a browser, with every attribute of a request.
pub(super) fn customer() -> RequestFixture {
    RequestFixture {
        request: AuthenticateRequest {
            authentication_category: some("payment"),
            authentication_type: some("payment-transaction"),
            request_decoupled_challenge: None,
            decoupled_challenge_max_time: None,
            challenge_preference: some("challenge-requested"),
            purchase_info: Some(purchase()),
            merchant_info: Some(merchant_info()),
            requestor_info: Some(RequestorInfo {
                id: some("MID1"),
                name: some("Shop"),
                url: some("https://shop.example"),
                ..RequestorInfo::default()
            }),
            cardholder_info: Some(cardholder()),
            broadcast_info: Some(json!({"a": 1})),
            message_extensions: Some(vec![MessageExtension {
                id: some("A000000042"),
                name: some("CB-SCORE"),
                critical: Some(true),
                data: Some(json!(r#"{"score":"1"}"#)),
            }]),
        },
        device_info: browser(),
        session: ThreeDsSessionType::Customer,
        device: Device::Browser,
        version: Version::V220,
    }
}

/// The same in an app.
pub(super) fn app() -> RequestFixture {
    let key = json!({"kty": "EC", "crv": "P-256", "x": "x".repeat(43), "y": "y".repeat(43)});
    let device_info = DeviceInfo {
        sdk_transaction_id: some("b2385523-a66c-4907-ac3c-91848e8c0067"),
        sdk_application_id: some("dbd64fcb-c19a-4728-8849-e3d50bfdde39"),
        sdk_encryption_data: some("a.b.c.d.e"),
        sdk_ephemeral_public_key: Some(json!(key.to_string())),
        sdk_max_timeout: some("05"),
        sdk_reference_number: some("3DS_SDK"),
        sdk_render_options: Some(SdkRenderOptions {
            sdk_interface: some("01"),
            sdk_ui_type: Some(vec!["01".to_owned(), "02".to_owned()]),
        }),
        ..DeviceInfo::default()
    };
    RequestFixture { device_info, device: Device::Mobile, ..customer() }
}

/// The same without a cardholder.
pub(super) fn merchant() -> RequestFixture {
    let mut fixture = RequestFixture { session: ThreeDsSessionType::Merchant, ..customer() };
    fixture.request.authentication_type = some("recurring-transaction");
    fixture.request.decoupled_challenge_max_time = Some(10);
    fixture
}

fn browser() -> DeviceInfo {
    DeviceInfo {
        browser_accept_header: some("*/*"),
        browser_ip: some("192.0.2.7"),
        browser_javascript_enabled: Some(true),
        browser_java_enabled: Some(false),
        browser_language: some("en-US@posix"),
        browser_color_depth: some("30"),
        browser_screen_height: some("600"),
        browser_screen_width: some("800"),
        browser_tz: some("-330"),
        browser_user_agent: some("Browser/1.0"),
        ..DeviceInfo::default()
    }
}

fn purchase() -> PurchaseInfo {
    PurchaseInfo {
        amount: some("80000"),
        currency: some("826"),
        exponent: some("2"),
        date: some("20261115010203"),
        transaction_type: some("purchase"),
        installment_count: some("3"),
        recurring_expiration: some("20271115"),
        recurring_frequency: some("30"),
    }
}

fn merchant_info() -> MerchantInfo {
    MerchantInfo {
        mid: some("MID1"),
        acquirer_bin: some("444444"),
        name: some("Shop"),
        country_code: some("826"),
        category_code: some("7922"),
        url: None,
        risk_info: Some(RiskInfo {
            delivery_email: some("a@b.example"),
            delivery_time_frame: some("electronic-delivery"),
            gift_card_amount: some("100"),
            gift_card_count: some("1"),
            gift_card_currency: some("826"),
            pre_order_purchase: Some(true),
            pre_order_date: some("20270101"),
            reordered_purchase: Some(false),
            shipping_method: some("digital-goods"),
        }),
    }
}

fn cardholder() -> CardholderInfo {
    let phone = |number: &str| Some(PhoneNumber { country_code: some("44"), number: some(number) });
    let address = |line: &str| {
        Some(Address {
            line1: some(line),
            line2: some("2"),
            line3: some("3"),
            postal_code: some("AB1"),
            city: some("Town"),
            state_code: some("CA"),
            country_code: some("840"),
        })
    };
    CardholderInfo {
        name: some("Jo Holder"),
        email: some("jo@holder.example"),
        account_id: some("7"),
        account_type: some("credit"),
        account_info: Some(account()),
        authentication_info: Some(CardholderAuthentication {
            method: some("fido"),
            timestamp: some("202611150102"),
            data: some("data"),
        }),
        prior_authentication_info: Some(CardholderPriorAuthentication {
            method: some("challenged"),
            timestamp: some("202611140102"),
            reference_id: some("d7c1ee99-9478-44a6-b1f2-391e29c6b340"),
            data: some("data"),
        }),
        phone_number: phone("1"),
        mobile_phone_number: phone("2"),
        work_phone_number: phone("3"),
        billing_shipping_address_match: some("N"),
        billing_address: address("b"),
        shipping_address: address("s"),
    }
}

fn account() -> CardholderAccount {
    CardholderAccount {
        account_age: some("more-than-60-days"),
        account_last_changed: some("less-than-30-days"),
        account_change_date: some("20261101"),
        account_created_date: some("20200101"),
        account_pwd_last_changed: some("no-change"),
        account_pwd_change_date: some("20200101"),
        purchase_count_half_year: some("4"),
        transaction_count_day: some("1"),
        payment_account_age: some("20210101"),
        transaction_count_year: some("12"),
        payment_account_created: some("30-to-60-days"),
        shipping_address_first_used: some("this-transaction"),
        shipping_address_usage_date: some("20261115"),
        shipping_account_name_match: Some(true),
        suspicious_activity_observed: Some(false),
    }
}
