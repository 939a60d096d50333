//! JSON of the details that all cards with the same first digits share. Its attributes are in camel
//! case, unlike those of other objects: official clients expect this.

#[cfg(test)]
mod tests;

use scrip_core::{
    card::bin_data::{BinDetails, BinPrefix, Brand, Funding},
    idempotency::RenderedResponse,
};

use crate::wire::response;

bodies! {
    /// Unknown details are omitted. BIN data has no segment and no name of the issuer.
    #[serde(rename_all = "camelCase")]
    struct BinDetailsBody {
        brand?: &'static str,
        funding?: &'static str,
        issuer?: IssuerBody,
        bin_range: [BinRangeBody; 1],
        additional: Vec<NetworkBody>,
    }

    /// Another network of the same cards.
    #[serde(rename_all = "camelCase")]
    struct NetworkBody {
        brand: &'static str,
        funding?: &'static str,
        issuer?: IssuerBody,
        bin_range: [BinRangeBody; 1],
    }

    #[derive(Clone, Copy)]
    struct IssuerBody {
        country: &'static str,
    }

    #[derive(Clone)]
    #[serde(rename_all = "camelCase")]
    struct BinRangeBody {
        bin_min: String,
        bin_max: String,
    }
}

pub(crate) fn render(prefix: &BinPrefix, details: &BinDetails) -> RenderedResponse {
    response::render(200, &body(prefix, details))
}

fn body(prefix: &BinPrefix, details: &BinDetails) -> BinDetailsBody {
    let [bin_min, bin_max] = prefix.range().bounds();
    let bin_range = [BinRangeBody { bin_min, bin_max }];
    // The issuer is the same for all networks of a card.
    let issuer = details.country.map(|it| IssuerBody { country: it.alpha2 });
    let additional = details.additional.iter().map(|it| NetworkBody {
        brand: it.brand.as_str(),
        funding: it.funding.map(Funding::as_str),
        issuer,
        bin_range: bin_range.clone(),
    });
    BinDetailsBody {
        brand: details.brand.map(Brand::as_str),
        funding: details.funding.map(Funding::as_str),
        issuer,
        additional: additional.collect(),
        bin_range,
    }
}
