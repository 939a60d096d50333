//! The formula of `nuvei-card`.

// Read in 2026-11, but for what is said to be known.
// Credentials: merchant ID, site ID, secret key (odoo.com/documentation, Nuvei; Active Merchant,
// gateways/nuvei.rb).
// Currencies: Hyperswitch, config/development.toml, without codes that ISO has withdrawn.
// Countries: Active Merchant, and docs.zuora.com, Nuvei. Nuvei speaks of 200 markets; no list of
// them was found.
// Features: Active Merchant: settle and refund of an amount, void, externalMpi, an authorization
// of zero.

use super::{Features, Field, Formula};

pub(super) const FORMULA: Formula = Formula {
    id: "nuvei-card",
    display_name: "Nuvei",
    fields: &[
        Field::open("merchant_id", "Merchant ID"),
        Field::open("merchant_site_id", "Merchant site ID"),
        Field::secret("merchant_secret_key", "Merchant secret key"),
    ],
    currencies: &[
        "AED", "ALL", "AMD", "ARS", "AUD", "AZN", "BAM", "BDT", "BHD", "BMD", "BND", "BRL", "BYN",
        "CAD", "CHF", "CLP", "CNY", "COP", "CRC", "CZK", "DKK", "DOP", "DZD", "EGP", "EUR", "GBP",
        "GEL", "GHS", "GTQ", "HKD", "HUF", "IDR", "INR", "IQD", "ISK", "JOD", "JPY", "KES", "KGS",
        "KRW", "KWD", "KYD", "KZT", "LBP", "LKR", "MAD", "MDL", "MKD", "MMK", "MNT", "MUR", "MWK",
        "MXN", "MYR", "MZN", "NAD", "NGN", "NOK", "NZD", "OMR", "PEN", "PHP", "PKR", "PLN", "PYG",
        "QAR", "RON", "RSD", "RUB", "SAR", "SEK", "SGD", "SOS", "THB", "TND", "TOP", "TRY", "TTD",
        "TWD", "UAH", "UGX", "USD", "UYU", "UZS", "VND", "XAF", "XOF", "YER", "ZAR",
    ],
    countries: &[
        "AR", "AU", "BR", "CA", "CL", "CO", "EC", "GB", "IN", "NZ", "PE", "PY", "US", "UY",
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
