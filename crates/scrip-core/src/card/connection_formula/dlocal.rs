//! The formula of `dlocal-card`.

// Read in 2026-11, but for what is said to be known.
// Credentials: docs.dlocal.com, API reference: X-Login, X-Trans-Key, and the secret that signs.
// Countries: docs.dlocal.com, coverage of payins, where Active Merchant, gateways/d_local.rb, has
// the country for cards.
// Currencies: docs.dlocal.com, capture an authorization: the country's own, and USD.
// Features: the same page, captures in part; Active Merchant: refunds of an amount, cancel,
// three_dsecure, an authorization of zero.

use super::{Features, Field, Formula};

pub(super) const FORMULA: Formula = Formula {
    id: "dlocal-card",
    display_name: "dLocal",
    fields: &[
        Field::open("x_login", "X-Login"),
        Field::secret("x_trans_key", "X-Trans-Key"),
        Field::secret("secret_key", "Secret key"),
    ],
    currencies: &[
        "ARS", "BDT", "BOB", "BRL", "CLP", "COP", "CRC", "DOP", "EGP", "GHS", "GTQ", "IDR", "INR",
        "JPY", "KES", "MAD", "MXN", "MYR", "NGN", "PEN", "PHP", "PYG", "THB", "TRY", "TZS", "UGX",
        "USD", "UYU", "VND", "XAF", "XOF", "ZAR",
    ],
    countries: &[
        "AR", "BD", "BO", "BR", "CL", "CM", "CO", "CR", "DO", "EC", "EG", "GH", "GT", "ID", "IN",
        "JP", "KE", "MA", "MX", "MY", "NG", "PA", "PE", "PH", "PY", "SN", "SV", "TH", "TR", "TZ",
        "UG", "UY", "VN", "ZA",
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
