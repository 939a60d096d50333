//! The attributes of a proxy that a client chooses.

use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    FieldError,
    policy::{
        DisplayName,
        destination::DestinationUrl,
        proxy::{AuthorityCertificates, ProxyConfiguration, TlsMinimum, TransformList},
    },
    types::id::ApplicationId,
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
    pub require_auth: bool,
    pub disable_detokenization: bool,
    pub timeout: Option<ProxyTimeout>,
    pub authorities: Option<AuthorityCertificates>,
    pub tls_min: TlsMinimum,
}

/// How long a proxy waits for its destination. The operator's maximum applies too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ProxyTimeout(u64);

pub const TIMEOUT_SECONDS_MAX: u64 = 60;

impl ProxyTimeout {
    /// Errors: the number of seconds is out of range.
    pub fn parse(seconds: u64) -> Result<Self, FieldError> {
        if (1..=TIMEOUT_SECONDS_MAX).contains(&seconds) {
            return Ok(Self(seconds));
        }
        Err(FieldError::new("timeout", "must be a number of seconds from 1 to 60"))
    }

    pub fn seconds(self) -> u64 {
        self.0
    }
}

/// A stored timeout that is out of range is none.
pub(super) fn read_timeout<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<ProxyTimeout>, D::Error> {
    Ok(Option::<u64>::deserialize(from)?.and_then(|it| ProxyTimeout::parse(it).ok()))
}

/// A draft whose programs (masks, transforms, certificates) were compiled. Only
/// [`ProxyDraft::compile`] makes it, and every operation that stores a draft requires it.
#[derive(Debug, Clone)]
pub struct CompiledDraft {
    draft: ProxyDraft,
    /// The memory of the compiled masks. `None` if the transforms did not change.
    pattern_bytes: Option<u64>,
}

/// The charged work to compile this many masks: each takes up to a millisecond.
pub fn count_pattern_work(patterns: usize) -> usize {
    patterns.saturating_mul(256 * 1024)
}

impl CompiledDraft {
    pub(crate) fn into_draft(self) -> ProxyDraft {
        self.draft
    }

    pub(crate) fn pattern_bytes(&self) -> Option<u64> {
        self.pattern_bytes
    }
}

impl Deref for CompiledDraft {
    type Target = ProxyDraft;

    fn deref(&self) -> &ProxyDraft {
        &self.draft
    }
}

impl ProxyDraft {
    /// Compiles the draft. Transforms and certificates that are the same as in the current version
    /// of the proxy are not compiled again. The first error ends it, so that a request cannot buy
    /// more work with more errors.
    ///
    /// Errors: a mask cannot be compiled, or a certificate cannot be parsed.
    pub fn compile(self, current: Option<&Self>) -> Result<CompiledDraft, FieldError> {
        let pattern_bytes = match self.has_same_transforms(current) {
            true => None,
            false => {
                let request_bytes = self.request_transforms.compile_new("request_transform")?;
                let response_bytes = self.response_transforms.compile_new("response_transform")?;
                Some(request_bytes.saturating_add(response_bytes))
            }
        };
        let current_authorities = current.and_then(|it| it.authorities.as_ref());
        if let Some(authorities) = &self.authorities
            && Some(authorities) != current_authorities
        {
            authorities.check()?;
        }
        Ok(CompiledDraft { draft: self, pattern_bytes })
    }

    fn has_same_transforms(&self, current: Option<&Self>) -> bool {
        current.is_some_and(|it| {
            self.request_transforms.has_same_effect(&it.request_transforms)
                && self.response_transforms.has_same_effect(&it.response_transforms)
        })
    }

    /// The charged work to compile the draft.
    pub fn count_compile_work(&self, current: Option<&Self>) -> usize {
        let patterns = match self.has_same_transforms(current) {
            true => 0,
            false => self
                .request_transforms
                .count_patterns()
                .saturating_add(self.response_transforms.count_patterns()),
        };
        count_pattern_work(patterns)
    }

    /// Whether the change decides who receives card data, or which rights the proxy lends. Such a
    /// change needs `application:update` too: who redirects a live proxy reads every card that is
    /// sent through it.
    pub fn redirects(&self, current: &Self) -> bool {
        self.destination != current.destination
            || !self.request_transforms.has_same_effect(&current.request_transforms)
            || !self.response_transforms.has_same_effect(&current.response_transforms)
            || self.require_auth != current.require_auth
            // Expressions that were text become card data.
            || (current.disable_detokenization && !self.disable_detokenization)
            || self.authorities != current.authorities
            || self.tls_min != current.tls_min
            || self.application != current.application
            || self.configuration != current.configuration
    }

    /// Whether the draft has attributes that are shown only to callers with `proxy:read`, and that can
    /// contain keys of the destination.
    pub(crate) fn names_hidden_attributes(&self) -> bool {
        self.configuration.is_some()
            || self.authorities.is_some()
            || !self.request_transforms.is_empty()
            || !self.response_transforms.is_empty()
    }
}
