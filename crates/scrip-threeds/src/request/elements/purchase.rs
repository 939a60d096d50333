//! The purchase, the merchant and the delivery.

use super::mapping::{ElementMapping, code_value, elements, flag_value, text_value};
use crate::{
    code::{DeliveryTimeFrame, PreOrder, Reorder, ShippingMethod, TransactionType},
    request::{AReqInput, MerchantInfo, PurchaseInfo, RiskInfo},
};

impl AReqInput<'_> {
    fn purchase(&self) -> Option<&PurchaseInfo> {
        self.context.request.purchase_info.as_ref()
    }

    fn merchant(&self) -> Option<&MerchantInfo> {
        self.context.request.merchant_info.as_ref()
    }

    /// EMV has no risk data for purchases without a cardholder (3RI).
    fn risk(&self) -> Option<&RiskInfo> {
        let risk = self.merchant()?.risk_info.as_ref();
        risk.filter(|_| !self.context.is_merchant())
    }
}

pub(super) const ELEMENTS: &[ElementMapping] = elements! {
    "purchase_info.amount" => "purchaseAmount": |it| text_value(it.purchase()?.amount.as_ref());
    "purchase_info.currency" => "purchaseCurrency": |it| text_value(it.purchase()?.currency.as_ref());
    "purchase_info.exponent" => "purchaseExponent": |it| text_value(it.purchase()?.exponent.as_ref());
    "purchase_info.date" => "purchaseDate": |it| text_value(it.purchase()?.date.as_ref());
    "purchase_info.transaction_type" => "transType": |it| {
        let there = it.context.is_payment() && !it.context.is_merchant();
        let name = it.purchase()?.transaction_type.as_ref().filter(|_| there);
        code_value(name, TransactionType::from_name, |it| it.code().to_owned())
    };
    "purchase_info.installment_count" => "purchaseInstalData": |it| {
        text_value(it.purchase()?.installment_count.as_ref())
    };
    "purchase_info.recurring_expiration" => "recurringExpiry": |it| {
        text_value(it.purchase()?.recurring_expiration.as_ref())
    };
    "purchase_info.recurring_frequency" => "recurringFrequency": |it| {
        text_value(it.purchase()?.recurring_frequency.as_ref())
    };
    "merchant_info.mid" => "acquirerMerchantID": |it| text_value(it.merchant()?.mid.as_ref());
    "merchant_info.acquirer_bin" => "acquirerBIN": |it| text_value(it.merchant()?.acquirer_bin.as_ref());
    "merchant_info.name" => "merchantName": |it| text_value(it.merchant()?.name.as_ref());
    "merchant_info.country_code" => "merchantCountryCode": |it| {
        text_value(it.merchant()?.country_code.as_ref())
    };
    "merchant_info.category_code" => "mcc": |it| text_value(it.merchant()?.category_code.as_ref());
    "merchant_info.risk_info.delivery_email" => "merchantRiskIndicator.deliveryEmailAddress": |it| {
        text_value(it.risk()?.delivery_email.as_ref())
    };
    "merchant_info.risk_info.delivery_time_frame" => "merchantRiskIndicator.deliveryTimeframe": |it| {
        let name = it.risk()?.delivery_time_frame.as_ref();
        code_value(name, DeliveryTimeFrame::from_name, |it| it.code().to_owned())
    };
    "merchant_info.risk_info.gift_card_amount" => "merchantRiskIndicator.giftCardAmount": |it| {
        text_value(it.risk()?.gift_card_amount.as_ref())
    };
    "merchant_info.risk_info.gift_card_count" => "merchantRiskIndicator.giftCardCount": |it| {
        // Clients omit the leading zero.
        let count = it.risk()?.gift_card_count.as_ref().filter(|it| !it.is_empty())?;
        Some(format!("{count:0>2}").into())
    };
    "merchant_info.risk_info.gift_card_currency" => "merchantRiskIndicator.giftCardCurr": |it| {
        text_value(it.risk()?.gift_card_currency.as_ref())
    };
    "merchant_info.risk_info.pre_order_purchase" => "merchantRiskIndicator.preOrderPurchaseInd": |it| {
        flag_value(it.risk()?.pre_order_purchase, PreOrder::code)
    };
    "merchant_info.risk_info.pre_order_date" => "merchantRiskIndicator.preOrderDate": |it| {
        text_value(it.risk()?.pre_order_date.as_ref())
    };
    "merchant_info.risk_info.reordered_purchase" => "merchantRiskIndicator.reorderItemsInd": |it| {
        flag_value(it.risk()?.reordered_purchase, Reorder::code)
    };
    "merchant_info.risk_info.shipping_method" => "merchantRiskIndicator.shipIndicator": |it| {
        let name = it.risk()?.shipping_method.as_ref();
        code_value(name, ShippingMethod::from_name, |it| it.code().to_owned())
    };
};
