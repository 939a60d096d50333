//! Who is asking, and what they have been allowed to do.

use std::{net::IpAddr, sync::Arc};

use crate::{
    error::{Denial, Error},
    id::{ApiKeyId, ApplicationId, TenantId, TokenId},
    policy::{
        AccessSessionId, AccessTarget, ApplicationKind, ApplicationRecord, ChangeStamp, Permission,
        PolicyRecords, Principal, Quotas, SignedRow, Tenant, Transform,
        principal::VIEWING_PERMISSIONS,
    },
    time::Timestamp,
    token::{
        Container, ContainerRange, ContainerRanges, Containers, WorkMeter,
        expression::work_meter::RunLongEvaluation,
    },
};

/// What a route asks of a caller before anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerRequirement {
    /// Any key that is known.
    AnyKey,
    /// A key of an application of this kind, whatever its rights.
    Kind(ApplicationKind),
    Permission(Permission),
}

/// Where a request came from, for the records.
#[derive(Debug, Clone)]
pub struct RequestOrigin {
    pub trace: Arc<str>,
    pub address: IpAddr,
}

/// Who asks, for the length of one request.
#[derive(Debug, Clone)]
pub struct Caller {
    principal: Arc<Principal>,
    origin: RequestOrigin,
    /// Shared by all copies: it belongs to the request.
    work: Arc<WorkMeter>,
    api_key: Option<ApiKeyId>,
}

/// Proof that the caller holds a permission somewhere in its tenant: enough to look for a token,
/// not to open it.
#[derive(Debug)]
pub struct LookupPermit {
    tenant: Arc<Tenant>,
}

/// Proof that somebody may see or change a tenant's policy: an application that meets the need, or
/// the operator, who holds the root key and needs nobody's permission.
#[derive(Debug, Clone)]
pub struct PolicyPermit {
    tenant: Arc<Tenant>,
    /// Nobody is the operator.
    caller: Option<Caller>,
    requirement: CallerRequirement,
    /// The operating-system user of an operator's command.
    os_user: Option<Arc<str>>,
}

/// Proof that a tenant may be deleted.
#[derive(Debug)]
pub enum TenantDeletion {
    Requested(PolicyPermit),
    /// Its grace period was over by then.
    Due {
        permit: PolicyPermit,
        due_at: Timestamp,
    },
    /// The operator's, also of a tenant that cannot be loaded: deleting trusts nothing of it.
    /// Without its quotas, what was recorded of it is kept for good.
    ByOperator {
        tenant: TenantId,
        quotas: Option<Quotas>,
    },
}

impl TenantDeletion {
    #[must_use]
    pub fn tenant(&self) -> TenantId {
        match self {
            Self::Requested(mandate) | Self::Due { permit: mandate, .. } => mandate.tenant.id,
            Self::ByOperator { tenant, .. } => *tenant,
        }
    }

    /// How long what was recorded of it is still kept; nothing for good.
    #[must_use]
    pub fn retention_seconds(&self) -> Option<i64> {
        let quotas = match self {
            Self::Requested(mandate) | Self::Due { permit: mandate, .. } => {
                Some(&mandate.tenant.quotas)
            }
            Self::ByOperator { quotas, .. } => quotas.as_ref(),
        };
        quotas.and_then(|it| i64::try_from(it.log_retention_seconds).ok())
    }

    /// Whether the policy has to be checked before it is deleted.
    #[must_use]
    pub fn requires_policy_check(&self) -> bool {
        match self {
            Self::Requested(_) | Self::Due { .. } => true,
            Self::ByOperator { .. } => false,
        }
    }

    /// Inside the transaction, on the policy as it is then.
    ///
    /// # Errors
    /// The policy is not the one that let the caller in, or not any more.
    pub fn check(&self, records: &PolicyRecords) -> Result<(), Error> {
        match self {
            Self::ByOperator { .. } => Ok(()),
            Self::Requested(mandate) => mandate.check(records),
            Self::Due { permit: mandate, due_at: by } => {
                mandate.check(records)?;
                let is_due = records.tenant.record.deletes_at.is_some_and(|it| it <= *by);
                is_due.then_some(()).ok_or(Error::NotFound)
            }
        }
    }
}

/// Who did something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    Application(ApplicationId),
    Operator,
    /// By itself, because something's time was over.
    Vault,
    /// Somebody without a key: a browser, or a directory server.
    Unauthenticated,
}

/// Proof that rules allowed one permission in all of these containers of this tenant.
///
/// Only [`Caller::permit`] makes one, and it is spent by value. What takes a permit cannot be
/// reached around the check, nor told another tenant.
#[derive(Debug)]
pub struct Permit {
    caller: Caller,
    permission: Permission,
    containers: Containers,
    /// Kept for sessions only, whose rules may be about it.
    id: Option<TokenId>,
    transform: Transform,
    /// Whether it shows no more than the right to read does.
    limited_to_read: bool,
}

