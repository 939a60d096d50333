//! The caller of a request and the proofs of its permissions.

mod sender;
mod tenant_deletion;
mod use_right;

pub use self::{
    tenant_deletion::TenantDeletion,
    use_right::{DestinationChoice, UseRight},
};

use std::{net::IpAddr, sync::Arc};

use crate::{
    Error, Timestamp,
    policy::{
        AccessSessionId, AccessTarget, ApplicationRecord, ChangeStamp, FieldKinds, PolicyRecords,
        Principal, SignedRow, Tenant, principal::VIEWING_PERMISSIONS,
    },
    types::{
        ApplicationKind, Container, ContainerRange, ContainerRanges, Containers, Permission,
        Transform,
        error::Denial,
        id::{ApiKeyId, ApplicationId, TokenId},
    },
    work_meter::{RunLongEvaluation, WorkMeter},
};

/// The callers that a route accepts. This is the first check of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerRequirement {
    /// Any known API key.
    AnyKey,
    /// An API key of an application of this kind, with any rights.
    Kind(ApplicationKind),
    Permission(Permission),
}

/// The trace id and client address of a request, for audit records.
#[derive(Debug, Clone)]
pub struct RequestOrigin {
    pub trace: Arc<str>,
    pub address: IpAddr,
}

/// The authenticated caller of one request.
#[derive(Debug, Clone)]
pub struct Caller {
    principal: Arc<Principal>,
    origin: RequestOrigin,
    /// Shared by all clones, because the budget belongs to the request.
    work: Arc<WorkMeter>,
    api_key: Option<ApiKeyId>,
    marks_fields: bool,
    sends_field_values: bool,
    field_kinds: FieldKinds,
    /// For the application of a proxy that collects data: the sender of the call.
    sender: Option<CollectionSender>,
}

/// Proof that the caller has a permission in at least one container of its tenant. It allows the
/// caller to find a token, but not to decrypt it.
#[derive(Debug)]
pub struct LookupPermit {
    tenant: Arc<Tenant>,
}

/// Proof that the caller may read or change a tenant's policy. The caller is an application that
/// meets the requirement, or the operator, who has the root key and needs no permission, or the vault.
#[derive(Debug, Clone)]
pub struct PolicyPermit {
    tenant: Arc<Tenant>,
    /// `None` for the operator and the vault.
    caller: Option<Caller>,
    /// The actor if there is no caller.
    own_actor: OwnActor,
    requirement: CallerRequirement,
    /// The operating-system user of an operator's command.
    os_user: Option<Arc<str>>,
}

/// An actor without an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnActor {
    Operator,
    Vault,
}

/// The actor of an audit record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    Application(ApplicationId),
    Operator,
    /// The vault, because something expired, or because a webhook failed for too long.
    Vault,
    /// A caller without an API key: a browser or a directory server.
    Unauthenticated,
}

/// Proof that access rules allowed one permission in all of these containers of this tenant.
///
/// Only [`Caller::permit`] creates a permit, and a permit is passed by value. A function that takes
/// a permit can therefore not be called without the check, nor for another tenant.
#[derive(Debug)]
pub struct Permit {
    caller: Caller,
    permission: Permission,
    containers: Containers,
    /// Set for access sessions only: their rules may contain conditions on the id.
    id: Option<TokenId>,
    transform: Transform,
    /// Whether the permit reveals no more than `token:read` does.
    limited_to_read: bool,
}

impl Caller {
    pub fn new(principal: Arc<Principal>, origin: RequestOrigin) -> Self {
        Self {
            principal,
            origin,
            work: Arc::default(),
            api_key: None,
            marks_fields: false,
            sends_field_values: false,
            field_kinds: FieldKinds::default(),
            sender: None,
        }
    }

    /// The same caller with this runner for long evaluations.
    #[must_use]
    pub fn with_long_evaluations(mut self, run_long: RunLongEvaluation) -> Self {
        self.work = Arc::new(WorkMeter::new(Some(self.tenant().id), run_long));
        self
    }

    /// The work budget that all expressions of the request share.
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
    pub fn api_key(&self) -> Option<ApiKeyId> {
        self.api_key.or_else(|| self.principal.authorizing_key())
    }

    pub fn tenant(&self) -> &Tenant {
        self.principal.tenant()
    }

    pub fn application(&self) -> ApplicationId {
        self.principal.application()
    }

    pub fn origin(&self) -> &RequestOrigin {
        &self.origin
    }

    /// The access session of the caller; `None` for an application.
    pub fn access_session(&self) -> Option<AccessSessionId> {
        self.principal.access_session_id()
    }

    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// Checks that the caller meets the requirement of a route.
    /// Errors: the caller is of another kind, or no rule grants the permission anywhere.
    pub fn check_requirement(&self, requirement: CallerRequirement) -> Result<(), Error> {
        let denial = match requirement {
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
            CallerRequirement::Permission(permission) => self.denial(permission),
        };
        Err(Error::Forbidden(denial))
    }

    /// The reason why the caller does not have the permission.
    fn denial(&self, permission: Permission) -> Denial {
        let kind = self.principal.kind();
        if self.access_session().is_some() {
            let is_possible = permission.kinds().contains(&ApplicationKind::Private);
            return if is_possible {
                Denial::NoRule(permission)
            } else {
                Denial::SessionLacksPermission(permission)
            };
        }
        if permission.kinds().contains(&kind) {
            Denial::NoRule(permission)
        } else {
            Denial::KindLacksPermission { kind, permission }
        }
    }

