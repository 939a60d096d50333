//! Client encryption keys. Clients encrypt data for the public key; only the vault has the private
//! key.

use std::time::Duration;

use scrip_seal::{ClientKeyPair, Jwe, JweError, Sealed, Secret, TenantKeys};

use crate::{
    Error, Timestamp,
    policy::{
        ChangeStamp, SignedRow,
        entity::{
            Column, Entity, EntityRecord, EntityWrites, InvalidRow, RestoreEffect, RestoreWarning,
            RowReader, RowWriter,
        },
    },
    types::id::{ClientKeyId, TenantId},
};

/// The longest life of a key, and the life of a key without a requested expiry.
pub const CLIENT_KEY_LIFETIME_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Every change of a policy reads all rows of the tenant, so their number is limited.
pub const CLIENT_KEYS_MAX: usize = 100;

pub const CLIENT_KEY: Entity = Entity {
    table: "client_keys",
    name: "client_key",
    kind: "client encryption key",
    mac_kind: "policy.client-key",
    columns: &[
        Column::id("tenant").key(),
        Column::id("id").key(),
        Column::number("expires_at"),
        Column::sealed("private_key", PRIVATE_KEY),
        Column::id("created_by").optional(),
        Column::number("created_at"),
        Column::mac("mac"),
    ],
    writes: EntityWrites::Insert,
    restore_warning: Some(RestoreWarning {
        changes: &[RestoreEffect::ComesBack],
        text: "client encryption keys that come back can decrypt again what was encrypted for them, \
               also those that were deleted on purpose",
    }),
};

const PRIVATE_KEY: &str = "client-key.private-key";

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
        self.private_key = self.seal_column(keys, PRIVATE_KEY, key_pair.private_key());
        SignedRow::new(keys, self)
    }

    /// Whether the key can be used at this time.
    pub fn is_live(&self, now: Timestamp) -> bool {
        now < self.expires_at
    }

    /// The public key, in the form of the response that created the key.
    /// Errors: the row was altered.
    pub fn public_key_pem(&self, keys: &TenantKeys) -> Result<String, Error> {
        let internal = |error: scrip_seal::ClientKeyError| Error::Internal(error.into());
        self.open_key_pair(keys)?.public_key_pem().map_err(internal)
    }

    /// Decrypts with the private key, which is opened for each use and wiped afterwards.
    /// Errors: the row was altered: an internal error. The JWE was encrypted for another key: the
    /// inner error.
    pub(crate) fn decrypt(
        &self,
        keys: &TenantKeys,
        jwe: &Jwe,
    ) -> Result<Result<Secret, JweError>, Error> {
        Ok(self.open_key_pair(keys)?.open(jwe))
    }

    fn open_key_pair(&self, keys: &TenantKeys) -> Result<ClientKeyPair, Error> {
        let private_key = self.open_column(keys, PRIVATE_KEY, &self.private_key)?;
        ClientKeyPair::from_private_key(private_key).map_err(|error| Error::Internal(error.into()))
    }
}

impl EntityRecord for ClientKeyRecord {
    const ENTITY: &'static Entity = &CLIENT_KEY;

    fn write<'a>(&'a self, row: &mut RowWriter<'a>) {
        row.put("tenant", self.tenant.0);
        row.put("id", self.id.0);
        row.put("expires_at", self.expires_at);
        row.put("private_key", self.private_key.as_bytes());
        row.put_created(self.created);
    }

    fn read(row: &RowReader<'_>) -> Result<Self, InvalidRow> {
        Ok(Self {
            id: ClientKeyId(row.id("id")?),
            tenant: row.tenant()?,
            expires_at: row.time("expires_at")?,
            private_key: row.sealed("private_key")?,
            created: row.created()?,
        })
    }

    fn description(&self) -> String {
        format!("expires {}", self.expires_at)
    }
}
