//! Evaluation of a compiled expression within a budget.

pub(crate) mod evaluate;
mod operand;

use serde_json::Value;

use crate::{
    budget::{Budget, SpentWork},
    filter::HostFunctions,
};

/// The values and the budget of one evaluation. Nothing else is accessible. All leaves of a template
/// share the budget.
pub struct Scope<'a> {
    pub(crate) data: &'a Value,
    pub(crate) metadata: Option<&'a Value>,
    pub(crate) host: Option<&'a dyn HostFunctions>,
    pub(crate) budget: Budget,
}

impl<'a> Scope<'a> {
    pub fn new(data: &'a Value, metadata: Option<&'a Value>) -> Self {
        Self { data, metadata, host: None, budget: Budget::new() }
    }

    /// Enables aliases and `hmac`; without host functions they fail.
    #[must_use]
    pub fn with_host_functions(mut self, host: &'a dyn HostFunctions) -> Self {
        self.host = Some(host);
        self
    }

    /// Sets a shared work limit for several expressions, in addition to the limits of each
    /// expression.
    #[must_use]
    pub fn with_work_limit(mut self, work_max: usize) -> Self {
        self.budget = Budget::with_work_limit(work_max);
        self
    }

    /// Lets values cost their [`padded_value_size`](crate::padded_value_size), so that the limits do not depend on
    /// the exact length of a value.
    #[must_use]
    pub fn with_padded_values(mut self) -> Self {
        self.budget.pads_values = true;
        self
    }

    pub fn spent_work(&self) -> SpentWork {
        self.budget.spent_work()
    }
}

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scope")
    }
}
