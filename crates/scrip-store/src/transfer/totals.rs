//! Number and checksum of the rows of each kind. The checksum does not depend on the order, because
//! each engine reads rows in its own order.
//!
//! The digests of all rows are added. Tokens of a tenant have an order, so the digest of each token
//! covers the digest of the previous one. The checksum does not protect against forged rows:
//! encryption and MACs do. It detects lost, repeated or swapped rows.

use std::collections::HashMap;

use scrip_core::policy::entity::RowValue;
use scrip_seal::Checksum;
use uuid::Uuid;

use crate::{
    sql::read_optional,
    transfer::{
        format::FileFormat,
        kind::RowKind,
        row::{TransferRow, encode_row},
    },
};

/// Number of rows of one kind and the sum of their digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RowTotal {
    pub(super) rows: u64,
    pub(super) checksum: [u8; 32],
}

/// Accumulates the rows of one kind.
#[derive(Debug, Default)]
pub(super) struct RowAccumulator {
    pub(super) total: RowTotal,
    /// The digest of the last token of each tenant. Other kinds have no order.
    last_digests: HashMap<Uuid, [u8; 32]>,
}

impl RowAccumulator {
    /// Adds a row; `None` if the row does not match the kind.
    pub(super) fn add(&mut self, kind: RowKind, row: &TransferRow) -> Option<()> {
        let bytes = encode_digested_row(kind, row)?;
        let mut row_checksum = Checksum::new();
        let tenant =
            if kind == RowKind::Tokens { read_optional::<Uuid>(row, 0).ok()? } else { None };
        let previous_digest =
            tenant.and_then(|it| self.last_digests.get(&it)).copied().unwrap_or_default();
        row_checksum.add(&previous_digest);
        row_checksum.add(&bytes);
        let digest = row_checksum.finish();
        if let Some(tenant) = tenant {
            self.last_digests.insert(tenant, digest);
        }
        self.total.rows = self.total.rows.saturating_add(1);
        add_digest(&mut self.total.checksum, &digest);
        Some(())
    }
}

/// Encodes a row for its digest. A row without values in the columns of later file versions has the
/// digest of the first version, so that the totals of an older file can be compared with the vault.
fn encode_digested_row(kind: RowKind, row: &TransferRow) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let first_columns = FileFormat::FIRST.columns(kind);
    let (first_values, added_values) = row.split_at_checked(first_columns.len())?;
    let is_complete = row.len() == kind.columns().len();
    if is_complete && added_values.iter().all(|it| *it == RowValue::Null) {
        encode_row(first_columns, first_values, &mut bytes)?;
    } else {
        encode_row(kind.columns(), row, &mut bytes)?;
    }
    Some(bytes)
}

/// Adds two 256-bit numbers modulo 2^256.
fn add_digest(sum: &mut [u8; 32], digest: &[u8; 32]) {
    let mut carry = false;
    for (sum_byte, digest_byte) in sum.iter_mut().zip(digest) {
        let (byte, first_carry) = sum_byte.overflowing_add(*digest_byte);
        let (byte, second_carry) = byte.overflowing_add(u8::from(carry));
        (*sum_byte, carry) = (byte, first_carry || second_carry);
    }
}

/// Accumulators of all kinds.
#[derive(Debug)]
pub(super) struct ExportTotals([RowAccumulator; RowKind::ALL.len()]);

impl Default for ExportTotals {
    fn default() -> Self {
        Self(std::array::from_fn(|_| RowAccumulator::default()))
    }
}

impl ExportTotals {
    pub(super) fn add_all(&mut self, kind: RowKind, rows: &[TransferRow]) -> Option<()> {
        let accumulator = self.0.get_mut(kind.index())?;
        rows.iter().try_for_each(|row| accumulator.add(kind, row))
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
        let mut totals = ExportTotals::default();
        totals.add_all(kind, rows).unwrap();
        totals.total(kind)
    }

    fn usage_month_row(tenant: u8, month: i64) -> TransferRow {
        let tenant = RowValue::Id(Uuid::from_bytes([tenant; 16]));
        vec![tenant, RowValue::Number(month), RowValue::Number(1)]
    }

    fn token_row(tenant: u8, id: &str) -> TransferRow {
        let application = Uuid::from_bytes([9; 16]);
        vec![
            RowValue::Id(Uuid::from_bytes([tenant; 16])),
            RowValue::from(id.to_owned()),
            RowValue::from("token"),
            RowValue::Null,
            RowValue::from("/general/"),
            RowValue::Id(application),
            RowValue::Number(0),
            RowValue::Null,
            RowValue::Null,
            RowValue::Null,
            RowValue::Number(0),
            RowValue::Bytes([].as_slice().into()),
            RowValue::Bytes(b"sealed".as_slice().into()),
            RowValue::Bytes(vec![0; 33].into()),
            RowValue::Null,
            RowValue::Null,
        ]
    }

    #[test]
    fn total_ignores_row_order_and_counts_duplicates() {
        let (first, second) = (usage_month_row(1, 1), usage_month_row(1, 2));
        let both = total_of(RowKind::UsageMonths, &[first.clone(), second.clone()]);
        assert_eq!(both, total_of(RowKind::UsageMonths, &[second.clone(), first.clone()]));
        assert_ne!(both, total_of(RowKind::UsageMonths, &[first.clone(), first.clone()]));
        assert_ne!(
            both.checksum,
            total_of(RowKind::UsageMonths, &[first, second.clone(), second]).checksum
        );
    }

    #[test]
    fn total_depends_on_token_order_within_a_tenant_only() {
        let [a, b, c] = [token_row(1, "a"), token_row(1, "b"), token_row(2, "c")];
        let total = total_of(RowKind::Tokens, &[a.clone(), b.clone(), c.clone()]);
        assert_eq!(total, total_of(RowKind::Tokens, &[c.clone(), a.clone(), b.clone()]));
        assert_ne!(total, total_of(RowKind::Tokens, &[b, a, c]));
    }

    #[test]
    fn row_of_another_kind_is_not_totalled() {
        assert_eq!(RowAccumulator::default().add(RowKind::Tokens, &usage_month_row(1, 1)), None);
    }

    #[test]
    fn digest_addition_carries_between_bytes() {
        let mut sum = [255; 32];
        let mut increment = [0; 32];
        increment[0] = 1;
        add_digest(&mut sum, &increment);
        assert_eq!(sum, [0; 32]);
    }
}
