//! What is bought, from whom, and how it is delivered.

use super::{Element, code, elements, flag, text};
use crate::{
    code::{DeliveryTimeFrame, PreOrder, Reorder, ShippingMethod, TransactionType},
    request::{MerchantInfo, PurchaseInfo, Question, RiskInfo},
};

impl Question<'_> {
    fn purchase(&self) -> Option<&PurchaseInfo> {
        self.situation.request.purchase_info.as_ref()
    }

    fn merchant(&self) -> Option<&MerchantInfo> {
        self.situation.request.merchant_info.as_ref()
    }

    /// EMV has no risk of purchases that nobody is there for.
    fn risk(&self) -> Option<&RiskInfo> {
        let risk = self.merchant()?.risk_info.as_ref();
        risk.filter(|_| !self.situation.is_merchant())
    }
}

pub(super) const ELEMENTS: &[Element] = elements! {
    "purchase_info.amount" => "purchaseAmount": |it| text(it.purchase()?.amount.as_ref());
    "purchase_info.currency" => "purchaseCurrency": |it| text(it.purchase()?.currency.as_ref());
    "purchase_info.exponent" => "purchaseExponent": |it| text(it.purchase()?.exponent.as_ref());
    "purchase_info.date" => "purchaseDate": |it| text(it.purchase()?.date.as_ref());
    "purchase_info.transaction_type" => "transType": |it| {
        let there = it.situation.is_payment() && !it.situation.is_merchant();
        let name = it.purchase()?.transaction_type.as_ref().filter(|_| there);
        code(name, TransactionType::from_name, |it| it.code().to_owned())
    };
    "purchase_info.installment_count" => "purchaseInstalData": |it| {
        text(it.purchase()?.installment_count.as_ref())
    };
    "purchase_info.recurring_expiration" => "recurringExpiry": |it| {
        text(it.purchase()?.recurring_expiration.as_ref())
    };
    "purchase_info.recurring_frequency" => "recurringFrequency": |it| {
        text(it.purchase()?.recurring_frequency.as_ref())
    };
    "merchant_info.mid" => "acquirerMerchantID": |it| text(it.merchant()?.mid.as_ref());
    "merchant_info.acquirer_bin" => "acquirerBIN": |it| text(it.merchant()?.acquirer_bin.as_ref());
    "merchant_info.name" => "merchantName": |it| text(it.merchant()?.name.as_ref());
    "merchant_info.country_code" => "merchantCountryCode": |it| {
        text(it.merchant()?.country_code.as_ref())
    };
    "merchant_info.category_code" => "mcc": |it| text(it.merchant()?.category_code.as_ref());
    "merchant_info.risk_info.delivery_email" => "merchantRiskIndicator.deliveryEmailAddress": |it| {
        text(it.risk()?.delivery_email.as_ref())
    };
    "merchant_info.risk_info.delivery_time_frame" => "merchantRiskIndicator.deliveryTimeframe": |it| {
        let name = it.risk()?.delivery_time_frame.as_ref();
        code(name, DeliveryTimeFrame::from_name, |it| it.code().to_owned())
    };
    "merchant_info.risk_info.gift_card_amount" => "merchantRiskIndicator.giftCardAmount": |it| {
        text(it.risk()?.gift_card_amount.as_ref())
    };
    "merchant_info.risk_info.gift_card_count" => "merchantRiskIndicator.giftCardCount": |it| {
        // Clients count without the zero in front.
        let told = it.risk()?.gift_card_count.as_ref().filter(|it| !it.is_empty())?;
        Some(format!("{told:0>2}").into())
    };
    "merchant_info.risk_info.gift_card_currency" => "merchantRiskIndicator.giftCardCurr": |it| {
        text(it.risk()?.gift_card_currency.as_ref())
    };
    "merchant_info.risk_info.pre_order_purchase" => "merchantRiskIndicator.preOrderPurchaseInd": |it| {
        flag(it.risk()?.pre_order_purchase, PreOrder::code)
    };
    "merchant_info.risk_info.pre_order_date" => "merchantRiskIndicator.preOrderDate": |it| {
        text(it.risk()?.pre_order_date.as_ref())
    };
    "merchant_info.risk_info.reordered_purchase" => "merchantRiskIndicator.reorderItemsInd": |it| {
        flag(it.risk()?.reordered_purchase, Reorder::code)
    };
    "merchant_info.risk_info.shipping_method" => "merchantRiskIndicator.shipIndicator": |it| {
        let name = it.risk()?.shipping_method.as_ref();
        code(name, ShippingMethod::from_name, |it| it.code().to_owned())
    };
};
