//! Compares the examples of the OpenAPI document with rendered responses.

use super::{AdditionalBrandBody, CardDetailsBody, CountryBody};

/// Contains every attribute.
pub(crate) fn example() -> CardDetailsBody<'static> {
    let authentication =
        Some(scrip_core::card::bin_data::AuthenticationRequirement::ScaRequired.as_str());
    CardDetailsBody {
        bin: "42424242",
        last4: "4242",
        expiration_month: Some(12),
        expiration_year: Some(2031),
        brand: Some("visa"),
        funding: Some("debit"),
        authentication,
        issuer_country: Some(CountryBody { alpha2: "FR", name: "France", numeric: "250" }),
        additional: vec![AdditionalBrandBody {
            brand: "cartes-bancaires",
            funding: Some("debit"),
            authentication,
        }],
    }
}
