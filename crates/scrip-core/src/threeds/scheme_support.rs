//! One way to authenticate a card.

use scrip_threeds::{
    code::{AcsInformation, Scheme},
    format::{Url, Version, VersionNumber},
};
use serde::{Deserialize, Serialize};

/// One way to authenticate a card: a scheme, and what it speaks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemeSupport {
    pub scheme: Scheme,
    pub recommended: Version,
    pub available: Vec<Version>,
    /// Earliest and latest of each.
    pub acs: (VersionNumber, VersionNumber),
    pub ds: (VersionNumber, VersionNumber),
    pub acs_information: Vec<AcsInformation>,
    pub method_url: Option<Url<256>>,
}
