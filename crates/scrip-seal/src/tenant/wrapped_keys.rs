//! The keys of a tenant as they are stored.

use crate::{KeySource, KeySourceError, OpenError, Place, Sealed, Secret};

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

/// One key until one of them is renewed.
pub(super) struct PermanentKeys {
    /// Fingerprints, search indexes and expressions. Clients store fingerprints.
    pub(super) permanent: Secret,
    /// Policy MACs, idempotency and guesses. A compromise of the vault key renews it.
    pub(super) renewable: Secret,
    /// Card numbers of 3DS sessions, which are inside of sealed bodies.
    pub(super) session: Secret,
    /// The next key of fingerprints, while rows still have digests of the old one.
    pub(super) next: Option<Secret>,
}

impl PermanentKeys {
    pub(super) fn open(
        source: &dyn KeySource,
        tenant: &str,
        wrapped: &WrappedTenantKeys,
    ) -> Result<Self, KeySourceError> {
        Self::parse(&source.unwrap(&permanent_place(tenant), &wrapped.permanent)?)
    }

    pub(super) fn parse(stored: &Secret) -> Result<Self, KeySourceError> {
        let copy = |it: &[u8; 32]| Secret::new(it.to_vec());
        let (permanent, renewable, session, next) = match stored.expose().as_chunks::<32>() {
            ([key], []) => (key, key, key, None),
            ([permanent, renewable], []) => (permanent, renewable, permanent, None),
            ([permanent, renewable, session], []) => (permanent, renewable, session, None),
            ([permanent, renewable, session, next], []) => {
                (permanent, renewable, session, Some(next))
            }
            (_, _) => return Err(OpenError::Malformed.into()),
        };
        Ok(Self {
            permanent: copy(permanent),
            renewable: copy(renewable),
            session: copy(session),
            next: next.map(copy),
        })
    }

    pub(super) fn to_secret(&self) -> Secret {
        let Self { permanent, renewable, session, next } = self;
        let next = next.as_ref().map_or([].as_slice(), Secret::expose);
        Secret::new([permanent.expose(), renewable.expose(), session.expose(), next].concat())
    }
}

pub(super) fn permanent_place(tenant: &str) -> Place {
    Place::new("tenant.permanent-key").text(tenant)
}
