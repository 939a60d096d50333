//! The keys inside of a tenant's permanent key.

use crate::{
    KeySource, KeySourceError, OpenError, Place, Secret, tenant::wrapped_keys::WrappedTenantKeys,
};

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
