//! What an expression can name, and how much it may do. What is not here cannot be reached.

use serde_json::Value;

use crate::{evaluation::budget::Budget, outside::Outside};

/// The values and the budget of one evaluation. A template shares the budget among its leaves.
pub struct Scope<'a> {
    pub(crate) data: &'a Value,
    pub(crate) metadata: Option<&'a Value>,
    pub(crate) outside: Option<&'a dyn Outside>,
    pub(crate) budget: Budget,
}

impl<'a> Scope<'a> {
    #[must_use]
    pub fn new(data: &'a Value, metadata: Option<&'a Value>) -> Self {
        Self { data, metadata, outside: None, budget: Budget::new() }
    }

    /// Lets aliases and `hmac` work; without it they fail.
    #[must_use]
    pub fn with_outside(mut self, outside: &'a dyn Outside) -> Self {
        self.outside = Some(outside);
        self
    }
}

/// The charged work of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    /// Bytes that were read or made; a step counts as 64 bytes.
    pub work: usize,
    /// Whether the evaluation ended because it reached the bound of [`Scope::within_work`].
    pub ran_out: bool,
}

impl Scope<'_> {
    /// Bounds the work further than each expression is bounded by itself: for several expressions
    /// that share one budget.
    #[must_use]
    pub fn within_work(mut self, work_max: usize) -> Self {
        self.budget = Budget::within(work_max);
        self
    }

    #[must_use]
    pub fn spent(&self) -> Spent {
        self.budget.spent()
    }
}

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scope")
    }
}
