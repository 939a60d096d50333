//! The common versions of 3DS server, directory server and ACS.

use crate::format::{Version, VersionNumber};

/// An inclusive range of versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionSpan {
    start: VersionNumber,
    end: VersionNumber,
}

impl VersionSpan {
    /// Returns `None` if the range ends before it starts.
    pub fn new(start: VersionNumber, end: VersionNumber) -> Option<Self> {
        (start <= end).then_some(Self { start, end })
    }

    pub fn earliest(self) -> VersionNumber {
        self.start
    }

    pub fn latest(self) -> VersionNumber {
        self.end
    }

    pub fn contains(self, version: Version) -> bool {
        (self.start..=self.end).contains(&version.number())
    }
}

/// The common versions and the recommended one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NegotiatedVersions {
    pub recommended: Version,
    pub available: Vec<Version>,
}

/// The versions that we, the directory server and the ACS support. `None` if there are none.
pub fn negotiate_versions(
    ours: &[Version],
    ds: VersionSpan,
    acs: VersionSpan,
) -> Option<NegotiatedVersions> {
    let is_common = |it: &&Version| ds.contains(**it) && acs.contains(**it);
    let mut available: Vec<_> = ours.iter().filter(is_common).copied().collect();
    available.sort_unstable();
    available.dedup();
    let recommended = *available.last()?;
    Some(NegotiatedVersions { recommended, available })
}
