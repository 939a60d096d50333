//! A performance target, with its verdict for the report.

use std::fmt;

/// A performance target and whether this run met it. Missing a target is a finding, not a failure.
#[derive(Debug)]
pub(crate) struct PerformanceTarget {
    pub(crate) name: String,
    pub(crate) bound: Bound,
    pub(crate) measured: f64,
    pub(crate) unit: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl PerformanceTarget {
    pub(crate) fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtLeast(bound) => self.measured >= bound,
            Bound::AtMost(bound) => self.measured <= bound,
        }
    }
}

impl fmt::Display for PerformanceTarget {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = match self.bound {
            Bound::AtLeast(bound) => format!(">= {bound:.0}"),
            Bound::AtMost(bound) => format!("<= {bound:.0}"),
        };
        let verdict = if self.is_met() { "met" } else { "MISSED" };
        let measured = format!("{:.1} {}", self.measured, self.unit);
        write!(out, "| {:<39} | {bound:>8} | {measured:>10} | {verdict:<6} |", self.name)
    }
}
