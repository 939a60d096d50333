//! The formula of `chaseorbital-card`.

// Read in 2026-11, but for what is said to be known.
// Credentials: connection username and password, merchant ID, BIN, terminal ID (Active Merchant,
// gateways/orbital.rb).
// Currencies: the gateway's table (Active Merchant, orbital/orbital_codes.rb), without codes that
// ISO has withdrawn.
// Countries: Active Merchant, gateways/orbital.rb. docs.recurly.com names more regions.
// Features: docs.recurly.com, Chase Paymentech Orbital (authorize, verify, void, refund, 3DS2);
// developer.broadleafcommerce.com, chase-payment (capture and refund in part). That a verification
// is of zero is known, not read again.

use super::{Features, Field, Formula};

pub(super) const FORMULA: Formula = Formula {
    id: "chaseorbital-card",
    display_name: "Chase Orbital",
    fields: &[
        Field::open("orbital_connection_username", "Orbital connection username"),
        Field::secret("orbital_connection_password", "Orbital connection password"),
        Field::open("merchant_id", "Merchant ID"),
        Field::open("bin", "BIN"),
        Field::open("terminal_id", "Terminal ID"),
    ],
    currencies: &[
        "AED", "AMD", "ARS", "AUD", "AWG", "AZN", "BBD", "BDT", "BIF", "BMD", "BND", "BOB", "BRL",
        "BSD", "BWP", "BYN", "BZD", "CAD", "CHF", "CLP", "CNY", "COP", "CRC", "CVE", "CZK", "DJF",
        "DKK", "DOP", "DZD", "EGP", "ETB", "EUR", "FJD", "FKP", "GBP", "GEL", "GHS", "GIP", "GMD",
        "GNF", "GTQ", "GYD", "HKD", "HNL", "HTG", "HUF", "IDR", "ILS", "INR", "ISK", "JMD", "JPY",
        "KES", "KGS", "KHR", "KMF", "KRW", "KYD", "KZT", "LAK", "LBP", "LKR", "MAD", "MDL", "MNT",
        "MOP", "MUR", "MVR", "MWK", "MXN", "MYR", "MZN", "NAD", "NGN", "NIO", "NOK", "NPR", "NZD",
        "PAB", "PEN", "PGK", "PHP", "PKR", "PLN", "PYG", "QAR", "RON", "RUB", "RWF", "SAR", "SBD",
        "SCR", "SEK", "SGD", "SHP", "SOS", "STN", "SVC", "SZL", "THB", "TOP", "TRY", "TTD", "TWD",
        "TZS", "UAH", "UGX", "USD", "UYU", "UZS", "VND", "VUV", "WST", "XAF", "XCD", "XOF", "XPF",
        "YER", "ZAR",
    ],
    countries: &["CA", "US"],
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
