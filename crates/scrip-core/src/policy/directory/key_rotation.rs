//! Rotation of the vault key: every stored key is wrapped by the new version, in one transaction.

use scrip_seal::{
    AuditKey, KeySourceError, Pepper, Sealed, TenantKeys, VaultKey, WebhookSigningKey,
};

use crate::{
    error::Error,
    id::{TenantId, UnlockId},
    policy::directory::unlock_record::UnlockRecord,
};

/// All stored keys that the vault key wraps. Every use of `KeySource::wrap` for a stored key
/// needs a field here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedKeys {
    pub pepper: Sealed,
    pub audit_key: Sealed,
    /// `None` before the first webhook.
    pub webhook_signing_key: Option<Sealed>,
    pub sealing_keys: Vec<WrappedSealingKey>,
    pub permanent_keys: Vec<WrappedPermanentKey>,
}

/// A version of a tenant's sealing key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedSealingKey {
    pub tenant: TenantId,
    pub version: u32,
    pub wrapped: Sealed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedPermanentKey {
    pub tenant: TenantId,
    pub wrapped: Sealed,
}

impl WrappedKeys {
    /// Wraps every key with the new vault key.
    ///
    /// # Errors
    /// A stored key was altered, so the old vault key does not open it. A rotation without it would
    /// lose it.
    pub fn rewrap(self, old: &VaultKey, new: &VaultKey) -> Result<Self, Error> {
        let webhook_signing_key = self.webhook_signing_key.map(|it| {
            WebhookSigningKey::rewrap(old, new, &it).map_err(|it| altered("webhooks", &it))
        });
        let rewrap_sealing_key = |it: WrappedSealingKey| {
            let tenant = it.tenant.to_string();
            let wrapped =
                TenantKeys::rewrap_sealing_key(old, new, &tenant, it.version, &it.wrapped);
            let wrapped = wrapped.map_err(|error| altered(&format!("tenant {tenant}"), &error))?;
            Ok(WrappedSealingKey { wrapped, ..it })
        };
        let rewrap_permanent_key = |it: WrappedPermanentKey| {
            let tenant = it.tenant.to_string();
            let wrapped = TenantKeys::rewrap_permanent_key(old, new, &tenant, &it.wrapped);
            let wrapped = wrapped.map_err(|error| altered(&format!("tenant {tenant}"), &error))?;
            Ok(WrappedPermanentKey { wrapped, ..it })
        };
        let system_key =
            |it: Result<Sealed, KeySourceError>| it.map_err(|it| altered("vault", &it));
        Ok(Self {
            pepper: system_key(Pepper::rewrap(old, new, &self.pepper))?,
            audit_key: system_key(AuditKey::rewrap(old, new, &self.audit_key))?,
            webhook_signing_key: webhook_signing_key.transpose()?,
            sealing_keys: self
                .sealing_keys
                .into_iter()
                .map(rewrap_sealing_key)
                .collect::<Result<_, Error>>()?,
            permanent_keys: self
                .permanent_keys
                .into_iter()
                .map(rewrap_permanent_key)
                .collect::<Result<_, Error>>()?,
        })
    }

    /// The number of keys, for the audit log.
    #[must_use]
    pub fn count(&self) -> usize {
        let lists = self.sealing_keys.len().saturating_add(self.permanent_keys.len());
        lists.saturating_add(2).saturating_add(usize::from(self.webhook_signing_key.is_some()))
    }
}

fn altered(owner: &str, error: &KeySourceError) -> Error {
    Error::Internal(
        format!("a stored key of {owner} cannot be unwrapped: {error}; run: scrip doctor").into(),
    )
}

/// Wraps the keys inside of the transaction that replaces them.
pub type RewrapKeys = Box<dyn FnOnce(WrappedKeys) -> Result<WrappedKeys, Error> + Send>;

/// A rotation that is ready to be written.
pub struct VaultKeyRotation {
    pub from: u32,
    pub to: u32,
    /// The methods that exist before the rotation. If another one was added or removed since, the
    /// rotation fails.
    pub replaced: Vec<UnlockId>,
    /// All methods after the rotation, with the new vault key.
    pub methods: Vec<UnlockRecord>,
    pub rewrap: RewrapKeys,
}

impl std::fmt::Debug for VaultKeyRotation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VaultKeyRotation(from {} to {})", self.from, self.to)
    }
}

/// The result of removing an unlock method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnlockRemoval {
    Removed,
    /// There is no such method.
    Missing,
    /// Without this method, nothing would open the vault.
    LastMethod,
}
