//! A known key's rights, and the decisions that follow from them.

use std::sync::Arc;

use crate::{
    id::{ApiKeyId, ApplicationId, TokenId},
    policy::{
        AccessPolicy, AccessRule, AccessScope, AccessSessionId, ApplicationKind, Permission,
        Permissions, Tenant, Transform,
    },
    token::{Container, ContainerRanges},
};

/// An application with its rights, loaded once and shared by its requests; or a session of one.
#[derive(Debug)]
pub struct Principal {
    tenant: Arc<Tenant>,
    application: ApplicationId,
    kind: ApplicationKind,
    /// By priority; plain permissions come last, as rules on the root.
    rules: Vec<Grant>,
    access_session: Option<AccessSessionInfo>,
}

#[derive(Debug)]
struct Grant {
    scope: AccessScope,
    transform: Transform,
    permissions: Permissions,
    /// A permission without an access rule.
    is_plain: bool,
}

/// The permissions that show a token. Not token:use, which lets data be used elsewhere.
pub(crate) const VIEWING_PERMISSIONS: [Permission; 3] =
    [Permission::TokenRead, Permission::TokenSearch, Permission::TokenUpdate];

impl Grant {
    fn shows_tokens(&self) -> bool {
        self.permissions.intersects(Permissions::from_list(&VIEWING_PERMISSIONS))
    }
}

/// What makes a principal a session: it can do what its rules say and its authorizer still can.
#[derive(Debug)]
struct AccessSessionInfo {
    id: AccessSessionId,
    authorizer: Option<Arc<Principal>>,
    /// The key that authorized it.
    api_key: Option<ApiKeyId>,
}

/// The rights that a private application lends to an access session.
#[derive(Debug, Clone)]
pub struct DelegatedRights {
    pub authorizer: Arc<Principal>,
    pub api_key: ApiKeyId,
    pub access: AccessPolicy,
}

impl Principal {
    #[must_use]
    pub fn new(
        tenant: Arc<Tenant>,
        application: ApplicationId,
        kind: ApplicationKind,
        access: AccessPolicy,
    ) -> Self {
        Self { tenant, application, kind, rules: build_grants(access), access_session: None }
    }

    /// A session that a public application began. Until somebody authorizes it, it has no rights.
    #[must_use]
    pub fn for_access_session(
        id: AccessSessionId,
        application: &Arc<Self>,
        delegated: Option<DelegatedRights>,
    ) -> Self {
        let (authorizer, api_key, access) = match delegated {
            Some(DelegatedRights { authorizer, api_key, access }) => {
                (Some(authorizer), Some(api_key), access)
            }
            None => (None, None, AccessPolicy::default()),
        };
        Self {
            tenant: Arc::clone(&application.tenant),
            application: application.application,
            kind: application.kind,
            rules: build_grants(access),
            access_session: Some(AccessSessionInfo { id, authorizer, api_key }),
        }
    }

    #[must_use]
    pub fn kind(&self) -> ApplicationKind {
        self.kind
    }

    #[must_use]
    pub fn application(&self) -> ApplicationId {
        self.application
    }

    /// Which session it is, when it is not an application itself.
    #[must_use]
    pub fn access_session_id(&self) -> Option<AccessSessionId> {
        self.access_session.as_ref().map(|it| it.id)
    }

    /// The key that authorized the access session, if this is one.
    pub(crate) fn authorizing_key(&self) -> Option<ApiKeyId> {
        self.access_session.as_ref().and_then(|it| it.api_key)
    }

    #[must_use]
    pub fn tenant(&self) -> &Arc<Tenant> {
        &self.tenant
    }

    /// Whether some rule grants it, wherever.
    pub(crate) fn has_permission(&self, permission: Permission) -> bool {
        let own = self.rules.iter().any(|it| it.permissions.has(permission));
        let authorizer_has = |it: &AccessSessionInfo| {
            it.authorizer.as_ref().is_some_and(|it| it.has_permission(permission))
        };
        own && self.access_session.as_ref().is_none_or(authorizer_has)
    }

    /// The container that the first access rule with this permission names. Nothing when a plain
    /// permission grants it, which is for every container.
    pub(crate) fn first_container(&self, permission: Permission) -> Option<Container> {
        let grant = self.rules.iter().find(|it| it.permissions.has(permission))?;
        let named = || grant.scope.containers().first().map(|it| (*it).clone());
        (!grant.is_plain).then(named).flatten()
    }

    /// In one container. The first rule that reaches it and grants the permission decides; for a
    /// session, the authorizer's decision bounds it.
    pub(crate) fn decide(
        &self,
        permission: Permission,
        container: &Container,
        id: Option<&TokenId>,
    ) -> Option<Transform> {
        let grants = |it: &&Grant| it.permissions.has(permission) && it.scope.covers(container, id);
        let own = self.rules.iter().find(grants)?.transform;
        match &self.access_session {
            None => Some(own),
            Some(session) => {
                let most = session.authorizer.as_ref()?.decide(permission, container, id)?;
                Some(own.min(most))
            }
        }
    }

