//! The formula of `braintree-card`.

// Read in 2026-11, but for what is said to be known.
// Credentials: merchant ID, public key, private key (docs.blesta.com, Braintree); a merchant
// account ID chooses one of several accounts (developer.paypal.com/braintree, merchant accounts).
// Currencies and countries: Hyperswitch, config/development.toml, which docs.erpnext.com agrees
// with for the currencies; without codes that ISO has withdrawn.
// Features: developer.paypal.com/braintree: pass-through of 3D Secure; settlement and refund of an
// amount, void, and verification of zero are known, not read again.

use super::{Features, Field, Formula};

pub(super) const FORMULA: Formula = Formula {
    id: "braintree-card",
    display_name: "Braintree",
    fields: &[
        Field::open("merchant_id", "Merchant ID"),
        Field::open("public_key", "Public key"),
        Field::secret("private_key", "Private key"),
        Field::open("merchant_account_id", "Merchant account ID").optional(),
    ],
    currencies: &[
        "AED", "AMD", "AOA", "ARS", "AUD", "AWG", "AZN", "BAM", "BBD", "BDT", "BIF", "BMD", "BND",
        "BOB", "BRL", "BSD", "BWP", "BYN", "BZD", "CAD", "CHF", "CLP", "CNY", "COP", "CRC", "CVE",
        "CZK", "DJF", "DKK", "DOP", "DZD", "EGP", "ETB", "EUR", "FJD", "FKP", "GBP", "GEL", "GHS",
        "GIP", "GMD", "GNF", "GTQ", "GYD", "HKD", "HNL", "HTG", "HUF", "IDR", "ILS", "INR", "ISK",
        "JMD", "JPY", "KES", "KGS", "KHR", "KMF", "KRW", "KYD", "KZT", "LAK", "LBP", "LKR", "LRD",
        "LSL", "MAD", "MDL", "MKD", "MNT", "MOP", "MUR", "MVR", "MWK", "MXN", "MYR", "MZN", "NAD",
        "NGN", "NIO", "NOK", "NPR", "NZD", "PAB", "PEN", "PGK", "PHP", "PKR", "PLN", "PYG", "QAR",
        "RON", "RSD", "RUB", "RWF", "SAR", "SBD", "SCR", "SEK", "SGD", "SHP", "SOS", "SRD", "SVC",
        "SYP", "SZL", "THB", "TJS", "TOP", "TRY", "TTD", "TWD", "TZS", "UAH", "UGX", "USD", "UYU",
        "UZS", "VES", "VND", "VUV", "WST", "XAF", "XCD", "XOF", "XPF", "YER", "ZAR", "ZMW",
    ],
    countries: &[
        "AD", "AT", "AU", "BE", "BG", "CA", "CH", "CY", "CZ", "DE", "DK", "EE", "ES", "FI", "FR",
        "GB", "GG", "GI", "GR", "HK", "HR", "HU", "IE", "IM", "IT", "JE", "LI", "LT", "LU", "LV",
        "MC", "MT", "MY", "NL", "NO", "NZ", "PL", "PT", "RO", "SE", "SG", "SI", "SK", "SM", "US",
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
