//! What the tokens of a transaction change of the counts: kept until its commit, since most of them
//! are of the same tenant, type and month.

use std::collections::HashMap;

use scrip_core::{
    id::TenantId,
    time::{Month, Timestamp},
    token::TokenType,
};

/// In their order, so that a savepoint takes back the last ones.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    changes: Vec<Change>,
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Made(TenantId, TokenType, Timestamp),
    Gone(TenantId, TokenType),
    /// Its counts were removed, and what came before does not bring them back.
    Forgotten(TenantId),
}

/// What is added up in a commit.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub(crate) types: HashMap<(TenantId, TokenType), TypeSum>,
    pub(crate) months: HashMap<(Month, TenantId), i64>,
}

/// Of one type.
#[derive(Debug, Default)]
pub(crate) struct TypeSum {
    pub(crate) made: i64,
    pub(crate) gone: i64,
    pub(crate) last_made_ms: i64,
}

impl Tally {
    pub(crate) fn made(&mut self, tenant: TenantId, of: TokenType, at: Timestamp) {
        self.changes.push(Change::Made(tenant, of, at));
    }

    pub(crate) fn gone(&mut self, tenant: TenantId, of: TokenType) {
        self.changes.push(Change::Gone(tenant, of));
    }

    pub(crate) fn forgotten(&mut self, tenant: TenantId) {
        self.changes.push(Change::Forgotten(tenant));
    }

    /// How many there are: up to where a savepoint takes them back.
    pub(crate) fn changes(&self) -> usize {
        self.changes.len()
    }

    pub(crate) fn take_back(&mut self, to: usize) {
        self.changes.truncate(to);
    }

    pub(crate) fn sums(&self) -> Sums {
        let Sums { mut types, mut months } = Sums::default();
        for change in &self.changes {
            match *change {
                Change::Made(tenant, of, at) => {
                    let sum: &mut TypeSum = types.entry((tenant, of)).or_default();
                    sum.made = sum.made.saturating_add(1);
                    sum.last_made_ms = sum.last_made_ms.max(at.unix_ms);
                    let made: &mut i64 = months.entry((Month::of(at), tenant)).or_default();
                    *made = made.saturating_add(1);
                }
                Change::Gone(tenant, of) => {
                    let sum = types.entry((tenant, of)).or_default();
                    sum.gone = sum.gone.saturating_add(1);
                }
                Change::Forgotten(tenant) => {
                    types.retain(|(it, _), _| *it != tenant);
                    months.retain(|(_, it), _| *it != tenant);
                }
            }
        }
        Sums { types, months }
    }
}
