//! Who is known: every key of every application of every tenant, in memory.

use std::{collections::HashMap, sync::Arc};

use scrip_seal::{KeySource, Pepper, Sealed, TenantKeys};

use crate::{
    application::{ApiKeyRecord, ApplicationRecord},
    caller::Principal,
    error::Error,
    store::Store,
    tenant::{Tenant, TenantRecord},
};

/// What the store keeps of it.
#[derive(Debug, Clone, Default)]
pub struct DirectoryRecords {
    pub pepper: Option<Sealed>,
    pub tenants: Vec<TenantRecord>,
    pub applications: Vec<ApplicationRecord>,
    pub api_keys: Vec<ApiKeyRecord>,
}

#[derive(Debug)]
pub struct Directory {
    pepper: Pepper,
    by_digest: HashMap<[u8; 32], Arc<Principal>>,
}

impl Directory {
    /// Opens what the store keeps. A root key that did not wrap it is noticed here, before the
    /// first request.
    ///
    /// # Errors
    /// The store or the key source did not answer, or the keys are not this vault's.
    pub async fn load(store: &dyn Store, source: &dyn KeySource) -> Result<Self, Error> {
        let records = store.load_directory().await?;
        let wrapped = records.pepper.ok_or_else(|| Error::Internal("the vault is empty".into()))?;
        let pepper = Pepper::unwrap(source, &wrapped)?;

        let mut tenants = HashMap::new();
        for record in records.tenants {
            let keys = TenantKeys::unwrap(source, &record.id.to_string(), &record.keys)?;
            let (id, kind, settings) = (record.id, record.kind, record.settings);
            tenants.insert(id, Arc::new(Tenant { id, kind, settings, keys }));
        }
        let mut principals = HashMap::new();
        for record in records.applications {
            let Some(tenant) = tenants.get(&record.tenant) else { continue };
            let (id, kind) = (record.id, record.kind);
            let principal = Principal::new(Arc::clone(tenant), id, kind, record.access);
            principals.insert(id, Arc::new(principal));
        }
        let known = |key: ApiKeyRecord| {
            let principal = principals.get(&key.application)?;
            Some((key.digest, Arc::clone(principal)))
        };
        let by_digest = records.api_keys.into_iter().filter_map(known).collect();
        Ok(Self { pepper, by_digest })
    }

    /// The map is asked by a keyed digest, so the time it takes tells nothing about the key.
    #[must_use]
    pub fn authenticate(&self, api_key: &str) -> Option<Arc<Principal>> {
        self.by_digest.get(&self.pepper.digest(api_key)).map(Arc::clone)
    }
}
