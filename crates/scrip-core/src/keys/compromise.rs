//! New keys after a compromise of the vault key: everything that the old key protected is replaced,
//! except the keys of fingerprints and search indexes.

use std::{collections::BTreeMap, fmt};

use scrip_seal::{
    AuditKey, KeySourceError, Pepper, Sealed, TenantKeys, VaultKey, WebhookSigningKey,
};

use crate::{
    Error, Timestamp,
    keys::{
        WrappedKeys,
        vault_key_rotation::{altered, open_policy},
    },
    policy::{
        ApiKeyRecord, ApiKeyText, DirectoryRecords, PolicyRecords, SignedRow, StoredRow,
        application::API_KEY,
        proxy::{ProxyKeyText, ProxyRecord, ProxySecrets, ProxySettings, record::PROXY},
    },
    types::id::{ApiKeyId, ApplicationId, ProxyId, TenantId},
};

/// The new keys of a compromised vault, prepared before the transaction: the operator must have the
/// texts of the new API keys before the old ones stop working.
pub struct KeyRenewal {
    pepper: Pepper,
    wrapped_pepper: Sealed,
    /// The stored audit key that [`KeyRenewal::audit_key`] replaces.
    audit_key_before: Sealed,
    wrapped_audit_key: Sealed,
    /// Opened with the new vault key, to sign unlock methods.
    pub audit_key: AuditKey,
    webhook_signing_key: Option<Sealed>,
    api_keys: BTreeMap<ApiKeyId, (IssuedKey, ApiKeyText)>,
    proxy_keys: BTreeMap<ProxyId, (IssuedKey, ProxyKeyText)>,
}

/// The owner of a new key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct IssuedKey {
    pub tenant: TenantId,
    pub owner: KeyOwner,
}

/// What a new key belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyOwner {
    Application { application: ApplicationId, key: ApiKeyId },
    Proxy(ProxyId),
}

impl fmt::Debug for KeyRenewal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyRenewal({} API keys)", self.api_keys.len())
    }
}

const CHANGED: Error = Error::Conflict {
    reason: "an application, an API key or a proxy was changed during the preparation; nothing was \
             rotated, try again",
};

impl KeyRenewal {
    /// Creates the new keys. Making a key pair for webhooks takes up to a second.
    /// Errors: the vault is empty, or its audit key cannot be unwrapped.
    pub fn prepare(
        records: &DirectoryRecords,
        has_webhook_key: bool,
        [old, new]: [&VaultKey; 2],
        fill_random: fn(&mut [u8]),
        now: Timestamp,
    ) -> Result<Self, Error> {
        let system_keys = records.system_keys.as_ref();
        let audit_key_before = system_keys
            .map(|it| it.audit_key.clone())
            .ok_or_else(|| Error::Internal("the vault is empty".into()))?;
        let explain = |it: KeySourceError| altered("vault", &it);
        let (pepper, wrapped_pepper) = Pepper::create(new).map_err(explain)?;
        let renewed = AuditKey::renew(old, new, &audit_key_before, now.unix_ms);
        let wrapped_audit_key = renewed.map_err(explain)?;
        let audit_key = AuditKey::unwrap(new, &wrapped_audit_key).map_err(explain)?;
        let webhook_signing_key = has_webhook_key.then(|| WebhookSigningKey::create(new));
        let webhook_signing_key = webhook_signing_key.transpose();
        let webhook_signing_key =
            webhook_signing_key.map_err(|it| Error::Internal(it.to_string().into()))?;
        let (mut api_keys, mut proxy_keys) = (BTreeMap::new(), BTreeMap::new());
        for policy in &records.tenants {
            let tenant = &policy.tenant.record;
            for ApiKeyRecord { id, application, .. } in policy.api_keys.iter().map(|it| &it.record)
            {
                let kind = policy.applications.iter().find(|it| it.record.id == *application);
                let segment = kind.map_or("pvt", |it| it.record.kind.key_segment());
                let text = ApiKeyText::new(tenant.kind, segment, fill_random);
                let owner = KeyOwner::Application { application: *application, key: *id };
                api_keys.insert(*id, (IssuedKey { tenant: tenant.id, owner }, text));
            }
            for ProxyRecord { id, .. } in policy.proxies.iter().map(|it| &it.record) {
                let issued = IssuedKey { tenant: tenant.id, owner: KeyOwner::Proxy(*id) };
                proxy_keys.insert(*id, (issued, ProxyKeyText::new(fill_random)));
            }
        }
        Ok(Self {
            pepper,
            wrapped_pepper,
            audit_key_before,
            wrapped_audit_key,
            audit_key,
            webhook_signing_key: webhook_signing_key.map(|(_, wrapped)| wrapped),
            api_keys,
            proxy_keys,
        })
    }

