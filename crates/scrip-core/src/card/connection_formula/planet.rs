//! The formula of `planet-card`.

// Read in 2026-11, but for what is said to be known.
// Planet's gateway for cards online is Datatrans (docs.zuora.com, Planet).
// Credentials: the same: merchant ID and password.
// Currencies: Hyperswitch, config/development.toml, for Datatrans.
// Countries: those that docs.oracle.com, EFTLink, Planet Payment, and Hyperswitch both have.
// Features: Active Merchant, gateways/datatrans.rb: settle and credit of an amount, cancel, the 3D
// object; docs.zuora.com: delayed capture, validation without an amount.

use super::{Features, Field, Formula};

pub(super) const FORMULA: Formula = Formula {
    id: "planet-card",
    display_name: "Planet",
    fields: &[Field::open("merchant_id", "Merchant ID"), Field::secret("password", "Password")],
    currencies: &[
        "BHD", "BIF", "CHF", "DJF", "EUR", "GBP", "GNF", "IQD", "ISK", "JOD", "JPY", "KMF", "KRW",
        "KWD", "LYD", "OMR", "PYG", "RWF", "TND", "UGX", "USD", "VND", "VUV", "XAF", "XOF", "XPF",
    ],
    countries: &[
        "AT", "BE", "BG", "CH", "CY", "CZ", "DE", "DK", "EE", "ES", "FI", "FR", "GB", "GR", "HR",
        "HU", "IE", "IS", "IT", "LT", "LU", "LV", "MT", "NL", "NO", "PL", "PT", "RO", "SE", "SI",
        "SK",
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
