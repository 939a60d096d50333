//! A request of a sequence, with placeholders for the values that differ between the vaults.
//!
//! Placeholders: `<<card:0>>` is a hidden number, `<<id:3>>` the id in the response to step 3.

use std::fmt;

use crate::secrets::Secrets;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Actor {
    /// Honest, with a reveal right on everything. Only the responses to this actor are not
    /// compared.
    Backend,
    /// Honest: creates tokens and intents with hidden numbers, with the same key as
    /// [`Actor::Public`].
    Browser,
    /// Honest: a management key with all permissions. Its responses are compared without the
    /// configuration of proxies, which it wrote.
    Administrator,
    /// A public key.
    Public,
    /// A private key with plain permissions, which sees masks.
    Masked,
    /// A private key with rules: reveal in its own container, mask or redact elsewhere.
    Ruled,
    /// A private key that sees masks and may use every token through proxies that an administrator
    /// created.
    Invoker,
    /// An access session that [`Actor::Masked`] authorized.
    Session,
    /// A client without an API key.
    Keyless,
    /// A management key that reads events and logs. It has no permission that implies a right on
    /// data.
    Auditor,
}

impl Actor {
    pub(crate) fn is_observed(self) -> bool {
        self != Self::Backend
    }

    /// Whether the vault treats the caller as a browser, from which it hides the configuration of
    /// proxies.
    pub(crate) fn is_browser(self) -> bool {
        matches!(self, Self::Browser | Self::Public | Self::Session | Self::Keyless)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// Identifies the step in references to its response. It does not change when other steps are
    /// removed.
    pub(crate) serial: usize,
    pub(crate) actor: Actor,
    pub(crate) method: &'static str,
    pub(crate) path: String,
    /// Headers beside the API key, the idempotency key and the content type.
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Option<String>,
    pub(crate) content_type: &'static str,
    pub(crate) idempotency_key: Option<String>,
    /// Seconds that pass before the step.
    pub(crate) pause_seconds: u64,
    /// Whether the rest of the sequence discloses hidden data rightfully without this step.
    pub(crate) is_required: bool,
    /// Whether the request uses the data of hidden tokens, so that a destination may see it.
    pub(crate) uses_hidden_tokens: bool,
}

impl Step {
    /// Whether the request is a proxied call.
    pub(crate) fn is_call(&self) -> bool {
        self.path.starts_with("/proxy") && !self.path.starts_with("/proxies") || self.has_host()
    }

    pub(crate) fn has_host(&self) -> bool {
        self.headers.iter().any(|it| it.0 == "host")
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { serial, actor, method, path, body, pause_seconds: pause, .. } = self;
        write!(f, "#{serial} +{pause}s {actor:?}: {method} {path}")?;
        for (name, value) in &self.headers {
            write!(f, " ({name}: {value})")?;
        }
        if let Some(key) = &self.idempotency_key {
            write!(f, " (idempotency key {key})")?;
        }
        body.iter().try_for_each(|it| write!(f, " {it}"))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    pub(crate) seed: u64,
    /// The index of the tenant.
    pub(crate) tenant: usize,
    pub(crate) secrets: Secrets,
    pub(crate) steps: Vec<Step>,
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, tenant {}", self.seed, self.tenant)?;
        self.steps.iter().try_for_each(|it| writeln!(f, "{it}"))?;
        // Print only the hidden values that the steps use.
        let steps: String = self.steps.iter().map(ToString::to_string).collect();
        for (name, pairs) in self.secrets.values_by_placeholder() {
            for (index, pair) in pairs.iter().enumerate() {
                let placeholder = format!("<<{name}:{index}>>");
                if steps.contains(&placeholder) {
                    writeln!(f, "{placeholder}: left {}, right {}", pair.left, pair.right)?;
                }
            }
        }
        Ok(())
    }
}
