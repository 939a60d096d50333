//! Client encryption keys. Clients encrypt data for the public key; only the vault has the private
//! key.

use std::time::Duration;

use scrip_seal::{ClientKeyPair, Jwe, JweError, Place, Purpose, Sealed, Secret, TenantKeys};

use crate::{
    Error, Timestamp,
    policy::{ChangeStamp, PolicyRow, SignedRow},
    types::id::{ClientKeyId, TenantId},
};

/// The longest life of a key, and the life of a key without a requested expiry.
pub const CLIENT_KEY_LIFETIME_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Every change of a policy reads all rows of the tenant, so their number is limited.
pub const CLIENT_KEYS_MAX: usize = 100;

/// The stored row of a client encryption key: a signed row of the policy. It never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientKeyRecord {
    pub id: ClientKeyId,
    pub tenant: TenantId,
    pub expires_at: Timestamp,
    pub private_key: Sealed,
    pub created: ChangeStamp,
}

impl ClientKeyRecord {
    /// Seals the private key and signs the row.
    pub(crate) fn seal(
        mut self,
        keys: &TenantKeys,
        key_pair: &ClientKeyPair,
    ) -> SignedRow<ClientKeyRecord> {
        let place = self.sealed_place("client-key.private-key");
        self.private_key = keys.seal(Purpose::Data, &place, key_pair.private_key());
        SignedRow::new(keys, self)
    }

    /// Whether the key can be used at this time.
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        now < self.expires_at
    }

    /// The public key, in the form of the response that created the key.
    ///
    /// # Errors
    /// The row was altered.
    pub fn public_key_pem(&self, keys: &TenantKeys) -> Result<String, Error> {
        let internal = |error: scrip_seal::ClientKeyError| Error::Internal(error.into());
        self.open_key_pair(keys)?.public_key_pem().map_err(internal)
    }

    /// Decrypts with the private key, which is opened for each use and wiped afterwards.
    ///
    /// # Errors
    /// The row was altered: an internal error. The JWE was encrypted for another key: the inner
    /// error.
    pub(crate) fn decrypt(
        &self,
        keys: &TenantKeys,
        jwe: &Jwe,
    ) -> Result<Result<Secret, JweError>, Error> {
        Ok(self.open_key_pair(keys)?.open(jwe))
    }

    fn open_key_pair(&self, keys: &TenantKeys) -> Result<ClientKeyPair, Error> {
        let place = self.sealed_place("client-key.private-key");
        let private_key = keys.open(Purpose::Data, &place, &self.private_key)?;
        ClientKeyPair::from_private_key(private_key).map_err(|error| Error::Internal(error.into()))
    }

    /// Seals the private key again with this version of the sealing key, and signs the row. `None`
    /// if this version sealed it.
    pub(crate) fn reseal(
        &self,
        keys: &TenantKeys,
        version: u32,
    ) -> Result<Option<SignedRow<Self>>, Error> {
        let place = self.sealed_place("client-key.private-key");
        let resealed = keys.reseal(version, Purpose::Data, &place, &self.private_key)?;
        Ok(resealed.map(|private_key| SignedRow::new(keys, Self { private_key, ..self.clone() })))
    }

    /// The associated data of the private key: every clear column.
    fn sealed_place(&self, kind: &'static str) -> Place {
        let place = Place::new(kind)
            .bytes(self.id.0.as_bytes())
            .bytes(self.tenant.0.as_bytes())
            .number(self.expires_at.unix_ms);
        ChangeStamp::add_to_place(place, &[Some(self.created)])
    }
}

impl PolicyRow for ClientKeyRecord {
    fn place(&self) -> Place {
        self.sealed_place("policy.client-key").bytes(self.private_key.as_bytes())
    }
}
