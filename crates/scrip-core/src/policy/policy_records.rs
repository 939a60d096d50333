//! All policy rows of a tenant, and the seal over them that detects alterations.

use scrip_seal::{Mac, Place, TenantKeys};

use crate::{
    Error,
    policy::{
        ApiKeyRecord, ApplicationRecord, ClientKeyRecord, SignedRow, TenantRecord,
        proxy::ProxyRecord, webhook::WebhookRecord,
    },
    types::id::{ApiKeyId, ApplicationId, ClientKeyId, ProxyId, TenantId, WebhookId},
};

/// All policy rows of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyRecords {
    pub tenant: SignedRow<TenantRecord>,
    pub applications: Vec<SignedRow<ApplicationRecord>>,
    pub api_keys: Vec<SignedRow<ApiKeyRecord>>,
    pub proxies: Vec<SignedRow<ProxyRecord>>,
    pub webhooks: Vec<SignedRow<WebhookRecord>>,
    pub client_keys: Vec<SignedRow<ClientKeyRecord>>,
    pub seal: PolicySeal,
}

/// The MAC over all policy rows of a tenant. The counter grows with every change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicySeal {
    pub counter: i64,
    pub mac: Mac,
}

/// One policy row to write or to remove.
#[derive(Debug, Clone)]
pub enum PolicyWrite {
    PutTenant(SignedRow<TenantRecord>),
    PutApplication(SignedRow<ApplicationRecord>),
    PutApiKey(SignedRow<ApiKeyRecord>),
    PutProxy(Box<SignedRow<ProxyRecord>>),
    PutWebhook(Box<SignedRow<WebhookRecord>>),
    PutClientKey(Box<SignedRow<ClientKeyRecord>>),
    /// Also removes the API keys of the application.
    RemoveApplication(ApplicationId),
    RemoveApiKey(ApiKeyId),
    RemoveProxy(ProxyId),
    RemoveWebhook(WebhookId),
    RemoveClientKey(ClientKeyId),
}

/// A change of a policy that the vault did not write. The description names rows, never their
/// contents.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyAlteration {
    pub tenant: Option<TenantId>,
    pub description: String,
}

impl PolicySeal {
    /// Whether this is the earlier seal itself, or a newer one. A different seal with the same
    /// counter belongs to a policy that was rolled back and then changed.
    #[must_use]
    pub fn is_same_or_newer(&self, earlier: &Self) -> bool {
        self.counter > earlier.counter
            || (self.counter == earlier.counter && self.mac.constant_time_eq(&earlier.mac))
    }
}

impl PolicyRecords {
    /// A tenant without other rows.
    #[must_use]
    pub fn new(keys: &TenantKeys, tenant: TenantRecord) -> Self {
        let mut records = Self {
            tenant: SignedRow::new(keys, tenant),
            applications: Vec::new(),
            api_keys: Vec::new(),
            proxies: Vec::new(),
            webhooks: Vec::new(),
            client_keys: Vec::new(),
            seal: PolicySeal { counter: 0, mac: Mac([0; 32]) },
        };
        records.seal = records.next_seal(keys);
        records
    }

    /// All alterations; empty when all MACs are valid.
    #[must_use]
    pub fn find_alterations(&self, keys: &TenantKeys) -> Vec<PolicyAlteration> {
        let id = self.tenant.record.id;
        let mut alterations = Vec::new();
        let mut report = |description: String| {
            alterations.push(PolicyAlteration { tenant: Some(id), description })
        };
        if !self.tenant.has_valid_mac(keys) {
            report("the row of the tenant was altered".to_owned());
        }
        for it in self.applications.iter().filter(|it| !it.has_valid_mac(keys)) {
            report(format!("the row of application {} was altered", it.record.id));
        }
        for it in self.api_keys.iter().filter(|it| !it.has_valid_mac(keys)) {
            report(format!("the row of API key {} was altered", it.record.id));
        }
        for it in self.proxies.iter().filter(|it| !it.has_valid_mac(keys)) {
            report(format!("the row of proxy {} was altered", it.record.id));
        }
        for it in self.webhooks.iter().filter(|it| !it.has_valid_mac(keys)) {
            report(format!("the row of webhook {} was altered", it.record.id));
        }
        for it in self.client_keys.iter().filter(|it| !it.has_valid_mac(keys)) {
            report(format!("the row of client encryption key {} was altered", it.record.id));
        }
        if !self.has_valid_seal(keys) {
            report("a row of the policy was added, removed or rolled back".to_owned());
        }
        alterations
    }

