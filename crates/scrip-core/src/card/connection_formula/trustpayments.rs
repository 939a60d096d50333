//! The formula of `trustpayments-card`.

// Read in 2026-11, but for what is said to be known.
// Credentials: user name, password and site reference of the web services (yaypay.helpjuice.com,
// Trust Payments).
// Currencies: docs.paylands.com: at least these two. No list of Trust Payments' own was found: it
// depends on the acquirer.
// Countries: yaypay.helpjuice.com, local card acceptance; the Channel Islands are GG and JE.
// Features: docs.trustpayments.com, knowledge base: updates of a transaction, refunds, account
// checks, using your own MPI. That an update settles later, less or not at all is known, not read
// again.

use super::{Features, Field, Formula};

pub(super) const FORMULA: Formula = Formula {
    id: "trustpayments-card",
    display_name: "Trust Payments",
    fields: &[
        Field::open("username", "Webservices username"),
        Field::secret("password", "Webservices password"),
        Field::open("site_reference", "Site reference"),
    ],
    currencies: &["EUR", "GBP"],
    countries: &[
        "AD", "AT", "BE", "BG", "CH", "CY", "CZ", "DE", "DK", "EE", "ES", "FI", "FO", "FR", "GB",
        "GG", "GI", "GL", "GR", "HR", "HU", "IE", "IL", "IM", "IS", "IT", "JE", "LI", "LT", "LU",
        "LV", "MC", "MT", "NL", "NO", "PL", "PT", "RO", "SE", "SI", "SK", "SM", "TR", "VA",
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
