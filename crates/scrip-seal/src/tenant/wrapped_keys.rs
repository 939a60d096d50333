//! The keys of a tenant as they are stored.

use crate::Sealed;

/// The stored form. Unwrapping it requires the key source that wrapped it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedTenantKeys {
    /// With their versions. All versions open.
    pub sealing: Vec<(u32, Sealed)>,
    /// The version that seals; `None` for the last one. During a rotation, a new version first only
    /// opens, until every node has loaded it.
    pub promoted: Option<u32>,
    /// Several keys. The one of fingerprints is created once and only rewrapped: rotating it changes
    /// every fingerprint that clients have stored. A compromise renews the second one.
    pub permanent: Sealed,
}

impl WrappedTenantKeys {
    /// The version that seals. A promoted version that does not exist is an alteration, which the
    /// MAC of the tenant's row shows; it must not make the keys unusable.
    pub fn current_version(&self) -> Option<u32> {
        let has_version = |version: &u32| self.sealing.iter().any(|(it, _)| it == version);
        self.promoted.filter(has_version).or_else(|| self.newest_version())
    }

    pub fn newest_version(&self) -> Option<u32> {
        self.sealing.iter().map(|(version, _)| *version).max()
    }

    /// Whether both have the same keys, whichever version seals.
    pub fn has_same_keys(&self, other: &Self) -> bool {
        self.sealing == other.sealing && self.permanent == other.permanent
    }

    /// Adds a sealing key of [`TenantKeys::create_version`](crate::TenantKeys::create_version). It only opens until
    /// [`WrappedTenantKeys::promote_newest`].
    pub fn add_version(&mut self, version: u32, wrapped: Sealed) {
        self.promoted = self.current_version();
        self.sealing.push((version, wrapped));
    }

    /// Makes the newest version the one that seals.
    pub fn promote_newest(&mut self) {
        self.promoted = self.newest_version();
    }

    /// Removes all versions except the one that seals.
    pub fn remove_old_versions(&mut self) {
        let current = self.current_version();
        self.sealing.retain(|(version, _)| Some(*version) == current);
    }
}
