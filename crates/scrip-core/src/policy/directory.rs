//! Who is known: every key of every application of every tenant, in memory.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use scrip_seal::{AuditKey, KeySource, Pepper, TenantKeys, WrappedTenantKeys};

use crate::{
    error::Error,
    id::{ApiKeyId, ApplicationId, TenantId},
    policy::{
        DirectoryRecords, PolicyAlteration, PolicyRecords, PolicySeal, Principal, SystemKeys,
        Tenant,
    },
    store::Store,
};

#[derive(Debug)]
pub struct Directory {
    version: i64,
    /// As they were wrapped, which tells whether they have to be opened again.
    wrapped: SystemKeys,
    pepper: Arc<Pepper>,
    audit_key: Arc<AuditKey>,
    by_digest: HashMap<[u8; 32], ApiKeyLookup>,
    tenants: HashMap<TenantId, LoadedTenant>,
    principals: HashMap<ApplicationId, Arc<Principal>>,
    /// The last that was ours of every tenant there ever was, also while its rows are altered or
    /// gone: an older one is one that somebody brought back.
    seals: HashMap<TenantId, PolicySeal>,
    /// Tenants that were here and are not any more. Nobody comes back from there while this
    /// process runs.
    deleted: HashSet<TenantId>,
    alterations: Vec<PolicyAlteration>,
    /// Tenants that were deleted and whose keys are not destroyed yet. Their API keys are unknown.
    pending_deletion: Vec<Arc<Tenant>>,
}

/// A tenant, and what tells whether it has to be opened again.
#[derive(Debug)]
struct LoadedTenant {
    wrapped: WrappedTenantKeys,
    /// Nothing when its policy was altered.
    tenant: Option<Arc<Tenant>>,
}

/// What a key is.
#[derive(Debug, Clone)]
pub enum ApiKeyLookup {
    Found {
        principal: Arc<Principal>,
        api_key: ApiKeyId,
    },
    /// Somebody altered the policy of its tenant, and until that is put right nobody there is
    /// believed.
    PolicyAltered,
}

impl Directory {
    /// Opens what the store keeps. A root key that did not wrap it is noticed here, before the
    /// first request. What has not changed since `before` is not unwrapped again.
    ///
    /// # Errors
    /// The store or the key source did not answer, or the keys are not this vault's.
    pub async fn load(
        store: &dyn Store,
        source: &dyn KeySource,
        previous: Option<&Self>,
    ) -> Result<Self, Error> {
        Self::open(store.load_directory().await?, source, previous)
    }

