//! How many rows of a kind there are, and a checksum of them that does not ask for their order: an
//! engine reads them in the order in which it has them.
//!
//! The digests of all rows are added up. Tokens of a tenant do have an order, so the digest of each
//! covers that of the one before. Whoever wants to forge rows can; what guards against that is that
//! rows are sealed or have macs. This finds what was lost, doubled, or mixed up.

use std::collections::HashMap;

use scrip_seal::Checksum;
use uuid::Uuid;

use crate::transfer::{
    kind::Kind,
    row::{Row, Value, encode},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Total {
    pub(super) rows: u64,
    pub(super) sum: [u8; 32],
}

/// Of one kind.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) total: Total,
    /// The last digest of each tenant, where order counts.
    last: HashMap<Uuid, [u8; 32]>,
}

impl Tally {
    /// Nothing when the row is not of this kind.
    pub(super) fn add(&mut self, kind: Kind, row: &Row) -> Option<()> {
        let mut bytes = Vec::new();
        encode(kind.columns(), row, &mut bytes)?;
        let mut digest = Checksum::new();
        let tenant = (kind == Kind::Tokens).then(|| row.first().and_then(Value::id)).flatten();
        let before = tenant.and_then(|it| self.last.get(&it)).copied().unwrap_or_default();
        digest.add(&before);
        digest.add(&bytes);
        let digest = digest.finish();
        if let Some(tenant) = tenant {
            self.last.insert(tenant, digest);
        }
        self.total.rows = self.total.rows.saturating_add(1);
        add(&mut self.total.sum, &digest);
        Some(())
    }
}

/// Modulo 2^256.
fn add(sum: &mut [u8; 32], digest: &[u8; 32]) {
    let mut carry = false;
    for (to, from) in sum.iter_mut().zip(digest) {
        let (added, first) = to.overflowing_add(*from);
        let (added, second) = added.overflowing_add(u8::from(carry));
        (*to, carry) = (added, first || second);
    }
}

/// Of every kind.
#[derive(Debug)]
pub(super) struct Tallies([Tally; Kind::ALL.len()]);

impl Default for Tallies {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Tally::default()))
    }
}

impl Tallies {
    pub(super) fn add_all(&mut self, kind: Kind, rows: &[Row]) -> Option<()> {
        let tally = self.0.get_mut(kind.index())?;
        rows.iter().try_for_each(|row| tally.add(kind, row))
    }

    pub(super) fn of(&self, kind: Kind) -> Total {
        self.0.get(kind.index()).map(|it| it.total).unwrap_or_default()
    }

    pub(super) fn totals(&self) -> Vec<Total> {
        self.0.iter().map(|it| it.total).collect()
    }

    pub(super) fn rows(&self) -> u64 {
        self.0.iter().fold(0, |sum, it| sum.saturating_add(it.total.rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(kind: Kind, rows: &[Row]) -> Total {
        let mut tallies = Tallies::default();
        tallies.add_all(kind, rows).unwrap();
        tallies.of(kind)
    }

    fn month(tenant: u8, month: i64) -> Row {
        let tenant = Value::Id(Uuid::from_bytes([tenant; 16]));
        vec![tenant, Value::Number(month), Value::Number(1)]
    }

    fn token(tenant: u8, id: &str) -> Row {
        let application = Uuid::from_bytes([9; 16]);
        vec![
            Value::Id(Uuid::from_bytes([tenant; 16])),
            Value::Text(id.to_owned()),
            Value::Text("token".to_owned()),
            Value::Nothing,
            Value::Text("/general/".to_owned()),
            Value::Id(application),
            Value::Number(0),
            Value::Nothing,
            Value::Nothing,
            Value::Nothing,
            Value::Number(0),
            Value::Bytes(Vec::new()),
            Value::Bytes(b"sealed".to_vec()),
            Value::Bytes(vec![0; 33]),
            Value::Nothing,
            Value::Nothing,
        ]
    }

    #[test]
    fn rows_count_in_any_order_and_each_once() {
        let (one, other) = (month(1, 1), month(1, 2));
        let both = total(Kind::UsageMonths, &[one.clone(), other.clone()]);
        assert_eq!(both, total(Kind::UsageMonths, &[other.clone(), one.clone()]));
        assert_ne!(both, total(Kind::UsageMonths, &[one.clone(), one.clone()]));
        assert_ne!(both.sum, total(Kind::UsageMonths, &[one, other.clone(), other]).sum);
    }

    #[test]
    fn the_order_of_a_tenants_tokens_counts_and_that_of_tenants_does_not() {
        let [a, b, c] = [token(1, "a"), token(1, "b"), token(2, "c")];
        let all = total(Kind::Tokens, &[a.clone(), b.clone(), c.clone()]);
        assert_eq!(all, total(Kind::Tokens, &[c.clone(), a.clone(), b.clone()]));
        assert_ne!(all, total(Kind::Tokens, &[b, a, c]));
    }

    #[test]
    fn a_row_of_another_kind_is_none() {
        assert_eq!(Tally::default().add(Kind::Tokens, &month(1, 1)), None);
    }

    #[test]
    fn sums_carry() {
        let mut sum = [255; 32];
        let mut one = [0; 32];
        one[0] = 1;
        add(&mut sum, &one);
        assert_eq!(sum, [0; 32]);
    }
}