    /// Creates a permit to find entities with this permission.
    /// Errors: no rule grants the permission anywhere.
    pub fn permit_lookup(&self, permission: Permission) -> Result<LookupPermit, Error> {
        self.check_requirement(CallerRequirement::Permission(permission))?;
        // Every write calls this function, and no write may store an incomplete evaluation.
        self.work.check()?;
        Ok(LookupPermit { tenant: Arc::clone(self.principal.tenant()) })
    }

    /// Creates a permit to read or change the policy.
    /// Errors: as for [`Caller::check_requirement`].
    pub fn permit_policy(&self, requirement: CallerRequirement) -> Result<PolicyPermit, Error> {
        self.check_requirement(requirement)?;
        let tenant = Arc::clone(self.principal.tenant());
        Ok(PolicyPermit {
            caller: Some(self.clone()),
            requirement,
            ..PolicyPermit::for_operator(tenant)
        })
    }

    /// Checks the access rules and creates a permit.
    /// Errors: a container is not covered by a rule.
    pub fn permit<'a>(
        &self,
        permission: Permission,
        target: impl Into<AccessTarget<'a>>,
    ) -> Result<Permit, Error> {
        let target = target.into();
        let transform = self.transform(permission, target);
        let transform = transform.ok_or_else(|| Error::Forbidden(self.denial(permission)))?;
        let containers = target.containers.clone();
        let id = self.access_session().and(target.id.cloned());
        let (caller, limited_to_read) = (self.clone(), false);
        Ok(Permit { caller, permission, containers, id, transform, limited_to_read })
    }

    /// The transform of a permission on a target. In each container, the first rule that covers the
    /// container and grants the permission decides. Over several containers, the weakest decision
    /// applies. `None` when a container has no such rule.
    pub fn transform<'a>(
        &self,
        permission: Permission,
        target: impl Into<AccessTarget<'a>>,
    ) -> Option<Transform> {
        let target = target.into();
        let decide = |it: &Container| self.principal.decide(permission, it, target.id);
        target.containers.iter().map(decide).min().flatten()
    }

    /// The containers that the caller may list with this permission, limited to `container` if
    /// given.
    /// Errors: no rule grants the permission on the requested container.
    pub fn container_ranges(
        &self,
        permission: Permission,
        container: Option<&Container>,
    ) -> Result<ContainerRanges, Error> {
        let ranges = self.principal.container_ranges(permission);
        let Some(container) = container else { return Ok(ranges) };
        if self.principal.decide(permission, container, None).is_none() {
            return Err(Error::Forbidden(self.denial(permission)));
        }
        Ok(ranges
            .intersect(&ContainerRanges::from_ranges(vec![ContainerRange::subtree(container)])))
    }

    /// The strongest transform of any operation that shows a token in these containers.
    pub(crate) fn max_transform<'a>(
        &self,
        target: impl Into<AccessTarget<'a>>,
    ) -> Option<Transform> {
        let target = target.into();
        VIEWING_PERMISSIONS.into_iter().filter_map(|it| self.transform(it, target)).max()
    }
}

impl LookupPermit {
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }
}

impl PolicyPermit {
    /// The permit of the operator. The caller of this function must have the root key.
    pub fn for_operator(tenant: Arc<Tenant>) -> Self {
        Self {
            tenant,
            caller: None,
            own_actor: OwnActor::Operator,
            requirement: CallerRequirement::AnyKey,
            os_user: None,
        }
    }

    /// The permit of the vault itself, for a change that no caller requests.
    pub fn for_vault(tenant: Arc<Tenant>) -> Self {
        Self { own_actor: OwnActor::Vault, ..Self::for_operator(tenant) }
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
        match (&self.caller, self.own_actor) {
            (Some(caller), _) => Actor::Application(caller.application()),
            (None, OwnActor::Operator) => Actor::Operator,
            (None, OwnActor::Vault) => Actor::Vault,
        }
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

impl Permit {
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    pub fn tenant(&self) -> &Tenant {
        self.caller.tenant()
    }

    pub fn permission(&self) -> Permission {
        self.permission
    }

    pub fn containers(&self) -> &Containers {
        &self.containers
    }

    /// The token of the permit, if rules may contain a condition on its id.
    pub fn id(&self) -> Option<&TokenId> {
        self.id.as_ref()
    }

    pub fn transform(&self) -> Transform {
        self.transform
    }

    /// The same permit with at most this transform.
    #[must_use]
    pub(crate) fn limit_transform(self, max: Transform) -> Self {
        Self { transform: self.transform.min(max), ..self }
    }

    /// The same permit with at most the transform of `token:read`: for data that the caller did not
    /// submit.
    pub(crate) fn limit_to_read(self) -> Self {
        let read_transform = self.caller.transform(Permission::TokenRead, &self.containers);
        Self {
            limited_to_read: true,
            ..self.limit_transform(read_transform.unwrap_or(Transform::Redact))
        }
    }

    pub(crate) fn is_limited_to_read(&self) -> bool {
        self.limited_to_read
    }

    /// Repeats the check and creates a second permit, for a response that other code renders. The
    /// second permit is never stronger than this one.
    /// Errors: as for [`Caller::permit`].
    pub(crate) fn recheck(&self) -> Result<Self, Error> {
        let target = AccessTarget { containers: &self.containers, id: self.id.as_ref() };
        let permit = self.caller.permit(self.permission, target)?;
        Ok(Self { limited_to_read: self.limited_to_read, ..permit.limit_transform(self.transform) })
    }
}

/// The sender of a proxied call whose data a proxy collects.
#[derive(Debug, Clone)]
pub(super) enum CollectionSender {
    Keyless,
    Caller(Arc<Caller>),
}

#[cfg(test)]
mod tests;
