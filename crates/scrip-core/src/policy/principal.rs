//! The rights of an API key and the decisions that follow from them.

use std::sync::Arc;

use crate::{
    Timestamp,
    policy::{
        AccessPolicy, AccessRule, AccessScope, AccessSessionId, AccessTarget, Tenant,
        application::origins::ApplicationOrigins,
    },
    types::{
        ApplicationKind, Container, ContainerRanges, Permission, Permissions, Transform,
        id::{ApiKeyId, ApplicationId, TokenId},
    },
};

/// An application with its rights, loaded once and shared by its requests; or an access session.
#[derive(Debug)]
pub struct Principal {
    tenant: Arc<Tenant>,
    application: ApplicationId,
    kind: ApplicationKind,
    /// Sorted by priority. Plain permissions come last, as rules on the root container.
    rules: Vec<Grant>,
    access_session: Option<AccessSessionInfo>,
    /// The pages that may use the keys of the application.
    origins: ApplicationOrigins,
}

/// The permissions of one access rule or plain permission.
#[derive(Debug)]
struct Grant {
    scope: AccessScope,
    transform: Transform,
    permissions: Permissions,
    /// A permission without an access rule.
    is_plain: bool,
}

/// The permissions that show a token. `token:use` is not one of them: it only allows the use of the
/// data in outgoing requests.
pub(crate) const VIEWING_PERMISSIONS: [Permission; 3] =
    [Permission::TokenRead, Permission::TokenSearch, Permission::TokenUpdate];

impl Grant {
    fn shows_tokens(&self) -> bool {
        self.permissions.intersects(Permissions::from_list(&VIEWING_PERMISSIONS))
    }
}

/// The access session of a principal. A session has the rights that its own rules grant and that
/// its authorizer still has.
#[derive(Debug)]
struct AccessSessionInfo {
    id: AccessSessionId,
    authorizer: Option<Arc<Principal>>,
    /// The API key that authorized the session.
    api_key: Option<ApiKeyId>,
    authorized_at: Option<Timestamp>,
}

/// The rights that a private application delegates to an access session.
#[derive(Debug, Clone)]
pub struct DelegatedRights {
    pub authorizer: Arc<Principal>,
    pub api_key: ApiKeyId,
    pub at: Timestamp,
    pub access: AccessPolicy,
}

impl Principal {
    pub fn new(
        tenant: Arc<Tenant>,
        application: ApplicationId,
        kind: ApplicationKind,
        access: AccessPolicy,
    ) -> Self {
        Self {
            tenant,
            application,
            kind,
            rules: build_grants(access),
            access_session: None,
            origins: ApplicationOrigins::default(),
        }
    }

    /// Restricts the pages that may use the keys of the application.
    #[must_use]
    pub(crate) fn with_origins(self, origins: ApplicationOrigins) -> Self {
        Self { origins, ..self }
    }

    /// An access session that a public application created. The session has no rights until a
    /// private application authorizes it.
    pub fn for_access_session(
        id: AccessSessionId,
        application: &Arc<Self>,
        delegated: Option<DelegatedRights>,
    ) -> Self {
        let (session, access) = match delegated {
            Some(DelegatedRights { authorizer, api_key, at, access }) => {
                let (authorizer, api_key) = (Some(authorizer), Some(api_key));
                (AccessSessionInfo { id, authorizer, api_key, authorized_at: Some(at) }, access)
            }
            None => {
                let (authorizer, api_key, authorized_at) = (None, None, None);
                let session = AccessSessionInfo { id, authorizer, api_key, authorized_at };
                (session, AccessPolicy::default())
            }
        };
        Self {
            tenant: Arc::clone(&application.tenant),
            application: application.application,
            kind: application.kind,
            rules: build_grants(access),
            access_session: Some(session),
            origins: application.origins.clone(),
        }
    }

    pub fn kind(&self) -> ApplicationKind {
        self.kind
    }

    pub fn application(&self) -> ApplicationId {
        self.application
    }

    /// The pages that may use the keys of the application. An access session has those of the
    /// application that created it.
    pub fn origins(&self) -> &ApplicationOrigins {
        &self.origins
    }

