//! The catalog of connection formulas: which processors can be connected, and what each asks for.
//!
//! The catalog is the file `data/connection_formulas.json`: reviewed data with its sources. Where
//! these disagree, or a thing is not sure, the smaller list and the weaker claim stand.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use serde::Deserialize;

/// Every formula, by id. Read once; the texts borrow from the embedded file.
pub static CATALOG: LazyLock<Vec<ConnectionFormula>> = LazyLock::new(|| {
    serde_json::from_str(CATALOG_JSON).expect("the embedded catalog is well formed")
});

const CATALOG_JSON: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/connection_formulas.json"));

/// How one processor is connected. All are for cards; there are none for banks and wallets yet.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionFormula {
    pub id: &'static str,
    pub display_name: &'static str,
    pub sources: FormulaSources,
    pub fields: Vec<CredentialField>,
    /// ISO 4217, alphabetic.
    pub currencies: Vec<&'static str>,
    /// ISO 3166-1, two letters.
    pub countries: Vec<&'static str>,
    pub features: ProcessorFeatures,
}

/// A credential. Every one so far is a line of text.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialField {
    pub key: &'static str,
    pub display_name: &'static str,
    pub required: bool,
    /// Whether it must not be shown. The others name whom the secret belongs to.
    pub secret: bool,
}

/// Where the facts of a formula come from. Sources that a text calls known were not read again.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormulaSources {
    /// The month in which the sources were read, such as `2026-11`.
    pub read: &'static str,
    pub note: Option<&'static str>,
    pub credentials: &'static str,
    pub currencies: &'static str,
    pub countries: &'static str,
    pub features: &'static str,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessorFeatures {
    /// Takes the data of an authentication that was made elsewhere.
    pub three_d_secure_pass_through: bool,
    /// Authorizes now and captures later.
    pub delayed_capture: bool,
    pub partial_capture: bool,
    pub partial_refunds: bool,
    pub refunds: bool,
    /// Authorizes an amount of zero.
    pub zero_auth: bool,
    /// Gives an authorization back that was not captured.
    pub void: bool,
}
