//! Which versions three sides have in common.

use crate::format::{Version, VersionNumber};

/// From one version to another, both within.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionSpan {
    start: VersionNumber,
    end: VersionNumber,
}

impl VersionSpan {
    /// None if it ends before it starts.
    #[must_use]
    pub fn new(start: VersionNumber, end: VersionNumber) -> Option<Self> {
        (start <= end).then_some(Self { start, end })
    }

    #[must_use]
    pub fn earliest(self) -> VersionNumber {
        self.start
    }

    #[must_use]
    pub fn latest(self) -> VersionNumber {
        self.end
    }

    #[must_use]
    pub fn contains(self, version: Version) -> bool {
        (self.start..=self.end).contains(&version.number())
    }
}

/// What can be spoken, the best of it first named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NegotiatedVersions {
    pub recommended: Version,
    pub available: Vec<Version>,
}

/// The versions of ours that both the directory server and the ACS know; none if there are none.
#[must_use]
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
