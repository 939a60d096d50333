//! Rules 4 to 30.

use super::*;

pub(super) const CASES: &[RuleCase] = &[
    (
        4,
        "authentication_category",
        customer,
        |it| it.request.authentication_category = None,
        |_| (),
    ),
    (
        4,
        "authentication_category",
        customer,
        |it| it.request.authentication_category = some("Payment"),
        |it| it.request.authentication_category = some("non-payment"),
    ),
    (5, "authentication_type", customer, |it| it.request.authentication_type = some(""), |_| ()),
    (5, "authentication_type", customer, |it| it.request.authentication_type = some("x"), |_| ()),
    (
        5,
        "authentication_type",
        customer,
        |it| it.request.authentication_type = some("top-up"),
        |it| it.request.authentication_type = some("add-card"),
    ),
    (
        5,
        "authentication_type",
        merchant,
        |it| it.request.authentication_type = some("payment-transaction"),
        |it| it.request.authentication_type = some("top-up"),
    ),
    (
        7,
        "decoupled_challenge_max_time",
        customer,
        |it| it.request.request_decoupled_challenge = Some(true),
        |it| {
            it.request.request_decoupled_challenge = Some(true);
            it.request.decoupled_challenge_max_time = Some(1);
        },
    ),
    // Required in merchant sessions even if no decoupled challenge is requested.
    (
        7,
        "decoupled_challenge_max_time",
        merchant,
        |it| {
            it.request.request_decoupled_challenge = Some(false);
            it.request.decoupled_challenge_max_time = None;
        },
        |it| it.request.decoupled_challenge_max_time = Some(10_080),
    ),
    (
        7,
        "decoupled_challenge_max_time",
        customer,
        |it| it.request.decoupled_challenge_max_time = Some(10_081),
        |it| it.request.decoupled_challenge_max_time = Some(10_080),
    ),
    (
        7,
        "decoupled_challenge_max_time",
        customer,
        |it| it.request.decoupled_challenge_max_time = Some(0),
        |it| it.request.decoupled_challenge_max_time = Some(1),
    ),
    (
        8,
        "challenge_preference",
        customer,
        |it| it.request.challenge_preference = some("03"),
        |it| it.request.challenge_preference = some("cartes-bancaires"),
    ),
    (
        9,
        "purchase_info",
        customer,
        |it| it.request.purchase_info = None,
        |it| {
            it.request.purchase_info = None;
            it.request.authentication_category = some("non-payment");
        },
    ),
    (
        9,
        "purchase_info",
        customer,
        |it| {
            it.request.purchase_info = None;
            it.request.authentication_category = some("non-payment");
            it.request.authentication_type = some("installment-transaction");
        },
        |_| (),
    ),
    (10, "purchase_info.amount", customer, |it| it.purchase().amount = None, |_| ()),
    (11, "purchase_info.currency", customer, |it| it.purchase().currency = some(""), |_| ()),
    (12, "purchase_info.exponent", customer, |it| it.purchase().exponent = None, |_| ()),
    (13, "purchase_info.date", customer, |it| it.purchase().date = None, |_| ()),
    (
        14,
        "purchase_info.transaction_type",
        customer,
        |it| it.purchase().transaction_type = None,
        |it| {
            it.purchase().transaction_type = None;
            it.request.authentication_category = some("non-payment");
        },
    ),
    (
        14,
        "purchase_info.transaction_type",
        customer,
        |it| it.purchase().transaction_type = some("buy"),
        |it| it.purchase().transaction_type = some("quasi-cash"),
    ),
    (
        15,
        "purchase_info.installment_count",
        customer,
        |it| {
            it.request.authentication_type = some("installment-transaction");
            it.purchase().installment_count = None;
        },
        |it| it.purchase().installment_count = None,
    ),
    (
        16,
        "purchase_info.recurring_expiration",
        merchant,
        |it| it.purchase().recurring_expiration = None,
        |it| {
            it.request.authentication_type = some("installment-transaction");
            it.purchase().recurring_expiration = None;
        },
    ),
    (
        17,
        "purchase_info.recurring_frequency",
        merchant,
        |it| it.purchase().recurring_frequency = None,
        |_| (),
    ),
    (
        18,
        "merchant_info",
        customer,
        |it| it.request.merchant_info = None,
        |it| {
            it.request.merchant_info = None;
            it.request.authentication_category = some("non-payment");
        },
    ),
    (19, "merchant_info.name", customer, |it| it.merchant().name = None, |_| ()),
    (20, "merchant_info.mid", customer, |it| it.merchant().mid = None, |_| ()),
    (21, "merchant_info.acquirer_bin", customer, |it| it.merchant().acquirer_bin = None, |_| ()),
    (22, "merchant_info.country_code", customer, |it| it.merchant().country_code = None, |_| ()),
    (
        23,
        "merchant_info.category_code",
        customer,
        |it| it.merchant().category_code = None,
        |it| {
            it.merchant().category_code = None;
            it.request.authentication_category = some("non-payment");
        },
    ),
    (24, "requestor_info", customer, |it| it.request.requestor_info = None, |_| ()),
    (25, "requestor_info.id", customer, |it| requestor(it).id = None, |_| ()),
    (26, "requestor_info.name", customer, |it| requestor(it).name = None, |_| ()),
    (27, "requestor_info.url", merchant, |it| requestor(it).url = None, |_| ()),
    (28, "cardholder_info", merchant, |it| it.request.cardholder_info = None, |_| ()),
    (29, "cardholder_info.name", customer, |it| it.cardholder().name = some(""), |_| ()),
    (30, "cardholder_info.email", customer, |it| it.cardholder().email = None, |_| ()),
];

fn requestor(it: &mut RequestFixture) -> &mut RequestorInfo {
    it.request.requestor_info.as_mut().unwrap()
}
