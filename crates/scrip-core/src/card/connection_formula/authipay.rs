//! The formula of `authipay-card`.

// Read in 2026-11, but for what is said to be known.
// Credentials: API key and secret of the Fiserv gateway that Authipay is (Hyperswitch,
// connector_configs/toml/production.toml); Store ID (woocommerce.com, document/authipay).
// Currencies: authipay.com, support centre; what it calls SWK is SEK.
// Countries: the same page: merchant services in Ireland, Northern Ireland and Great Britain.
// Features: Active Merchant, gateways/ipg.rb, for the gateway: preAuth, postAuth and return of an
// amount, void, 3-D Secure data.

use super::{Features, Field, Formula};

pub(super) const FORMULA: Formula = Formula {
    id: "authipay-card",
    display_name: "Authipay",
    fields: &[
        Field::secret("api_key", "API key"),
        Field::secret("api_secret", "API secret"),
        Field::open("store_id", "Store ID"),
    ],
    currencies: &[
        "AUD", "CAD", "CHF", "DKK", "EUR", "GBP", "HKD", "JPY", "NOK", "NZD", "PLN", "SEK", "USD",
        "ZAR",
    ],
    countries: &["GB", "IE"],
    features: Features {
        three_d_secure_pass_through: true,
        delayed_capture: true,
        partial_capture: true,
        partial_refunds: true,
        refunds: true,
        // Not found for Authipay itself.
        zero_auth: false,
        void: true,
    },
};
