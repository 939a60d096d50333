//! Card details on the wire, for whatever is made of a card.

#[cfg(test)]
pub(crate) mod tests;

use scrip_core::card::{
    CardDetails,
    bin_data::{Authentication, Brand, Country, Funding},
};
use serde::Serialize;

/// What is absent is left out, everywhere.
#[derive(Serialize)]
pub(crate) struct CardBody<'a> {
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
    additional: Vec<AdditionalBody>,
}

#[derive(Serialize)]
struct CountryBody {
    alpha2: &'static str,
    name: &'static str,
    numeric: &'static str,
}

#[derive(Serialize)]
struct AdditionalBody {
    brand: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    funding: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication: Option<&'static str>,
}

pub(crate) fn card(details: &CardDetails) -> CardBody<'_> {
    let facts = &details.facts;
    let authentication = facts.authentication().map(Authentication::as_str);
    let additional = facts.additional.iter().map(|it| AdditionalBody {
        brand: it.brand.as_str(),
        funding: it.funding.map(Funding::as_str),
        // It follows the issuer, who is the same.
        authentication,
    });
    CardBody {
        bin: &details.bin,
        last4: &details.last4,
        expiration_month: details.expiration_month,
        expiration_year: details.expiration_year,
        brand: facts.brand.map(Brand::as_str),
        funding: facts.funding.map(Funding::as_str),
        authentication,
        issuer_country: facts.country.map(country),
        additional: additional.collect(),
    }
}

fn country(country: &Country) -> CountryBody {
    CountryBody { alpha2: country.alpha2, name: country.name, numeric: country.numeric }
}
