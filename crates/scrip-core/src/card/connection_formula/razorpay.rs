//! The formula of `razorpay-card`.

// Read in 2026-11, but for what is said to be known.
// Credentials: razorpay.com/docs, API keys: key ID and key secret.
// Currencies: razorpay.com/docs, international payments, without codes that ISO has withdrawn.
// Countries: razorpay.com/docs, international payments, where it says to be available.
// Features: razorpay.com/docs, capture, refunds, auto-refunds.

use super::{Features, Field, Formula};

pub(super) const FORMULA: Formula = Formula {
    id: "razorpay-card",
    display_name: "Razorpay",
    fields: &[Field::open("key_id", "Key ID"), Field::secret("key_secret", "Key secret")],
    currencies: &[
        "AED", "ALL", "AMD", "AUD", "AWG", "AZN", "BAM", "BBD", "BDT", "BHD", "BIF", "BMD", "BND",
        "BOB", "BRL", "BSD", "BTN", "BWP", "BZD", "CAD", "CHF", "CLP", "CNY", "COP", "CRC", "CUP",
        "CVE", "CZK", "DJF", "DKK", "DOP", "DZD", "EGP", "ETB", "EUR", "FJD", "GBP", "GHS", "GIP",
        "GMD", "GNF", "GTQ", "GYD", "HKD", "HNL", "HTG", "HUF", "IDR", "ILS", "INR", "IQD", "ISK",
        "JMD", "JOD", "JPY", "KES", "KGS", "KHR", "KMF", "KRW", "KWD", "KYD", "KZT", "LAK", "LKR",
        "LRD", "LSL", "MAD", "MDL", "MGA", "MKD", "MMK", "MNT", "MOP", "MUR", "MVR", "MWK", "MXN",
        "MYR", "MZN", "NAD", "NGN", "NIO", "NOK", "NPR", "NZD", "OMR", "PEN", "PGK", "PHP", "PKR",
        "PLN", "PYG", "QAR", "RON", "RSD", "RUB", "RWF", "SAR", "SCR", "SEK", "SGD", "SOS", "SVC",
        "SZL", "THB", "TND", "TRY", "TTD", "TWD", "TZS", "UAH", "UGX", "USD", "UYU", "UZS", "VND",
        "VUV", "XAF", "XCD", "XOF", "XPF", "YER", "ZAR", "ZMW",
    ],
    countries: &["IN", "MY", "SG", "US"],
    features: Features {
        // Not found.
        three_d_secure_pass_through: false,
        delayed_capture: true,
        // The captured amount has to be the authorized one.
        partial_capture: false,
        partial_refunds: true,
        refunds: true,
        // Not found.
        zero_auth: false,
        // What is not captured lapses; there is no call for it.
        void: false,
    },
};
