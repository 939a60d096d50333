//! The directory: all API keys, applications, proxies and tenants, in memory.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use scrip_seal::{AuditKey, KeySource, Pepper, Sealed, TenantKeys, WrappedTenantKeys};

use crate::{
    Error,
    policy::{
        PolicyAlteration, PolicyRecords, PolicySeal, Principal, Proxy, ProxyLookup, Tenant,
        destination::HostName, proxy::ProxyRecord,
    },
    types::id::{ApiKeyId, ApplicationId, ProxyId, TenantId},
    unlock::VaultUnlocks,
};

/// The loaded policies of all tenants, and the lookup of API keys and proxies.
#[derive(Debug)]
pub struct Directory {
    version: i64,
    /// The wrapped form. If it is unchanged, the keys need not be unwrapped again.
    wrapped: SystemKeys,
    pepper: Arc<Pepper>,
    audit_key: Arc<AuditKey>,
    by_digest: HashMap<[u8; 32], ApiKeyLookup>,
    proxies_by_digest: HashMap<[u8; 32], ProxyLookup>,
    proxies_by_host: HashMap<HostName, ProxyLookup>,
    tenants: HashMap<TenantId, LoadedTenant>,
    principals: HashMap<ApplicationId, Arc<Principal>>,
    /// The newest valid seal of every tenant ever loaded, also while its rows are altered or
    /// missing. An older seal in the store is a rollback.
    seals: HashMap<TenantId, PolicySeal>,
    /// Tenants that this process loaded earlier and that are no longer in the store. While this
    /// process runs, a tenant with such an id is not accepted again.
    deleted: HashSet<TenantId>,
    alterations: Vec<PolicyAlteration>,
    /// Deleted tenants with keys that are not destroyed yet. Their API keys are unknown.
    pending_deletion: Vec<Arc<Tenant>>,
}

/// A tenant with its wrapped keys, which show whether they must be unwrapped again.
#[derive(Debug)]
struct LoadedTenant {
    wrapped: WrappedTenantKeys,
    /// `None` when the policy was altered or the tenant was deleted.
    tenant: Option<Arc<Tenant>>,
}

/// The parts of a proxy that find it.
struct ProxyNames {
    id: ProxyId,
    digest: [u8; 32],
    host: Option<HostName>,
}

impl ProxyNames {
    fn new(record: &ProxyRecord) -> Self {
        Self { id: record.id, digest: record.digest, host: record.host.clone() }
    }
}

/// The result of an API key lookup.
#[derive(Debug, Clone)]
pub enum ApiKeyLookup {
    Found {
        principal: Arc<Principal>,
        api_key: ApiKeyId,
    },
    /// The policy of the key's tenant was altered outside of the vault. Until an operator repairs
    /// it, no key of this tenant is accepted.
    PolicyAltered,
}

impl Directory {
    /// Unwraps the loaded directory. A wrong root key fails here, before the first request. Keys
    /// that have not changed since `previous` are not unwrapped again.
    ///
    /// Errors: the key source is unavailable, or the keys belong to another vault.
    pub fn open(
        records: DirectoryRecords,
        source: &dyn KeySource,
        previous: Option<&Self>,
    ) -> Result<Self, Error> {
        let missing_keys = records.missing_keys_text();
        let wrapped = records.system_keys.ok_or_else(|| Error::Internal(missing_keys.into()))?;
        let (pepper, audit_key) = match previous.filter(|it| it.wrapped == wrapped) {
            Some(previous) => (Arc::clone(&previous.pepper), Arc::clone(&previous.audit_key)),
            None => {
                let audit_key = AuditKey::unwrap(source, &wrapped.audit_key)?;
                // Records of requests that still use the previous directory need the new key too.
                let audit_key = match previous {
                    Some(previous) => {
                        if !audit_key.continues(&previous.audit_key) {
                            return Err(Error::Internal(REPLACED_KEYS.into()));
                        }
                        previous.audit_key.replace_with(&audit_key);
                        Arc::clone(&previous.audit_key)
                    }
                    None => Arc::new(audit_key),
                };
                (Arc::new(Pepper::unwrap(source, &wrapped.pepper)?), audit_key)
            }
        };
        let mut directory = Self {
            version: records.version,
            wrapped,
            pepper,
            audit_key,
            by_digest: HashMap::new(),
            proxies_by_digest: HashMap::new(),
            proxies_by_host: HashMap::new(),
            tenants: HashMap::new(),
            principals: HashMap::new(),
            seals: previous.map(|it| it.seals.clone()).unwrap_or_default(),
            deleted: previous.map(|it| it.deleted.clone()).unwrap_or_default(),
            alterations: records.unreadable,
            pending_deletion: Vec::new(),
        };
        let unreadable: HashSet<_> =
            directory.alterations.iter().filter_map(|it| it.tenant).collect();
        for records in records.tenants {
            let id = records.tenant.record.id;
            directory.add_tenant(records, source, previous, unreadable.contains(&id));
        }
        // A tenant with an unreadable row is altered, not missing.
        let previous_ids = previous.iter().flat_map(|it| it.tenants.keys());
        let missing = previous_ids
            .filter(|it| !directory.tenants.contains_key(it) && !unreadable.contains(it))
            .copied();
        directory.deleted.extend(missing.collect::<Vec<_>>());
        directory.alterations.sort();
        Ok(directory)
    }

