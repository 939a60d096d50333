//! The keys of a tenant: sealing keys, which rotate, and a permanent key for digests.

mod wrapped_keys;

pub use self::wrapped_keys::WrappedTenantKeys;
use crate::{
    ExpressionDigest, Fingerprint, IndexDigest, KeySource, KeySourceError, Mac, OpenError, Place,
    Sealed, Secret,
    digest::DigestKey,
    random::random_bytes,
    record::RecordKey,
    root::vault_key::rewrap,
    tenant::wrapped_keys::{PermanentKeys, permanent_place},
};

/// The use of a sealed value. Each purpose has its own key, derived from the tenant key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A token's body.
    Data,
    /// The stored response to a request with an idempotency key.
    Response,
    /// The position at which a list continues.
    Cursor,
}

/// The keys of a loaded tenant, unwrapped and derived once.
#[derive(Debug)]
pub struct TenantKeys {
    sealing: Vec<SealingKeys>,
    /// The index of the version that seals.
    current: usize,
    fingerprint: DigestKey,
    index: DigestKey,
    metadata: DigestKey,
    expressions: DigestKey,
    idempotency: DigestKey,
    request: DigestKey,
    guesses: DigestKey,
    policy: DigestKey,
    card_number: DigestKey,
    is_renewing_fingerprints: bool,
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
    /// Creates the wrapped keys of a new tenant.
    pub fn create(
        source: &dyn KeySource,
        tenant: &str,
    ) -> Result<WrappedTenantKeys, KeySourceError> {
        let new = || Secret::new(random_bytes::<32>().to_vec());
        let sealing = source.wrap(&sealing_place(tenant, FIRST_VERSION), &new())?;
        let permanent = source.wrap(&permanent_place(tenant), &new())?;
        Ok(WrappedTenantKeys { sealing: vec![(FIRST_VERSION, sealing)], promoted: None, permanent })
    }

    /// Errors: the key source is unavailable, or the keys belong to another tenant.
    pub fn unwrap(
        source: &dyn KeySource,
        tenant: &str,
        wrapped: &WrappedTenantKeys,
    ) -> Result<Self, KeySourceError> {
        Self::derive(source, tenant, wrapped, &PermanentKeys::open(source, tenant, wrapped)?)
    }

    fn derive(
        source: &dyn KeySource,
        tenant: &str,
        wrapped: &WrappedTenantKeys,
        keys: &PermanentKeys,
    ) -> Result<Self, KeySourceError> {
        let PermanentKeys { permanent, renewable, session, next } = keys;
        let mut sealing = Vec::with_capacity(wrapped.sealing.len());
        for (version, key) in &wrapped.sealing {
            let key = source.unwrap(&sealing_place(tenant, *version), key)?;
            sealing.push(SealingKeys::derive(*version, &key));
        }
        sealing.sort_by_key(|it| it.data.version);
        if sealing.is_empty() {
            return Err(OpenError::KeyMissing.into());
        }
        let current_version = wrapped.current_version();
        let current = sealing.iter().position(|it| Some(it.data.version) == current_version);
        let current = current.ok_or(OpenError::KeyMissing)?;
        Ok(Self {
            sealing,
            current,
            fingerprint: DigestKey::new(permanent, "fingerprint"),
            index: DigestKey::new(permanent, "index"),
            metadata: DigestKey::new(permanent, "metadata-index"),
            expressions: DigestKey::new(permanent, "expressions"),
            idempotency: DigestKey::new(renewable, "idempotency-key"),
            request: DigestKey::new(renewable, "idempotent-request"),
            guesses: DigestKey::new(renewable, "guessing-budget"),
            policy: DigestKey::new(renewable, "policy-mac"),
            card_number: DigestKey::new(session, "session-card-number"),
            is_renewing_fingerprints: next.is_some(),
        })
    }

    /// Wraps a stored sealing key of a tenant with another source.
    /// Errors: a key source is unavailable, or the key belongs to another tenant or version.
    pub fn rewrap_sealing_key(
        old: &dyn KeySource,
        new: &dyn KeySource,
        tenant: &str,
        version: u32,
        wrapped: &Sealed,
    ) -> Result<Sealed, KeySourceError> {
        rewrap(old, new, &sealing_place(tenant, version), wrapped)
    }

