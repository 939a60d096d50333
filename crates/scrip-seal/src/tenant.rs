//! A tenant's keys: one that rotates and seals, and one that lasts and recognises.

use crate::{
    ExpressionDigest, Fingerprint, IndexDigest, KeySource, KeySourceError, Mac, OpenError, Place,
    Sealed, Secret, digest::DigestKey, random::random_bytes, record::RecordKey,
};

/// What a sealed value is for. Each purpose has a key of its own under the tenant key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A token's body.
    Data,
    /// A remembered answer to a request with an idempotency key.
    Response,
    /// Where a list goes on.
    Cursor,
}

/// The stored form: useless without the key source that wrapped it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedTenantKeys {
    /// Versioned; the last one seals, all of them open.
    pub sealing: Vec<(u32, Sealed)>,
    /// Made once and only ever rewrapped: rotating it would change every fingerprint that a
    /// client stored.
    pub permanent: Sealed,
}

/// Unwrapped and derived once, when the tenant is loaded.
#[derive(Debug)]
pub struct TenantKeys {
    sealing: Vec<SealingKeys>,
    fingerprint: DigestKey,
    index: DigestKey,
    metadata: DigestKey,
    expressions: DigestKey,
    idempotency: DigestKey,
    request: DigestKey,
    guesses: DigestKey,
    policy: DigestKey,
    card_number: DigestKey,
}

#[derive(Debug)]
struct SealingKeys {
    data: RecordKey,
    response: RecordKey,
    cursor: RecordKey,
}

impl SealingKeys {
    fn derive(version: u32, key: &Secret) -> Self {
        Self {
            data: RecordKey::new(version, key, "data"),
            response: RecordKey::new(version, key, "idempotency"),
            cursor: RecordKey::new(version, key, "cursor"),
        }
    }

    fn key(&self, purpose: Purpose) -> &RecordKey {
        match purpose {
            Purpose::Data => &self.data,
            Purpose::Response => &self.response,
            Purpose::Cursor => &self.cursor,
        }
    }
}

const FIRST_VERSION: u32 = 1;

impl TenantKeys {
    /// Makes the wrapped keys of a new tenant.
    ///
    /// # Errors
    /// The key source did not answer.
    pub fn create(
        source: &dyn KeySource,
        tenant: &str,
    ) -> Result<WrappedTenantKeys, KeySourceError> {
        let new = || Secret::new(random_bytes::<32>().to_vec());
        let sealing = source.wrap(&sealing_place(tenant, FIRST_VERSION), &new())?;
        let lasting = source.wrap(&permanent_place(tenant), &new())?;
        Ok(WrappedTenantKeys { sealing: vec![(FIRST_VERSION, sealing)], permanent: lasting })
    }

    /// # Errors
    /// The key source did not answer, or these keys are not this tenant's.
    pub fn unwrap(
        source: &dyn KeySource,
        tenant: &str,
        wrapped: &WrappedTenantKeys,
    ) -> Result<Self, KeySourceError> {
        let lasting = source.unwrap(&permanent_place(tenant), &wrapped.permanent)?;
        let mut sealing = Vec::with_capacity(wrapped.sealing.len());
        for (version, key) in &wrapped.sealing {
            let key = source.unwrap(&sealing_place(tenant, *version), key)?;
            sealing.push(SealingKeys::derive(*version, &key));
        }
        sealing.sort_by_key(|it| it.data.version);
        if sealing.is_empty() {
            return Err(OpenError::KeyMissing.into());
        }
        Ok(Self {
            sealing,
            fingerprint: DigestKey::new(&lasting, "fingerprint"),
            index: DigestKey::new(&lasting, "index"),
            metadata: DigestKey::new(&lasting, "metadata-index"),
            expressions: DigestKey::new(&lasting, "expressions"),
            idempotency: DigestKey::new(&lasting, "idempotency-key"),
            request: DigestKey::new(&lasting, "idempotent-request"),
            guesses: DigestKey::new(&lasting, "guessing-budget"),
            policy: DigestKey::new(&lasting, "policy-mac"),
            card_number: DigestKey::new(&lasting, "session-card-number"),
        })
    }

    #[must_use]
    #[expect(clippy::expect_used, reason = "unwrap() refuses an empty list")]
    pub fn seal(&self, purpose: Purpose, place: &Place, plaintext: &Secret) -> Sealed {
        let current = self.sealing.last().expect("a tenant has a sealing key");
        current.key(purpose).seal(place, plaintext.expose())
    }

    /// # Errors
    /// The bytes are damaged, belong to another place, or their key is gone.
    pub fn open(
        &self,
        purpose: Purpose,
        place: &Place,
        sealed: &Sealed,
    ) -> Result<Secret, OpenError> {
        let version = sealed.key_version()?;
        let keys = self.sealing.iter().find(|it| it.data.version == version);
        keys.ok_or(OpenError::KeyMissing)?.key(purpose).open(place, sealed)
    }

    #[must_use]
    pub fn fingerprint(&self, token_type: &str, value: &[u8]) -> Fingerprint {
        Fingerprint(self.fingerprint.digest(&[token_type.as_bytes(), value]))
    }

    #[must_use]
    pub fn index_digest(&self, value: &[u8]) -> IndexDigest {
        IndexDigest::from_digest(&self.index.digest(&[value]))
    }

    /// The same for one entry of a token's metadata. Under a key of its own: no value of a token's
    /// data is found by asking for metadata, nor the other way round.
    #[must_use]
    pub fn metadata_index_digest(&self, name: &[u8], value: &[u8]) -> IndexDigest {
        IndexDigest::from_digest(&self.metadata.digest(&[name, value]))
    }

    /// Of the sources of a token's expressions.
    #[must_use]
    pub fn expression_digest(&self, sources: &[&[u8]]) -> ExpressionDigest {
        ExpressionDigest(IndexDigest::from_digest(&self.expressions.digest(sources)).0)
    }

    /// Under what an answer is remembered. Clients put anything into an idempotency key, so the
    /// store never sees it.
    #[must_use]
    pub fn idempotency_digest(&self, caller: &[u8], idempotency_key: &[u8]) -> [u8; 32] {
        self.idempotency.digest(&[caller, idempotency_key])
    }

    /// Recognizes a request that is sent again with the same idempotency key.
    #[must_use]
    pub fn request_digest(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.request.digest(parts)
    }

    /// Names a counter of the guessing budget, or a number that it has counted. Card numbers can be
    /// enumerated, so an unkeyed hash would reveal them.
    #[must_use]
    pub fn guess_digest(&self, parts: &[&[u8]]) -> IndexDigest {
        IndexDigest::from_digest(&self.guesses.digest(parts))
    }

    /// Tells whether a card still has the number for which a 3-D Secure session was created.
    #[must_use]
    pub fn card_number_digest(&self, number: &[u8]) -> [u8; 32] {
        self.card_number.digest(&[number])
    }

    /// The mac of a policy row: `place` names the row and holds every column.
    #[must_use]
    pub fn policy_mac(&self, place: &Place) -> Mac {
        Mac(self.policy.digest(&[place.as_bytes()]))
    }
}

fn sealing_place(tenant: &str, version: u32) -> Place {
    Place::new("tenant.sealing-key").text(tenant).number(i64::from(version))
}

fn permanent_place(tenant: &str) -> Place {
    Place::new("tenant.lasting-key").text(tenant)
}

#[cfg(test)]
mod tests;
