//! The support of a scheme for a card.

use scrip_threeds::{
    code::{AcsInformation, Scheme},
    format::{Url, Version, VersionNumber},
};
use serde::{Deserialize, Serialize};

/// A scheme that can authenticate a card, and its protocol versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemeSupport {
    pub scheme: Scheme,
    pub recommended: Version,
    pub available: Vec<Version>,
    /// The earliest and the latest version.
    pub acs: (VersionNumber, VersionNumber),
    pub ds: (VersionNumber, VersionNumber),
    pub acs_information: Vec<AcsInformation>,
    pub method_url: Option<Url<256>>,
}