    /// Wraps the stored permanent key of a tenant with another source.
    /// Errors: a key source is unavailable, or the key belongs to another tenant.
    pub fn rewrap_permanent_key(
        old: &dyn KeySource,
        new: &dyn KeySource,
        tenant: &str,
        wrapped: &Sealed,
    ) -> Result<Sealed, KeySourceError> {
        rewrap(old, new, &permanent_place(tenant), wrapped)
    }

    /// As [`TenantKeys::rewrap_permanent_key`], with a new key for MACs, idempotency and guesses. The
    /// keys of fingerprints and search indexes stay.
    ///
    /// Errors: a key source is unavailable, or the key belongs to another tenant.
    pub fn renew_permanent_key(
        old: &dyn KeySource,
        new: &dyn KeySource,
        tenant: &str,
        wrapped: &Sealed,
    ) -> Result<Sealed, KeySourceError> {
        change_permanent_key([old, new], tenant, wrapped, |it| it.renewable = random_key())
    }

    /// Adds new keys of fingerprints and search indexes. [`TenantKeys::unwrap_renewed`] uses them;
    /// all other keys stay.
    ///
    /// Errors: the key source is unavailable, or the key belongs to another tenant.
    pub fn begin_fingerprint_renewal(
        source: &dyn KeySource,
        tenant: &str,
        wrapped: &Sealed,
    ) -> Result<Sealed, KeySourceError> {
        change_permanent_key([source, source], tenant, wrapped, |it| {
            it.next.get_or_insert_with(random_key);
        })
    }

    /// Removes the old keys of fingerprints and search indexes.
    /// Errors: the key source is unavailable, or the key belongs to another tenant.
    pub fn finish_fingerprint_renewal(
        source: &dyn KeySource,
        tenant: &str,
        wrapped: &Sealed,
    ) -> Result<Sealed, KeySourceError> {
        change_permanent_key([source, source], tenant, wrapped, |it| {
            if let Some(next) = it.next.take() {
                it.permanent = next;
            }
        })
    }

    /// As [`TenantKeys::unwrap`], with the new keys of fingerprints and search indexes, if there are
    /// any.
    /// Errors: the key source is unavailable, or the keys belong to another tenant.
    pub fn unwrap_renewed(
        source: &dyn KeySource,
        tenant: &str,
        wrapped: &WrappedTenantKeys,
    ) -> Result<Self, KeySourceError> {
        let mut keys = PermanentKeys::open(source, tenant, wrapped)?;
        keys.permanent = keys.next.take().unwrap_or(keys.permanent);
        Self::derive(source, tenant, wrapped, &keys)
    }

    /// Whether a renewal of the fingerprint keys was begun and is not finished.
    pub fn is_renewing_fingerprints(&self) -> bool {
        self.is_renewing_fingerprints
    }

    #[expect(clippy::expect_used, reason = "unwrap() rejects an empty list")]
    pub fn seal(&self, purpose: Purpose, place: &Place, plaintext: &Secret) -> Sealed {
        let current = self.sealing.get(self.current).expect("a tenant has a sealing key");
        current.key(purpose).seal(place, plaintext.expose())
    }

    /// Seals a value again with this version, at the same place. `None` if this version sealed it.
    /// Errors: as for [`TenantKeys::open`].
    pub fn reseal(
        &self,
        version: u32,
        purpose: Purpose,
        place: &Place,
        sealed: &Sealed,
    ) -> Result<Option<Sealed>, OpenError> {
        // Opened in any case: a changed version number must not hide a value of an old key, which
        // would then be destroyed.
        let plaintext = self.open(purpose, place, sealed)?;
        if sealed.key_version()? == version {
            return Ok(None);
        }
        let keys = self.find_version(version)?;
        Ok(Some(keys.key(purpose).seal(place, plaintext.expose())))
    }

    /// Creates the wrapped key of the next version.
    pub fn create_version(
        &self,
        source: &dyn KeySource,
        tenant: &str,
    ) -> Result<(u32, Sealed), KeySourceError> {
        let version = self.newest_version().saturating_add(1);
        let key = Secret::new(random_bytes::<32>().to_vec());
        Ok((version, source.wrap(&sealing_place(tenant, version), &key)?))
    }

