//! JSON of card details, for all objects that contain a card.

#[cfg(test)]
pub(crate) mod tests;

use scrip_core::card::{
    CardDetails,
    bin_data::{AuthenticationRequirement, Brand, Country, Funding},
};
use serde::Serialize;

/// Brand, funding and authentication are null if they are not known. Other absent values are omitted.
#[derive(Serialize)]
pub(crate) struct CardDetailsBody<'a> {
    bin: &'a str,
    last4: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiration_month: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiration_year: Option<u64>,
    brand: Option<&'static str>,
    funding: Option<&'static str>,
    authentication: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer_country: Option<CountryBody>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    additional: Vec<AdditionalBrandBody>,
}

#[derive(Serialize)]
struct CountryBody {
    alpha2: &'static str,
    name: &'static str,
    numeric: &'static str,
}

#[derive(Serialize)]
struct AdditionalBrandBody {
    brand: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    funding: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication: Option<&'static str>,
}

pub(crate) fn card_details_body(details: &CardDetails) -> CardDetailsBody<'_> {
    let bin_details = &details.bin_details;
    let authentication = bin_details.authentication().map(AuthenticationRequirement::as_str);
    let additional = bin_details.additional.iter().map(|it| AdditionalBrandBody {
        brand: it.brand.as_str(),
        funding: it.funding.map(Funding::as_str),
        // The requirement depends on the issuer, which is the same for all brands of the card.
        authentication,
    });
    CardDetailsBody {
        bin: &details.bin,
        last4: &details.last4,
        expiration_month: details.expiration_month,
        expiration_year: details.expiration_year,
        brand: bin_details.brand.map(Brand::as_str),
        funding: bin_details.funding.map(Funding::as_str),
        authentication,
        issuer_country: bin_details.country.map(country_body),
        additional: additional.collect(),
    }
}

fn country_body(country: &Country) -> CountryBody {
    CountryBody { alpha2: country.alpha2, name: country.name, numeric: country.numeric }
}
