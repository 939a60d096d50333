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
    kind::RowKind,
    row::{RowValue, TransferRow, encode_row},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RowTotal {
    pub(super) rows: u64,
    pub(super) checksum: [u8; 32],
}

/// Of one kind.
#[derive(Debug, Default)]
pub(super) struct RowAccumulator {
    pub(super) total: RowTotal,
    /// The last digest of each tenant, where order counts.
    last: HashMap<Uuid, [u8; 32]>,
}

impl RowAccumulator {
    /// Nothing when the row is not of this kind.
    pub(super) fn add(&mut self, kind: RowKind, row: &TransferRow) -> Option<()> {
        let mut bytes = Vec::new();
        encode_row(kind.columns(), row, &mut bytes)?;
        let mut digest = Checksum::new();
        let tenant =
            (kind == RowKind::Tokens).then(|| row.first().and_then(RowValue::id)).flatten();
        let before = tenant.and_then(|it| self.last.get(&it)).copied().unwrap_or_default();
        digest.add(&before);
        digest.add(&bytes);
        let digest = digest.finish();
        if let Some(tenant) = tenant {
            self.last.insert(tenant, digest);
        }
        self.total.rows = self.total.rows.saturating_add(1);
        add_digest(&mut self.total.checksum, &digest);
        Some(())
    }
}

/// Modulo 2^256.
fn add_digest(sum: &mut [u8; 32], digest: &[u8; 32]) {
    let mut carry = false;
    for (to, from) in sum.iter_mut().zip(digest) {
        let (added, first) = to.overflowing_add(*from);
        let (added, second) = added.overflowing_add(u8::from(carry));
        (*to, carry) = (added, first || second);
    }
}

/// Of every kind.
#[derive(Debug)]
pub(super) struct ExportTotals([RowAccumulator; RowKind::ALL.len()]);

impl Default for ExportTotals {
    fn default() -> Self {
        Self(std::array::from_fn(|_| RowAccumulator::default()))
    }
}

impl ExportTotals {
    pub(super) fn add_all(&mut self, kind: RowKind, rows: &[TransferRow]) -> Option<()> {
        let usage = self.0.get_mut(kind.index())?;
        rows.iter().try_for_each(|row| usage.add(kind, row))
    }

    pub(super) fn total(&self, kind: RowKind) -> RowTotal {
        self.0.get(kind.index()).map(|it| it.total).unwrap_or_default()
    }

    pub(super) fn totals(&self) -> Vec<RowTotal> {
        self.0.iter().map(|it| it.total).collect()
    }

    pub(super) fn row_count(&self) -> u64 {
        self.0.iter().fold(0, |sum, it| sum.saturating_add(it.total.rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total_of(kind: RowKind, rows: &[TransferRow]) -> RowTotal {
        let mut tallies = ExportTotals::default();
        tallies.add_all(kind, rows).unwrap();
        tallies.total(kind)
    }

    fn usage_month_row(tenant: u8, month: i64) -> TransferRow {
        let tenant = RowValue::Id(Uuid::from_bytes([tenant; 16]));
        vec![tenant, RowValue::Number(month), RowValue::Number(1)]
    }

    fn token_row(tenant: u8, id: &str) -> TransferRow {
        let application = Uuid::from_bytes([9; 16]);
        vec![
            RowValue::Id(Uuid::from_bytes([tenant; 16])),
            RowValue::Text(id.to_owned()),
            RowValue::Text("token".to_owned()),
            RowValue::Null,
            RowValue::Text("/general/".to_owned()),
            RowValue::Id(application),
            RowValue::Number(0),
            RowValue::Null,
            RowValue::Null,
            RowValue::Null,
            RowValue::Number(0),
            RowValue::Bytes(Vec::new()),
            RowValue::Bytes(b"sealed".to_vec()),
            RowValue::Bytes(vec![0; 33]),
            RowValue::Null,
            RowValue::Null,
        ]
    }

    #[test]
    fn total_ignores_row_order_and_counts_duplicates() {
        let (one, other) = (usage_month_row(1, 1), usage_month_row(1, 2));
        let both = total_of(RowKind::UsageMonths, &[one.clone(), other.clone()]);
        assert_eq!(both, total_of(RowKind::UsageMonths, &[other.clone(), one.clone()]));
        assert_ne!(both, total_of(RowKind::UsageMonths, &[one.clone(), one.clone()]));
        assert_ne!(
            both.checksum,
            total_of(RowKind::UsageMonths, &[one, other.clone(), other]).checksum
        );
    }

    #[test]
    fn total_depends_on_token_order_within_a_tenant_only() {
        let [a, b, c] = [token_row(1, "a"), token_row(1, "b"), token_row(2, "c")];
        let all = total_of(RowKind::Tokens, &[a.clone(), b.clone(), c.clone()]);
        assert_eq!(all, total_of(RowKind::Tokens, &[c.clone(), a.clone(), b.clone()]));
        assert_ne!(all, total_of(RowKind::Tokens, &[b, a, c]));
    }

    #[test]
    fn row_of_another_kind_is_not_totalled() {
        assert_eq!(RowAccumulator::default().add(RowKind::Tokens, &usage_month_row(1, 1)), None);
    }

    #[test]
    fn digest_addition_carries_between_bytes() {
        let mut sum = [255; 32];
        let mut one = [0; 32];
        one[0] = 1;
        add_digest(&mut sum, &one);
        assert_eq!(sum, [0; 32]);
    }
}
