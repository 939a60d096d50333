//! Who is asking, and what they have been allowed to do.

use std::{net::IpAddr, sync::Arc};

use crate::{
    application::{AccessPolicy, AccessRule},
    container::{Container, Containers},
    error::{Error, Refusal},
    id::ApplicationId,
    permission::{ApplicationKind, Permission, Permissions, Transform},
    tenant::Tenant,
};

/// An application with its rights, loaded once and shared by its requests.
#[derive(Debug)]
pub struct Principal {
    tenant: Arc<Tenant>,
    application: ApplicationId,
    kind: ApplicationKind,
    /// By priority; plain permissions come last, as rules on the root.
    rules: Vec<Grant>,
}

#[derive(Debug)]
struct Grant {
    container: Container,
    transform: Transform,
    permissions: Permissions,
}

/// Where a request came from, for the records.
#[derive(Debug, Clone)]
pub struct Origin {
    pub trace: Arc<str>,
    pub address: IpAddr,
}

/// Who asks, for the length of one request.
#[derive(Debug, Clone)]
pub struct Caller {
    principal: Arc<Principal>,
    origin: Origin,
}

/// Proof that the caller holds a permission somewhere in its tenant: enough to look for a token,
/// not to open it.
#[derive(Debug)]
pub struct Inquiry {
    tenant: Arc<Tenant>,
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
    transform: Transform,
}

impl Principal {
    #[must_use]
    pub fn new(
        tenant: Arc<Tenant>,
        application: ApplicationId,
        kind: ApplicationKind,
        access: AccessPolicy,
    ) -> Self {
        let mut rules = access.rules;
        rules.sort_by_key(|it| it.priority);
        let grant = |rule: AccessRule| Grant {
            container: rule.container,
            transform: rule.transform,
            permissions: rule.permissions,
        };
        let plain = access.permissions.iter().map(|it| Grant {
            container: Container::root(),
            transform: it.implied_transform(),
            permissions: Permissions::of(&[it]),
        });
        let rules = rules.into_iter().map(grant).chain(plain).collect();
        Self { tenant, application, kind, rules }
    }

    #[must_use]
    pub fn kind(&self) -> ApplicationKind {
        self.kind
    }
}

impl Caller {
    #[must_use]
    pub fn new(principal: Arc<Principal>, origin: Origin) -> Self {
        Self { principal, origin }
    }

    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.principal.tenant
    }

    #[must_use]
    pub fn application(&self) -> ApplicationId {
        self.principal.application
    }

    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// # Errors
    /// No rule grants the permission anywhere.
    pub fn inquire(&self, permission: Permission) -> Result<Inquiry, Error> {
        if !self.principal.rules.iter().any(|it| it.permissions.has(permission)) {
            return Err(Error::Forbidden(Refusal::NoRule(permission)));
        }
        Ok(Inquiry { tenant: Arc::clone(&self.principal.tenant) })
    }

    /// # Errors
    /// Some container is not covered by a rule.
    pub fn permit(&self, permission: Permission, containers: &Containers) -> Result<Permit, Error> {
        let transform = self.transform(permission, containers);
        let transform = transform.ok_or(Error::Forbidden(Refusal::NoRule(permission)))?;
        let containers = containers.clone();
        Ok(Permit { caller: self.clone(), permission, containers, transform })
    }

    /// In each container the first rule that covers it and grants the permission decides; over
    /// several containers, the weakest decision does. Nothing when one has no such rule.
    #[must_use]
    pub fn transform(&self, permission: Permission, containers: &Containers) -> Option<Transform> {
        let decide = |container: &Container| {
            let grants =
                |it: &&Grant| it.permissions.has(permission) && it.container.covers(container);
            self.principal.rules.iter().find(grants).map(|it| it.transform)
        };
        containers.iter().map(decide).min().flatten()
    }

    /// The most that the caller can be shown of a token in these containers, by any operation.
    #[must_use]
    pub fn sight(&self, containers: &Containers) -> Option<Transform> {
        use Permission::{TokenRead, TokenSearch, TokenUpdate};
        // Not by token:use, which lets data be used elsewhere and shows it to nobody.
        let ways = [TokenRead, TokenSearch, TokenUpdate];
        ways.into_iter().filter_map(|it| self.transform(it, containers)).max()
    }
}

impl Inquiry {
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
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

    #[must_use]
    pub fn transform(&self) -> Transform {
        self.transform
    }

    /// The same proof, showing no more than this.
    #[must_use]
    pub fn weakened(self, most: Transform) -> Self {
        Self { transform: self.transform.min(most), ..self }
    }

    /// A second proof by a second check, for an answer made elsewhere. Never a stronger one.
    ///
    /// # Errors
    /// As for [`Caller::permit`].
    pub fn again(&self) -> Result<Self, Error> {
        let permit = self.caller.permit(self.permission, &self.containers)?;
        Ok(permit.weakened(self.transform))
    }
}

#[cfg(test)]
mod tests;
