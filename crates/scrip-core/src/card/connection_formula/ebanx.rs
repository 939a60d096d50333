//! The formula of `ebanx-card`.

// Read in 2026-11, but for what is said to be known.
// Credentials: docs.ebanx.com, Direct API: integration key.
// Countries: those that two of these have for cards: docs.zuora.com, EBANX; chargebee.com/docs,
// EBANX; Active Merchant, gateways/ebanx.rb; developer.paypal.com/braintree, orchestration/ebanx.
// Currencies: chargebee.com/docs, EBANX, for its countries; for the others the country's own.
// Features: Active Merchant: direct without capture, capture, cancel, refund of an amount.

use super::{Features, Field, Formula};

pub(super) const FORMULA: Formula = Formula {
    id: "ebanx-card",
    display_name: "EBANX",
    fields: &[Field::secret("integration_key", "Integration key")],
    currencies: &[
        "ARS", "BOB", "BRL", "CLP", "COP", "CRC", "DOP", "GTQ", "MXN", "NGN", "PAB", "PEN", "PYG",
        "USD", "UYU", "ZAR",
    ],
    countries: &[
        "AR", "BO", "BR", "CL", "CO", "CR", "DO", "EC", "GT", "MX", "NG", "PA", "PE", "PY", "SV",
        "UY", "ZA",
    ],
    features: Features {
        // docs.ebanx.com: depends on the country.
        three_d_secure_pass_through: false,
        delayed_capture: true,
        // Optional in Active Merchant; not found in docs.ebanx.com.
        partial_capture: false,
        partial_refunds: true,
        refunds: true,
        // docs.ebanx.com: verification depends on the country.
        zero_auth: false,
        void: true,
    },
};
