//! The right to use the data of tokens in a proxied call.
//!
//! The data goes to the destination and not to the caller. So the transform of a rule, which limits
//! what a response shows, does not apply: the data is used in full or not at all.

use std::sync::Arc;

use crate::{
    Error,
    policy::{AccessTarget, Caller, LookupPermit, Permit},
    types::{Container, Permission, Transform},
};

/// The destinations that the operator allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DestinationChoice {
    /// Every public address: a caller can have a destination of its own.
    Any,
    /// Those on a list.
    Listed,
}

/// The right to use tokens, by the kind of proxy that receives their data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UseRight {
    /// The caller chooses the destination.
    EphemeralProxy,
    /// The destination was chosen by the administrator who created the proxy.
    PreConfiguredProxy,
}

impl UseRight {
    /// The permissions that grant the right. One of them is sufficient in each container.
    pub fn permissions(self) -> &'static [Permission] {
        match self {
            Self::EphemeralProxy => &[Permission::TokenUse],
            Self::PreConfiguredProxy => &[Permission::TokenUse, Permission::ProxyInvoke],
        }
    }
}

impl Caller {
    /// Creates a permit to find the tokens of a proxied call. A call without tokens needs it too:
    /// otherwise a public API key, which every visitor of a page has, could send requests from the
    /// address of the vault.
    ///
    /// Errors: no rule grants the right anywhere.
    pub fn permit_use_lookup(&self, right: UseRight) -> Result<LookupPermit, Error> {
        if !right.permissions().iter().any(|it| self.principal.has_permission(*it)) {
            return Err(self.deny_use(right));
        }
        self.work.check()?;
        Ok(LookupPermit { tenant: Arc::clone(self.principal.tenant()) })
    }

    /// Whether the caller may send the data to a destination of its own, which is the same as reading
    /// it. A page may not: what it sends can be what a payer types.
    pub(crate) fn sends_anywhere<'a>(
        &self,
        destinations: DestinationChoice,
        target: impl Into<AccessTarget<'a>>,
    ) -> bool {
        destinations == DestinationChoice::Any
            && !self.is_browser()
            && !self.tenant().settings.disable_ephemeral_proxy
            && self.permit_use(UseRight::EphemeralProxy, target).is_ok()
    }

    /// Creates a permit to use the data of a token, in full.
    /// Errors: a container of the token is not covered by a rule.
    pub(crate) fn permit_use<'a>(
        &self,
        right: UseRight,
        target: impl Into<AccessTarget<'a>>,
    ) -> Result<Permit, Error> {
        let target = target.into();
        let is_granted = |container: &Container| {
            let mut permissions = right.permissions().iter();
            permissions.any(|it| self.principal.decide(*it, container, target.id).is_some())
        };
        if !target.containers.iter().all(is_granted) {
            return Err(self.deny_use(right));
        }
        Ok(Permit {
            caller: self.clone(),
            permission: Permission::TokenUse,
            containers: target.containers.clone(),
            id: self.access_session().and(target.id.cloned()),
            transform: Transform::Reveal,
            limited_to_read: false,
        })
    }

    /// Names the weakest permission that would be sufficient.
    fn deny_use(&self, right: UseRight) -> Error {
        let weakest = right.permissions().last().copied().unwrap_or(Permission::TokenUse);
        Error::Forbidden(self.denial(weakest))
    }
}
