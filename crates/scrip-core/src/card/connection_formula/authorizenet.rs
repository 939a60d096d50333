//! The formula of `authorizenet-card`.

// Read in 2026-11, but for what is said to be known.
// Credentials: API Login ID and Transaction Key (docs.blesta.com, Authorize.net).
// Currencies: those that docs.y.uno, authorizenet, and Hyperswitch, config/development.toml, both
// have. An account has one of them.
// Countries: zoho.com, checkout/faq, countries of Authorize.Net. Others list Europe too.
// Features: developer.authorize.net (known, not read again): authOnly, priorAuthCapture and refund
// of an amount, void, cardholderAuthentication. Zero: Hyperswitch, config/development.toml.

use super::{Features, Field, Formula};

pub(super) const FORMULA: Formula = Formula {
    id: "authorizenet-card",
    display_name: "Authorize.net",
    fields: &[
        Field::open("api_login_id", "API Login ID"),
        Field::secret("transaction_key", "Transaction Key"),
    ],
    currencies: &["AUD", "CAD", "EUR", "GBP", "NZD", "USD"],
    countries: &["AU", "CA", "US"],
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