    /// Whether this principal sees in clear all that it can see, find or create. Only then does it
    /// learn nothing from a fingerprint, a duplicate or a search. Fingerprints are the same in all
    /// containers of a tenant, so one container where it sees less is enough to say no.
    pub(crate) fn reveals_everywhere(&self) -> bool {
        use Permission::{TokenCreate, TokenIntentCreate, TokenIntentRead};
        let Some(session) = &self.access_session else {
            let reaching =
                Permissions::from_list(&[TokenCreate, TokenIntentCreate, TokenIntentRead]);
            let reaches = |it: &&Grant| it.permissions.intersects(reaching) || it.shows_tokens();
            let places = self.rules.iter().filter(reaches).flat_map(|it| it.scope.containers());
            let sight =
                |at| VIEWING_PERMISSIONS.iter().filter_map(|it| self.decide(*it, at, None)).max();
            return places.into_iter().all(|at| sight(at) == Some(Transform::Reveal));
        };
        // A condition need not name a container, so there are no places to ask about: each rule
        // that shows tokens must reveal.
        let reveals = |it: &Self| {
            let showing = it.rules.iter().filter(|it| it.shows_tokens());
            showing.into_iter().all(|it| it.transform == Transform::Reveal)
        };
        reveals(self) && session.authorizer.as_ref().is_some_and(|it| reveals(it))
    }

    /// Where lists and searches by this permission look. A rule about ids opens tokens whose id is
    /// known: it reaches no container, so what lies in one is not counted for it.
    pub(crate) fn container_ranges(&self, permission: Permission) -> ContainerRanges {
        let granting = self.rules.iter().filter(|it| it.permissions.has(permission));
        let own = ContainerRanges::from_ranges(
            granting.filter_map(|it| it.scope.container_range()).collect(),
        );
        match &self.access_session {
            None => own,
            Some(session) => {
                let delegated =
                    session.authorizer.as_ref().map(|it| it.container_ranges(permission));
                own.intersect(&delegated.unwrap_or_default())
            }
        }
    }

    /// Whether a grant would be more than this principal has, so far as that can be told without a
    /// token. What cannot be told is bounded when it is used.
    #[must_use]
    pub fn find_exceeding_permission(&self, access: &AccessPolicy) -> Option<Permission> {
        let requested = build_grants(access.clone());
        requested.iter().find_map(|grant| {
            let more = |it: &Permission| {
                if it.is_container_scoped() {
                    let own = self.weakest_transform(*it, &grant.scope);
                    // A transform says nothing about a permission that shows no data.
                    own.is_none() || (it.shows_data() && own < Some(grant.transform))
                } else {
                    !self.has_permission(*it)
                }
            };
            grant.permissions.iter().find(more)
        })
    }

    /// The least that is seen by a permission anywhere within a reach. Decisions change only where
    /// a container is named, so those are the places to ask about.
    fn weakest_transform(&self, permission: Permission, scope: &AccessScope) -> Option<Transform> {
        let own = || self.rules.iter().filter(|it| it.permissions.has(permission));
        let named = scope.containers();
        // Where the tokens are that an id names is not known here.
        if named.is_empty() {
            return own().map(|it| it.transform).max();
        }
        let places = named.into_iter().chain(own().flat_map(|it| it.scope.containers()));
        let within = places.filter(|it| scope.may_cover(it));
        within.map(|it| self.decide(permission, it, None)).min().flatten()
    }
}

fn build_grants(access: AccessPolicy) -> Vec<Grant> {
    let mut rules = access.rules;
    rules.sort_by_key(|it| it.priority);
    let grant = |rule: AccessRule| Grant {
        scope: rule.scope,
        transform: rule.transform,
        permissions: rule.parse_permissions,
        is_plain: false,
    };
    let plain = |permission: Permission, reach: AccessScope| Grant {
        scope: reach,
        transform: permission.implied_transform(),
        permissions: Permissions::from_list(&[permission]),
        is_plain: true,
    };
    // A plain permission for 3-D Secure covers no more containers than the access rules do.
    let of_threeds =
        access.parse_permissions.iter().filter(|it| it.is_threeds() && !rules.is_empty());
    let of_threeds = of_threeds
        .flat_map(|permission| rules.iter().map(move |rule| plain(permission, rule.scope.clone())));
    let of_threeds: Vec<_> = of_threeds.collect();
    let everywhere =
        access.parse_permissions.iter().filter(|it| !it.is_threeds() || rules.is_empty());
    let everywhere = everywhere.map(|it| plain(it, AccessScope::Container(Container::root())));
    let everywhere: Vec<_> = everywhere.collect();
    rules.into_iter().map(grant).chain(of_threeds).chain(everywhere).collect()
}
