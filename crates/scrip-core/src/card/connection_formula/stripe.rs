//! The formula of `stripe-card`.

// Read in 2026-11, but for what is said to be known.
// Credentials: docs.stripe.com, API keys: secret key (known, not read again).
// Currencies: the presentment currencies of docs.stripe.com/currencies, from a client library that
// repeats them, without codes that ISO has withdrawn (ANG, STD).
// Countries: stripe.com/global without those that a partner serves (known; read again in part:
// Active Merchant, gateways/stripe_payment_intents.rb).
// Features: docs.stripe.com, import of 3D Secure results; zero: Hyperswitch,
// config/development.toml. Capture and refund of an amount, and cancel, are known, not read again.

use super::{Features, Field, Formula};

pub(super) const FORMULA: Formula = Formula {
    id: "stripe-card",
    display_name: "Stripe",
    fields: &[Field::secret("secret_key", "Secret key")],
    currencies: &[
        "AED", "AFN", "ALL", "AMD", "AOA", "ARS", "AUD", "AWG", "AZN", "BAM", "BBD", "BDT", "BIF",
        "BMD", "BND", "BOB", "BRL", "BSD", "BWP", "BYN", "BZD", "CAD", "CDF", "CHF", "CLP", "CNY",
        "COP", "CRC", "CVE", "CZK", "DJF", "DKK", "DOP", "DZD", "EGP", "ETB", "EUR", "FJD", "FKP",
        "GBP", "GEL", "GIP", "GMD", "GNF", "GTQ", "GYD", "HKD", "HNL", "HTG", "HUF", "IDR", "ILS",
        "INR", "ISK", "JMD", "JPY", "KES", "KGS", "KHR", "KMF", "KRW", "KYD", "KZT", "LAK", "LBP",
        "LKR", "LRD", "LSL", "MAD", "MDL", "MGA", "MKD", "MMK", "MNT", "MOP", "MUR", "MVR", "MWK",
        "MXN", "MYR", "MZN", "NAD", "NGN", "NIO", "NOK", "NPR", "NZD", "PAB", "PEN", "PGK", "PHP",
        "PKR", "PLN", "PYG", "QAR", "RON", "RSD", "RUB", "RWF", "SAR", "SBD", "SCR", "SEK", "SGD",
        "SHP", "SLE", "SOS", "SRD", "SZL", "THB", "TJS", "TOP", "TRY", "TTD", "TWD", "TZS", "UAH",
        "UGX", "USD", "UYU", "UZS", "VND", "VUV", "WST", "XAF", "XCD", "XCG", "XOF", "XPF", "YER",
        "ZAR", "ZMW",
    ],
    countries: &[
        "AE", "AT", "AU", "BE", "BG", "BR", "CA", "CH", "CY", "CZ", "DE", "DK", "EE", "ES", "FI",
        "FR", "GB", "GI", "GR", "HK", "HR", "HU", "IE", "IN", "IT", "JP", "LI", "LT", "LU", "LV",
        "MT", "MX", "MY", "NL", "NO", "NZ", "PL", "PT", "RO", "SE", "SG", "SI", "SK", "TH", "US",
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