    /// Checks the rows of a tenant, and adds its API keys.
    fn add_tenant(
        &mut self,
        records: PolicyRecords,
        source: &dyn KeySource,
        previous: Option<&Self>,
        is_unreadable: bool,
    ) {
        let id = records.tenant.record.id;
        let loaded = previous.and_then(|it| it.tenants.get(&id));
        let (wrapped, seal) = (records.tenant.record.keys.clone(), records.seal);
        let digests: Vec<_> = records
            .api_keys
            .iter()
            .map(|it| (it.record.digest, it.record.application, it.record.id))
            .collect();
        let proxy_names: Vec<_> =
            records.proxies.iter().map(|it| ProxyNames::new(&it.record)).collect();
        let keys = match loaded.and_then(|it| Some((&it.wrapped, it.tenant.as_ref()?))) {
            Some((loaded_wrapped, tenant)) if *loaded_wrapped == wrapped => {
                Some(Arc::clone(&tenant.keys))
            }
            _ => TenantKeys::unwrap(source, &id.to_string(), &wrapped).ok().map(Arc::new),
        };
        let mut report = |description: &str| {
            self.alterations
                .push(PolicyAlteration { tenant: Some(id), description: description.to_owned() });
        };
        if keys.is_none() {
            report("the wrapped keys of the tenant cannot be unwrapped");
        }
        let is_current = self.seals.get(&id).is_none_or(|loaded| seal.is_same_or_newer(loaded));
        if !is_current {
            report("the policy was replaced by an older version");
        }
        let was_deleted = self.deleted.contains(&id);
        if was_deleted {
            report(
                "the tenant was deleted and its rows are back; if you restored it, restart the \
                 server",
            );
        }
        let row_alterations =
            keys.as_ref().map(|it| records.find_alterations(it)).unwrap_or_default();
        let is_valid = !is_unreadable && !was_deleted && row_alterations.is_empty() && is_current;
        self.alterations.extend(row_alterations);
        let audit_key = Arc::clone(&self.audit_key);
        let tenant = keys.filter(|_| is_valid);
        let tenant = tenant.map(|keys| Arc::new(Tenant::new(keys, audit_key, records)));
        if let Some(deleted) = tenant.as_ref().filter(|it| it.deletes_at.is_some()) {
            self.seals.insert(id, seal);
            self.pending_deletion.push(Arc::clone(deleted));
            self.tenants.insert(id, LoadedTenant { wrapped, tenant: None });
            return;
        }
        if let Some(tenant) = &tenant {
            self.seals.insert(id, seal);
            self.principals.extend(tenant.applications.values().map(|it| {
                let (id, kind, access) = (it.record.id, it.record.kind, it.record.access.clone());
                let principal = Principal::new(Arc::clone(tenant), id, kind, access);
                (id, Arc::new(principal.with_origins(it.record.origins.clone())))
            }));
        }
        for (digest, application, api_key) in digests {
            let principal = self.principals.get(&application).filter(|it| it.tenant().id == id);
            let lookup = match (&tenant, principal) {
                (Some(_), Some(principal)) => {
                    ApiKeyLookup::Found { principal: Arc::clone(principal), api_key }
                }
                (_, _) => ApiKeyLookup::PolicyAltered,
            };
            self.by_digest.insert(digest, lookup);
        }
        self.add_proxies(tenant.as_ref(), proxy_names, previous);
        self.tenants.insert(id, LoadedTenant { wrapped, tenant });
    }