    /// Whether the seal belongs to the MACs of these rows, so that its counter is authentic.
    #[must_use]
    pub fn has_valid_seal(&self, keys: &TenantKeys) -> bool {
        self.seal.mac.constant_time_eq(&self.compute_mac(keys, self.seal.counter))
    }

    /// Every change checks all rules and proxies of the tenant, so their total sizes are limited.
    pub(crate) fn check_size(&self) -> Result<(), Error> {
        const BYTES_MAX: usize = 4 * 1024 * 1024;
        let bytes: usize =
            self.applications.iter().map(|it| it.record.access.to_text().len()).sum();
        if bytes > BYTES_MAX {
            let reason = "the rules of a tenant must not exceed 4 MiB together";
            return Err(Error::Unprocessable { reason });
        }
        let bytes: usize = self.proxies.iter().map(|it| it.record.sealed_length()).sum();
        if bytes > 2 * BYTES_MAX {
            let reason = "the proxies of a tenant must not exceed 8 MiB together";
            return Err(Error::Unprocessable { reason });
        }
        Ok(())
    }

    /// Applies a write to the rows. Engines that store rows in memory use it too.
    pub fn apply(&mut self, write: &PolicyWrite) {
        match write {
            PolicyWrite::PutTenant(tenant) => self.tenant.clone_from(tenant),
            PolicyWrite::PutApplication(application) => {
                self.applications.retain(|it| it.record.id != application.record.id);
                self.applications.push(application.clone());
            }
            PolicyWrite::PutApiKey(api_key) => {
                self.api_keys.retain(|it| it.record.id != api_key.record.id);
                self.api_keys.push(api_key.clone());
            }
            PolicyWrite::RemoveApplication(id) => {
                self.applications.retain(|it| it.record.id != *id);
                self.api_keys.retain(|it| it.record.application != *id);
            }
            PolicyWrite::PutProxy(proxy) => {
                self.proxies.retain(|it| it.record.id != proxy.record.id);
                self.proxies.push(proxy.as_ref().clone());
            }
            PolicyWrite::RemoveApiKey(id) => self.api_keys.retain(|it| it.record.id != *id),
            PolicyWrite::RemoveProxy(id) => self.proxies.retain(|it| it.record.id != *id),
            PolicyWrite::PutWebhook(webhook) => {
                self.webhooks.retain(|it| it.record.id != webhook.record.id);
                self.webhooks.push(webhook.as_ref().clone());
            }
            PolicyWrite::RemoveWebhook(id) => self.webhooks.retain(|it| it.record.id != *id),
            PolicyWrite::PutClientKey(client_key) => {
                self.client_keys.retain(|it| it.record.id != client_key.record.id);
                self.client_keys.push(client_key.as_ref().clone());
            }
            PolicyWrite::RemoveClientKey(id) => self.client_keys.retain(|it| it.record.id != *id),
        }
    }

    #[must_use]
    pub fn next_seal(&self, keys: &TenantKeys) -> PolicySeal {
        let counter = self.seal.counter.saturating_add(1);
        PolicySeal { counter, mac: self.compute_mac(keys, counter) }
    }

    /// The MAC over the MACs of all rows. The order of the rows does not matter.
    fn compute_mac(&self, keys: &TenantKeys, counter: i64) -> Mac {
        let mut macs: Vec<_> = self.applications.iter().map(|it| it.mac).collect();
        macs.extend(self.api_keys.iter().map(|it| it.mac));
        macs.extend(self.proxies.iter().map(|it| it.mac));
        macs.extend(self.webhooks.iter().map(|it| it.mac));
        macs.extend(self.client_keys.iter().map(|it| it.mac));
        macs.sort_unstable();
        let place = Place::new("policy.set")
            .bytes(self.tenant.record.id.0.as_bytes())
            .number(counter)
            .bytes(&self.tenant.mac.0);
        keys.policy_mac(&macs.iter().fold(place, |place, mac| place.bytes(&mac.0)))
    }
}

#[cfg(test)]
mod tests;
