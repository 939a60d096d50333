//! The formula of `cybersource-card`.

// Read in 2026-11, but for what is said to be known.
// Credentials: merchant ID, key, and the shared secret that signs (Active Merchant,
// gateways/cyber_source_rest.rb).
// Currencies: developer.cybersource.com has the table of ISO, and says that each processor behind
// it has fewer. Here are those of the countries below, and those that Hyperswitch,
// config/development.toml, has for it.
// Countries: Active Merchant, gateways/cyber_source.rb.
// Features: developer.cybersource.com, fields of capture, reversal and payer authentication; zero:
// Hyperswitch. That captures and refunds can be in part is known, not read again.

use super::{Features, Field, Formula};

pub(super) const FORMULA: Formula = Formula {
    id: "cybersource-card",
    display_name: "CyberSource",
    fields: &[
        Field::open("merchant_id", "Merchant ID"),
        Field::open("merchant_key_id", "Key"),
        Field::secret("merchant_secret_key", "Shared secret key"),
    ],
    currencies: &[
        "AED", "ARS", "AUD", "BRL", "CAD", "CLP", "CNY", "COP", "DKK", "EUR", "GBP", "HKD", "INR",
        "JPY", "KWD", "LBP", "MXN", "MYR", "NOK", "NZD", "PEN", "PKR", "PLN", "QAR", "SAR", "SEK",
        "SGD", "UAH", "USD", "XOF", "ZAR",
    ],
    countries: &[
        "AE", "BR", "CA", "CN", "DE", "DK", "FI", "FR", "GB", "IN", "JP", "LB", "MX", "NO", "PK",
        "SE", "SG", "US",
    ],
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
