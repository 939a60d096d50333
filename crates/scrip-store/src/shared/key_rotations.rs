//! What both engines need to replace sealed bodies and to count their versions.

use scrip_core::{
    keys::{ResealedRow, RotatedTable, RowKey},
    types::{StoreError, id::TenantId},
};

use crate::sql::{ColumnReader, Parameter, WriteTransaction, read_optional};

/// A transaction that replaces sealed bodies.
pub(crate) trait RotationTransaction: WriteTransaction {
    /// Replaces the bodies of rows that still have the old body; returns how many.
    async fn replace_bodies(
        &self,
        tenant: TenantId,
        table: RotatedTable,
        rows: &[ResealedRow],
    ) -> Result<usize, StoreError>;
}

/// The key columns of a row.
pub(crate) fn key_parameters<'a>(key: &RowKey) -> Vec<Parameter<'a>> {
    match key {
        RowKey::Token(id) => vec![id.clone().into()],
        RowKey::TokenIntent(id) | RowKey::ThreeDsSession(id) => vec![(*id).into()],
        RowKey::Delivery { webhook, event } => vec![(*webhook).into(), (*event).into()],
    }
}

/// Zero for bytes that are too short.
pub(crate) fn decode_version(row: &dyn ColumnReader, index: usize) -> Result<u32, StoreError> {
    let bytes: Option<&[u8]> = read_optional(row, index)?;
    Ok(bytes.and_then(|it| it.try_into().ok()).map_or(0, u32::from_be_bytes))
}
