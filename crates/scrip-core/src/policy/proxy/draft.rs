//! The attributes of a proxy that a client chooses.

use crate::{
    error::FieldError,
    id::ApplicationId,
    policy::DisplayName,
    proxy::{
        AuthorityCertificates, DestinationUrl, ProxyConfiguration, TlsMinimum,
        transform::TransformList,
    },
};

/// A parsed request that creates or replaces a proxy.
#[derive(Debug, Clone)]
pub struct ProxyDraft {
    pub name: DisplayName,
    pub destination: DestinationUrl,
    pub request_transforms: TransformList,
    pub response_transforms: TransformList,
    pub application: Option<ApplicationId>,
    pub configuration: Option<ProxyConfiguration>,
    /// Whether the request contains a configuration. A patch without one keeps the current one.
    pub names_configuration: bool,
    pub require_auth: bool,
    pub disable_detokenization: bool,
    pub timeout: Option<ProxyTimeout>,
    pub authorities: Option<AuthorityCertificates>,
    pub tls_min: TlsMinimum,
}

/// How long a proxy waits for its destination. The operator's maximum applies too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyTimeout(u64);

pub const TIMEOUT_SECONDS_MAX: u64 = 60;

impl ProxyTimeout {
    /// # Errors
    /// The number of seconds is out of range.
    pub fn parse(seconds: u64) -> Result<Self, FieldError> {
        if (1..=TIMEOUT_SECONDS_MAX).contains(&seconds) {
            return Ok(Self(seconds));
        }
        Err(FieldError::new("timeout", "must be a number of seconds from 1 to 60"))
    }

    #[must_use]
    pub fn seconds(self) -> u64 {
        self.0
    }
}

impl ProxyDraft {
    /// Whether the change decides who receives card data, or which rights the proxy lends. Such a
    /// change needs `application:update` too: who redirects a live proxy reads every card that is
    /// sent through it.
    #[must_use]
    pub fn redirects(&self, current: &Self) -> bool {
        self.destination != current.destination
            || !self.request_transforms.has_same_effect(&current.request_transforms)
            || !self.response_transforms.has_same_effect(&current.response_transforms)
            || self.require_auth != current.require_auth
            // Expressions that were text become card data.
            || (current.disable_detokenization && !self.disable_detokenization)
            || self.authorities != current.authorities
            || self.tls_min != current.tls_min
            || (self.application.is_some() && self.application != current.application)
            || self.configuration != current.configuration
    }

    /// Whether the answer to the request depends on the values of the current configuration, which
    /// only a caller with `proxy:read` may know.
    #[must_use]
    pub fn compares_configuration(&self, current: &Self) -> bool {
        self.names_configuration && current.configuration.is_some()
    }
}
