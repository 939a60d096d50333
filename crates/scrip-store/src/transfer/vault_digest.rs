//! A digest of a vault's state, which detects changes. Every change of a vault appends to one of
//! its logs, except the deletion of expired rows, which changes a row count, and attempts of
//! deliveries.

use scrip_core::types::StoreError;
use scrip_seal::Checksum;

use crate::transfer::{PageBounds, RowPage, TransferEngine, kind::RowKind, row::encode_row};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VaultDigest {
    pub(super) checksum: [u8; 32],
    pub(super) counts: Vec<u64>,
}

/// The kinds that identify the vault or change with its writes.
const DIGESTED_KINDS: [RowKind; 7] = [
    RowKind::SystemKeys,
    RowKind::DirectoryVersion,
    RowKind::Deliveries,
    RowKind::AuditHeads,
    RowKind::AuditCheckpoints,
    RowKind::ReadLogHeads,
    RowKind::ReadLogCheckpoints,
];

/// Computes the digest in a new read snapshot.
pub(super) async fn read_vault_digest(
    engine: &mut dyn TransferEngine,
) -> Result<VaultDigest, StoreError> {
    engine.begin_reading().await?;
    let digest = compute_vault_digest(engine).await;
    engine.end_reading().await?;
    digest
}

/// Computes the digest in the current read snapshot.
pub(super) async fn compute_vault_digest(
    engine: &mut dyn TransferEngine,
) -> Result<VaultDigest, StoreError> {
    let mut checksum = Checksum::new();
    checksum.add(engine.engine().as_bytes());
    checksum.add(&engine.schema().to_be_bytes());
    let counts = count_all_rows(engine).await?;
    for count in &counts {
        checksum.add(&count.to_be_bytes());
    }
    for kind in DIGESTED_KINDS {
        let mut position = None;
        while let Some(page) =
            next_page(engine, kind, position.as_deref(), PageBounds::default()).await?
        {
            for row in &page.rows {
                let mut bytes = Vec::new();
                encode_row(kind.columns(), row, &mut bytes).ok_or(WRONG_COLUMNS)?;
                checksum.add(&bytes);
            }
            position = Some(page.position);
        }
    }
    Ok(VaultDigest { checksum: checksum.finish(), counts })
}

pub(super) async fn count_all_rows(
    engine: &mut dyn TransferEngine,
) -> Result<Vec<u64>, StoreError> {
    let mut counts = Vec::new();
    for kind in RowKind::ALL {
        counts.push(engine.count_rows(kind).await?);
    }
    Ok(counts)
}

/// Reads the next page; `None` at the end.
pub(super) async fn next_page(
    engine: &mut dyn TransferEngine,
    kind: RowKind,
    after: Option<&[u8]>,
    bounds: PageBounds,
) -> Result<Option<RowPage>, StoreError> {
    let page = engine.read_page(kind, after, bounds).await?;
    Ok((!page.rows.is_empty()).then_some(page))
}

pub(super) const WRONG_COLUMNS: StoreError = StoreError::Corrupt("a row has unexpected columns");
