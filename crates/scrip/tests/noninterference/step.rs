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
    /// A public key.
    Public,
    /// A private key with plain permissions, which sees masks.
    Masked,
    /// A private key with rules: reveal in its own container, mask or redact elsewhere.
    Ruled,
    /// An access session that [`Actor::Masked`] authorized.
    Session,
}

impl Actor {
    pub(crate) fn is_observed(self) -> bool {
        self != Self::Backend
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
    pub(crate) body: Option<String>,
    pub(crate) idempotency_key: Option<String>,
    /// Seconds that pass before the step.
    pub(crate) pause_seconds: u64,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { serial, actor, method, path, body, idempotency_key, pause_seconds: pause } =
            self;
        write!(f, "#{serial} +{pause}s {actor:?}: {method} {path}")?;
        if let Some(key) = idempotency_key {
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