    /// The same for records that are at hand already.
    ///
    /// # Errors
    /// The key source did not answer, or the keys are not this vault's.
    pub fn open(
        records: DirectoryRecords,
        source: &dyn KeySource,
        previous: Option<&Self>,
    ) -> Result<Self, Error> {
        let wrapped = records.system_keys.ok_or_else(|| Error::Internal(EMPTY_VAULT.into()))?;
        let (pepper, audit_key) = match previous.filter(|it| it.wrapped == wrapped) {
            Some(same) => (Arc::clone(&same.pepper), Arc::clone(&same.audit_key)),
            None => (
                Arc::new(Pepper::unwrap(source, &wrapped.pepper)?),
                Arc::new(AuditKey::unwrap(source, &wrapped.audit_key)?),
            ),
        };
        let mut directory = Self {
            version: records.version,
            wrapped,
            pepper,
            audit_key,
            by_digest: HashMap::new(),
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
        // Without a trace, that is: one whose row cannot be read is altered, not gone.
        let missing = previous.iter().flat_map(|it| it.tenants.keys());
        let missing = missing
            .filter(|it| !directory.tenants.contains_key(it) && !unreadable.contains(it))
            .copied();
        directory.deleted.extend(missing.collect::<Vec<_>>());
        directory.alterations.sort();
        Ok(directory)
    }

    fn add_tenant(
        &mut self,
        records: PolicyRecords,
        source: &dyn KeySource,
        previous: Option<&Self>,
        is_unreadable: bool,
    ) {
        let id = records.tenant.record.id;
        let before = previous.and_then(|it| it.tenants.get(&id));
        let (wrapped, seal) = (records.tenant.record.keys.clone(), records.seal);
        let digests: Vec<_> = records
            .api_keys
            .iter()
            .map(|it| (it.record.digest, it.record.application, it.record.id))
            .collect();
        let keys = match before.and_then(|it| Some((&it.wrapped, it.tenant.as_ref()?))) {
            Some((same, tenant)) if *same == wrapped => Some(Arc::clone(&tenant.keys)),
            _ => TenantKeys::unwrap(source, &id.to_string(), &wrapped).ok().map(Arc::new),
        };
        let mut say = |what: &str| {
            self.alterations
                .push(PolicyAlteration { tenant: Some(id), description: what.to_owned() });
        };
        if keys.is_none() {
            say("its wrapped keys do not open");
        }
        let follows = self.seals.get(&id).is_none_or(|seen| seal.is_same_or_newer(seen));
        if !follows {
            say("its policy is an older one, brought back");
        }
        let was_deleted = self.deleted.contains(&id);
        if was_deleted {
            say("it was deleted, and brought back; if that was you, start the server again");
        }
        let altered = keys.as_ref().map(|it| records.find_alterations(it)).unwrap_or_default();
        let sound = !is_unreadable && !was_deleted && altered.is_empty() && follows;
        self.alterations.extend(altered);
        let audit_key = Arc::clone(&self.audit_key);
        let tenant = keys.filter(|_| sound);
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
                (id, Arc::new(Principal::new(Arc::clone(tenant), id, kind, access)))
            }));
        }
        for (digest, application, api_key) in digests {
            let principal = self.principals.get(&application).filter(|it| it.tenant().id == id);
            let known = match (&tenant, principal) {
                (Some(_), Some(principal)) => {
                    ApiKeyLookup::Found { principal: Arc::clone(principal), api_key }
                }
                (_, _) => ApiKeyLookup::PolicyAltered,
            };
            self.by_digest.insert(digest, known);
        }
        self.tenants.insert(id, LoadedTenant { wrapped, tenant });
    }

    /// The map is asked by a keyed digest, so the time it takes tells nothing about the key.
    #[must_use]
    pub fn authenticate(&self, api_key: &str) -> Option<&ApiKeyLookup> {
        self.find_by_digest(&self.digest(api_key))
    }

    /// The same for a key whose digest is at hand.
    #[must_use]
    pub fn find_by_digest(&self, digest: &[u8; 32]) -> Option<&ApiKeyLookup> {
        self.by_digest.get(digest)
    }

    /// Under what the store knows a key, or a nonce.
    #[must_use]
    pub fn digest(&self, text: &str) -> [u8; 32] {
        self.pepper.api_key_digest(text)
    }

    #[must_use]
    pub fn pepper(&self) -> &Arc<Pepper> {
        &self.pepper
    }

    #[must_use]
    pub fn audit_key(&self) -> &Arc<AuditKey> {
        &self.audit_key
    }

    /// Of the store's directory, when this one was loaded.
    #[must_use]
    pub fn version(&self) -> i64 {
        self.version
    }

    #[must_use]
    pub fn tenant(&self, id: TenantId) -> Option<&Arc<Tenant>> {
        self.tenants.get(&id)?.tenant.as_ref()
    }

    /// The oldest first.
    #[must_use]
    pub fn tenants(&self) -> Vec<&Arc<Tenant>> {
        let mut tenants: Vec<_> =
            self.tenants.values().filter_map(|it| it.tenant.as_ref()).collect();
        tenants.sort_by_key(|it| (it.created.at, it.id));
        tenants
    }

    /// Deleted tenants that can still be restored.
    #[must_use]
    pub fn pending_deletion(&self) -> &[Arc<Tenant>] {
        &self.pending_deletion
    }

    /// Whether the store has a row of this tenant, whatever became of it.
    #[must_use]
    pub fn has_row(&self, id: TenantId) -> bool {
        self.tenants.contains_key(&id) || self.alterations.iter().any(|it| it.tenant == Some(id))
    }

    #[must_use]
    pub fn principal(&self, id: ApplicationId) -> Option<&Arc<Principal>> {
        self.principals.get(&id)
    }

    /// What somebody else did to the rows, for whoever has to put it right.
    #[must_use]
    pub fn alterations(&self) -> &[PolicyAlteration] {
        &self.alterations
    }
}

/// Why a directory cannot be loaded from a vault that was never founded.
pub const EMPTY_VAULT: &str = "the vault is empty; run scrip init";