impl Caller {
    #[must_use]
    pub fn new(principal: Arc<Principal>, origin: RequestOrigin) -> Self {
        Self { principal, origin, work: Arc::default(), api_key: None }
    }

    /// The same caller, whose long evaluations run in this way.
    #[must_use]
    pub fn with_long_evaluations(mut self, run_long: RunLongEvaluation) -> Self {
        self.work = Arc::new(WorkMeter::new(run_long));
        self
    }

    /// The budget that all expressions of the request share.
    #[must_use]
    pub fn work(&self) -> &WorkMeter {
        &self.work
    }

    /// The same caller, authenticated by this API key.
    #[must_use]
    pub fn with_api_key(self, api_key: Option<ApiKeyId>) -> Self {
        Self { api_key, ..self }
    }

    /// The API key that authenticated the request; for an access session, the key that authorized
    /// the session.
    #[must_use]
    pub fn api_key(&self) -> Option<ApiKeyId> {
        self.api_key.or_else(|| self.principal.authorizing_key())
    }

    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        self.principal.tenant()
    }

    #[must_use]
    pub fn application(&self) -> ApplicationId {
        self.principal.application()
    }

    #[must_use]
    pub fn origin(&self) -> &RequestOrigin {
        &self.origin
    }

    /// The session that asks, when it is not an application itself.
    #[must_use]
    pub fn access_session(&self) -> Option<AccessSessionId> {
        self.principal.access_session_id()
    }

    #[must_use]
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// # Errors
    /// The caller is of another kind, or no rule grants it the permission anywhere.
    pub fn check_requirement(&self, requirement: CallerRequirement) -> Result<(), Error> {
        let refusal = match requirement {
            CallerRequirement::AnyKey => return Ok(()),
            CallerRequirement::Kind(kind)
                if self.principal.kind() == kind && self.access_session().is_none() =>
            {
                return Ok(());
            }
            CallerRequirement::Kind(kind) => Denial::WrongKind(kind),
            CallerRequirement::Permission(permission)
                if self.principal.has_permission(permission) =>
            {
                return Ok(());
            }
            CallerRequirement::Permission(permission) => Denial::NoRule(permission),
        };
        Err(Error::Forbidden(refusal))
    }

    /// # Errors
    /// No rule grants the permission anywhere.
    pub fn permit_lookup(&self, permission: Permission) -> Result<LookupPermit, Error> {
        self.check_requirement(CallerRequirement::Permission(permission))?;
        // Every write comes by here, and none may store what was not evaluated.
        self.work.check()?;
        Ok(LookupPermit { tenant: Arc::clone(self.principal.tenant()) })
    }

    /// # Errors
    /// As for [`Caller::meets`].
    pub fn permit_policy(&self, requirement: CallerRequirement) -> Result<PolicyPermit, Error> {
        self.check_requirement(requirement)?;
        let tenant = Arc::clone(self.principal.tenant());
        Ok(PolicyPermit { tenant, caller: Some(self.clone()), requirement, os_user: None })
    }

    /// # Errors
    /// Some container is not covered by a rule.
    pub fn permit<'a>(
        &self,
        permission: Permission,
        target: impl Into<AccessTarget<'a>>,
    ) -> Result<Permit, Error> {
        let subject = target.into();
        let transform = self.transform(permission, subject);
        let transform = transform.ok_or(Error::Forbidden(Denial::NoRule(permission)))?;
        let containers = subject.containers.clone();
        let id = self.access_session().and(subject.id.cloned());
        let (caller, as_reader) = (self.clone(), false);
        Ok(Permit { caller, permission, containers, id, transform, limited_to_read: as_reader })
    }

    /// Public applications and access sessions run in browsers that strangers control.
    #[must_use]
    pub fn is_browser(&self) -> bool {
        self.access_session().is_some() || self.principal().kind() == ApplicationKind::Public
    }

    /// In each container the first rule that covers it and grants the permission decides; over
    /// several containers, the weakest decision does. Nothing when one has no such rule.
    #[must_use]
    pub fn transform<'a>(
        &self,
        permission: Permission,
        target: impl Into<AccessTarget<'a>>,
    ) -> Option<Transform> {
        let subject = target.into();
        let decide = |it: &Container| self.principal.decide(permission, it, subject.id);
        subject.containers.iter().map(decide).min().flatten()
    }

    /// Where the caller may list by this permission, or in that part of it.
    ///
    /// # Errors
    /// No rule grants the permission on the container that was asked for.
    pub fn container_ranges(
        &self,
        permission: Permission,
        container: Option<&Container>,
    ) -> Result<ContainerRanges, Error> {
        let all = self.principal.container_ranges(permission);
        let Some(container) = container else { return Ok(all) };
        if self.principal.decide(permission, container, None).is_none() {
            return Err(Error::Forbidden(Denial::NoRule(permission)));
        }
        Ok(all.intersect(&ContainerRanges::from_ranges(vec![ContainerRange::subtree(container)])))
    }

    /// The most that the caller can be shown of a token in these containers, by any operation.
    #[must_use]
    pub fn max_transform<'a>(&self, target: impl Into<AccessTarget<'a>>) -> Option<Transform> {
        let subject = target.into();
        VIEWING_PERMISSIONS.into_iter().filter_map(|it| self.transform(it, subject)).max()
    }
}