    /// The new keys with their texts, by tenant.
    pub fn issued_keys(&self) -> Vec<(IssuedKey, &str)> {
        let api_keys = self.api_keys.values().map(|(issued, text)| (*issued, text.expose()));
        let proxy_keys = self.proxy_keys.values().map(|(issued, text)| (*issued, text.expose()));
        let mut keys: Vec<_> = api_keys.chain(proxy_keys).collect();
        keys.sort_by_key(|(issued, _)| *issued);
        keys
    }

    /// Replaces the keys inside of the transaction that stores them.
    /// Errors: a stored key or policy was altered, or differs from the prepared one.
    pub fn apply(
        self,
        keys: WrappedKeys,
        old: &VaultKey,
        new: &VaultKey,
    ) -> Result<WrappedKeys, Error> {
        let is_prepared = keys.audit_key == self.audit_key_before
            && keys.webhook_signing_key.is_some() == self.webhook_signing_key.is_some();
        let api_keys = keys.policies.iter().map(|it| it.api_keys.len()).sum::<usize>();
        let proxies = keys.policies.iter().map(|it| it.proxies.len()).sum::<usize>();
        if !is_prepared || api_keys != self.api_keys.len() || proxies != self.proxy_keys.len() {
            return Err(CHANGED);
        }
        let policies = keys.policies.into_iter().map(|it| self.renew_policy(it, old, new));
        Ok(WrappedKeys {
            policies: policies.collect::<Result<_, _>>()?,
            pepper: self.wrapped_pepper,
            audit_key: self.wrapped_audit_key,
            webhook_signing_key: self.webhook_signing_key,
            is_renewed: true,
        })
    }

    /// Adds and promotes a new sealing key at once: a node that has not loaded it rejects the new API
    /// keys too. Then seals and signs all rows again.
    fn renew_policy(
        &self,
        policy: PolicyRecords,
        old: &VaultKey,
        new: &VaultKey,
    ) -> Result<PolicyRecords, Error> {
        let old_keys = open_policy(&policy, old)?;
        let mut tenant = policy.tenant.record.clone();
        let id = tenant.id.to_string();
        let explain = |it: KeySourceError| altered(&format!("tenant {id}"), &it);
        for (version, wrapped) in &mut tenant.keys.sealing {
            let rewrapped = TenantKeys::rewrap_sealing_key(old, new, &id, *version, wrapped);
            *wrapped = rewrapped.map_err(explain)?;
        }
        let (version, wrapped) = old_keys.create_version(new, &id).map_err(explain)?;
        tenant.keys.add_version(version, wrapped);
        tenant.keys.promote_newest();
        let renewed = TenantKeys::renew_permanent_key(old, new, &id, &tenant.keys.permanent);
        tenant.keys.permanent = renewed.map_err(explain)?;
        let keys = TenantKeys::unwrap(new, &id, &tenant.keys).map_err(explain)?;
        // The rows of these two entities also get the digest of a new key.
        let has_digest = |it: &&dyn StoredRow| [&API_KEY, &PROXY].contains(&it.entity());
        let other_rows = policy.rows().filter(|it| !has_digest(it));
        let mut rows =
            other_rows.map(|it| it.renew(&keys, version)).collect::<Result<Vec<_>, _>>()?;
        for row in &policy.api_keys {
            let (_, text) = self.api_keys.get(&row.record.id).ok_or(CHANGED)?;
            let digest = self.pepper.api_key_digest(text.expose());
            let renewed = ApiKeyRecord { digest, ..row.record.clone() };
            rows.push(SignedRow::new(&keys, renewed).into());
        }
        for row in &policy.proxies {
            rows.push(self.renew_proxy(&row.record, &old_keys, &keys)?.into());
        }
        let tenant = SignedRow::new(&keys, tenant);
        let mut renewed = PolicyRecords::from_rows(tenant, policy.seal, rows);
        renewed.seal = renewed.next_seal(&keys);
        Ok(renewed)
    }

    /// The digest of the key is part of the associated data.
    fn renew_proxy(
        &self,
        record: &ProxyRecord,
        old_keys: &TenantKeys,
        keys: &TenantKeys,
    ) -> Result<SignedRow<ProxyRecord>, Error> {
        let (_, key) = self.proxy_keys.get(&record.id).ok_or(CHANGED)?;
        let settings = ProxySettings::open(old_keys, record)?;
        let secrets = ProxySecrets { key: key.clone(), ..ProxySecrets::open(old_keys, record)? };
        let digest = self.pepper.proxy_key_digest(key.expose());
        let mut renewed = ProxyRecord { digest, ..record.clone() };
        renewed.settings = settings.seal(keys, &renewed)?;
        renewed.secrets = secrets.seal(keys, &renewed)?;
        Ok(SignedRow::new(keys, renewed))
    }
}
