//! The formula of `adyen-card`.

// Read in 2026-11, but for what is said to be known.
// Credentials: API key, merchant account, and in production the prefix of the live addresses
// (Hyperswitch, connector_configs/toml/production.toml).
// Currencies: docs.adyen.com, development-resources/currency-codes, without the codes there that
// ISO does not have (CNH) or has withdrawn (VEF).
// Countries: docs.adyen.com, point-of-sale/what-we-support, the one table of places found there.
// It is about terminals; online it may be more.
// Features: docs.adyen.com, captures and third-party authentication; Active Merchant,
// gateways/adyen.rb: refunds of an amount, cancel, an authorisation of zero.

use super::{Features, Field, Formula};

pub(super) const FORMULA: Formula = Formula {
    id: "adyen-card",
    display_name: "Adyen",
    fields: &[
        Field::secret("api_key", "API key"),
        Field::open("merchant_account", "Merchant account"),
        Field::open("live_url_prefix", "Live URL prefix").optional(),
    ],
    currencies: &[
        "AED", "ALL", "AMD", "AOA", "ARS", "AUD", "AWG", "AZN", "BAM", "BBD", "BDT", "BHD", "BMD",
        "BND", "BOB", "BRL", "BSD", "BWP", "BYN", "BZD", "CAD", "CHF", "CLP", "CNY", "COP", "CRC",
        "CUP", "CVE", "CZK", "DJF", "DKK", "DOP", "DZD", "EGP", "ETB", "EUR", "FJD", "FKP", "GBP",
        "GEL", "GHS", "GIP", "GMD", "GNF", "GTQ", "GYD", "HKD", "HNL", "HTG", "HUF", "IDR", "ILS",
        "INR", "IQD", "ISK", "JMD", "JOD", "JPY", "KES", "KGS", "KHR", "KMF", "KRW", "KWD", "KYD",
        "KZT", "LAK", "LBP", "LKR", "LYD", "MAD", "MDL", "MKD", "MMK", "MNT", "MOP", "MRU", "MUR",
        "MVR", "MWK", "MXN", "MYR", "MZN", "NAD", "NGN", "NIO", "NOK", "NPR", "NZD", "OMR", "PAB",
        "PEN", "PGK", "PHP", "PKR", "PLN", "PYG", "QAR", "RON", "RSD", "RUB", "RWF", "SAR", "SBD",
        "SCR", "SEK", "SGD", "SHP", "SLE", "SOS", "SRD", "STN", "SVC", "SZL", "THB", "TND", "TOP",
        "TRY", "TTD", "TWD", "TZS", "UAH", "UGX", "USD", "UYU", "UZS", "VND", "VUV", "WST", "XAF",
        "XCD", "XOF", "XPF", "YER", "ZAR", "ZMW",
    ],
    countries: &[
        "AE", "AT", "AU", "BE", "BG", "BR", "CA", "CH", "CY", "CZ", "DE", "DK", "EE", "ES", "FI",
        "FR", "GB", "GG", "GR", "HK", "HR", "HU", "IE", "IM", "IS", "IT", "JP", "LI", "LT", "LU",
        "LV", "MT", "MX", "MY", "NL", "NO", "NZ", "PL", "PR", "PT", "RO", "SE", "SG", "SI", "SK",
        "US",
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