    /// Adds the lookups of a tenant's proxies. A row of an altered policy never replaces a valid
    /// one.
    fn add_proxies(
        &mut self,
        tenant: Option<&Arc<Tenant>>,
        names: Vec<ProxyNames>,
        previous: Option<&Self>,
    ) {
        for ProxyNames { id, digest, host } in names {
            let record = tenant.and_then(|it| Some((it, it.proxies.get(&id)?)));
            let Some((tenant, record)) = record else {
                self.proxies_by_digest.entry(digest).or_insert(ProxyLookup::PolicyAltered);
                if let Some(host) = host {
                    self.proxies_by_host.entry(host).or_insert(ProxyLookup::PolicyAltered);
                }
                continue;
            };
            let previous = match previous.and_then(|it| it.proxies_by_digest.get(&digest)) {
                Some(ProxyLookup::Found(proxy)) => Some(proxy.as_ref()),
                Some(ProxyLookup::PolicyAltered) | None => None,
            };
            let proxy = Arc::new(Proxy::new(Arc::clone(tenant), Arc::clone(record), previous));
            self.proxies_by_digest.insert(digest, ProxyLookup::Found(Arc::clone(&proxy)));
            if let Some(host) = host {
                self.proxies_by_host.insert(host, ProxyLookup::Found(proxy));
            }
        }
    }

    /// Finds the principal of an API key. The map key is a keyed digest, so the lookup time reveals
    /// nothing about the API key.
    pub fn authenticate(&self, api_key: &str) -> Option<&ApiKeyLookup> {
        self.find_by_digest(&self.digest(api_key))
    }

    /// As [`Directory::authenticate`], for a digest.
    pub fn find_by_digest(&self, digest: &[u8; 32]) -> Option<&ApiKeyLookup> {
        self.by_digest.get(digest)
    }

    /// Finds a proxy by its key. As for API keys, the lookup time reveals nothing about the key.
    pub fn find_proxy_by_key(&self, proxy_key: &str) -> Option<&ProxyLookup> {
        self.proxies_by_digest.get(&self.pepper.proxy_key_digest(proxy_key))
    }

    /// All proxies of tenants with a valid policy.
    pub fn proxies(&self) -> impl Iterator<Item = &Arc<Proxy>> {
        self.proxies_by_digest.values().filter_map(|it| match it {
            ProxyLookup::Found(proxy) => Some(proxy),
            ProxyLookup::PolicyAltered => None,
        })
    }

    /// Whether any proxy has a host.
    pub fn has_proxy_hosts(&self) -> bool {
        !self.proxies_by_host.is_empty()
    }

    /// Finds a proxy by the host of a request, with or without a port.
    pub fn find_proxy_by_host(&self, host: &str) -> Option<&ProxyLookup> {
        let name = host.split(':').next().unwrap_or_default();
        self.proxies_by_host.get(&HostName::parse(name).ok()?)
    }

    /// The digest under which the store finds an API key or a nonce.
    pub fn digest(&self, text: &str) -> [u8; 32] {
        self.pepper.api_key_digest(text)
    }

    pub fn pepper(&self) -> &Arc<Pepper> {
        &self.pepper
    }

    pub fn audit_key(&self) -> &Arc<AuditKey> {
        &self.audit_key
    }

    /// The stored form of the audit key.
    pub(crate) fn wrapped_audit_key(&self) -> &Sealed {
        &self.wrapped.audit_key
    }

