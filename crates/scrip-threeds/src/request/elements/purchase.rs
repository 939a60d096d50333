//! The purchase, the merchant and the delivery.

use super::mapping::{ElementMapping, code_value, elements, flag_value, text};
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
    "purchase_info.amount" => "purchaseAmount": text!(purchase.amount);
    "purchase_info.currency" => "purchaseCurrency": text!(purchase.currency);
    "purchase_info.exponent" => "purchaseExponent": text!(purchase.exponent);
    "purchase_info.date" => "purchaseDate": text!(purchase.date);
    "purchase_info.transaction_type" => "transType": |it| {
        let there = it.context.is_payment() && !it.context.is_merchant();
        let name = it.purchase()?.transaction_type.as_ref().filter(|_| there);
        code_value(name, TransactionType::from_name, |it| it.code().to_owned())
    };
    "purchase_info.installment_count" => "purchaseInstalData": text!(purchase.installment_count);
    "purchase_info.recurring_expiration" => "recurringExpiry": text!(purchase.recurring_expiration);
    "purchase_info.recurring_frequency" => "recurringFrequency": text!(purchase.recurring_frequency);
    "merchant_info.mid" => "acquirerMerchantID": text!(merchant.mid);
    "merchant_info.acquirer_bin" => "acquirerBIN": text!(merchant.acquirer_bin);
    "merchant_info.name" => "merchantName": text!(merchant.name);
    "merchant_info.country_code" => "merchantCountryCode": text!(merchant.country_code);
    "merchant_info.category_code" => "mcc": text!(merchant.category_code);
    "merchant_info.risk_info.delivery_email" => "merchantRiskIndicator.deliveryEmailAddress": text!(risk.delivery_email);
    "merchant_info.risk_info.delivery_time_frame" => "merchantRiskIndicator.deliveryTimeframe": |it| {
        let name = it.risk()?.delivery_time_frame.as_ref();
        code_value(name, DeliveryTimeFrame::from_name, |it| it.code().to_owned())
    };
    "merchant_info.risk_info.gift_card_amount" => "merchantRiskIndicator.giftCardAmount": text!(risk.gift_card_amount);
    "merchant_info.risk_info.gift_card_count" => "merchantRiskIndicator.giftCardCount": |it| {
        // Clients omit the leading zero.
        let count = it.risk()?.gift_card_count.as_ref().filter(|it| !it.is_empty())?;
        Some(format!("{count:0>2}").into())
    };
    "merchant_info.risk_info.gift_card_currency" => "merchantRiskIndicator.giftCardCurr": text!(risk.gift_card_currency);
    "merchant_info.risk_info.pre_order_purchase" => "merchantRiskIndicator.preOrderPurchaseInd": |it| {
        flag_value(it.risk()?.pre_order_purchase, PreOrder::code)
    };
    "merchant_info.risk_info.pre_order_date" => "merchantRiskIndicator.preOrderDate": text!(risk.pre_order_date);
    "merchant_info.risk_info.reordered_purchase" => "merchantRiskIndicator.reorderItemsInd": |it| {
        flag_value(it.risk()?.reordered_purchase, Reorder::code)
    };
    "merchant_info.risk_info.shipping_method" => "merchantRiskIndicator.shipIndicator": |it| {
        let name = it.risk()?.shipping_method.as_ref();
        code_value(name, ShippingMethod::from_name, |it| it.code().to_owned())
    };
};
