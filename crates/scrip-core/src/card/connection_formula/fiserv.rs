//! The formula of `fiserv-card`.

// Read in 2026-11, but for what is said to be known.
// Credentials: Commerce Hub's API key, API secret, merchant ID and terminal ID (Active Merchant,
// gateways/commerce_hub.rb).
// Currencies and countries: Hyperswitch, config/development.toml, without codes that ISO has
// withdrawn. Fiserv's own pages could not be read; Active Merchant has the United States only.
// Features: Active Merchant: charges without capture, capture and refund of an amount, cancels,
// accounts/verification, additionalData3DS.

use super::{Features, Field, Formula};

pub(super) const FORMULA: Formula = Formula {
    id: "fiserv-card",
    display_name: "Fiserv",
    fields: &[
        Field::secret("api_key", "API key"),
        Field::secret("api_secret", "API secret"),
        Field::open("merchant_id", "Merchant ID"),
        Field::open("terminal_id", "Terminal ID"),
    ],
    currencies: &[
        "AED", "AFN", "ALL", "AMD", "AOA", "ARS", "AUD", "AWG", "AZN", "BAM", "BBD", "BDT", "BHD",
        "BIF", "BMD", "BND", "BOB", "BRL", "BSD", "BTN", "BWP", "BYN", "BZD", "CAD", "CDF", "CHF",
        "CLP", "CNY", "COP", "CRC", "CUP", "CVE", "CZK", "DJF", "DKK", "DOP", "DZD", "EGP", "ERN",
        "ETB", "EUR", "FJD", "FKP", "GBP", "GEL", "GHS", "GIP", "GMD", "GNF", "GTQ", "GYD", "HKD",
        "HNL", "HTG", "HUF", "IDR", "ILS", "INR", "IQD", "IRR", "ISK", "JMD", "JOD", "JPY", "KES",
        "KGS", "KHR", "KMF", "KPW", "KRW", "KWD", "KYD", "KZT", "LAK", "LBP", "LKR", "LRD", "LSL",
        "LYD", "MAD", "MDL", "MGA", "MKD", "MMK", "MNT", "MOP", "MRU", "MUR", "MVR", "MWK", "MXN",
        "MYR", "MZN", "NAD", "NGN", "NIO", "NOK", "NPR", "NZD", "OMR", "PAB", "PEN", "PGK", "PHP",
        "PKR", "PLN", "PYG", "QAR", "RON", "RSD", "RUB", "RWF", "SAR", "SBD", "SCR", "SDG", "SEK",
        "SGD", "SHP", "SOS", "SRD", "SSP", "STN", "SVC", "SYP", "SZL", "THB", "TJS", "TMT", "TND",
        "TOP", "TRY", "TTD", "TWD", "TZS", "UAH", "UGX", "USD", "UYU", "UZS", "VES", "VND", "VUV",
        "WST", "XAF", "XCD", "XOF", "XPF", "YER", "ZAR", "ZMW",
    ],
    countries: &[
        "AR", "AU", "BE", "BR", "CA", "CN", "CO", "DE", "ES", "FR", "GB", "HK", "IN", "IT", "KR",
        "LK", "ME", "MX", "MY", "NL", "NZ", "PA", "PL", "SG", "US", "UY", "ZA",
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
