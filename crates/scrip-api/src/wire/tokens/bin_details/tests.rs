//! Compares the example of the OpenAPI document with a rendered response.

use scrip_core::card::bin_data::{BinDetails, BinPrefix, Brand, Country, Funding};
use serde_json::json;

use super::body;
use crate::openapi::tests::assert_examples;

#[test]
fn documented_bin_details_match_the_rendered_body() {
    let details = BinDetails {
        brand: Some(Brand::Visa),
        funding: Some(Funding::Credit),
        country: Country::parse("FR"),
        ..BinDetails::default()
    };
    let details = details.with_network(Brand::CartesBancaires, Some(Funding::Credit));
    let prefix = BinPrefix::parse("415058").unwrap();
    assert_examples("BinDetails", [json!(body(&prefix, &details))]);
}
