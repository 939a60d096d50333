//! JSON of the connection formulas.

use std::sync::LazyLock;

use bytes::Bytes;
use scrip_core::card::connection_formula::{
    CATALOG, ConnectionFormula, CredentialField, ProcessorFeatures,
};
use serde::Serialize;

/// Rendered once; responses share the bytes.
static CATALOG_JSON: LazyLock<Bytes> = LazyLock::new(|| {
    let formulas: Vec<_> = CATALOG.iter().map(WireFormula::from_formula).collect();
    // Serializing strings and booleans into memory cannot fail.
    Bytes::from(serde_json::to_vec(&formulas).unwrap_or_default())
});

pub(crate) fn catalog_json() -> Bytes {
    Bytes::clone(&CATALOG_JSON)
}

#[derive(Serialize)]
struct WireFormula {
    id: &'static str,
    display_name: &'static str,
    method: &'static str,
    fields: Vec<WireField>,
    supported_currencies: &'static [&'static str],
    supported_countries: &'static [&'static str],
    supported_features: WireFeatures,
}

#[derive(Serialize)]
struct WireField {
    key: &'static str,
    display_name: &'static str,
    required: bool,
    format: &'static str,
    secret: bool,
}

#[derive(Serialize)]
struct WireFeatures {
    three_d_secure_pass_through: bool,
    delayed_capture: bool,
    partial_capture: bool,
    partial_refunds: bool,
    refunds: bool,
    zero_auth: bool,
    void: WireVoid,
}

#[derive(Serialize)]
struct WireVoid {
    #[serde(rename = "voidAllowed")]
    void_allowed: bool,
}

impl WireFormula {
    fn from_formula(formula: &'static ConnectionFormula) -> Self {
        Self {
            id: formula.id,
            display_name: formula.display_name,
            method: "card",
            fields: formula.fields.iter().map(WireField::from_field).collect(),
            supported_currencies: &formula.currencies,
            supported_countries: &formula.countries,
            supported_features: WireFeatures::from_features(&formula.features),
        }
    }
}

impl WireField {
    fn from_field(field: &CredentialField) -> Self {
        let CredentialField { key, display_name, required, secret } = *field;
        Self { key, display_name, required, format: "text", secret }
    }
}

impl WireFeatures {
    fn from_features(features: &ProcessorFeatures) -> Self {
        Self {
            three_d_secure_pass_through: features.three_d_secure_pass_through,
            delayed_capture: features.delayed_capture,
            partial_capture: features.partial_capture,
            partial_refunds: features.partial_refunds,
            refunds: features.refunds,
            zero_auth: features.zero_auth,
            void: WireVoid { void_allowed: features.void },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalog_is_rendered_once_and_shared() {
        let (first, second) = (catalog_json(), catalog_json());
        assert!(first.len() > 1000);
        assert!(std::ptr::eq(first.as_ptr(), second.as_ptr()));
    }

    #[test]
    fn documented_example_is_a_formula_of_the_catalog() {
        let short_formulas =
            CATALOG.iter().filter(|it| it.currencies.len() < 8 && it.countries.len() < 8);
        let example =
            short_formulas.take(1).map(|it| serde_json::json!(WireFormula::from_formula(it)));
        crate::openapi::tests::assert_examples("ConnectionFormula", example);
    }
}