impl LookupPermit {
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }
}

impl PolicyPermit {
    /// The operator's: whoever has the root key may do anything here, and says so by this call.
    #[must_use]
    pub fn for_operator(tenant: Arc<Tenant>) -> Self {
        Self { tenant, caller: None, requirement: CallerRequirement::AnyKey, os_user: None }
    }

    /// The same mandate of an operator, exercised by this operating-system user.
    #[must_use]
    pub fn with_os_user(self, os_user: Option<Arc<str>>) -> Self {
        Self { os_user, ..self }
    }

    #[must_use]
    pub fn os_user(&self) -> Option<&Arc<str>> {
        self.os_user.as_ref()
    }

    #[must_use]
    pub fn tenant(&self) -> &Arc<Tenant> {
        &self.tenant
    }

    #[must_use]
    pub fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }

    /// The application behind it, for what only an application can do.
    pub(crate) fn require_caller(&self) -> Result<&Caller, Error> {
        self.caller
            .as_ref()
            .ok_or_else(|| Error::Internal("the operator has no application".into()))
    }

    /// What the caller was asked for.
    #[must_use]
    pub fn requirement(&self) -> CallerRequirement {
        self.requirement
    }

    #[must_use]
    pub fn actor(&self) -> Actor {
        let application = |it: &Caller| Actor::Application(it.application());
        self.caller.as_ref().map_or(Actor::Operator, application)
    }

    /// When a change is about to be made: whether the policy is ours and no older than what let the
    /// caller in, and whether the application that asks is still there and still may.
    pub(crate) fn check(&self, records: &PolicyRecords) -> Result<(), Error> {
        let follows = records.seal.is_same_or_newer(&self.tenant.seal);
        if !follows || !records.find_alterations(&self.tenant.keys).is_empty() {
            let cause = "the policy of this tenant was altered by somebody else";
            return Err(Error::Unavailable(cause.into()));
        }
        let Some(caller) = &self.caller else { return Ok(()) };
        let is = |it: &&SignedRow<ApplicationRecord>| it.record.id == caller.application();
        let record = &records.applications.iter().find(is).ok_or(Error::NotFound)?.record;
        let refusal = match self.requirement {
            CallerRequirement::Permission(permission) if !record.access.grants(permission) => {
                Denial::NoRule(permission)
            }
            CallerRequirement::Kind(kind) if record.kind != kind => Denial::WrongKind(kind),
            CallerRequirement::AnyKey
            | CallerRequirement::Kind(_)
            | CallerRequirement::Permission(_) => return Ok(()),
        };
        Err(Error::Forbidden(refusal))
    }

    /// Who and when, for the row that is about to be written.
    #[must_use]
    pub fn change_stamp(&self, at: Timestamp) -> ChangeStamp {
        ChangeStamp { by: self.caller.as_ref().map(Caller::application), at }
    }
}

impl Permit {
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        self.caller.tenant()
    }

    #[must_use]
    pub fn permission(&self) -> Permission {
        self.permission
    }

    #[must_use]
    pub fn containers(&self) -> &Containers {
        &self.containers
    }

    /// The token that it is about, where a rule may ask for it.
    #[must_use]
    pub fn id(&self) -> Option<&TokenId> {
        self.id.as_ref()
    }

    #[must_use]
    pub fn transform(&self) -> Transform {
        self.transform
    }

    /// The same proof, showing no more than this.
    #[must_use]
    pub fn limit_transform(self, most: Transform) -> Self {
        Self { transform: self.transform.min(most), ..self }
    }

    /// The same proof, showing what the right to read shows: for data that the caller did not bring.
    pub(crate) fn limit_to_read(self) -> Self {
        let read = self.caller.transform(Permission::TokenRead, &self.containers);
        Self { limited_to_read: true, ..self.limit_transform(read.unwrap_or(Transform::Redact)) }
    }

    pub(crate) fn is_limited_to_read(&self) -> bool {
        self.limited_to_read
    }

    /// A second proof by a second check, for an answer made elsewhere. Never a stronger one.
    ///
    /// # Errors
    /// As for [`Caller::permit`].
    pub fn recheck(&self) -> Result<Self, Error> {
        let subject = AccessTarget { containers: &self.containers, id: self.id.as_ref() };
        let permit = self.caller.permit(self.permission, subject)?;
        Ok(Self { limited_to_read: self.limited_to_read, ..permit.limit_transform(self.transform) })
    }
}

#[cfg(test)]
mod tests;
