//! How a vault stands: by this is seen whether it changed. All that is done in a vault ends in one
//! of its logs, but for what is forgotten when its time is over: that changes a count.

use scrip_core::store::StoreError;
use scrip_seal::Checksum;

use crate::transfer::{PageBounds, RowPage, TransferEngine, kind::RowKind, row::encode_row};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VaultDigest {
    pub(super) checksum: [u8; 32],
    pub(super) counts: Vec<u64>,
}

/// What says all of the rest: whose vault it is, and where everything has come to.
const DIGESTED_KINDS: [RowKind; 7] = [
    RowKind::SystemKeys,
    RowKind::DirectoryVersion,
    RowKind::LastEvent,
    RowKind::AuditHeads,
    RowKind::AuditCheckpoints,
    RowKind::AccessHeads,
    RowKind::AccessCheckpoints,
];

/// At one instant.
pub(super) async fn read_vault_digest(
    rows: &mut dyn TransferEngine,
) -> Result<VaultDigest, StoreError> {
    rows.begin_reading().await?;
    let found = compute_vault_digest(rows).await;
    rows.end_reading().await?;
    found
}

/// While it is read.
pub(super) async fn compute_vault_digest(
    rows: &mut dyn TransferEngine,
) -> Result<VaultDigest, StoreError> {
    let mut sum = Checksum::new();
    sum.add(rows.engine().as_bytes());
    sum.add(&rows.schema().to_be_bytes());
    let counts = count_all_rows(rows).await?;
    for count in &counts {
        sum.add(&count.to_be_bytes());
    }
    for kind in DIGESTED_KINDS {
        let mut after = None;
        while let Some(page) =
            next_page(rows, kind, after.as_deref(), PageBounds::default()).await?
        {
            for row in &page.rows {
                let mut bytes = Vec::new();
                encode_row(kind.columns(), row, &mut bytes).ok_or(WRONG_COLUMNS)?;
                sum.add(&bytes);
            }
            after = Some(page.position);
        }
    }
    Ok(VaultDigest { checksum: sum.finish(), counts })
}

pub(super) async fn count_all_rows(rows: &mut dyn TransferEngine) -> Result<Vec<u64>, StoreError> {
    let mut counts = Vec::new();
    for kind in RowKind::ALL {
        counts.push(rows.count_rows(kind).await?);
    }
    Ok(counts)
}

/// Nothing at the end.
pub(super) async fn next_page(
    rows: &mut dyn TransferEngine,
    kind: RowKind,
    after: Option<&[u8]>,
    bounds: PageBounds,
) -> Result<Option<RowPage>, StoreError> {
    let page = rows.read_page(kind, after, bounds).await?;
    Ok((!page.rows.is_empty()).then_some(page))
}

pub(super) const WRONG_COLUMNS: StoreError =
    StoreError::Corrupt("a row does not have the columns we wrote");
