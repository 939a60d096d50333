//! The caller of a request and the proofs of its permissions.

mod policy_permit;
mod use_right;

pub use self::{
    policy_permit::{PolicyPermit, TenantDeletion},
    use_right::{DestinationChoice, UseRight},
};

use std::{net::IpAddr, sync::Arc};

use crate::{
    Error,
    policy::{
        AccessSessionId, AccessTarget, FieldKinds, Principal, Tenant,
        principal::VIEWING_PERMISSIONS,
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

/// Whether the caller has a reveal right on a token: `token:read`, `token:search` or `token:update`
/// with the transform `reveal`.
pub(crate) fn has_reveal_right<'a>(caller: &Caller, target: impl Into<AccessTarget<'a>>) -> bool {
    caller.max_transform(target) == Some(Transform::Reveal)
}

impl Caller {
    /// The same caller. With `marks_fields`, the tokens and intents that it writes hold the text of a
    /// hosted field that the page must not read.
    #[must_use]
    pub fn with_field_mark(self, marks_fields: bool) -> Self {
        Self { marks_fields, ..self }
    }

    pub(crate) fn marks_fields(&self) -> bool {
        self.marks_fields
    }

    /// Whether the request holds what a payer typed: it has values of hosted fields, or collects them
    /// for a sender.
    pub(crate) fn carries_typed_values(&self) -> bool {
        let sender_carries = || self.collection_sender().is_some_and(Self::carries_typed_values);
        self.marks_fields || self.field_kinds.has_values() || sender_carries()
    }

    /// The same caller. With `sends_field_values`, the request holds values of hosted fields.
    #[must_use]
    pub fn with_field_values(self, sends_field_values: bool) -> Self {
        Self { sends_field_values, ..self }
    }

    pub(crate) fn sends_field_values(&self) -> bool {
        self.sends_field_values
    }

    /// The same caller, which stores data that another caller sent; `None` for a sender without an
    /// API key. The rights stay those of this caller. The rules for browsers and the guessing budget
    /// are those of the sender.
    pub(crate) fn collecting_for(&self, sender: Option<&Self>) -> Self {
        let sender = sender
            .map_or(CollectionSender::Keyless, |it| CollectionSender::Caller(Arc::new(it.clone())));
        Self { sender: Some(sender), ..self.clone() }
    }

    /// The sender of the call that this caller collects data for, if it has an API key.
    pub(crate) fn collection_sender(&self) -> Option<&Self> {
        match &self.sender {
            Some(CollectionSender::Caller(sender)) => Some(sender),
            Some(CollectionSender::Keyless) | None => None,
        }
    }

    /// Whether the caller is the application of a proxy that stores data of a sender.
    pub(crate) fn is_collecting(&self) -> bool {
        self.sender.is_some()
    }

    /// The sender whose data this caller stores, for the records of its writes.
    pub(crate) fn describe_sender(&self) -> Option<Arc<str>> {
        let text = match self.sender.as_ref()? {
            CollectionSender::Keyless => "collected for a client without an API key".to_owned(),
            CollectionSender::Caller(sender) => {
                format!("collected for application {}", sender.application())
            }
        };
        Some(text.into())
    }

    /// The application whose guesses are counted.
    pub(crate) fn guessing_application(&self) -> ApplicationId {
        match &self.sender {
            Some(CollectionSender::Caller(sender)) => sender.application(),
            Some(CollectionSender::Keyless) | None => self.application(),
        }
    }

    /// Whether guesses count in the counters of browsers. The sender decides, not the application
    /// that collects for it: otherwise a sender would have the budgets of both.
    pub(crate) fn guesses_as_browser(&self) -> bool {
        match &self.sender {
            Some(CollectionSender::Keyless) => true,
            Some(CollectionSender::Caller(sender)) => sender.is_browser(),
            None => self.is_browser(),
        }
    }

    /// Whether the caller, and the sender whose data it collects, have a reveal right wherever they
    /// can read, search or create tokens.
    pub(crate) fn reveals_everywhere(&self) -> bool {
        self.each_principal(Principal::reveals_everywhere)
    }

    /// Whether the caller, and the sender whose data it collects, read all tokens of the tenant in
    /// clear.
    pub(crate) fn reveals_whole_tenant(&self) -> bool {
        self.each_principal(Principal::reveals_whole_tenant)
    }

    /// Whether the principal, and that of the sender whose data it collects, meet a condition. A
    /// sender without a key meets none.
    fn each_principal(&self, meets: impl Fn(&Principal) -> bool) -> bool {
        let sender_meets = match &self.sender {
            Some(CollectionSender::Caller(sender)) => meets(&sender.principal),
            Some(CollectionSender::Keyless) => false,
            None => true,
        };
        sender_meets && meets(&self.principal)
    }

    /// Whether the caller runs in a browser that the tenant does not control: a public application
    /// or an access session, or a proxy that collects data of such a sender or of one without a key.
    pub fn is_browser(&self) -> bool {
        let has_browser_sender = match &self.sender {
            Some(CollectionSender::Keyless) => true,
            Some(CollectionSender::Caller(sender)) => sender.is_browser(),
            None => false,
        };
        has_browser_sender
            || self.access_session().is_some()
            || self.principal().kind() == ApplicationKind::Public
    }

    /// The same caller, with these kinds of values of hosted fields in its request.
    #[must_use]
    pub fn with_field_kinds(self, field_kinds: FieldKinds) -> Self {
        Self { field_kinds, ..self }
    }

    pub(crate) fn field_kinds(&self) -> FieldKinds {
        self.field_kinds
    }
}

#[cfg(test)]
mod tests;
