//! How often each row let a request in or refused one. Plain counts, to be sampled.

use scrip_core::{
    measure::Counter,
    policy::rate_limit::{Demand, Row},
};

#[derive(Debug)]
pub(super) struct Tally {
    /// By row: let in, and refused.
    rows: Vec<(Counter, Counter)>,
}

/// Of one row, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decisions {
    pub row: Row,
    /// Requests that were counted on it.
    pub allowed: u64,
    /// Requests that it refused; of several, the one that did so longest.
    pub refused: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self { rows: Row::ALL.iter().map(|_| Default::default()).collect() }
    }
}

impl Tally {
    pub(super) fn allowed(&self, demands: &[Demand]) {
        let mut before = None;
        for demand in demands {
            // A row with two counters has counted one request.
            if before.replace(demand.row) != Some(demand.row)
                && let Some((allowed, _)) = self.rows.get(demand.row.index())
            {
                allowed.one();
            }
        }
    }

    pub(super) fn refused(&self, row: Row) {
        if let Some((_, refused)) = self.rows.get(row.index()) {
            refused.one();
        }
    }

    pub(super) fn decisions(&self) -> Vec<Decisions> {
        let of = |(row, (allowed, refused)): (&Row, &(Counter, Counter))| Decisions {
            row: *row,
            allowed: allowed.get(),
            refused: refused.get(),
        };
        Row::ALL.iter().zip(&self.rows).map(of).collect()
    }
}
