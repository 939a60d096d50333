//! Which versions three sides have in common.

use crate::format::{Version, VersionNumber};

/// From one version to another, both within.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    start: VersionNumber,
    end: VersionNumber,
}

impl Span {
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
    pub fn holds(self, version: Version) -> bool {
        (self.start..=self.end).contains(&version.number())
    }
}

/// What can be spoken, the best of it first named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Negotiated {
    pub recommended: Version,
    pub available: Vec<Version>,
}

/// The versions of ours that both the directory server and the ACS know; none if there are none.
#[must_use]
pub fn negotiate(ours: &[Version], ds: Span, acs: Span) -> Option<Negotiated> {
    let common = |it: &&Version| ds.holds(**it) && acs.holds(**it);
    let mut available: Vec<_> = ours.iter().filter(common).copied().collect();
    available.sort_unstable();
    available.dedup();
    let recommended = *available.last()?;
    Some(Negotiated { recommended, available })
}
