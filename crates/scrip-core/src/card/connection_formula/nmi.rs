//! The formula of `nmi-card`.

// Read in 2026-11, but for what is said to be known.
// Credentials: security key and processor ID (docs.nexiopay.com, NMI); the second is needed only
// where there are several processors (Active Merchant, gateways/nmi.rb).
// Currencies: docs.nexiopay.com, NMI. No list of NMI's own was found: it depends on the processor.
// Countries: Active Merchant. Others have most of the world.
// Features: Active Merchant: auth, capture and refund of an amount, void, validate;
// docs.nexiopay.com: external 3D Secure.

use super::{Features, Field, Formula};

pub(super) const FORMULA: Formula = Formula {
    id: "nmi-card",
    display_name: "NMI",
    fields: &[
        Field::secret("security_key", "Security key"),
        Field::open("processor_id", "Processor ID").optional(),
    ],
    currencies: &["AUD", "CAD", "EUR", "GBP", "HKD", "JPY", "MYR", "PLN", "THB", "TWD", "USD"],
    countries: &["US"],
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