    /// The access session; `None` for an application.
    pub(crate) fn access_session_id(&self) -> Option<AccessSessionId> {
        self.access_session.as_ref().map(|it| it.id)
    }

    /// The time when the access session got its rights; `None` without an authorized session.
    pub(crate) fn authorized_at(&self) -> Option<Timestamp> {
        self.access_session.as_ref().and_then(|it| it.authorized_at)
    }

    /// The API key that authorized the access session, if the principal is one.
    pub(crate) fn authorizing_key(&self) -> Option<ApiKeyId> {
        self.access_session.as_ref().and_then(|it| it.api_key)
    }

    pub fn tenant(&self) -> &Arc<Tenant> {
        &self.tenant
    }

    /// Whether a rule grants the permission in at least one container.
    pub(crate) fn has_permission(&self, permission: Permission) -> bool {
        let is_granted = self.rules.iter().any(|it| it.permissions.has(permission));
        let authorizer_has = |it: &AccessSessionInfo| {
            it.authorizer.as_ref().is_some_and(|it| it.has_permission(permission))
        };
        is_granted && self.access_session.as_ref().is_none_or(authorizer_has)
    }

    /// The container of the first access rule with this permission. `None` when a plain permission
    /// grants it, because that applies to every container.
    pub(crate) fn first_container(&self, permission: Permission) -> Option<Container> {
        let grant = self.rules.iter().find(|it| it.permissions.has(permission))?;
        let find_container = || grant.scope.containers().first().map(|it| (*it).clone());
        (!grant.is_plain).then(find_container).flatten()
    }

    /// Whether an access rule with the permission names each of the containers, or the token.
    pub(crate) fn names_place(&self, permission: Permission, target: AccessTarget<'_>) -> bool {
        let names = |container: &Container| {
            let is_named = |it: &&Grant| !it.is_plain && it.scope.names(container, target.id);
            self.rules.iter().filter(|it| it.permissions.has(permission)).any(|it| is_named(&it))
        };
        target.containers.iter().all(names)
    }

    /// The decision for one container. The first rule that covers the container and grants the
    /// permission decides. A session gets at most the transform of its authorizer.
    pub(crate) fn decide(
        &self,
        permission: Permission,
        container: &Container,
        id: Option<&TokenId>,
    ) -> Option<Transform> {
        let applies =
            |it: &&Grant| it.permissions.has(permission) && it.scope.covers(container, id);
        let transform = self.rules.iter().find(applies)?.transform;
        match &self.access_session {
            None => Some(transform),
            Some(session) => {
                let authorizer_transform =
                    session.authorizer.as_ref()?.decide(permission, container, id)?;
                Some(transform.min(authorizer_transform))
            }
        }
    }

    /// Whether this principal reads all tokens of the tenant in clear. Only such a principal learns
    /// nothing from a fingerprint or a duplicate: fingerprints are the same in all containers, and
    /// another key of the same person may show those of containers that this principal cannot read.
    pub(crate) fn reveals_whole_tenant(&self) -> bool {
        let root = Container::root();
        let transform = |it: &Permission| self.decide(*it, &root, None);
        self.reveals_everywhere()
            && VIEWING_PERMISSIONS.iter().filter_map(transform).max() == Some(Transform::Reveal)
    }

    /// Whether this principal reads in clear everything that it can read, find or create. Only such
    /// a principal learns nothing from a search.
    pub(crate) fn reveals_everywhere(&self) -> bool {
        use Permission::{TokenCreate, TokenIntentCreate, TokenIntentRead};
        let Some(session) = &self.access_session else {
            let creating_permissions =
                Permissions::from_list(&[TokenCreate, TokenIntentCreate, TokenIntentRead]);
            let is_relevant =
                |it: &&Grant| it.permissions.intersects(creating_permissions) || it.shows_tokens();
            let containers =
                self.rules.iter().filter(is_relevant).flat_map(|it| it.scope.containers());
            let max_transform = |container| {
                VIEWING_PERMISSIONS.iter().filter_map(|it| self.decide(*it, container, None)).max()
            };
            return containers
                .into_iter()
                .all(|container| max_transform(container) == Some(Transform::Reveal));
        };
        // A condition may name no container, so there is no list of containers to check. Each rule
        // that shows tokens must therefore reveal.
        let reveals = |it: &Self| {
            let viewing_grants = it.rules.iter().filter(|it| it.shows_tokens());
            viewing_grants.into_iter().all(|it| it.transform == Transform::Reveal)
        };
        reveals(self) && session.authorizer.as_ref().is_some_and(|it| reveals(it))
    }

