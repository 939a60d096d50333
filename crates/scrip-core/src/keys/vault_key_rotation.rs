//! Rotation of the vault key: every stored key is wrapped by the new version, in one transaction.

use scrip_seal::{
    AuditKey, KeySourceError, Pepper, Sealed, TenantKeys, VaultKey, WebhookSigningKey,
};

use crate::{
    Error, Timestamp,
    policy::{PolicyAlteration, PolicyRecords, SignedRow},
    types::id::UnlockId,
    unlock::UnlockRecord,
};

/// All stored keys that the vault key wraps. Every use of `KeySource::wrap` for a stored key needs a
/// field here. The row of a tenant has a MAC over its wrapped keys, so the policies are signed again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedKeys {
    pub pepper: Sealed,
    pub audit_key: Sealed,
    /// `None` before the first webhook.
    pub webhook_signing_key: Option<Sealed>,
    pub policies: Vec<PolicyRecords>,
    /// All rows of the policies changed, not only the wrapped keys and their MACs.
    pub is_renewed: bool,
}

impl WrappedKeys {
    /// Wraps every key with the new vault key.
    /// Errors: a stored key or policy was altered. A rotation would lose the key, or sign the
    /// alteration.
    pub fn rewrap(self, old: &VaultKey, new: &VaultKey, now: Timestamp) -> Result<Self, Error> {
        let system_key =
            |it: Result<Sealed, KeySourceError>| it.map_err(|it| altered("vault", &it));
        let webhook_signing_key = self.webhook_signing_key.as_ref();
        let webhook_signing_key =
            webhook_signing_key.map(|it| system_key(WebhookSigningKey::rewrap(old, new, it)));
        let policies = self.policies.into_iter().map(|it| rewrap_policy(it, old, new));
        Ok(Self {
            pepper: system_key(Pepper::rewrap(old, new, &self.pepper))?,
            audit_key: system_key(AuditKey::rewrap(old, new, &self.audit_key, now.unix_ms))?,
            webhook_signing_key: webhook_signing_key.transpose()?,
            policies: policies.collect::<Result<_, _>>()?,
            is_renewed: false,
        })
    }

    /// The number of tenants, for the log.
    pub fn tenant_count(&self) -> usize {
        self.policies.len()
    }
}

fn rewrap_policy(
    mut policy: PolicyRecords,
    old: &VaultKey,
    new: &VaultKey,
) -> Result<PolicyRecords, Error> {
    let mut tenant = policy.tenant.record.clone();
    let id = tenant.id.to_string();
    let owner = format!("tenant {id}");
    let explain = |it: KeySourceError| altered(&owner, &it);
    let keys = open_policy(&policy, old)?;
    for (version, wrapped) in &mut tenant.keys.sealing {
        let rewrapped = TenantKeys::rewrap_sealing_key(old, new, &id, *version, wrapped);
        *wrapped = rewrapped.map_err(explain)?;
    }
    let permanent = TenantKeys::rewrap_permanent_key(old, new, &id, &tenant.keys.permanent);
    tenant.keys.permanent = permanent.map_err(explain)?;
    policy.tenant = SignedRow::new(&keys, tenant);
    policy.seal = policy.next_seal(&keys);
    Ok(policy)
}

/// Opens the keys of a tenant and checks that nothing in its policy was altered.
pub(super) fn open_policy(policy: &PolicyRecords, old: &VaultKey) -> Result<TenantKeys, Error> {
    let tenant = &policy.tenant.record;
    let owner = format!("tenant {}", tenant.id);
    let keys = TenantKeys::unwrap(old, &tenant.id.to_string(), &tenant.keys);
    let keys = keys.map_err(|it| altered(&owner, &it))?;
    match policy.find_alterations(&keys).first() {
        Some(PolicyAlteration { description, .. }) => Err(Error::Internal(
            format!("the policy of {owner} was altered: {description}; run: scrip doctor").into(),
        )),
        None => Ok(keys),
    }
}

pub(super) fn altered(owner: &str, error: &KeySourceError) -> Error {
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

/// A removal that is ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodRemoval {
    pub id: UnlockId,
    /// The stored form of the audit key, which remembers removed methods: before and after.
    pub audit_key_before: Sealed,
    pub audit_key_after: Sealed,
}

/// The result of removing an unlock method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnlockRemoval {
    Removed,
    /// There is no such method.
    Missing,
    /// Without this method, nothing would open the vault.
    LastMethod,
    /// The stored audit key has changed.
    Stale,
}
