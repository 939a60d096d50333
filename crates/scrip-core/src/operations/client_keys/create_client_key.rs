//! Create Client Key: a new key pair.

use scrip_seal::{ClientKeyPair, Sealed};

use crate::{
    Error, FieldError, Timestamp, Vault,
    idempotency::ResponseRecorder,
    policy::{
        CLIENT_KEY_LIFETIME_MAX, CLIENT_KEYS_MAX, ClientKeyRecord, PolicyPermit, PolicyRecords,
        PolicyWrite,
    },
    policy_change::{PolicyDecision, change_policy},
    types::{
        Operation,
        id::{ClientKeyId, random_uuid},
    },
};

/// A new key. Only this response has the public key.
#[derive(Debug, Clone)]
pub struct CreatedClientKey {
    pub id: ClientKeyId,
    pub expires_at: Timestamp,
    pub public_key_pem: String,
}

/// Without `expires_at`, the key has the longest life.
/// Errors: the expiry is in the past or more than a year away, or the tenant has too many keys.
pub async fn create_client_key(
    vault: &Vault,
    permit: PolicyPermit,
    expires_at: Option<Timestamp>,
    recorder: Option<ResponseRecorder<CreatedClientKey>>,
) -> Result<CreatedClientKey, Error> {
    let now = vault.clock.now();
    let expires_at = resolve_expiry(expires_at, now)?;
    let key_pair = ClientKeyPair::create();
    let public_key_pem =
        key_pair.public_key_pem().map_err(|error| Error::Internal(error.into()))?;
    let record = ClientKeyRecord {
        id: ClientKeyId(random_uuid(vault.fill_random)),
        tenant: permit.tenant().id,
        expires_at,
        private_key: Sealed::from_stored(Vec::new()),
        created: permit.change_stamp(now),
    };
    let created = CreatedClientKey { id: record.id, expires_at, public_key_pem };
    let signed_row = record.seal(&permit.tenant().keys, &key_pair);
    change_policy(vault, permit, Operation::CreateClientKey, now, recorder, move |records| {
        check_limit(records)?;
        let entity = created.id.to_string();
        let writes = vec![PolicyWrite::put(signed_row.clone())];
        Ok(PolicyDecision { writes, entity, outcome: created.clone() })
    })
    .await
}

fn resolve_expiry(requested: Option<Timestamp>, now: Timestamp) -> Result<Timestamp, Error> {
    let latest = now.plus(CLIENT_KEY_LIFETIME_MAX);
    let expires_at = requested.unwrap_or(latest);
    if expires_at <= now {
        return Err(FieldError::new("expires_at", "must be in the future").into());
    }
    if expires_at > latest {
        return Err(
            FieldError::new("expires_at", "must be at most one year (365 days) away").into()
        );
    }
    Ok(expires_at)
}

/// Checks the limit in the rows on which the change is decided, so that concurrent requests cannot exceed it.
fn check_limit(records: &PolicyRecords) -> Result<(), Error> {
    if records.client_keys.len() < CLIENT_KEYS_MAX {
        return Ok(());
    }
    let reason = "a tenant can have at most 100 client encryption keys; delete one";
    Err(Error::Unprocessable { reason })
}