    /// The containers that lists and searches with this permission scan. A rule with a condition on
    /// the id only gives access to tokens with a known id. It covers no container range, so it adds
    /// nothing to lists.
    pub(crate) fn container_ranges(&self, permission: Permission) -> ContainerRanges {
        let grants = self.rules.iter().filter(|it| it.permissions.has(permission));
        let ranges = ContainerRanges::from_ranges(
            grants.filter_map(|it| it.scope.container_range()).collect(),
        );
        match &self.access_session {
            None => ranges,
            Some(session) => {
                let authorizer_ranges =
                    session.authorizer.as_ref().map(|it| it.container_ranges(permission));
                ranges.intersect(&authorizer_ranges.unwrap_or_default())
            }
        }
    }

    /// Finds a permission in `access` that this principal does not have to the same extent. Some
    /// cases cannot be decided without a token; they are limited when the session uses its rights.
    pub fn find_exceeding_permission(&self, access: &AccessPolicy) -> Option<Permission> {
        let requested = build_grants(access.clone());
        requested.iter().find_map(|grant| {
            let exceeds = |it: &Permission| {
                if it.is_container_scoped() {
                    let weakest = self.weakest_transform(*it, &grant.scope);
                    // The transform has no meaning for a permission that shows no data.
                    weakest.is_none() || (it.shows_data() && weakest < Some(grant.transform))
                } else {
                    !self.has_permission(*it)
                }
            };
            grant.permissions.iter().find(exceeds)
        })
    }

    /// The weakest transform of a permission within a scope. Decisions change only at containers
    /// that rules name, so only those containers are checked.
    fn weakest_transform(&self, permission: Permission, scope: &AccessScope) -> Option<Transform> {
        let grants = || self.rules.iter().filter(|it| it.permissions.has(permission));
        let scope_containers = scope.containers();
        // The containers of a token that is named by its id are not known here.
        if scope_containers.is_empty() {
            return grants().map(|it| it.transform).max();
        }
        let containers =
            scope_containers.into_iter().chain(grants().flat_map(|it| it.scope.containers()));
        let containers_in_scope = containers.filter(|it| scope.may_cover(it));
        containers_in_scope.map(|it| self.decide(permission, it, None)).min().flatten()
    }
}

fn build_grants(access: AccessPolicy) -> Vec<Grant> {
    let mut rules = access.rules;
    rules.sort_by_key(|it| it.priority);
    let to_grant = |rule: AccessRule| Grant {
        scope: rule.scope,
        transform: rule.transform,
        permissions: rule.permissions,
        is_plain: false,
    };
    let plain_grant = |permission: Permission, scope: AccessScope| Grant {
        scope,
        transform: permission.implied_transform(),
        permissions: Permissions::from_list(&[permission]),
        is_plain: true,
    };
    // Plain 3-D Secure permissions cover no more containers than the access rules do.
    let limited = access.permissions.iter().filter(|it| it.is_threeds() && !rules.is_empty());
    let threeds_grants = limited.flat_map(|permission| {
        rules.iter().map(move |rule| plain_grant(permission, rule.scope.clone()))
    });
    let threeds_grants: Vec<_> = threeds_grants.collect();
    let unlimited = access.permissions.iter().filter(|it| !it.is_threeds() || rules.is_empty());
    let root_grants =
        unlimited.map(|it| plain_grant(it, AccessScope::Container(Container::root())));
    let root_grants: Vec<_> = root_grants.collect();
    rules.into_iter().map(to_grant).chain(threeds_grants).chain(root_grants).collect()
}