    /// The version that seals.
    pub fn current_version(&self) -> u32 {
        self.sealing.get(self.current).map_or(0, |it| it.data.version)
    }

    pub fn newest_version(&self) -> u32 {
        self.sealing.last().map_or(0, |it| it.data.version)
    }

    /// The versions that open, the oldest first.
    pub fn versions(&self) -> Vec<u32> {
        self.sealing.iter().map(|it| it.data.version).collect()
    }

    /// Errors: the bytes are damaged, belong to another place, or their key is missing.
    pub fn open(
        &self,
        purpose: Purpose,
        place: &Place,
        sealed: &Sealed,
    ) -> Result<Secret, OpenError> {
        self.find_version(sealed.key_version()?)?.key(purpose).open(place, sealed)
    }

    /// A node may meet the next version before it has loaded its key.
    fn find_version(&self, version: u32) -> Result<&SealingKeys, OpenError> {
        let is_next = version.checked_sub(1) == Some(self.newest_version());
        let error = if is_next { OpenError::KeyNotLoaded } else { OpenError::KeyMissing };
        self.sealing.iter().find(|it| it.data.version == version).ok_or(error)
    }

    pub fn fingerprint(&self, token_type: &str, value: &[u8]) -> Fingerprint {
        Fingerprint(self.fingerprint.digest(&[token_type.as_bytes(), value]))
    }

    pub fn index_digest(&self, value: &[u8]) -> IndexDigest {
        IndexDigest::from_digest(&self.index.digest(&[value]))
    }

    /// The index digest of one metadata entry. It uses a separate key: a metadata search never
    /// matches values of token data, and the reverse.
    pub fn metadata_index_digest(&self, name: &[u8], value: &[u8]) -> IndexDigest {
        IndexDigest::from_digest(&self.metadata.digest(&[name, value]))
    }

    /// A digest of the sources of a token's expressions.
    pub fn expression_digest(&self, sources: &[&[u8]]) -> ExpressionDigest {
        ExpressionDigest(IndexDigest::from_digest(&self.expressions.digest(sources)).0)
    }

    /// The key of an idempotency record. Clients may put any data into an idempotency key, so the
    /// store never receives the key itself.
    pub fn idempotency_digest(&self, caller: &[u8], idempotency_key: &[u8]) -> [u8; 32] {
        self.idempotency.digest(&[caller, idempotency_key])
    }

    /// Recognizes a request that is repeated with the same idempotency key.
    pub fn request_digest(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.request.digest(parts)
    }

    /// Names a counter of the guessing budget, or a card number that was counted. Card numbers can
    /// be enumerated, so an unkeyed hash would reveal them.
    pub fn guess_digest(&self, parts: &[&[u8]]) -> IndexDigest {
        IndexDigest::from_digest(&self.guesses.digest(parts))
    }

    /// Shows whether a card still has the number for which a 3DS session was created.
    pub fn card_number_digest(&self, number: &[u8]) -> [u8; 32] {
        self.card_number.digest(&[number])
    }

    /// The MAC of a policy row. `place` names the row and contains every column.
    pub fn policy_mac(&self, place: &Place) -> Mac {
        Mac(self.policy.digest(&[place.as_bytes()]))
    }
}

fn random_key() -> Secret {
    Secret::new(random_bytes::<32>().to_vec())
}

/// Changes the stored permanent key of a tenant and wraps it with the second source.
fn change_permanent_key(
    [old, new]: [&dyn KeySource; 2],
    tenant: &str,
    wrapped: &Sealed,
    change: impl FnOnce(&mut PermanentKeys),
) -> Result<Sealed, KeySourceError> {
    let place = permanent_place(tenant);
    let mut keys = PermanentKeys::parse(&old.unwrap(&place, wrapped)?)?;
    change(&mut keys);
    new.wrap(&place, &keys.to_secret())
}

fn sealing_place(tenant: &str, version: u32) -> Place {
    Place::new("tenant.sealing-key").text(tenant).number(i64::from(version))
}

#[cfg(test)]
mod tests;
