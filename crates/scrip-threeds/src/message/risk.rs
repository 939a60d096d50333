//! The merchant's data about the risk of a purchase.

use crate::{
    code::{DeliveryTimeFrame, PreOrder, Reorder, ShippingMethod},
    format::{Currency, Day, Digits, Email},
    message::record::record,
};

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
