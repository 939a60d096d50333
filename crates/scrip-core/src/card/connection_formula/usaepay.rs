//! The formula of `usaepay-card`.

// Read in 2026-11, but for what is said to be known.
// Credentials: source key, and its PIN (docs.nexiopay.com, USAePay; wiki.usaepay.com).
// Currencies: docs.nexiopay.com; other than USD with a processor of several currencies
// (wiki.usaepay.com).
// Countries: Active Merchant, gateways/usa_epay_advanced.rb.
// Features: Active Merchant: auth, capture and refund of an amount, void; docs.nexiopay.com:
// external 3D Secure.

use super::{Features, Field, Formula};

pub(super) const FORMULA: Formula = Formula {
    id: "usaepay-card",
    display_name: "USAePay",
    fields: &[Field::secret("source_key", "Source key"), Field::secret("pin", "PIN")],
    currencies: &["CAD", "EUR", "GBP", "USD"],
    countries: &["US"],
    features: Features {
        three_d_secure_pass_through: true,
        delayed_capture: true,
        partial_capture: true,
        partial_refunds: true,
        refunds: true,
        // Not found.
        zero_auth: false,
        void: true,
    },
};
