//! A tenant's policy: who may do what.
//!
//! It stands in clear, because a lookup needs it, so every row carries a mac, and all of them
//! together carry one with a counter: a row that somebody else altered, added, removed or brought
//! back from earlier is noticed before it is obeyed.

pub mod access;
pub mod access_session;
pub mod application;
pub mod caller;
pub(crate) mod change;
pub mod change_record;
pub mod directory;
pub mod directory_records;
pub mod guessing_budget;
pub mod permission;
pub mod principal;
pub mod rate_limit;
pub mod signed_row;
pub mod tenant;

pub use self::{
    access::{AccessCondition, AccessPolicy, AccessRule, AccessScope, AccessTarget},
    access_session::{AccessSessionId, AccessSessionRecord},
    application::{ApiKeyRecord, ApiKeyText, Application, ApplicationRecord, DisplayName},
    caller::{
        Actor, Caller, CallerRequirement, LookupPermit, Permit, PolicyPermit, RequestOrigin,
        TenantDeletion,
    },
    change_record::{DecidePolicy, PolicyEdit},
    directory::{ApiKeyLookup, Directory},
    directory_records::{DirectoryRecords, SystemKeys},
    permission::{ApplicationKind, Permission, Permissions, Transform},
    principal::Principal,
    tenant::{
        DeduplicationBehavior, Tenant, TenantKind, TenantRecord, TenantSettings, quota::Quotas,
    },
};

use scrip_seal::{Mac, Place, TenantKeys};

use crate::{
    error::Error,
    id::{ApiKeyId, ApplicationId, TenantId},
};

/// All rows of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyRecords {
    pub tenant: SignedRow<TenantRecord>,
    pub applications: Vec<SignedRow<ApplicationRecord>>,
    pub api_keys: Vec<SignedRow<ApiKeyRecord>>,
    pub seal: PolicySeal,
}

/// The mac of the whole. The counter grows with every change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicySeal {
    pub counter: i64,
    pub mac: Mac,
}

/// One row to write, or to take away.
#[derive(Debug, Clone)]
pub enum PolicyWrite {
    PutTenant(SignedRow<TenantRecord>),
    PutApplication(SignedRow<ApplicationRecord>),
    PutApiKey(SignedRow<ApiKeyRecord>),
    /// With its keys.
    RemoveApplication(ApplicationId),
    RemoveApiKey(ApiKeyId),
}

/// What somebody else did to a policy. Names rows, never what is in them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyAlteration {
    pub tenant: Option<TenantId>,
    pub description: String,
}

impl PolicySeal {
    /// Whether this is the one that was seen, or a later one. Another one of the same count was
    /// made of a policy that somebody brought back.
    #[must_use]
    pub fn is_same_or_newer(&self, known: &Self) -> bool {
        self.counter > known.counter
            || (self.counter == known.counter && self.mac.constant_time_eq(&known.mac))
    }
}

impl PolicyRecords {
    /// A tenant that has nothing yet.
    #[must_use]
    pub fn new(keys: &TenantKeys, tenant: TenantRecord) -> Self {
        let mut records = Self {
            tenant: SignedRow::new(keys, tenant),
            applications: Vec::new(),
            api_keys: Vec::new(),
            seal: PolicySeal { counter: 0, mac: Mac([0; 32]) },
        };
        records.seal = records.next_seal(keys);
        records
    }

    /// All that is wrong with it; nothing, when it is as we wrote it.
    #[must_use]
    pub fn find_alterations(&self, keys: &TenantKeys) -> Vec<PolicyAlteration> {
        let id = self.tenant.record.id;
        let mut found = Vec::new();
        let mut say =
            |what: String| found.push(PolicyAlteration { tenant: Some(id), description: what });
        if !self.tenant.has_valid_mac(keys) {
            say("the row of the tenant was altered".to_owned());
        }
        for it in self.applications.iter().filter(|it| !it.has_valid_mac(keys)) {
            say(format!("the row of application {} was altered", it.record.id));
        }
        for it in self.api_keys.iter().filter(|it| !it.has_valid_mac(keys)) {
            say(format!("the row of API key {} was altered", it.record.id));
        }
        if !self.seal.mac.constant_time_eq(&self.compute_mac(keys, self.seal.counter)) {
            say("a row of its policy was added, removed or brought back from earlier".to_owned());
        }
        found
    }

    /// All of it is checked whenever some of it changes, so it has to have an end.
    pub(crate) fn check_size(&self) -> Result<(), Error> {
        const BYTES_MAX: usize = 4 * 1024 * 1024;
        let bytes: usize =
            self.applications.iter().map(|it| it.record.access.to_text().len()).sum();
        if bytes > BYTES_MAX {
            let reason = "the rules of a tenant have at most 4 MiB together";
            return Err(Error::Unprocessable { reason });
        }
        Ok(())
    }

    /// What the whole is after a write. Engines that keep rows in memory use it too.
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
            PolicyWrite::RemoveApiKey(id) => self.api_keys.retain(|it| it.record.id != *id),
        }
    }

    #[must_use]
    pub fn next_seal(&self, keys: &TenantKeys) -> PolicySeal {
        let counter = self.seal.counter.saturating_add(1);
        PolicySeal { counter, mac: self.compute_mac(keys, counter) }
    }

    /// Over the macs of the rows, whatever order they come in.
    fn compute_mac(&self, keys: &TenantKeys, counter: i64) -> Mac {
        let mut macs: Vec<_> = self.applications.iter().map(|it| it.mac).collect();
        macs.extend(self.api_keys.iter().map(|it| it.mac));
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

pub use self::signed_row::{ChangeStamp, PolicyRow, SignedRow};
