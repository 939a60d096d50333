//! The formula of `worldpayvap-card`.

// Read in 2026-11, but for what is said to be known.
// Credentials: cnpAPI's user, password and merchant ID; the report group has a default
// (docs.tokenex.com, worldpay-ecomm-cnpapi).
// Currencies and countries: chargebee.com/docs, Worldpay US eCom: merchants of the United States
// and Canada. An account has one currency (docs.pelcro.com). Lists of Worldpay's other gateways do
// not count here.
// Features: Active Merchant, gateways/litle.rb: capture and credit of an amount, authReversal,
// cardholderAuthentication, an authorization of zero.

use super::{Features, Field, Formula};

pub(super) const FORMULA: Formula = Formula {
    id: "worldpayvap-card",
    display_name: "Worldpay (VAP)",
    fields: &[
        Field::open("user", "User"),
        Field::secret("password", "Password"),
        Field::open("merchant_id", "Merchant ID"),
        Field::open("report_group", "Report group").optional(),
    ],
    currencies: &["CAD", "USD"],
    countries: &["CA", "US"],
    features: Features {
        three_d_secure_pass_through: true,
        delayed_capture: true,
        partial_capture: true,
        partial_refunds: true,
        refunds: true,
        zero_auth: true,
        void: true,
    },
};
