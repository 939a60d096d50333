//! The merchant's data about the cardholder: account, login, prior authentications.

use crate::{
    code::{
        AccountAge, AccountChange, DeliveryTimeFrame, LoginMethod, PasswordChange,
        PaymentAccountAge, PreOrder, PriorMethod, Reorder, SdkInterface, ShippingAddressUse,
        ShippingMethod, ShippingNameMatch, SuspiciousActivity, UiType,
    },
    format::{Currency, DateTimeMinutes, Day, Digits, Email, List, Text},
    message::record::record,
};

record! {
    /// The cardholder's account with the merchant.
    pub struct AccountInfo {
        may age: AccountAge = "chAccAgeInd";
        may changed: Day = "chAccChange";
        may change: AccountChange = "chAccChangeInd";
        may created: Day = "chAccDate";
        may password_changed: Day = "chAccPwChange";
        may password_change: PasswordChange = "chAccPwChangeInd";
        may purchases_half_year: Digits<1, 4> = "nbPurchaseAccount";
        may provision_attempts_day: Digits<1, 3> = "provisionAttemptsDay";
        may transactions_day: Digits<1, 3> = "txnActivityDay";
        may transactions_year: Digits<1, 3> = "txnActivityYear";
        may payment_account_since: Day = "paymentAccAge";
        may payment_account: PaymentAccountAge = "paymentAccInd";
        may shipping_address_used: Day = "shipAddressUsage";
        may shipping_address_use: ShippingAddressUse = "shipAddressUsageInd";
        may shipping_name: ShippingNameMatch = "shipNameIndicator";
        may suspicious: SuspiciousActivity = "suspiciousAccActivity";
    }
}

record! {
    /// How the cardholder signed in. The data is text. 2.1.0 limits it to 2048 characters, which
    /// `AReq` checks.
    pub struct AuthenticationInfo {
        may method: LoginMethod = "threeDSReqAuthMethod";
        may timestamp: DateTimeMinutes = "threeDSReqAuthTimestamp";
        may data: Text<1, 20_000> = "threeDSReqAuthData";
    }
}

record! {
    /// A prior authentication.
    pub struct PriorAuthenticationInfo {
        may method: PriorMethod = "threeDSReqPriorAuthMethod";
        may timestamp: DateTimeMinutes = "threeDSReqPriorAuthTimestamp";
        may reference: Text<1, 36> = "threeDSReqPriorRef";
        may data: Text<1, 2048> = "threeDSReqPriorAuthData";
    }
}

record! {
    /// A telephone number in two parts.
    #[derive(Clone)]
    pub struct Phone {
        must country: Digits<1, 3> = "cc";
        must subscriber: Digits<1, 15> = "subscriber";
    }
}

record! {
    /// Delivery, gift cards and pre-orders.
    pub struct MerchantRisk {
        may delivery_email: Email = "deliveryEmailAddress";
        may delivery_time_frame: DeliveryTimeFrame = "deliveryTimeframe";
        may gift_card_amount: Digits<1, 15> = "giftCardAmount";
        may gift_card_count: Digits<2, 2> = "giftCardCount";
        may gift_card_currency: Currency = "giftCardCurr";
        may pre_order_date: Day = "preOrderDate";
        may pre_order: PreOrder = "preOrderPurchaseInd";
        may reorder: Reorder = "reorderItemsInd";
        may shipping: ShippingMethod = "shipIndicator";
    }
}

record! {
    /// The interfaces that an SDK supports.
    #[derive(Clone)]
    pub struct DeviceRendering {
        must interface: SdkInterface = "sdkInterface";
        must ui_types: List<UiType, 5> = "sdkUiType";
    }
}

record! {
    /// A public key on the curve P-256, as a JWK.
    #[derive(Clone)]
    pub struct EphemeralKey {
        must kind: KeyKind = "kty";
        must curve: KeyCurve = "crv";
        must x: Text<43, 43> = "x";
        must y: Text<43, 43> = "y";
    }
}

crate::code::codes! {
    /// The only key type that EMV uses here.
    pub enum KeyKind { Elliptic = "EC" "EC", }

    /// The only curve that EMV uses here.
    pub enum KeyCurve { P256 = "P-256" "P-256", }
}
