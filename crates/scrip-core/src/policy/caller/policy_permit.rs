//! The proof that a tenant's policy may be read or changed, and that the tenant may be deleted.

use std::sync::Arc;

use crate::{
    Error, Timestamp,
    policy::{
        Actor, ApplicationRecord, Caller, CallerRequirement, ChangeStamp, PolicyRecords, Quotas,
        SignedRow, Tenant,
    },
    types::{error::Denial, id::TenantId},
};

/// Proof that the caller may read or change a tenant's policy. The caller is an application that
/// meets the requirement, or the operator, who has the root key and needs no permission, or the vault.
#[derive(Debug, Clone)]
pub struct PolicyPermit {
    tenant: Arc<Tenant>,
    /// `None` for the operator and the vault.
    caller: Option<Caller>,
    actor: Actor,
    requirement: CallerRequirement,
    /// The operating-system user of an operator's command.
    os_user: Option<Arc<str>>,
}

impl Caller {
    /// Creates a permit to read or change the policy.
    /// Errors: as for [`Caller::check_requirement`].
    pub fn permit_policy(&self, requirement: CallerRequirement) -> Result<PolicyPermit, Error> {
        self.check_requirement(requirement)?;
        let tenant = Arc::clone(self.principal().tenant());
        Ok(PolicyPermit {
            caller: Some(self.clone()),
            actor: Actor::Application(self.application()),
            requirement,
            ..PolicyPermit::for_operator(tenant)
        })
    }
}

impl PolicyPermit {
    /// The permit of the operator. The caller of this function must have the root key.
    pub fn for_operator(tenant: Arc<Tenant>) -> Self {
        Self {
            tenant,
            caller: None,
            actor: Actor::Operator,
            requirement: CallerRequirement::AnyKey,
            os_user: None,
        }
    }

    /// The permit of the vault itself, for a change that no caller requests.
    pub fn for_vault(tenant: Arc<Tenant>) -> Self {
        Self { actor: Actor::Vault, ..Self::for_operator(tenant) }
    }

    /// The same permit, used by this operating-system user.
    #[must_use]
    pub fn with_os_user(self, os_user: Option<Arc<str>>) -> Self {
        Self { os_user, ..self }
    }

    pub fn os_user(&self) -> Option<&Arc<str>> {
        self.os_user.as_ref()
    }

    pub fn tenant(&self) -> &Arc<Tenant> {
        &self.tenant
    }

    pub fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }

    /// The application behind the permit, for operations that only an application can perform.
    pub(crate) fn require_caller(&self) -> Result<&Caller, Error> {
        self.caller
            .as_ref()
            .ok_or_else(|| Error::Internal("the operator has no application".into()))
    }

    /// The requirement that the caller met.
    pub fn requirement(&self) -> CallerRequirement {
        self.requirement
    }

    pub fn actor(&self) -> Actor {
        self.actor
    }

    /// Checks a permit inside the transaction of a change: the policy has valid MACs and is not
    /// older than the policy that authorized the caller, and the application still exists and still
    /// has the permission.
    pub(crate) fn check(&self, records: &PolicyRecords) -> Result<(), Error> {
        let is_current = records.seal.is_same_or_newer(&self.tenant.seal);
        if !is_current || !records.find_alterations(&self.tenant.keys).is_empty() {
            let cause = "the policy of this tenant was altered outside of the vault";
            return Err(Error::Unavailable(cause.into()));
        }
        // A row that an old version seals would keep this version for ever.
        if records.tenant.record.keys.current_version() != Some(self.tenant.keys.current_version())
        {
            let cause = "the key of this tenant was rotated; this node loads it within a second";
            return Err(Error::Unavailable(cause.into()));
        }
        let Some(caller) = &self.caller else { return Ok(()) };
        let is_caller = |it: &&SignedRow<ApplicationRecord>| it.record.id == caller.application();
        let record = &records.applications.iter().find(is_caller).ok_or(Error::NotFound)?.record;
        let denial = match self.requirement {
            CallerRequirement::Permission(permission) if !record.access.grants(permission) => {
                Denial::NoRule(permission)
            }
            CallerRequirement::Kind(kind) if record.kind != kind => Denial::WrongKind(kind),
            CallerRequirement::AnyKey
            | CallerRequirement::Kind(_)
            | CallerRequirement::Permission(_) => return Ok(()),
        };
        Err(Error::Forbidden(denial))
    }

    /// The application and the time, for the row to be written.
    pub(crate) fn change_stamp(&self, at: Timestamp) -> ChangeStamp {
        ChangeStamp { by: self.caller.as_ref().map(Caller::application), at }
    }
}

/// Proof that a tenant may be deleted.
#[derive(Debug)]
pub enum TenantDeletion {
    Requested(PolicyPermit),
    /// The grace period of the tenant is over.
    Due {
        permit: PolicyPermit,
        due_at: Timestamp,
    },
    /// By the operator. Also works for a tenant that cannot be loaded, because deletion trusts none
    /// of its rows. Without quotas, the vault stores the tenant's logs permanently.
    ByOperator {
        tenant: TenantId,
        quotas: Option<Quotas>,
    },
}

impl TenantDeletion {
    pub fn tenant(&self) -> TenantId {
        match self {
            Self::Requested(permit) | Self::Due { permit, .. } => permit.tenant().id,
            Self::ByOperator { tenant, .. } => *tenant,
        }
    }

    /// How long the vault stores the logs of the deleted tenant; `None` is permanently.
    pub fn retention_seconds(&self) -> Option<i64> {
        let quotas = match self {
            Self::Requested(permit) | Self::Due { permit, .. } => Some(&permit.tenant().quotas),
            Self::ByOperator { quotas, .. } => quotas.as_ref(),
        };
        quotas.and_then(|it| i64::try_from(it.log_retention_seconds).ok())
    }

    /// Whether the policy must be checked before the deletion.
    pub fn requires_policy_check(&self) -> bool {
        match self {
            Self::Requested(_) | Self::Due { .. } => true,
            Self::ByOperator { .. } => false,
        }
    }

    /// Checks the deletion inside the transaction, on the current policy.
    /// Errors: the policy was altered or rolled back, or the caller no longer has the permission.
    pub fn check(&self, records: &PolicyRecords) -> Result<(), Error> {
        match self {
            Self::ByOperator { .. } => Ok(()),
            Self::Requested(permit) => permit.check(records),
            Self::Due { permit, due_at } => {
                permit.check(records)?;
                let is_due = records.tenant.record.deletes_at.is_some_and(|it| it <= *due_at);
                is_due.then_some(()).ok_or(Error::NotFound)
            }
        }
    }
}