    /// The version of the stored directory that was loaded.
    pub fn version(&self) -> i64 {
        self.version
    }

    pub fn tenant(&self, id: TenantId) -> Option<&Arc<Tenant>> {
        self.tenants.get(&id)?.tenant.as_ref()
    }

    /// The tenants with a valid policy, oldest first.
    pub fn tenants(&self) -> Vec<&Arc<Tenant>> {
        let mut tenants: Vec<_> =
            self.tenants.values().filter_map(|it| it.tenant.as_ref()).collect();
        tenants.sort_by_key(|it| (it.created.at, it.id));
        tenants
    }

    /// A tenant with a rotation of its fingerprint keys that is not finished: searches and
    /// deduplication would miss rows.
    pub(crate) fn unfinished_fingerprint_rotation(&self) -> Option<TenantId> {
        let tenants = self.tenants.values().filter_map(|it| it.tenant.as_ref());
        tenants
            .chain(&self.pending_deletion)
            .find(|it| it.keys.is_renewing_fingerprints())
            .map(|it| it.id)
    }

    /// Errors: a rotation of fingerprint keys is not finished, so no server may use the vault.
    pub fn check_servable(&self) -> Result<(), Error> {
        match self.unfinished_fingerprint_rotation() {
            None => Ok(()),
            Some(tenant) => Err(Error::Internal(
                format!(
                    "a rotation of the fingerprints of tenant {tenant} was interrupted; run it \
                     again: scrip keys rotate fingerprints --yes (with --tenant {tenant}, if it \
                     was started for this tenant only)"
                )
                .into(),
            )),
        }
    }

    /// Deleted tenants that can still be restored.
    pub fn pending_deletion(&self) -> &[Arc<Tenant>] {
        &self.pending_deletion
    }

    /// Whether the store has a row of this tenant, valid or not.
    pub fn has_row(&self, id: TenantId) -> bool {
        self.tenants.contains_key(&id) || self.alterations.iter().any(|it| it.tenant == Some(id))
    }

    pub fn principal(&self, id: ApplicationId) -> Option<&Arc<Principal>> {
        self.principals.get(&id)
    }

    /// Changes of policy rows that the vault did not write. An operator has to repair them.
    pub fn alterations(&self) -> &[PolicyAlteration] {
        &self.alterations
    }
}

/// The keys in the store are of another vault, or older than those in memory.
pub const REPLACED_KEYS: &str = "the stored keys are of another vault or of an older copy: rows were replaced outside the \
     vault; restore them, or restart the server if you restored a backup yourself";

/// The stored directory.
#[derive(Debug, Clone, Default)]
pub struct DirectoryRecords {
    pub version: i64,
    /// `None` in a vault that was never initialized, or after its keys were deleted.
    pub system_keys: Option<SystemKeys>,
    /// How the vault key is unlocked.
    pub unlocks: VaultUnlocks,
    pub tenants: Vec<PolicyRecords>,
    /// Rows that cannot be parsed, so the vault did not write them.
    pub unreadable: Vec<PolicyAlteration>,
}

/// The wrapped system keys of the vault. Both are created when the vault is initialized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemKeys {
    pub pepper: Sealed,
    pub audit_key: Sealed,
}

/// The message about storage without a vault.
pub const EMPTY_VAULT: &str = "the vault is empty; for a new vault run: scrip init; for a moved vault run: \
     scrip import FILE";
const LOST_KEYS: &str = "the keys of this vault are missing, but it has tenants: they were deleted or damaged; restore a \
     backup";

impl DirectoryRecords {
    /// Whether the keys of a vault with tenants are missing. New keys would not open its data.
    pub fn has_lost_keys(&self) -> bool {
        self.system_keys.is_none() && !(self.tenants.is_empty() && self.unreadable.is_empty())
    }

    /// Whether the storage has no vault yet.
    pub fn is_empty_vault(&self) -> bool {
        self.system_keys.is_none() && !self.has_lost_keys()
    }

    /// The message about missing keys.
    pub fn missing_keys_text(&self) -> &'static str {
        if self.has_lost_keys() { LOST_KEYS } else { EMPTY_VAULT }
    }
}
