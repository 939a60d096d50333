//! The catalog of connection formulas: the processors that can be connected, and their credentials.
//!
//! The catalog is the file `data/connection_formulas.json`: reviewed data with its sources. Where
//! sources disagree or a fact is uncertain, the catalog has the smaller list and the weaker claim.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use serde::Deserialize;

/// Every formula, sorted by id. Read once; the texts borrow from the embedded file.
pub static CATALOG: LazyLock<Vec<ConnectionFormula>> =
    LazyLock::new(|| serde_json::from_str(CATALOG_JSON).expect("the embedded catalog is valid"));

const CATALOG_JSON: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/connection_formulas.json"));

/// The credentials and features of one processor. All formulas are for cards; there are none for
/// banks and wallets yet.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionFormula {
    pub id: &'static str,
    pub display_name: &'static str,
    pub sources: FormulaSources,
    pub fields: Vec<CredentialField>,
    /// ISO 4217, alphabetic codes.
    pub currencies: Vec<&'static str>,
    /// ISO 3166-1, two-letter codes.
    pub countries: Vec<&'static str>,
    pub features: ProcessorFeatures,
}

/// A credential. All of them are single-line texts.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialField {
    pub key: &'static str,
    pub display_name: &'static str,
    pub required: bool,
    /// Whether the value must not be displayed. The other fields identify the owner of the secret.
    pub secret: bool,
}

/// The sources of a formula. Sources that a text describes as known were not read again.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormulaSources {
    /// The month in which the sources were read, such as `2026-11`.
    pub reviewed_in: &'static str,
    pub note: Option<&'static str>,
    pub credentials: &'static str,
    pub currencies: &'static str,
    pub countries: &'static str,
    pub features: &'static str,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessorFeatures {
    /// Accepts the data of an authentication by another provider.
    pub three_d_secure_pass_through: bool,
    /// Authorizes now and captures later.
    pub delayed_capture: bool,
    pub partial_capture: bool,
    pub partial_refunds: bool,
    pub refunds: bool,
    /// Authorizes an amount of zero.
    pub zero_auth: bool,
    /// Cancels an authorization before its capture.
    pub void: bool,
}
