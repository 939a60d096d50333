//! Card details on the wire, for whatever is made of a card.

#[cfg(test)]
pub(crate) mod tests;

use scrip_core::card::{
    CardDetails,
    bin_data::{AuthenticationRequirement, Brand, Country, Funding},
};
use serde::Serialize;

/// What is absent is left out, everywhere.
#[derive(Serialize)]
pub(crate) struct CardDetailsBody<'a> {
    bin: &'a str,
    last4: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiration_month: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiration_year: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    brand: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    funding: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
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
    let request = &details.bin_details;
    let authentication = request.authentication().map(AuthenticationRequirement::as_str);
    let additional = request.additional.iter().map(|it| AdditionalBrandBody {
        brand: it.brand.as_str(),
        funding: it.funding.map(Funding::as_str),
        // It follows the issuer, who is the same.
        authentication,
    });
    CardDetailsBody {
        bin: &details.bin,
        last4: &details.last4,
        expiration_month: details.expiration_month,
        expiration_year: details.expiration_year,
        brand: request.brand.map(Brand::as_str),
        funding: request.funding.map(Funding::as_str),
        authentication,
        issuer_country: request.country.map(country_body),
        additional: additional.collect(),
    }
}

fn country_body(country: &Country) -> CountryBody {
    CountryBody { alpha2: country.alpha2, name: country.name, numeric: country.numeric }
}
