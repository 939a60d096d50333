//! Card details, described.

use scrip_core::bin_data::{Authentication, Brand, Funding};

use super::{AdditionalBody, CardBody, CountryBody};
use crate::wire::schema::{Schema, always, answer, digits, list, one_of, sometimes, text, whole};

pub(crate) fn card_details() -> Schema {
    let primary = Brand::ALL.iter().filter(|it| it.is_primary()).map(|it| it.as_str());
    let country = answer([
        always("alpha2", text().pattern("^[A-Z]{2}$")),
        always("name", text()),
        always("numeric", digits(3, 3)),
    ]);
    let additional = answer([
        always("brand", one_of(Brand::ALL.map(Brand::as_str))),
        sometimes("funding", funding()),
        sometimes("authentication", authentication()),
    ]);
    answer([
        always("bin", digits(6, 8)),
        always("last4", digits(4, 4)),
        sometimes("expiration_month", whole().between(1, 12)),
        sometimes("expiration_year", whole().between(1000, 9999)),
        sometimes("brand", one_of(primary).about("Absent when it is not known.")),
        sometimes("funding", funding()),
        sometimes("authentication", authentication()),
        sometimes("issuer_country", country),
        sometimes("additional", list(additional).about("Second networks of the same BIN.")),
    ])
}

fn funding() -> Schema {
    one_of(Funding::ALL.map(Funding::as_str))
}

fn authentication() -> Schema {
    one_of([Authentication::ScaRequired.as_str()])
}

/// With every attribute that there is.
pub(crate) fn example() -> CardBody<'static> {
    let authentication = Some(Authentication::ScaRequired.as_str());
    CardBody {
        bin: "42424242",
        last4: "4242",
        expiration_month: Some(12),
        expiration_year: Some(2031),
        brand: Some("visa"),
        funding: Some("debit"),
        authentication,
        issuer_country: Some(CountryBody { alpha2: "FR", name: "France", numeric: "250" }),
        additional: vec![AdditionalBody {
            brand: "cartes-bancaires",
            funding: Some("debit"),
            authentication,
        }],
    }
}
