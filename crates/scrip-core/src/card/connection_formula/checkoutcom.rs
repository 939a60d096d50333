//! The formula of `checkoutcom-card`.

// Read in 2026-11, but for what is said to be known.
// Credentials: checkout.com/docs, secret key; Active Merchant, gateways/checkout_v2.rb, processing
// channel ID where there are several.
// Currencies: Hyperswitch, config/development.toml, without codes that ISO has withdrawn.
// Countries: those that Hyperswitch and Active Merchant both have.
// Features: checkout.com/docs, captures in part, 3D Secure of a third party; Active Merchant:
// refunds of an amount, voids, an authorisation of zero.

use super::{Features, Field, Formula};

pub(super) const FORMULA: Formula = Formula {
    id: "checkoutcom-card",
    display_name: "Checkout.com",
    fields: &[
        Field::secret("secret_key", "Secret key"),
        Field::open("processing_channel_id", "Processing channel ID").optional(),
    ],
    currencies: &[
        "AED", "AFN", "ALL", "AMD", "AOA", "AUD", "AWG", "AZN", "BAM", "BBD", "BDT", "BHD", "BIF",
        "BMD", "BND", "BOB", "BRL", "BSD", "BTN", "BWP", "BYN", "BZD", "CAD", "CDF", "CHF", "CLP",
        "CNY", "COP", "CRC", "CUP", "CVE", "CZK", "DJF", "DKK", "DOP", "DZD", "EGP", "ERN", "ETB",
        "EUR", "FJD", "FKP", "GBP", "GEL", "GHS", "GIP", "GMD", "GNF", "GTQ", "GYD", "HKD", "HNL",
        "HTG", "HUF", "IDR", "ILS", "INR", "IQD", "IRR", "ISK", "JMD", "JOD", "JPY", "KES", "KGS",
        "KHR", "KMF", "KRW", "KWD", "KYD", "KZT", "LAK", "LBP", "LKR", "LRD", "LSL", "LYD", "MAD",
        "MDL", "MGA", "MKD", "MMK", "MNT", "MOP", "MRU", "MUR", "MVR", "MWK", "MXN", "MYR", "MZN",
        "NAD", "NGN", "NIO", "NOK", "NPR", "NZD", "OMR", "PAB", "PEN", "PGK", "PHP", "PKR", "PLN",
        "PYG", "QAR", "RON", "RSD", "RUB", "RWF", "SAR", "SBD", "SCR", "SDG", "SEK", "SGD", "SHP",
        "SLE", "SOS", "SRD", "SSP", "STN", "SYP", "SZL", "THB", "TJS", "TMT", "TND", "TOP", "TRY",
        "TTD", "TWD", "TZS", "UAH", "UGX", "USD", "UYU", "UZS", "VES", "VND", "VUV", "WST", "XAF",
        "XCD", "XOF", "XPF", "YER", "ZAR", "ZMW",
    ],
    countries: &[
        "AE", "AR", "AT", "AU", "BE", "BG", "BH", "CH", "CL", "CO", "CY", "CZ", "DE", "DK", "EE",
        "ES", "FI", "FR", "GB", "GR", "HK", "HR", "HU", "IE", "IS", "IT", "LI", "LT", "LU", "LV",
        "MT", "MX", "NL", "NO", "PE", "PL", "PT", "RO", "SA", "SE", "SG", "SI", "SK", "US",
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
